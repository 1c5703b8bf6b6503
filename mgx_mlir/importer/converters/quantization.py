"""Quantized tensors: to and from them, and products of them, summed in integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import element_types, emit, tensors
from mgx_mlir.importer.converters.windows import Window, kernel_shape, require_channels
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.sizes.arithmetic import ceil_div


def spread(node: Node, x: ir.Value, parameter: ir.Value) -> ir.Value:
    """A scale or zero point in x's shape: for the whole, for each axis entry, or for blocks."""
    sizes = tensors.dims(x)
    shape = tensors.dims(parameter)
    axis = int(node.attribute("axis") or 0) if node.version >= 13 else 0
    block = int(node.attribute("block_size") or 0) if node.version >= 21 else 0
    if shape in ((), (1,)):
        return emit.broadcast(emit.reshape(parameter, []), sizes)
    axis = tensors.axis_in(axis, len(sizes))
    if block == 0:
        if len(shape) != 1:
            raise ModelError(f"a scale of {tensors.show(shape)} without block_size")
        return emit.along(x, parameter, axis)
    if len(shape) != len(sizes):
        raise ModelError(f"a scale of {tensors.show(shape)} for {tensors.show(sizes)}")
    repeated = emit.unsqueeze(parameter, [axis + 1])
    repeated = emit.broadcast(repeated, (*shape[: axis + 1], block, *shape[axis + 1 :]))
    merged = tensors.size_of(parameter, axis, "the number of blocks") * block
    repeated = emit.reshape(repeated, (*shape[:axis], merged, *shape[axis + 1 :]))
    size = tensors.size_of(x, axis, "the blocked size")
    if merged != ceil_div(size, block) * block:
        raise ModelError(f"a scale of {tensors.show(shape)} for {tensors.show(sizes)}")
    return emit.broadcast(emit.take(repeated, axis, 0, size), sizes)


# The types in which a quantization may divide.
_PRECISIONS = tuple(map(np.dtype, ("float16", ml_dtypes.bfloat16, "float32", "float64")))


@operator("QuantizeLinear", (10, 28), "quantizelinear")
def quantize_linear(node: Node) -> ir.Value:
    x = emit.to_float(node.tensor(0))
    scale = emit.convert(node.tensor(1), tensors.element(x))
    scale = spread(node, x, scale)
    zero = spread(node, x, node.tensor(2)) if node.given(2) else None
    saturate = bool(node.attribute("saturate")) if node.version >= 19 else True
    to: Any = np.uint8
    if node.version >= 21 and node.attribute("output_dtype"):
        to = element_types.of_onnx(node.attribute("output_dtype")).numpy
    if zero is not None:
        to = emit.numpy_type(zero)
    precision = None
    if node.version >= 23 and node.attribute("precision"):
        # ONNX's own type of the division; without it ours, which is f32 at least.
        precision = element_types.of_onnx(node.attribute("precision")).numpy
        if precision not in _PRECISIONS:
            raise UnsupportedError(f"precision = {precision.name}; floats of 16 to 64 bits are")
    return mgx.quantizelinear(x, scale, zero, to=to, saturate=saturate, precision=precision)


@operator("DequantizeLinear", (10, 28), "dequantizelinear")
def dequantize_linear(node: Node) -> ir.Value:
    x = node.tensor(0)
    scale = spread(node, x, node.tensor(1))
    zero = spread(node, x, node.tensor(2)) if node.given(2) else None
    to: Any = tensors.element(scale)
    if node.version >= 23 and node.attribute("output_dtype"):
        to = element_types.of_onnx(node.attribute("output_dtype")).numpy
        if not isinstance(mgx.element_type(to), ir.FloatType):
            raise ModelError(f"output_dtype is {np.dtype(to).name}, which is no float")
    return mgx.dequantizelinear(x, scale, zero, to=to)


def _is_zero(node: Node, index: int) -> bool:
    """Whether a zero point is absent or known to be zero."""
    if not node.given(index):
        return True
    known = node.known(index)
    return known is not None and not np.any(known)


def _shifted(x: ir.Value, zero: ir.Value | None, axis: int) -> ir.Value:
    """x - zero point, in i32; the zero point is one number, or one for each entry of axis."""
    wide = emit.convert(x, "i32")
    if zero is None:
        return wide
    zero = emit.convert(zero, "i32")
    if tensors.dims(zero) in ((), (1,)):
        return mgx.sub(wide, emit.broadcast(emit.reshape(zero, []), tensors.dims(x)))
    if tensors.rank(zero) > 1:
        return emit.sub(wide, zero)
    return mgx.sub(wide, emit.along(wide, zero, axis))


def integer_product(
    a: ir.Value, b: ir.Value, a_zero: ir.Value | None, b_zero: ir.Value | None
) -> ir.Value:
    """The product of matrices, in i32. Zero points are those of a's rows, b's columns."""
    same = tensors.element(a) == tensors.element(b)
    if a_zero is None and b_zero is None and same and tensors.rank(a) == tensors.rank(b) == 2:
        tensors.require_same(tensors.dims(a)[1], tensors.dims(b)[0])
        return mgx.quant_dot(a, b)
    left = _shifted(a, a_zero, tensors.rank(a) - 2)
    right = _shifted(b, b_zero, tensors.rank(b) - 1)
    return emit.dot(left, right)


def _matrix_product(node: Node, a: int, b: int, a_zero: int, b_zero: int) -> ir.Value:
    """The product of inputs a and b, by their zero points."""
    zeros = (None if _is_zero(node, i) else node.tensor(i) for i in (a_zero, b_zero))
    return integer_product(node.tensor(a), node.tensor(b), *zeros)


