"""Quantized operators of com.microsoft: as onnxruntime's quantiser writes them.

Operators that no sum of integers makes faster are computed on floats in between. Source of
their meaning: onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

from typing import Any

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.converters.microsoft import contributed
from mgx_mlir.importer.converters.quantization import (
    dynamically_quantized,
    integer_product,
    matmul_to_float,
    quantized_convolution,
)
from mgx_mlir.importer.converters.rnn import lstm_of
from mgx_mlir.importer.converters.windows import pooled
from mgx_mlir.importer.node import Node


def _parameters(
    node: Node, x: ir.Value, first: int, axis: int | None = None
) -> tuple[ir.Value, ir.Value | None]:
    """The scale in input `first` and the zero point, where it is given, in x's shape."""
    scale = _spread(node, x, first, axis)
    return scale, _spread(node, x, first + 1, axis) if node.given(first + 1) else None


def _spread(node: Node, x: ir.Value, index: int, axis: int | None) -> ir.Value:
    parameter = node.tensor(index)
    if axis is None or tensors.dims(parameter) in ((), (1,)):
        return emit.broadcast(emit.reshape(parameter, []), tensors.dims(x))
    return emit.along(x, parameter, tensors.axis_in(axis, tensors.rank(x)))


def _dequantized(node: Node, first: int, axis: int | None = None) -> ir.Value:
    """Inputs `first` (x), `first` + 1 (scale) and `first` + 2 (zero point), as a float."""
    x = node.tensor(first)
    return mgx.dequantizelinear(x, *_parameters(node, x, first + 1, axis))


def _quantized(node: Node, y: ir.Value, first: int, like: int = 0) -> ir.Value:
    """y by the scale and zero point in inputs `first` and `first` + 1, typed as input `like`."""
    return mgx.quantizelinear(y, *_parameters(node, y, first), to=node.value(like).dtype)


@contributed("DequantizeLinear", "dequantizelinear")
def dequantize_linear(node: Node) -> ir.Value:
    return _dequantized(node, 0, int(node.attribute("axis", 1)))


@contributed("QuantizeLinear", "quantizelinear")
def quantize_linear(node: Node) -> ir.Value:
    x, axis = node.tensor(0), int(node.attribute("axis", 1))
    return mgx.quantizelinear(x, *_parameters(node, x, 1, axis))


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
    axis = tensors.axis_in(int(node.required("axis")), tensors.rank(parts[0]))
    return _quantized(node, emit.concat(parts, axis), 0, like=2)


@contributed("QLinearGlobalAveragePool", "dequantizelinear reduce_mean quantizelinear")
def qlinear_global_average_pool(node: Node) -> ir.Value:
    x = _dequantized(node, 0)
    rank = tensors.rank(x)
    axes = list(range(1, rank - 1)) if node.attribute("channels_last", 0) else list(range(2, rank))
    return _quantized(node, mgx.reduce_mean(x, axes), 3)


@contributed("QLinearAveragePool", "dequantizelinear pooling quantizelinear")
def qlinear_average_pool(node: Node) -> ir.Value:
    x = _dequantized(node, 0)
    rank = tensors.rank(x)
    last = bool(node.attribute("channels_last", 0))
    x = emit.transpose(x, [0, rank - 1, *range(1, rank - 1)]) if last else x
    padded = bool(node.attribute("count_include_pad", 0))
    y = pooled(node, x, "average", count_include_pad=padded)
    y = emit.transpose(y, [0, *range(2, rank), 1]) if last else y
    return _quantized(node, y, 3)


@contributed("QLinearReduceMean", "dequantizelinear reduce_mean quantizelinear")
def qlinear_reduce_mean(node: Node) -> ir.Value:
    x = _dequantized(node, 0)
    stated = node.attribute("axes", list(range(tensors.rank(x))))
    axes = sorted(tensors.axis_in(a, tensors.rank(x)) for a in stated)
    y = mgx.reduce_mean(x, axes)
    return _quantized(node, y if node.attribute("keepdims", 1) else emit.squeeze(y, axes), 3)


@contributed("QLinearSoftmax", "dequantizelinear softmax quantizelinear")
def qlinear_softmax(node: Node) -> ir.Value:
    """Before opset 13, everything from the axis on is one dimension."""
    x = _dequantized(node, 0)
    rank, before_13 = tensors.rank(x), int(node.required("opset")) < 13
    axis = tensors.axis_in(int(node.attribute("axis", 1 if before_13 else -1)), rank)
    if before_13 and axis < rank - 1:
        y = emit.reshape(mgx.softmax(mgx.flatten(x, axis), 1), tensors.dims(x))
    else:
        y = mgx.softmax(x, axis)
    return _quantized(node, y, 3)


