"""Gates and norms of com.microsoft that exporters of decoders write.

Source of their meaning: onnxruntime's docs/ContribOperators.md. They are computed in f32.
"""

from __future__ import annotations

import math
from typing import Any

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.converters.microsoft import contributed
from mgx_mlir.importer.converters.normalization import root_mean_square
from mgx_mlir.importer.converters.pointwise import softplus_of
from mgx_mlir.importer.node import Node


@contributed("ScaledSiLU", "mul sigmoid")
def scaled_silu(node: Node) -> ir.Value:
    x, element = node.tensor(0), tensors.element(node.tensor(0))
    alpha = float(node.attribute("alpha", 1.0))
    wide = emit.convert(x, "f32")
    if node.given(1):
        tensors.require(node.tensor(1), [1] * tensors.rank(node.tensor(1)), "the scale")
        scale = emit.convert(emit.reshape(node.tensor(1), []), "f32")
        wide = emit.mul(wide, scale)
    else:
        wide = emit.mul(wide, alpha)
    scaled = emit.convert(wide, element)
    gate = emit.convert(mgx.sigmoid(emit.convert(scaled, "f32")), element)
    return mgx.mul(scaled, gate)


@contributed("SwiGLU", "clip sigmoid mul add")
def swiglu(node: Node) -> ir.Value:
    """The Swish of the gate times the other half; one input may hold both, the gate first."""
    gate, element = node.tensor(0), tensors.element(node.tensor(0))
    if node.given(1):
        tensors.require(node.tensor(1), tensors.dims(gate), "the upper half")
        up = node.tensor(1)
    else:
        last = tensors.rank(gate) - 1
        width = tensors.size_of(gate, last, "the width of both halves")
        if width % 2:
            raise ModelError(f"two halves of {width} columns")
        gate, up = (emit.take(gate, last, *part) for part in ((0, width // 2), (width // 2, width)))
    gate, up = emit.convert(gate, "f32"), emit.convert(up, "f32")
    limit = float(node.attribute("limit", 0.0))
    if limit > 0:
        gate, up = mgx.min(gate, emit.like(gate, limit)), emit.clip(up, -limit, limit)
    y = mgx.mul(gate, mgx.sigmoid(emit.mul(gate, float(node.attribute("activation_alpha", 1.0)))))
    if node.attribute("round_activation", 0):
        y = emit.convert(emit.convert(y, element), "f32")
    y = mgx.mul(y, emit.add(up, float(node.attribute("activation_beta", 0.0))))
    return emit.convert(y, element)


@contributed("GatedAdd", "mul add")
def gated_add(node: Node) -> ir.Value:
    x, y, gate = (node.tensor(i) for i in range(3))
    if node.given(3):
        raise UnsupportedError("gate_weight, which only GPUs of onnxruntime take")
    tensors.require(y, tensors.dims(x), "what is scaled")
    tensors.require(gate, [*tensors.dims(x)[:-1], 1], "the gate")
    return emit.add(x, emit.mul(y, gate))


def _grouped_norm(node: Node, x: ir.Value, groups: int, size: int) -> ir.Value:
    """x as f32 (..., groups, size), each group over its root mean square."""
    outer = tensors.dims(x)[:-1]
    wide = emit.reshape(emit.convert(x, "f32"), (*outer, groups, size))
    epsilon = float(node.attribute("epsilon", 1e-5))
    y, _ = root_mean_square(wide, [tensors.rank(wide) - 1], epsilon)
    return y


@contributed("GatedRMSNorm", "mul reduce_mean rsqrt sigmoid")
def gated_rms_norm(node: Node) -> ir.Value:
    """The norm of each part of the last dimension that is as long as the scale, times a gate."""
    x, scale, gate = (node.tensor(i) for i in range(3))
    kind = node.choice("activation", "silu", "swish", "sigmoid", default="silu")
    tensors.require(scale, [None], "the scale")
    tensors.require(gate, tensors.dims(x), "the gate")
    width = tensors.size_of(x, tensors.rank(x) - 1, "the width of its input")
    size = tensors.size_of(scale, 0, "the length of the scale")
    if size < 1 or width % size:
        raise ModelError(f"a scale of {size} for {width} columns")
    y = emit.mul(_grouped_norm(node, x, width // size, size), emit.convert(scale, "f32"))
    gate = emit.convert(gate, "f32")
    factor = mgx.sigmoid(gate) if kind == "sigmoid" else mgx.mul(gate, mgx.sigmoid(gate))
    y = mgx.mul(emit.reshape(y, tensors.dims(x)), factor)
    return emit.convert(y, tensors.element(x))


@contributed("BranchwiseRMSNorm", "mul reduce_mean rsqrt")
def branchwise_rms_norm(node: Node) -> ir.Value:
    """x is (..., branches, size), or flat with `num_branches`."""
    x, count = node.tensor(0), int(node.attribute("num_branches", 0))
    dims = tensors.dims(x)
    if count:
        width = tensors.size_of(x, len(dims) - 1, "the width of its input")
        if width % count:
            raise ModelError(f"{width} columns in {count} branches")
        flat, size = x, width // count
    else:
        tensors.require(x, [*[None] * max(len(dims) - 2, 0), None, None], "its input")
        count = tensors.size_of(x, len(dims) - 2, "the number of branches")
        size = tensors.size_of(x, len(dims) - 1, "the size of a branch")
        flat = emit.reshape(x, (*dims[:-2], count * size))
    y = _grouped_norm(node, flat, count, size)
    if node.given(1):
        scale = emit.convert(node.tensor(1), "f32")
        elements = math.prod(tensors.static_dims(scale, "the scale"))
        if elements not in (size, count * size):
            raise ModelError(f"a scale of {elements} elements for {count} branches of {size}")
        y = emit.mul(y, emit.reshape(scale, (elements // size, size)))
    return emit.convert(emit.reshape(y, dims), tensors.element(x))


@contributed("LinearAttentionGate", "add exp log mul sigmoid")
def linear_attention_gate(node: Node) -> Any:
    """Inputs: the decay's projection, its bias and scale for each head, the update's projection."""
    a, element = node.tensor(0), tensors.element(node.tensor(0))
    for index, what in ((1, "dt_bias"), (2, "decay_scale")):
        tensors.require(node.tensor(index), tensors.dims(a)[-1:], what)
    total = emit.add(emit.convert(a, "f32"), emit.convert(node.tensor(1), "f32"))
    decay = emit.mul(softplus_of(total), emit.convert(node.tensor(2), "f32"))
    beta = None
    if node.given(3):
        beta = emit.convert(mgx.sigmoid(emit.convert(node.tensor(3), "f32")), element)
    return [emit.convert(decay, element), beta]