@operator("MatMulInteger", (10, 10), "quant_dot dot sub")
def matmul_integer(node: Node) -> ir.Value:
    return _matrix_product(node, 0, 1, 2, 3)


def matmul_to_float(
    node: Node, a: int, b: int, a_scale: int, b_scale: int, a_zero: int, b_zero: int
) -> ir.Value:
    """The product of inputs a and b times their scales; those of b may be for each column."""
    total = _matrix_product(node, a, b, a_zero, b_zero)
    scale = emit.mul(node.tensor(a_scale), node.tensor(b_scale))
    return emit.mul(emit.convert(total, tensors.element(scale)), scale)


def _convolution(node: Node, data: ir.Value, w: int, x_zero: int, w_zero: int) -> ir.Value:
    """The convolution of data with input w, in i32."""
    weights = node.tensor(w)
    window = Window(node, data, kernel_shape(node, weights)).resolve(data)
    require_channels(node, data, weights)
    plain = _is_zero(node, x_zero) and _is_zero(node, w_zero)
    if not plain or tensors.element(data) != tensors.element(weights):
        data = _shifted(data, node.optional(x_zero), 1)
        weights = _shifted(weights, node.optional(w_zero), 0)
    total = mgx.quant_convolution(
        window.around(data, 0.0),
        weights,
        pads=window.pads,
        strides=window.strides,
        dilations=window.dilations,
        group=node.attribute("group", 1),
    )
    tensors.name_dims(total)
    return total


@operator("ConvInteger", (10, 10), "quant_convolution sub")
def conv_integer(node: Node) -> ir.Value:
    return _convolution(node, node.tensor(0), 1, 2, 3)


def _requantized(node: Node, total: ir.Value, scales: list[ir.Value], zero: ir.Value) -> ir.Value:
    """total * scales[0] * scales[1] / scales[2] + zero, rounded and saturated."""
    element = tensors.element(scales[2])
    x_scale, w_scale, y_scale = (emit.convert(s, "f32") for s in scales)
    values = emit.convert(total, "f32")
    for scale in (x_scale, w_scale):
        values = emit.mul(values, scale)
    values = emit.convert(values, element)
    sizes = tensors.dims(values)
    y_scale = emit.convert(y_scale, element)
    if tensors.rank(y_scale) <= 1 and tensors.dims(y_scale) in ((), (1,)):
        y_scale, zero = emit.reshape(y_scale, []), emit.reshape(zero, [])
    y_scale, zero = emit.broadcast(y_scale, sizes), emit.broadcast(zero, sizes)
    return mgx.quantizelinear(values, y_scale, zero)


def _column(parameter: ir.Value, rank: int, axis: int) -> ir.Value:
    """One number for each entry of an axis, so that it broadcasts along that axis."""
    if tensors.rank(parameter) != 1 or tensors.dims(parameter) == (1,):
        return emit.reshape(parameter, []) if tensors.rank(parameter) < 2 else parameter
    return emit.unsqueeze(parameter, [i for i in range(rank) if i != axis])


@operator("QLinearMatMul", (10, 21), "quant_dot dot mul quantizelinear")
def qlinear_matmul(node: Node) -> ir.Value:
    total = _matrix_product(node, 0, 3, 2, 5)
    rank = tensors.rank(total)
    a_scale = _column(node.tensor(1), rank, rank - 2)
    b_scale = _column(node.tensor(4), rank, rank - 1)
    return _requantized(node, total, [a_scale, b_scale, node.tensor(6)], node.tensor(7))


@operator("QLinearConv", (10, 10), "quant_convolution mul quantizelinear")
def qlinear_conv(node: Node) -> ir.Value:
    return quantized_convolution(node)


def quantized_convolution(node: Node, channels_last: bool = False) -> ir.Value:
    """Inputs: x, w and the result's parameters as QLinearConv has them, then the bias."""
    x = node.tensor(0)
    rank = tensors.rank(x)
    x = emit.transpose(x, [0, rank - 1, *range(1, rank - 1)]) if channels_last else x
    total = _convolution(node, x, 3, 2, 5)
    if node.given(8):
        total = mgx.add(total, emit.along(total, node.tensor(8), 1))
    w_scale = _column(node.tensor(4), rank, 1)
    scales = [emit.reshape(node.tensor(1), []), w_scale, node.tensor(6)]
    y = _requantized(node, total, scales, node.tensor(7))
    return emit.transpose(y, [0, *range(2, rank), 1]) if channels_last else y


@operator("DynamicQuantizeLinear", (11, 11), "reduce_max reduce_min sub div clip quantizelinear")
def dynamic_quantize_linear(node: Node) -> list[ir.Value]:
    return dynamically_quantized(node.tensor(0))


def dynamically_quantized(x: ir.Value) -> list[ir.Value]:
    """x as ui8 over its range, extended to hold zero; the scale and the zero point."""
    rank = tensors.rank(x)
    axes = list(range(rank))
    largest = emit.squeeze(mgx.reduce_max(x, axes), axes) if axes else x
    smallest = emit.squeeze(mgx.reduce_min(x, axes), axes) if axes else x
    largest = mgx.max(largest, emit.like(largest, 0))
    smallest = mgx.min(smallest, emit.like(smallest, 0))
    scale = emit.div(mgx.sub(largest, smallest), 255)
    scale = emit.where(mgx.equal(scale, emit.like(scale, 0)), 1, scale)  # of zeros alone
    zero = emit.clip(mgx.nearbyint(mgx.div(mgx.neg(smallest), scale)), 0, 255)
    zero = emit.convert(zero, "ui8")
    sizes = tensors.dims(x)
    y = mgx.quantizelinear(x, emit.broadcast(scale, sizes), emit.broadcast(zero, sizes))
    return [y, scale, zero]
