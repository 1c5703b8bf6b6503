"""Functions of floats for which no single formula is right, or close, for all numbers.

Values are f32 or f64, the types that floats are computed in, scalars or vectors alike.
"""

from __future__ import annotations

import math

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.meaning.arithmetic import Arithmetic, scalar_type


def power(a: Arithmetic, base: ir.Value, exponent: ir.Value) -> ir.Value:
    """base ** exponent; `math.powf` is right for positive bases only."""
    size, one, zero = a.math("absf", base), a.float(1.0, base), a.float(0.0, base)
    trivial = arith.ori(a.compare("oeq", size, one), a.compare("oeq", exponent, zero))
    found = a.select(trivial, one, a.math("powf", size, exponent))
    # Odd exponents keep the sign, of zeros and infinities too.
    half = a.mul(exponent, a.float(0.5, base))
    even = a.compare("oeq", a.math("trunc", half), half)
    whole = a.compare("oeq", a.math("trunc", exponent), exponent)
    odd = a.select(whole, a.math("copysign", found, base), found)
    found = a.select(even, found, odd)
    # A finite negative base gives a number for whole exponents only.
    negative = arith.andi(
        a.compare("olt", base, zero), a.compare("ogt", base, a.float(-math.inf, base))
    )
    number = arith.ori(whole, a.negate(negative))
    return a.select(number, found, a.float(math.nan, base))


def asinh(a: Arithmetic, x: ir.Value) -> ir.Value:
    """The sign of x times log(|x| + sqrt(x^2 + 1)): the log of a negative x loses all digits."""
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
    """log(2 x) where x is so large that 1 beside its square vanishes, `small` elsewhere."""
    limit = 2.0**13 if isinstance(scalar_type(x), ir.F32Type) else 2.0**28
    large = a.add(a.math("log", x), a.float(math.log(2), x))
    return a.select(a.compare("ogt", x, a.float(limit, x)), large, small)
