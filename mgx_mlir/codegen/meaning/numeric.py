"""Pointwise ops on numbers of one element type whose meaning needs no attributes.

LLVM leaves division of integers by zero, the overflow of a division and shifts beyond the width
undefined, and x86 traps on the first two. Here x / 0 and x mod 0 are 0, an overflow wraps, and a
shift beyond the width shifts everything out, as numpy has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.meaning.arithmetic import Arithmetic, scalar_type
from mgx_mlir.codegen.meaning.by_class import ByClass
from mgx_mlir.codegen.meaning.element import SIGNED, Element
from mgx_mlir.dialects import mgx

# A function of the arithmetic, the element type, and the operands in the type where that element is
# computed; it gives a value of the same type, or a bool.
Numeric = Callable[..., ir.Value]
computes: ByClass[Numeric] = ByClass()


def integer_divide(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    """x / y, truncated towards zero."""
    zero, one = a.int(0, x), a.int(1, x)
    by_zero = a.icompare("eq", y, zero)
    if element.kind != SIGNED:
        quotient = arith.divui(x, a.select(by_zero, one, y))
        return a.select(by_zero, zero, quotient)
    by_minus_one = a.icompare("eq", y, a.int(-1, x))
    safe = a.select(arith.ori(by_zero, by_minus_one), one, y)
    signed = a.select(by_minus_one, arith.subi(zero, x), arith.divsi(x, safe))
    return a.select(by_zero, zero, signed)


def integer_remainder(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    """x - y * (x / y): with the sign of x."""
    zero, one = a.int(0, x), a.int(1, x)
    trivial = a.icompare("eq", y, zero)
    if element.kind == SIGNED:
        trivial = arith.ori(trivial, a.icompare("eq", y, a.int(-1, x)))
    remainder = arith.remsi if element.kind == SIGNED else arith.remui
    return a.select(trivial, zero, remainder(x, a.select(trivial, one, y)))


def integer_power(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    """x to the power of y by squaring, wrapping; for negative y the truncated reciprocal."""
    zero, one = a.int(0, x), a.int(1, x)
    result, square, rest = one, x, y
    for bit in range(max(element.bits, 8)):
        odd = a.icompare("ne", arith.andi(rest, one), zero)
        result = a.select(odd, arith.muli(result, square), result)
        if bit + 1 < max(element.bits, 8):
            square, rest = arith.muli(square, square), arith.shrui(rest, one)
    if element.kind != SIGNED:
        return result
    # 1 / x^|y| truncates to 0 unless x is 1 or -1, whose powers repeat with period 2.
    unit = arith.ori(a.icompare("eq", x, one), a.icompare("eq", x, a.int(-1, x)))
    vanishes = arith.andi(a.icompare("slt", y, zero), a.negate(unit))
    return a.select(vanishes, zero, result)


def shift_left(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    width = a.int(max(element.bits, 8), y)
    inside = a.icompare("ult", y, width)
    zero = a.int(0, x)
    return a.select(inside, arith.shli(x, a.select(inside, y, zero)), zero)


def shift_right(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    width = max(element.bits, 8)
    if element.kind == SIGNED:
        return arith.shrsi(x, arith.minui(y, a.int(width - 1, y)))
    inside = a.icompare("ult", y, a.int(width, y))
    zero = a.int(0, x)
    return a.select(inside, arith.shrui(x, a.select(inside, y, zero)), zero)


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


_FUNCTIONS: dict[type[ir.OpView], str] = {
    mgx.AcosOp: "acos",
    mgx.AsinOp: "asin",
    mgx.AtanOp: "atan",
    mgx.AtanhOp: "atanh",
    mgx.CeilOp: "ceil",
    mgx.CosOp: "cos",
    mgx.CoshOp: "cosh",
    mgx.ErfOp: "erf",
    mgx.ExpOp: "exp",
    mgx.FloorOp: "floor",
    mgx.LogOp: "log",
    mgx.Log1pOp: "log1p",
    mgx.Log2Op: "log2",
    mgx.NearbyintOp: "roundeven",
    mgx.RsqrtOp: "rsqrt",
    mgx.SinOp: "sin",
    mgx.SinhOp: "sinh",
    mgx.SqrtOp: "sqrt",
    mgx.TanOp: "tan",
    mgx.TanhOp: "tanh",
}
for _class, _name in _FUNCTIONS.items():
    computes(_class)(lambda a, element, x, name=_name: a.math(name, x))

computes(mgx.BitwiseAndOp, mgx.LogicalAndOp)(Arithmetic.bitwise_and)
computes(mgx.BitwiseOrOp, mgx.LogicalOrOp)(Arithmetic.bitwise_or)
computes(mgx.BitwiseXorOp, mgx.LogicalXorOp)(lambda a, element, x, y: arith.xori(x, y))
computes(mgx.BitwiseNotOp, mgx.NotOp)(lambda a, element, x: arith.xori(x, a.int(-1, x)))
computes(mgx.IsnanOp)(lambda a, element, x: a.compare("uno", x, x))
computes(mgx.AcoshOp)(lambda a, element, x: acosh(a, x))
computes(mgx.AsinhOp)(lambda a, element, x: asinh(a, x))
computes(mgx.RecipOp)(lambda a, element, x: a.div(a.float(1.0, x), x))
computes(mgx.MulOp)(Arithmetic.product)
computes(mgx.MaxOp)(Arithmetic.maximum)
computes(mgx.MinOp)(Arithmetic.minimum)
computes(mgx.EqualOp)(Arithmetic.equal)
computes(mgx.LessOp)(Arithmetic.less)
computes(mgx.GreaterOp)(lambda a, element, x, y: a.less(element, y, x))
computes(mgx.ShiftLeftOp)(shift_left)
computes(mgx.ShiftRightOp)(shift_right)


@computes(mgx.AbsOp)
def _abs(a: Arithmetic, element: Element, x: ir.Value) -> ir.Value:
    if element.is_float:
        return a.math("absf", x)
    if element.kind != SIGNED:
        return x
    zero = a.int(0, x)
    negative = a.icompare("slt", x, zero)
    return a.select(negative, arith.subi(zero, x), x)


@computes(mgx.NegOp)
def _neg(a: Arithmetic, element: Element, x: ir.Value) -> ir.Value:
    return a.neg(x) if element.is_float else arith.subi(a.int(0, x), x)


@computes(mgx.ReluOp)
def _relu(a: Arithmetic, element: Element, x: ir.Value) -> ir.Value:
    zero = a.int(0, x)  # keeps a NaN, as the comparison is false for it
    return a.select(a.less(element, x, zero), zero, x)


@computes(mgx.SigmoidOp)
def _sigmoid(a: Arithmetic, element: Element, x: ir.Value) -> ir.Value:
    one = a.float(1.0, x)
    return a.div(one, a.add(one, a.math("exp", a.neg(x))))


@computes(mgx.SignOp)
def _sign(a: Arithmetic, element: Element, x: ir.Value) -> ir.Value:
    zero, one = a.int(0, x), a.int(1, x)
    result = a.select(a.less(element, zero, x), one, x)
    if element.kind == "unsigned":
        return result
    return a.select(a.less(element, x, zero), a.int(-1, x), result)


@computes(mgx.AddOp)
def _add(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    return a.add(x, y) if element.is_float else arith.addi(x, y)


@computes(mgx.SubOp)
def _sub(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    return a.sub(x, y) if element.is_float else arith.subi(x, y)


@computes(mgx.DivOp)
def _div(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    return a.div(x, y) if element.is_float else integer_divide(a, element, x, y)


@computes(mgx.FmodOp)
def _fmod(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    if element.is_float:
        return arith.remf(x, y)
    return integer_remainder(a, element, x, y)


@computes(mgx.ModOp)
def _mod(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    remainder = _fmod(a, element, x, y)
    if element.kind == "unsigned":
        return remainder
    zero = a.int(0, x)
    differs = arith.xori(a.less(element, remainder, zero), a.less(element, y, zero))
    if element.is_float:
        nonzero = a.compare("one", remainder, zero)
        return a.select(arith.andi(differs, nonzero), a.add(remainder, y), remainder)
    nonzero = a.icompare("ne", remainder, zero)
    return a.select(arith.andi(differs, nonzero), arith.addi(remainder, y), remainder)


@computes(mgx.PowOp)
def _pow(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    if not element.is_float:
        return integer_power(a, element, x, y)
    return power(a, x, y)


@computes(mgx.SqdiffOp)
def _sqdiff(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    difference = _sub(a, element, x, y)
    return a.product(element, difference, difference)


@computes(mgx.PreluOp)
def _prelu(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    positive = a.less(element, a.int(0, x), x)
    return a.select(positive, x, a.product(element, x, y))
