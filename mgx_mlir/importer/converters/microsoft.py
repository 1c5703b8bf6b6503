"""Operators of onnxruntime's domain, com.microsoft, that its optimiser and quantiser write.

Source of their meaning: onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.converters.movement import counted
from mgx_mlir.importer.converters.normalization import (
    grouped_norm,
    root_mean_square,
    standardised,
)
from mgx_mlir.importer.converters.pointwise import gelu_erf, gelu_tanh
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import Converter, operator

DOMAIN = "com.microsoft"


def contributed(name: str, to: str) -> Callable[[Converter], Converter]:
    """Registers a converter of an operator of com.microsoft, which has one version."""
    return operator(name, (1, 1), to, DOMAIN)


@contributed("Gelu", "erf mul add")
def gelu(node: Node) -> ir.Value:
    return gelu_erf(node.tensor(0))


@contributed("BiasGelu", "add erf mul")
def bias_gelu(node: Node) -> ir.Value:
    return gelu_erf(_with_bias(node))


def _with_bias(node: Node) -> ir.Value:
    """Input 0, plus input 1, of the same last dimension and broadcast, where that is given."""
    x = node.tensor(0)
    if not node.given(1):
        return x
    bias, sizes = node.tensor(1), tensors.dims(x)
    tensors.require(bias, [*[None] * (tensors.rank(bias) - 1), *sizes[-1:]], "the bias")
    return emit.add(x, emit.broadcast(bias, sizes))


@contributed("FastGelu", "add tanh mul")
def fast_gelu(node: Node) -> ir.Value:
    return gelu_tanh(_with_bias(node))


@contributed("QuickGelu", "sigmoid mul")
def quick_gelu(node: Node) -> ir.Value:
    x = node.tensor(0)
    return mgx.mul(x, mgx.sigmoid(emit.mul(x, node.attribute("alpha", 1.702))))


def _fused_matmul(node: Node) -> ir.Value:
    """Either operand's last two dimensions swapped, or its first moved after the batch ones."""
    operands = []
    for index, side in enumerate("AB"):
        x = node.tensor(index)
        order = list(range(tensors.rank(x)))
        if node.attribute(f"transBatch{side}", 0):
            order = [*order[1:-1], 0, order[-1]]
        if node.attribute(f"trans{side}", 0) and len(order) > 1:
            order[-2:] = order[-1], order[-2]
        operands.append(emit.transpose(x, order))
    y = emit.dot(*operands)
    alpha = node.attribute("alpha", 1.0)
    return y if alpha == 1 else emit.mul(y, alpha)


for _name in ("FusedMatMul", "TransposeMatMul"):
    contributed(_name, "transpose dot mul")(_fused_matmul)


@contributed("GemmFastGelu", "dot add tanh mul")
def gemm_fast_gelu(node: Node) -> ir.Value:
    y = emit.dot(node.tensor(0), node.tensor(1))
    return gelu_tanh(emit.add(y, node.tensor(2)) if node.given(2) else y)


@contributed("BiasSoftmax", "add softmax")
def bias_softmax(node: Node) -> ir.Value:
    """Everything from the axis on is one dimension."""
    node.attribute("is_inner_broadcast")  # the shapes say it themselves
    x, bias = node.tensor(0), node.tensor(1)
    rank = tensors.rank(x)
    axis = tensors.axis_in(int(node.attribute("axis", 1)), rank)
    total = emit.add(x, bias)
    if tensors.dims(total) != tensors.dims(x):
        raise UnsupportedError(f"a bias of {tensors.show(tensors.dims(bias))}")
    if axis == rank - 1:
        return mgx.softmax(total, axis)
    return emit.reshape(mgx.softmax(mgx.flatten(total, axis), 1), tensors.dims(x))


@contributed("BiasAdd", "add")
def bias_add(node: Node) -> ir.Value:
    return emit.add(emit.add(node.tensor(0), node.tensor(1)), node.tensor(2))


