"""Pointwise ops. Floats narrower than 32 bits are computed in f32 and rounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.reference.meanings import Array, meaning
from mgx_mlir.reference.numbers import integers, is_float, rounded, widened

_erf = np.frompyfunc(math.erf, 1, 1)


def _erf_of(x: Array) -> Array:
    return np.asarray(_erf(x.astype(np.float64))).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _relu(x: Array) -> Array:
    return np.where(x < 0, x.dtype.type(0), x)


def _sign(x: Array) -> Array:
    return np.sign(x)


_UNARY: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "bitwise_not": np.invert,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": _erf_of,
    "exp": np.exp,
    "floor": np.floor,
    "isnan": np.isnan,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "nearbyint": np.rint,
    "neg": lambda x: (0 - x) if x.dtype.kind in "iu" else -x,
    "not": np.logical_not,
    "recip": lambda x: 1 / x,
    "relu": _relu,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _sigmoid,
    "sign": _sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}


def _divide(a: Array, b: Array) -> Array:
    if is_float(a.dtype):
        return a / b
    quotient = np.floor_divide(a, np.where(b == 0, 1, b).astype(b.dtype))
    exact = np.remainder(a, np.where(b == 0, 1, b).astype(b.dtype)) == 0
    truncated = quotient + ((a < 0) != (b < 0)) * ~exact
    return np.where(b == 0, 0, truncated).astype(a.dtype)


def _remainder(function: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    def remainder(a: Array, b: Array) -> Array:
        if is_float(a.dtype):
            return function(a, b)
        safe = np.where(b == 0, 1, b).astype(b.dtype)
        return np.where(b == 0, 0, function(a, safe)).astype(a.dtype)

    return remainder


def _power(a: Array, b: Array) -> Array:
    if is_float(a.dtype):
        return np.power(a, b)
    if a.dtype.kind == "u":
        return np.power(a, b)
    negative = b < 0
    result = np.power(a, np.abs(b) if b.dtype.kind == "i" else b)
    unit = (a == 1) | (a == -1)
    return np.where(negative & ~unit, 0, result).astype(a.dtype)


def _shift_left(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    return np.where(inside, np.left_shift(a, np.where(inside, b, 0).astype(a.dtype)), 0)


def _shift_right(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    return (
        np.right_shift(a, np.where(inside, b, bits - 1).astype(a.dtype))
        if (a.dtype.kind == "i")
        else np.where(inside, np.right_shift(a, np.where(inside, b, 0).astype(a.dtype)), 0)
    )


_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "div": _divide,
    "equal": np.equal,
    "fmod": _remainder(np.fmod),
    "greater": np.greater,
    "less": np.less,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "max": np.maximum,
    "min": np.minimum,
    "mod": _remainder(np.mod),
    "mul": np.multiply,
    "pow": _power,
    "prelu": lambda a, b: np.where(a > 0, a, a * b),
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "sqdiff": lambda a, b: (a - b) * (a - b),
    "sub": np.subtract,
}


def _elementwise(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    name = op.operation.name.removeprefix("mgx.")
    function: Callable[..., Array] = _UNARY.get(name) or _BINARY[name]
    result = np.asarray(function(*[widened(x) for x in operands]))
    return rounded(result, numpy_dtype(op.results[0].type))


meaning(*_UNARY, *_BINARY)(_elementwise)


@meaning("elu")
def _elu(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x = widened(operands[0])
    alpha = x.dtype.type(op.alpha.value)
    return rounded(np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))), operands[0].dtype)


@meaning("leaky_relu")
def _leaky_relu(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x = widened(operands[0])
    return rounded(np.where(x > 0, x, x.dtype.type(op.alpha.value) * x), operands[0].dtype)


@meaning("isinf")
def _isinf(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x = widened(operands[0])
    found = np.isposinf(x) if op.detect_positive.value else np.zeros(x.shape, np.bool_)
    return np.asarray(found | np.isneginf(x) if op.detect_negative.value else found)


@meaning("where")
def _where(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    return np.where(*operands)


@meaning("clip")
def _clip(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x, low, high = (widened(a) for a in operands)
    x = np.where(x < low, low, x)
    return rounded(np.where(x > high, high, x), operands[0].dtype)


def converted(x: Array, dtype: np.dtype[Any], saturate: bool) -> Array:
    """Values in another element type, as mgx.convert says."""
    dtype = np.dtype(dtype)
    if x.dtype == dtype:
        return x
    if dtype == np.bool_:
        return np.asarray(widened(x) != 0)
    if is_float(x.dtype) and not is_float(dtype):
        return integers(widened(x), dtype)
    if x.dtype == np.bool_:
        x = x.astype(np.int8)
    return rounded(widened(x), dtype, saturate)


@meaning("convert")
def _convert(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    return converted(operands[0], numpy_dtype(op.results[0].type), op.saturate.value)


@meaning("bit_cast")
def _bit_cast(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    return (
        np.ascontiguousarray(operands[0])
        .view(numpy_dtype(op.results[0].type))
        .reshape(operands[0].shape)
    )


@meaning("iota")
def _iota(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    type_ = op.results[0].type
    return np.arange(type_.shape[0], dtype=numpy_dtype(type_))


@meaning("unpack")
def _unpack(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    dtype = numpy_dtype(op.results[0].type)
    bits = op.results[0].type.element_type.width
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (operands[0][..., None] >> shifts) & np.uint8((1 << bits) - 1)
    codes = codes.reshape(*operands[0].shape[:-1], -1)
    if is_float(dtype):
        return codes.view(dtype)
    sign = np.uint8(1 << (bits - 1) if ml_dtypes.iinfo(dtype).min else 0)
    return ((codes ^ sign).astype(np.int8) - np.int8(sign)).astype(dtype)


@meaning("quantizelinear")
def _quantizelinear(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    wide: Any = np.float64 if operands[0].dtype == np.float64 else np.float32
    x, scale, *zero = (widened(a).astype(wide) for a in operands)
    dtype = numpy_dtype(op.results[0].type)
    if op.precision is not None:
        precision = numpy_dtype(op.precision.value)
        narrow = (widened(rounded(a, precision)) for a in (x, scale))
        x = widened(rounded(np.divide(*narrow), precision)).astype(wide)
    else:
        x = x / scale
    if not is_float(dtype):
        x = np.rint(x)
    if zero:
        x = x + zero[0]
    return converted(x, dtype, op.saturate.value)


@meaning("dequantizelinear")
def _dequantizelinear(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    dtype = numpy_dtype(op.results[0].type)
    wide: Any = np.float64 if dtype == np.float64 else np.float32
    x, scale, *zero = (widened(a).astype(wide) for a in operands)
    return rounded((x - zero[0] if zero else x) * scale, dtype)
