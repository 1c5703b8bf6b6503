"""Operators of onnxruntime's domain, com.microsoft, that its optimiser and quantiser write.

Source of their meaning: onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.converters.normalization import standardised
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
    return gelu_erf(emit.add(node.tensor(0), node.tensor(1)))


@contributed("FastGelu", "add tanh mul")
def fast_gelu(node: Node) -> ir.Value:
    x, bias = node.tensor(0), node.optional(1)
    return gelu_tanh(x if bias is None else emit.add(x, bias))


@contributed("QuickGelu", "sigmoid mul")
def quick_gelu(node: Node) -> ir.Value:
    x = node.tensor(0)
    return mgx.mul(x, mgx.sigmoid(emit.mul(x, node.attribute("alpha", 1.702))))


@contributed("FusedMatMul", "transpose dot mul")
def fused_matmul(node: Node) -> ir.Value:
    operands = []
    for index, name in ((0, "transA"), (1, "transB")):
        x = node.tensor(index)
        order = list(range(tensors.rank(x)))
        if node.attribute(name, 0) and len(order) > 1:
            order[-2:] = order[-1], order[-2]
        operands.append(emit.transpose(x, order))
    y = emit.dot(*operands)
    alpha = node.attribute("alpha", 1.0)
    return y if alpha == 1 else emit.mul(y, alpha)


def _skipped(node: Node, bias: int) -> ir.Value:
    """input + skip (+ bias)"""
    total = emit.add(node.tensor(0), node.tensor(1))
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
    wide = emit.convert(total, "f32")
    mean = mgx.reduce_mean(mgx.mul(wide, wide), [tensors.rank(total) - 1])
    inverse = mgx.rsqrt(emit.add(mean, node.attribute("epsilon", 1e-12)))
    y = emit.mul(emit.convert(emit.mul(wide, inverse), element), node.tensor(2))
    return [y, None, inverse, total]


def _dequantized(node: Node, first: int) -> ir.Value:
    """Inputs `first` (x), `first` + 1 (scale) and `first` + 2 (zero point), as a float."""
    x = node.tensor(first)
    sizes = tensors.dims(x)
    scale = emit.broadcast(emit.reshape(node.tensor(first + 1), []), sizes)
    zero = None
    if node.given(first + 2):
        zero = emit.broadcast(emit.reshape(node.tensor(first + 2), []), sizes)
    return mgx.dequantizelinear(x, scale, zero)


def _quantized(node: Node, y: ir.Value, first: int, like: int = 0) -> ir.Value:
    """y by the scale and zero point in inputs `first` and `first` + 1, typed as input `like`."""
    sizes = tensors.dims(y)
    scale = emit.broadcast(emit.reshape(node.tensor(first), []), sizes)
    zero = None
    if node.given(first + 1):
        zero = emit.broadcast(emit.reshape(node.tensor(first + 1), []), sizes)
    return mgx.quantizelinear(y, scale, zero, to=node.value(like).dtype)


@contributed("QLinearAdd", "dequantizelinear add quantizelinear")
def qlinear_add(node: Node) -> ir.Value:
    return _quantized(node, emit.add(_dequantized(node, 0), _dequantized(node, 3)), 6)


@contributed("QLinearMul", "dequantizelinear mul quantizelinear")
def qlinear_mul(node: Node) -> ir.Value:
    return _quantized(node, emit.mul(_dequantized(node, 0), _dequantized(node, 3)), 6)


@contributed("QLinearSigmoid", "dequantizelinear sigmoid quantizelinear")
def qlinear_sigmoid(node: Node) -> ir.Value:
    return _quantized(node, mgx.sigmoid(_dequantized(node, 0)), 3)


@contributed("QLinearLeakyRelu", "dequantizelinear leaky_relu quantizelinear")
def qlinear_leaky_relu(node: Node) -> ir.Value:
    alpha = node.attribute("alpha", 0.01)
    return _quantized(node, mgx.leaky_relu(_dequantized(node, 0), alpha=alpha), 3)


@contributed("QLinearConcat", "dequantizelinear concat quantizelinear")
def qlinear_concat(node: Node) -> ir.Value:
    """Inputs: the result's scale and zero point, then a tensor, scale and zero point each."""
    parts = [_dequantized(node, first) for first in range(2, len(node.inputs), 3)]
    axis = tensors.axis_in(int(node.attribute("axis")), tensors.rank(parts[0]))
    return _quantized(node, emit.concat(parts, axis), 0, like=2)


@contributed("QLinearGlobalAveragePool", "dequantizelinear reduce_mean quantizelinear")
def qlinear_global_average_pool(node: Node) -> ir.Value:
    x = _dequantized(node, 0)
    rank = tensors.rank(x)
    axes = list(range(1, rank - 1)) if node.attribute("channels_last", 0) else list(range(2, rank))
    return _quantized(node, mgx.reduce_mean(x, axes), 3)
