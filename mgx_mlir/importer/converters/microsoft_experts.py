"""Mixtures of experts of com.microsoft: every expert computes, and the chosen ones count.

Source of their meaning: onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.converters.microsoft import contributed
from mgx_mlir.importer.converters.microsoft_weights import dequantized, unpacked
from mgx_mlir.importer.converters.pointwise import gelu_erf
from mgx_mlir.importer.node import Node

_OPS = "topk equal where softmax dot mul add reduce_sum"

# A layer of all experts: (experts, tokens, in) becomes (experts, tokens, out).
Layer = Callable[[ir.Value], ir.Value]


@contributed("MoE", _OPS)
def mixture_of_experts(node: Node) -> ir.Value:
    """Inputs: x, the router's scores, then weights and bias of three layers."""
    layers = [
        _layer(node.tensor(i), node.optional(i + 1)) if node.given(i) else None for i in (2, 4, 6)
    ]
    return _mixed(node, layers, None)


@contributed("QMoE", _OPS + " shift_right bitwise_and convert sub")
def quantized_mixture_of_experts(node: Node) -> ir.Value:
    """Inputs: x, scores, then weights, scales and bias of three layers, zero points, weights."""
    node.only("quant_type", "int")
    node.only("weights_prepacked", 0)
    node.attribute("accuracy_level", 0)  # the least that is asked for; all is kept here
    for index in range(15, len(node.inputs)):
        if node.given(index):
            raise UnsupportedError(f"input {index}, of a quantization other than of integers")
    layers: list[Layer | None] = []
    for number in range(3):
        first = 2 + 3 * number
        if not node.given(first):
            layers.append(None)
            continue
        shared = node.attribute("expert_weight_bits", 4)
        bits = int(node.attribute(f"fc{number + 1}_expert_weight_bits", shared))
        packed, scales = node.tensor(first), node.tensor(first + 1)
        size = tensors.static_dims(packed)[2] * 8 // bits
        block = int(node.attribute("block_size", 0)) or size
        codes = unpacked(node, packed, bits, size)
        weights = dequantized(node, codes, scales, node.optional(11 + number), bits, block)
        weights = emit.convert(weights, tensors.element(node.tensor(0)))
        layers.append(_layer(weights, node.optional(first + 2)))
    return _mixed(node, layers, node.optional(14))


def _layer(weights: ir.Value, bias: ir.Value | None) -> Layer:
    """weights (experts, out, in), bias (experts, out)"""

    def apply(x: ir.Value) -> ir.Value:
        y = emit.dot(x, emit.transpose(weights, [0, 2, 1]))
        return y if bias is None else emit.add(y, emit.unsqueeze(bias, [1]))

    return apply


def _mixed(node: Node, layers: Sequence[Layer | None], factors: ir.Value | None) -> ir.Value:
    x = node.tensor(0)
    *outer, hidden = tensors.known_sizes(x)
    first, second, third = layers
    if first is None or second is None:
        raise ModelError("the weights of a layer are missing")
    share = _shares(node, factors)
    rows = emit.reshape(x, tensors.named([1, math.prod(outer), hidden]))
    y = second(_activated(node, first(rows), third(rows) if third else None))
    y = mgx.reduce_sum(emit.mul(y, emit.unsqueeze(emit.transpose(share, [1, 0]), [2])), [0])
    return emit.reshape(emit.squeeze(y, [0]), tensors.dims(x))


def _shares(node: Node, factors: ir.Value | None) -> ir.Value:
    """The weight of each expert for each token: (tokens, experts), mostly zeros."""
    node.only("use_sparse_mixer", 0)
    scores = node.tensor(1)
    experts = tensors.size_of(scores, 1, "the number of experts")
    count = int(node.attribute("k", 1))
    normal = bool(node.attribute("normalize_routing_weights", 0))
    best, places = mgx.topk(scores, count, 1)
    if factors is not None:
        share = mgx.gather_elements(factors, places, 1)
        share = emit.div(share, mgx.reduce_sum(share, [1])) if normal else share
    elif normal:
        share = mgx.softmax(best, 1)
    else:
        share = mgx.gather_elements(mgx.softmax(scores, 1), places, 1)
    numbers = node.make(np.arange(experts, dtype=emit.numpy_type(places)).reshape(1, 1, experts))
    chosen = emit.binary(mgx.equal, emit.unsqueeze(places, [2]), numbers)
    wide = emit.where(chosen, emit.unsqueeze(share, [2]), 0)
    return emit.squeeze(mgx.reduce_sum(wide, [1]), [1])


def _activated(node: Node, x: ir.Value, gate: ir.Value | None) -> ir.Value:
    """The first layer's result through the function, or gated by the third layer's."""
    kind = str(node.attribute("activation_type", "relu"))
    fusion = int(node.attribute("swiglu_fusion", 0))
    alpha = float(node.attribute("activation_alpha", 1.0))
    beta = float(node.attribute("activation_beta", 0.0))
    limit = node.attribute("swiglu_limit")
    if kind != "swiglu":
        functions: dict[str, Layer] = {
            "relu": mgx.relu,
            "gelu": gelu_erf,
            "silu": lambda x: mgx.mul(x, mgx.sigmoid(x)),
            "identity": lambda x: x,
        }
        if kind not in functions:
            raise UnsupportedError(f"activation_type = {kind}")
        y = functions[kind](x)
        return y if gate is None else mgx.mul(y, gate)
    experts, tokens, _ = tensors.dims(x)
    width = tensors.size_of(x, 2, "the width of a layer")
    if fusion == 1:
        pairs = emit.reshape(x, (experts, tokens, width // 2, 2))
        x, gate = (emit.squeeze(emit.take(pairs, 3, i, i + 1), [3]) for i in range(2))
    elif fusion == 2:
        x, gate = emit.take(x, 2, 0, width // 2), emit.take(x, 2, width // 2, width)
    elif gate is None:
        raise ModelError("swiglu_fusion = 0 without a third layer")
    if limit is not None:
        x = mgx.min(x, emit.like(x, limit))
        gate = emit.clip(gate, -limit, limit)
    return mgx.mul(mgx.mul(x, mgx.sigmoid(emit.mul(x, alpha))), emit.add(gate, beta))
