"""Integer arithmetic that is defined for every operand.

LLVM leaves division by zero, the overflow of a division and shifts beyond the width undefined, and
x86 traps on the first two. Here x / 0 and x mod 0 are 0, an overflow wraps, and a shift beyond the
width shifts everything out, as numpy has it.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import SIGNED, Element


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
