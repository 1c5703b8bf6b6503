"""Operators of quantized tensors."""

from __future__ import annotations

import numpy as np

from test.fuzz.operators.draw import (
    F16,
    F32,
    FLOATS8,
    I8,
    I16,
    I32,
    U8,
    U16,
    Array,
    Draw,
    Fixed,
    Type,
    is_float,
)
from test.fuzz.operators.form import Form, Input, operator


def scales(draw: Draw, shape: list[int], dtype: Type = F32) -> Array:
    return (np.abs(draw.plain(shape)) + 0.01).astype(dtype)


def _zero(draw: Draw, shape: list[int], dtype: Type) -> Array:
    most = 0 if dtype == I32 or is_float(dtype) else 5
    return draw.array(shape, dtype, 0, most)


@operator("QuantizeLinear")
def _quantize(draw: Draw) -> Form:
    shape = draw.shape(1)
    axis = draw.axis(len(shape))
    some = [shape[axis]] if draw.chance(0.5) else []
    zero = _zero(draw, some, draw.among((I8, U8, I8, U8, I16, U16, *FLOATS8)))
    inputs = [draw.array(shape, F32, special=False), draw.fixed(scales(draw, some), 0.7)]
    return Form(
        [*inputs, *([Fixed(zero)] if draw.chance(0.8) else [])], {"axis": axis} if some else {}
    )


@operator("DequantizeLinear")
def _dequantize(draw: Draw) -> Form:
    shape, dtype = draw.shape(1), draw.among((I8, U8, I8, U8, I32, I16, U16, *FLOATS8))
    axis = draw.axis(len(shape))
    some = [shape[axis]] if draw.chance(0.5) else []
    zero = [draw.fixed(_zero(draw, some, dtype))] if draw.chance(0.7) else []
    given = scales(draw, some, draw.pick(F32, F32, F16))
    return Form([draw.array(shape, dtype), given, *zero], {"axis": axis} if some else {})


@operator("DynamicQuantizeLinear")
def _dynamic_quantize(draw: Draw) -> Form:
    return Form([draw.plain(draw.shape(empty=False))], {}, 3)


@operator("MatMulInteger")
def _matmul_integer(draw: Draw) -> Form:
    m, k, n = (draw.pick(1, 2, 3, 8, 17, 33, 64) for _ in range(3))
    first, second = draw.pick(I8, U8), draw.pick(I8, U8)
    batch = draw.shape(0, 1, empty=False)
    inputs: list[Input] = [_whole(draw, [*batch, m, k], first)]
    inputs.append(draw.fixed(_whole(draw, [k, n], second), 0.5))
    if draw.chance(0.5):
        inputs.append(np.asarray(draw.between(0, 5), first))
        if draw.chance(0.5):
            inputs.append(draw.array(draw.pick([], [n]), second, 0, 5))
    return Form(inputs)


def _whole(draw: Draw, shape: list[int], dtype: Type) -> Array:
    return draw.array(shape, dtype, *((0, 127) if dtype == U8 else (-127, 127)))


@operator("ConvInteger")
def _conv_integer(draw: Draw) -> Form:
    dtype = draw.pick(I8, U8)
    inputs: list[Input] = [draw.array([1, 2, 5, 6], U8, 0, 200)]
    inputs.append(draw.fixed(draw.array([3, 2, draw.pick(1, 3), 2], dtype, 0, 100)))
    if draw.chance(0.5):
        inputs.append(np.asarray(draw.between(0, 200), U8))
        if draw.chance(0.5):
            inputs.append(draw.fixed(np.asarray(draw.between(0, 5), dtype)))
    pads = [draw.pick(0, 1) for _ in range(4)]
    return Form(inputs, {"strides": [draw.pick(1, 2)] * 2, "pads": pads})


def scaled(draw: Draw, shape: list[int], dtype: Type, fixed: bool = False) -> list[Input]:
    """A quantized tensor with its scale and zero point, as QLinear operators take them."""
    values = _whole(draw, shape, dtype)
    zero = np.asarray(draw.between(0, 5), dtype)
    parts = [values, scales(draw, []), zero]
    return [draw.fixed(parts[0], float(fixed)), *(Fixed(part) for part in parts[1:])]


@operator("QLinearMatMul")
def _qlinear_matmul(draw: Draw) -> Form:
    m, k, n = (draw.pick(1, 2, 3, 8, 17, 33) for _ in range(3))
    first = scaled(draw, [*draw.shape(0, 1, empty=False), m, k], draw.pick(I8, U8))
    second = scaled(draw, [k, n], draw.pick(I8, U8), fixed=draw.chance(0.5))
    zero = first[2]
    assert isinstance(zero, Fixed)
    return Form([*first, *second, *result(draw, zero.array.dtype)])


def result(draw: Draw, dtype: Type) -> list[Input]:
    """Scale and zero point of a result."""
    return [Fixed(scales(draw, []) * np.float32(8)), Fixed(np.asarray(3, dtype))]


@operator("QLinearConv")
def _qlinear_conv(draw: Draw) -> Form:
    data = scaled(draw, [1, 2, 5, 6], draw.pick(I8, U8))
    zero = data[2]
    assert isinstance(zero, Fixed)
    weights = scaled(draw, [3, 2, draw.pick(1, 3), 2], draw.among([I8, zero.array.dtype]), True)
    if isinstance(weights[2], Fixed) and weights[2].array.dtype == I8:
        weights[2] = Fixed(np.asarray(0, I8))
    bias = [Fixed(draw.array([3], I32, -99, 99))] if draw.chance(0.5) else []
    pads = [draw.pick(0, 1) for _ in range(4)]
    return Form([*data, *weights, *result(draw, zero.array.dtype), *bias], {"pads": pads})
