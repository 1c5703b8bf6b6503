"""mgx.quantizelinear on floats of 32 or 64 bits, scalars or vectors alike.

An integer code is the quotient rounded to nearest even, plus the zero point, kept in range:

    low, high = (lowest - zero), (highest - zero)
    code = nearest(min(max(x / scale, low), high)) + zero

which rounds as the definition does, `saturate(nearest(x / scale) + zero)`, as the bounds are whole.
The sum of a number and `_ROUND` has the nearest whole number in its low bits. NaN becomes the
lowest code, as in onnxruntime.

A division takes a dozen instructions on a GPU. By a number that is known it takes three, and the
quotient is rounded as correctly (Markstein 1990; Brisebarre, Muller and Raina 2004): with
inverse = 1 / scale, rounded,

    q = x * inverse
    x / scale = fma(fma(-q, scale, x), inverse, q)

as long as nothing overflows or underflows: the inner fma is exact then. By a number that a kernel
gets as an argument it takes two more, and one division for all elements; scales below 2^-100 may
then round a tie otherwise.

Of a number that is an f16 or a bf16, fma(x, inverse, zero + _ROUND) alone has the same code in its
low bits, for nearly every scale. Whether it does is tried with all of them.

The sums of a product of bytes, times their scales, have no quotient to be exact about: they are
multiplied by the inverse, which is off by a unit in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import ml_dtypes
import numpy as np
from mlir import ir
from mlir.dialects import arith, math, vector

from mgx_mlir.codegen.meaning import native
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic, constant_number, scalar_type
from mgx_mlir.codegen.meaning.element import F32, F64, I32, I64, Element

# Scales between these divide by their inverses: the rest of each quotient that matters is normal.
_LEAST, _MOST = 2.0**-64, 2.0**64
# By the bits of floats: one and a half times the number whose unit in the last place is 1.
_ROUND = {32: 1.5 * 2.0**23, 64: 1.5 * 2.0**52}
# Quotients from here on are beyond all 8-bit floats.
_FAR = 2.0**32


def known_scale(value: ir.Value, wide: Element) -> float | None:
    """The one positive number that a scale is, where quotients by its inverse are right."""
    number = constant_number(value)
    if wide == F64 or number is None or not _LEAST < number < _MOST:
        return None
    return float(np.float32(number))


def divided(a: Arithmetic, x: ir.Value, scale: float) -> ir.Value:
    """x / scale in f32, of any x; from 2^32 on it may be off by two units in the last place."""
    near = arith.mulf(x, _inverse(a, x, scale))
    is_near = a.compare("olt", a.math("absf", near), a.float(_FAR, x))
    return a.select(is_near, _by_inverse(a, x, scale), near)


def divided_by(a: Arithmetic, x: ir.Value, scale: ir.Value) -> ir.Value:
    """As `divided`, by a scale that is known when the kernel runs: 1 / scale is computed once."""
    inverse = _reciprocal(a, scale)
    near = arith.mulf(x, inverse)
    rest = math.fma(near, a.neg(scale), x)
    is_near = a.compare("olt", a.math("absf", near), a.float(_FAR, x))
    return a.select(is_near, math.fma(rest, inverse, near), near)


def _reciprocal(a: Arithmetic, scale: ir.Value) -> ir.Value:
    """1 / scale, computed before it is repeated for the elements of a vector."""
    op = scale.owner
    if isinstance(op, ir.Block) or op.name != "vector.broadcast":
        return a.div(a.float(1, scale), scale)
    (one,) = op.operands
    inverse = a.div(_ones(one.type), one)
    return vector.broadcast(scale.type, inverse)


def _ones(type_: ir.Type) -> ir.Value:
    if not isinstance(type_, ir.VectorType):
        return arith.constant(type_, 1.0)
    number = ir.FloatAttr.get(type_.element_type, 1)
    return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, number))


def quotient(a: Arithmetic, x: ir.Value, y: ir.Value) -> ir.Value:
    """x / y of floats; on a GPU by the inverse of a y that is known, unless that is exact."""
    by_inverse = native.is_gpu() and isinstance(scalar_type(x), ir.F32Type)
    known = known_scale(y, F32) if by_inverse else None
    if known is None or np.frexp(known)[0] == 0.5:
        return a.div(x, y)
    return divided(a, x, known)


def integer_code(
    a: Arithmetic,
    target: Element,
    x: ir.Value,
    scale: ir.Value,
    zero: tuple[ir.Value, ir.Value] | None,
    known: float | None,
    divide: Callable[[ir.Value, ir.Value], ir.Value],
    summed: bool = False,
) -> ir.Value:
    """The code of x, in the storage of a target of 16 bits or fewer.

    zero: the zero point as a float and as it is computed with. known: `known_scale`; without it
    `divide` gives the quotient of x and `scale`. summed: x is of the sums of a product of bytes.
    """
    low, high = a.float(target.lowest, x), a.float(target.highest, x)
    if zero is not None:
        low, high = a.sub(low, zero[0]), a.sub(high, zero[0])
    if known is None:
        ratio = _clamped(a, divide(x, scale), low, high)
    else:
        # A quotient of such a bound rounds to the bound's own whole number.
        inside = _clamped(a, x, arith.mulf(low, scale), arith.mulf(high, scale))
        ratio = (
            arith.mulf(inside, _inverse(a, x, known)) if summed else _by_inverse(a, inside, known)
        )
    wide = I64 if isinstance(scalar_type(x), ir.F64Type) else I32
    point = 0 if zero is None else constant_number(zero[1])
    # An even number moves no tie; what is left of an odd one is added to the whole number.
    even = 0 if point is None else int(point) // 2 * 2
    shifted = arith.addf(ratio, a.float(_ROUND[wide.bits] + even, x))
    if point is not None and point != even:
        shifted = arith.addf(shifted, a.float(1, x))
    code: ir.Value = arith.bitcast(a.type(wide.storage()), shifted)
    if point is None and zero is not None:
        code = arith.addi(code, a.extend(target, zero[1], wide.storage()))
    return _low_bits(a, target, code)


def code_of_narrow(
    a: Arithmetic, source: Element, target: Element, x: ir.Value, scale: float, point: int
) -> ir.Value | None:
    """The code of the f32 x, which is a number of `source`; None where it takes a quotient."""
    inverse = _line(source.name, target, scale, point)
    if inverse is None:
        return None
    round_ = _ROUND[32]
    low, high = (a.float(round_ + number, x) for number in (target.lowest, target.highest))
    line = math.fma(x, a.float(inverse, x), a.float(round_ + point, x))
    shifted = _clamped(a, line, low, high)
    return _low_bits(a, target, arith.bitcast(a.type(I32.storage()), shifted))


@cache
def _line(name: str, target: Element, scale: float, point: int) -> float | None:
    """The factor by which fma(x, factor, point + _ROUND) has the codes of all numbers of a narrow
    type in its low bits; None where there is none."""
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bf16" else np.float16)
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
    x = x[np.isfinite(x)]
    bounds = (target.lowest - point, target.highest - point)
    with np.errstate(over="ignore"):
        codes = np.clip(np.rint(x / np.float32(scale)), *bounds)
    nearest = np.float32(1 / scale)
    ends = (np.float32(0), np.float32(np.inf))
    for factor in (nearest, *(np.nextafter(nearest, end) for end in ends)):
        # f64 holds each product exactly. Where it rounds a sum of one and 1, no tie is near.
        exact = x.astype(np.float64) * float(factor)
        # The nearest even number is that of the sum.
        found = np.rint(exact + point % 2) - point % 2
        if np.array_equal(np.clip(found, *bounds), codes):
            return float(factor)
    return None


def _low_bits(a: Arithmetic, target: Element, code: ir.Value) -> ir.Value:
    is_word = scalar_type(code) == I32.storage()
    bytes_ = native.low_bytes(code) if target.bits <= 8 and is_word else None
    return bytes_ or arith.trunci(a.type(target.storage()), code)


def _clamped(a: Arithmetic, x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """x between bounds; NaN becomes the lower one."""
    x = a.select(a.compare("ogt", x, low), x, low)
    return a.select(a.compare("olt", x, high), x, high)


def _by_inverse(a: Arithmetic, x: ir.Value, scale: float) -> ir.Value:
    inverse = _inverse(a, x, scale)
    quotient = arith.mulf(x, inverse)
    rest = math.fma(quotient, a.float(-scale, x), x)
    return math.fma(rest, inverse, quotient)


def _inverse(a: Arithmetic, x: ir.Value, scale: float) -> ir.Value:
    return a.float(float(np.float32(1 / scale)), x)