@contributed("QLinearWhere", "dequantizelinear where quantizelinear")
def qlinear_where(node: Node) -> ir.Value:
    y = emit.where(node.tensor(0), _dequantized(node, 1), _dequantized(node, 4))
    return _quantized(node, y, 7, like=1)


@contributed("QLinearConv", "transpose quant_convolution mul quantizelinear")
def qlinear_conv(node: Node) -> ir.Value:
    """As ONNX's, also with the channels last."""
    return quantized_convolution(node, bool(node.attribute("channels_last", 0)))


@contributed("QGemm", "transpose quant_dot dot add mul quantizelinear")
def qgemm(node: Node) -> ir.Value:
    """Inputs: a and b with scale and zero point each, c (i32), the result's scale and zero."""
    total = integer_product(
        _transposed(node, 0, "transA"), _transposed(node, 3, "transB"), node.optional(2),
        node.optional(5),
    )  # fmt: skip
    if node.given(6):
        total = emit.add(total, node.tensor(6))
    scale = emit.mul(emit.reshape(node.tensor(1), []), node.tensor(4))
    y = emit.mul(emit.convert(total, "f32"), emit.mul(scale, node.attribute("alpha", 1.0)))
    return _quantized(node, y, 7) if node.given(7) else y


def _transposed(node: Node, index: int, name: str) -> ir.Value:
    x = node.tensor(index)
    return emit.transpose(x, [1, 0]) if node.attribute(name, 0) else x


@contributed("MatMulIntegerToFloat", "quant_dot dot sub mul add")
def matmul_integer_to_float(node: Node) -> ir.Value:
    """Inputs: a and b, their scales, their zero points, a bias."""
    y = matmul_to_float(node, 0, 1, 2, 3, 4, 5)
    return emit.add(y, node.tensor(6)) if node.given(6) else y


@contributed("DynamicQuantizeMatMul", "quantizelinear quant_dot dot sub mul add")
def dynamic_quantize_matmul(node: Node) -> ir.Value:
    """a is quantized over its own range. Inputs: a and b, scale and zero point of b, a bias."""
    a, scale, zero = dynamically_quantized(node.tensor(0))
    total = integer_product(a, node.tensor(1), zero, node.optional(3))
    y = emit.mul(emit.convert(total, "f32"), emit.mul(scale, node.tensor(2)))
    return emit.add(y, node.tensor(4)) if node.given(4) else y


@contributed("MatMulInteger16", "convert dot")
def matmul_integer_16(node: Node) -> ir.Value:
    wide = "ui32" if tensors.element_name(node.tensor(0)) == "ui16" else "i32"
    return emit.dot(*(emit.convert(node.tensor(i), wide) for i in range(2)))


@contributed("MulInteger", "convert sub mul")
def mul_integer(node: Node) -> ir.Value:
    """Inputs: a, its zero point, b, its zero point."""
    factors = []
    for index in (0, 2):
        x = emit.convert(node.tensor(index), "i32")
        if node.given(index + 1):
            x = emit.sub(x, emit.convert(node.tensor(index + 1), "i32"))
        factors.append(x)
    return emit.mul(*factors)


@contributed("ReduceSumInteger", "convert reduce_sum")
def reduce_sum_integer(node: Node) -> ir.Value:
    x = node.tensor(0)
    signed = tensors.element_name(x).startswith("i")
    axes = sorted(tensors.axis_in(a, tensors.rank(x)) for a in node.required("axes"))
    y = mgx.reduce_sum(emit.convert(x, "i32" if signed else "ui32"), axes)
    return y if node.attribute("keepdims", 1) else emit.squeeze(y, axes)


@contributed("DynamicQuantizeLSTM", "dot add mul sigmoid tanh slice concat quantizelinear")
def dynamic_quantize_lstm(node: Node) -> Any:
    """LSTM with quantized weights (directions, size, gates * hidden): inputs 8 to 11 say how.

    Their other operands are rounded to 8 bits over their range, all steps' inputs together.
    """
    weights = []
    for index, scale in ((1, 8), (2, 10)):
        x = node.tensor(index)
        parameters = []
        for number in (scale, scale + 1):
            parameter = node.tensor(number)
            rank = tensors.rank(parameter)
            wide = emit.unsqueeze(parameter, [1] if rank == 2 else [1, 2])
            parameters.append(emit.broadcast(wide, tensors.dims(x)))
        weights.append(mgx.dequantizelinear(x, *parameters))

    def rounded(x: ir.Value) -> ir.Value:
        sizes = tensors.dims(x)
        codes, scale, zero = dynamically_quantized(x)
        return mgx.dequantizelinear(
            codes, emit.broadcast(scale, sizes), emit.broadcast(zero, sizes)
        )

    return lstm_of(node, (weights[0], weights[1]), rounded)
