"""Functions of floats whose one formula is not right, or not close, for all numbers.

Values are f32 or f64, the types that floats are computed in, scalars or vectors alike.
"""

from __future__ import annotations

import math

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.lowering.arithmetic import Arithmetic, scalar_type

# 2 pi as a sum of f32 numbers, each what the ones before leave.
_TURN = (6.2831854820251465, -1.7484555314695172e-07, -6.8604980400235275e-15)


def power(a: Arithmetic, base: ir.Value, exponent: ir.Value) -> ir.Value:
    """base ** exponent: `math.powf` is right for positive bases alone."""
    size, one, zero = a.math("absf", base), a.float(1.0, base), a.float(0.0, base)
    trivial = arith.ori(a.compare("oeq", size, one), a.compare("oeq", exponent, zero))
    found = a.select(trivial, one, a.math("powf", size, exponent))
    # Of negative numbers, whole exponents alone give numbers; odd ones keep the sign.
    half = a.mul(exponent, a.float(0.5, base))
    even = a.compare("oeq", a.math("trunc", half), half)
    whole = a.compare("oeq", a.math("trunc", exponent), exponent)
    odd = a.select(whole, a.neg(found), a.float(math.nan, base))
    return a.select(a.compare("olt", base, zero), a.select(even, found, odd), found)


def sin(a: Arithmetic, x: ir.Value) -> ir.Value:
    return a.math("sin", _within_a_turn(a, x))


def cos(a: Arithmetic, x: ir.Value) -> ir.Value:
    return a.math("cos", _within_a_turn(a, x))


def tan(a: Arithmetic, x: ir.Value) -> ir.Value:
    return a.math("tan", _within_a_turn(a, x))


def _within_a_turn(a: Arithmetic, x: ir.Value) -> ir.Value:
    """An f32 less whole turns, to a few units of the last place of 1 up to millions.

    MLIR's polynomials take them off in one step, which costs 1e-5 at 1000 already.
    """
    if not isinstance(scalar_type(x), ir.F32Type):
        return x
    turns = a.math("roundeven", a.mul(x, a.float(1 / (2 * math.pi), x)))
    for part in _TURN:
        x = a.math("fma", turns, a.float(-part, x), x)
    return x


def asinh(a: Arithmetic, x: ir.Value) -> ir.Value:
    """The sign of x times log(|x| + sqrt(x^2 + 1)), which loses all digits of negative numbers."""
    size, one = a.math("absf", x), a.float(1.0, x)
    square = a.mul(size, size)
    root = a.math("sqrt", a.add(square, one))
    small = a.math("log1p", a.add(size, a.div(square, a.add(root, one))))
    return a.math("copysign", _large(a, size, small), x)


def acosh(a: Arithmetic, x: ir.Value) -> ir.Value:
    """log(x + sqrt(x^2 - 1)); NaN below 1."""
    one = a.float(1.0, x)
    less = a.sub(x, one)
    root = a.mul(a.math("sqrt", less), a.math("sqrt", a.add(x, one)))
    return _large(a, x, a.math("log1p", a.add(less, root)))


def _large(a: Arithmetic, x: ir.Value, small: ir.Value) -> ir.Value:
    """log(2 x) of numbers so large that 1 beside their square is nothing, and `small` of others."""
    limit = 2.0**13 if isinstance(scalar_type(x), ir.F32Type) else 2.0**28
    large = a.add(a.math("log", x), a.float(math.log(2), x))
    return a.select(a.compare("ogt", x, a.float(limit, x)), large, small)