@contributed("BiasSplitGelu", "add erf mul")
def bias_split_gelu(node: Node) -> ir.Value:
    """The left half times the Gelu of the right one."""
    x = emit.add(node.tensor(0), node.tensor(1))
    last = tensors.rank(x) - 1
    size = tensors.size_of(x, last, "the width of its input")
    left, right = emit.take(x, last, 0, size // 2), emit.take(x, last, size // 2, size)
    return mgx.mul(left, gelu_erf(right))


@contributed("EmbedLayerNormalization", "gather add reduce_mean sub mul rsqrt reduce_sum")
def embed_layer_normalization(node: Node) -> Any:
    """Inputs: words, segments, tables of words, places, segments, gamma, beta, mask, places."""
    node.attribute("mask_index_type", 0)  # of the second result, which says it itself
    words = node.tensor(0)
    batch, length = tensors.dims(words)
    total = mgx.gather(node.tensor(2), words, 0)
    if node.given(8):
        places = emit.broadcast(node.tensor(8), (batch, length))
    else:
        rows = tensors.size_of(node.tensor(3), 0, "the number of positions")
        if isinstance(length, int) and rows < length:
            raise ModelError(f"a table of {rows} positions for {length} words")
        places = emit.broadcast(emit.convert(counted(node, length), "i32"), (batch, length))
    total = mgx.add(total, mgx.gather(node.tensor(3), places, 0))
    if node.given(1):
        total = mgx.add(total, mgx.gather(node.tensor(4), node.tensor(1), 0))
    y, _, _ = standardised(emit.convert(total, "f32"), [2], node.attribute("epsilon", 1e-12))
    y = emit.mul(emit.convert(y, tensors.element(total)), node.tensor(5))
    lengths = emit.filled(np.zeros((), np.int32), (batch,))
    if node.given(7):
        tensors.require(node.tensor(7), (batch, length), "the mask")
        lengths = emit.squeeze(mgx.reduce_sum(emit.convert(node.tensor(7), "i32"), [1]), [1])
    return [emit.add(y, node.tensor(6)), lengths, total]


def _group_norm(node: Node, x: ir.Value) -> ir.Value:
    """Inputs 1 and 2 are factors and offsets of channels, which are last by default."""
    last = bool(node.attribute("channels_last", 1))
    rank, element = tensors.rank(x), tensors.element(x)
    x = emit.transpose(x, [0, rank - 1, *range(1, rank - 1)]) if last else x
    y = grouped_norm(
        emit.convert(x, "f32"), int(node.required("groups")), node.attribute("epsilon", 1e-5)
    )
    gamma, beta = (emit.convert(node.tensor(i), "f32") for i in (1, 2))
    y = mgx.add(mgx.mul(y, emit.along(y, gamma, 1)), emit.along(y, beta, 1))
    if node.attribute("activation", 0):
        y = mgx.mul(y, mgx.sigmoid(y))
    y = emit.convert(y, element)
    return emit.transpose(y, [0, *range(2, rank), 1]) if last else y


@contributed("GroupNorm", "reduce_mean sub mul rsqrt add sigmoid reshape")
def group_norm(node: Node) -> ir.Value:
    return _group_norm(node, node.tensor(0))


@contributed("SkipGroupNorm", "add reduce_mean sub mul rsqrt sigmoid reshape")
def skip_group_norm(node: Node) -> Any:
    """Inputs 3 and 4, skip and bias, are added before."""
    x, skip = node.tensor(0), node.tensor(3)
    rank = tensors.rank(x)
    channels = rank - 1 if node.attribute("channels_last", 1) else 1
    if tensors.rank(skip) == 2:
        skip = emit.unsqueeze(skip, [i for i in range(1, rank) if i != channels])
    total = emit.add(x, skip)
    if node.given(4):
        total = mgx.add(total, emit.along(total, node.tensor(4), channels))
    return [_group_norm(node, total), total]


def _skipped(node: Node, bias: int) -> ir.Value:
    """input + skip (+ bias). The skip may lack the batch; vectors go along the last dimension."""
    x, skip = node.tensor(0), node.tensor(1)
    rank = tensors.rank(x)
    if rank not in (2, 3):
        raise ModelError(f"an input {tensors.show(tensors.dims(x))}; 2 or 3 dimensions are needed")
    *outer, size = tensors.dims(x)
    if rank == 3 and tensors.rank(skip) == 3 and tensors.dims(skip)[0] == 1:
        outer[0] = 1
    tensors.require(skip, [*outer, size][rank - max(tensors.rank(skip), 2) :], "the skip")
    for index in range(2, len(node.inputs)):
        if node.given(index):
            tensors.require(node.tensor(index), [size], f"input {index}")
    total = emit.add(x, skip)
    return emit.add(total, node.tensor(bias)) if node.given(bias) else total


@contributed("SkipLayerNormalization", "add reduce_mean sub mul rsqrt")
def skip_layer_normalization(node: Node) -> Any:
    total = _skipped(node, 4)
    element = tensors.element(total)
    epsilon = node.attribute("epsilon", 1e-12)
    axes = [tensors.rank(total) - 1]
    y, mean, inverse = standardised(emit.convert(total, "f32"), axes, epsilon)
    y = emit.mul(emit.convert(y, element), node.tensor(2))
    y = emit.add(y, node.tensor(3)) if node.given(3) else y
    return [y, mean, inverse, total]


@contributed("SkipSimplifiedLayerNormalization", "add mul reduce_mean rsqrt")
def skip_simplified_layer_normalization(node: Node) -> Any:
    total = _skipped(node, 3)
    element = tensors.element(total)
    epsilon = node.attribute("epsilon", 1e-12)
    wide, inverse = root_mean_square(emit.convert(total, "f32"), [tensors.rank(total) - 1], epsilon)
    y = emit.mul(emit.convert(wide, element), node.tensor(2))
    return [y, emit.like(inverse, 0), inverse, total]  # onnxruntime saves a mean of 0
