"""Functions of f32 as arithmetic, for every target, where MLIR's expansions are inaccurate.

MLIR's sin, cos and tan are meaningless beyond 1e15 and lose the digits of small results, its sinh
and atanh are 0 below 1e-7, cosh and sinh overflow early, atan and powf lose six bits. The ones
here are within 4 units of the last place of the exact result for every f32, subnormal ones too;
infinities, NaN and signed zeros are those of C99, Annex F. Polynomials are fits of least relative
error at 4000 Chebyshev nodes.

The work for a large argument of sin, cos and tan is in a branch that other arguments skip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

from mlir import ir
from mlir.dialects import arith, math, scf, vector

from mgx_mlir._native import _mgx
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic, scalar_type

Function = Callable[..., ir.Value]

# pi / 2 and 2 / log(2) as sums of f32 numbers, each the rest that the ones before leave.
_QUARTER = (1.5707963705062866, -4.371139e-08, -1.7151245e-15)
_LOG2 = (2.885390043258667, 3.851926e-08)
# From this x on, the parts above are too few.
_FAR = 2.0**20
# 2 / pi: the bits after the point, from the highest, after a word of zeros.
_TWO_OVER_PI = (
    0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB,
    0, 0, 0,
)  # fmt: skip
# Adding it to a small number leaves the nearest integer in the low bits of the sum.
_ROUND, _ROUND_BITS = 12582912.0, 0x4B400000

# Each in u = x^2, from the constant term on: (sin(x) / x - 1) / u and (cos(x) - 1 + u / 2) / u^2 up
# to pi / 4; (sinh(x) / x - 1) / u and (atan(x) / x - 1) / u up to 1; (atanh(x) / x - 1) / u times
# 2 / log(2), up to the quotient at sqrt(2). The last is (2^x - 1) / x up to 1 / 2.
_SIN = (-0.16666664, 0.008332745, -0.0001958731)
_COS = (0.041666664, -0.00138883, 2.4547557e-05)
_SINH = (0.16666667, 0.008333339, 0.00019838123, 2.8061418e-06)
_ATAN = (
    -0.3333333, 0.19999756, -0.14278908, 0.11036394, -0.08666949, 0.062712, -0.036115732,
    0.013655815, -0.0024235363,
)  # fmt: skip
_ATANH = (0.9617967, 0.5770798, 0.41190034, 0.33661166)
_EXP2 = (0.6931472, 0.24022648, 0.05550332, 0.00961844, 0.0013399133, 0.00015353152)


def expand(
    module: ir.Module,
    more: Mapping[str, Function] = MappingProxyType({}),
    wide: Mapping[str, Function] = MappingProxyType({}),
) -> frozenset[str]:
    """Replaces functions of f32, f16 and bf16 in a module of loops by arithmetic.

    more, wide: the functions that a target replaces too, of f32 and of f64, by op name. Gives the
    names of the functions of f64 that are left, such as 'sinh'.
    """
    table = {**_F32, **more}
    found: list[tuple[ir.Operation, Function]] = []
    left: set[str] = set()
    for op in _mgx.ops_inside(module.operation, ["math.*"]):
        is_wide = isinstance(scalar_type(op.results[0]), ir.F64Type)
        function = (wide if is_wide else table).get(op.name)
        if function is not None:
            found.append((op, function))
        elif is_wide:
            left.add(op.name.removeprefix("math."))
    for op, function in found:
        with ir.InsertionPoint(op), op.location:
            result = _computed(op, function)
        op.results[0].replace_all_uses_with(result)
        op.erase()
    return frozenset(left)


# The functions of f32 that MLIR's polynomials and formulas expand, on every target.
_EXPANDED = frozenset("acos acosh asin asinh atan2 cbrt erf erfc expm1 fpowi log1p tanh".split())


def expand_pass(wide: frozenset[str], more: Sequence[str] = ()) -> str:
    """The pass after `expand`: MLIR's expansions of the other functions, and of `more`.

    wide: functions of f64, as `expand` gives them. MLIR's formulas would lose digits of f64: a
    library computes a function that has f64 operands.
    """
    return f"mgx-expand-math{{ops={','.join(sorted({*_EXPANDED, *more} - wide))}}}"


def _computed(op: ir.Operation, function: Function) -> ir.Value:
    """The result of a function of f32 or f64 on an op's operands, which may be smaller floats."""
    a, operands = Arithmetic.like(op.operands), list(op.operands)
    if isinstance(scalar_type(operands[0]), (ir.F32Type, ir.F64Type)):
        return function(a, *operands)
    operands = [arith.extf(a.type(ir.F32Type.get()), x) for x in operands]
    return arith.truncf(op.results[0].type, function(a, *operands))


def _sin(a: Arithmetic, x: ir.Value) -> ir.Value:
    quadrant, sine, cosine = _sine_and_cosine(a, x)
    found = a.select(_bit(a, quadrant, 0), cosine, sine)
    return _flipped(a, found, arith.xori(_at_sign(a, quadrant, 1), _sign(a, x)))


def _cos(a: Arithmetic, x: ir.Value) -> ir.Value:
    quadrant, sine, cosine = _sine_and_cosine(a, x)
    found = a.select(_bit(a, quadrant, 0), sine, cosine)
    return _flipped(a, found, _at_sign(a, arith.addi(quadrant, a.int(1, quadrant)), 1))


def _tan(a: Arithmetic, x: ir.Value) -> ir.Value:
    quadrant, sine, cosine = _sine_and_cosine(a, x)
    odd = _bit(a, quadrant, 0)
    found = a.div(a.select(odd, cosine, sine), a.select(odd, sine, cosine))
    return _flipped(a, found, arith.xori(_at_sign(a, quadrant, 0), _sign(a, x)))


def _sine_and_cosine(a: Arithmetic, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The quadrant of |x|, whose low two bits count, and sine and cosine of the rest."""
    quadrant, rest = _reduced(a, math.absf(x))
    square = a.mul(rest, rest)
    sine = math.fma(a.mul(rest, square), _polynomial(a, _SIN, square), rest)
    near_one = math.fma(square, a.float(-0.5, x), a.float(1.0, x))
    cosine = math.fma(a.mul(square, square), _polynomial(a, _COS, square), near_one)
    return quadrant, sine, cosine


def _reduced(a: Arithmetic, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The multiple of pi / 2 nearest to a positive x, modulo 4, and the rest of x."""
    rounded = arith.addf(arith.mulf(x, a.float(0.6366197723675814, x)), a.float(_ROUND, x))
    quadrant = arith.subi(_bits(a, rounded), a.constant(_ROUND_BITS, _i32()))
    turns, rest = arith.subf(rounded, a.float(_ROUND, x)), x
    for part in _QUARTER:
        rest = math.fma(turns, a.float(-part, x), rest)
    far = a.compare("uge", x, a.float(_FAR, x))
    branch = scf.IfOp(_any(a, far), [quadrant.type, rest.type], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        far_quadrant, far_rest = _reduced_far(a, x)
        results = (a.select(far, far_quadrant, quadrant), a.select(far, far_rest, rest))
        scf.YieldOp(results)
    with ir.InsertionPoint(branch.elseRegion.blocks[0]):
        scf.YieldOp((quadrant, rest))
    return branch.results[0], branch.results[1]


def _reduced_far(a: Arithmetic, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """`_reduced` of a large x: Payne and Hanek, "Radian reduction for trigonometric functions".

    x is m 2^e with 24 bits of m. Bits of 2 / pi whose product with it is a multiple of 4 change
    nothing; the 96 bits after them are enough, as no f32 is nearer to a multiple than 2^-34.
    """
    i32, i64 = _i32(), ir.IntegerType.get_signless(64)
    bits = _bits(a, x)

    def n(value: int) -> ir.Value:
        return a.constant(value, i32)

    def wide(value: ir.Value) -> ir.Value:
        return arith.extui(a.type(i64), value)

    exponent = arith.shrui(bits, n(23))
    mantissa = arith.ori(arith.andi(bits, n(0x7FFFFF)), n(0x800000))
    first = arith.subi(exponent, n(120))  # of the bits, the word of zeros counted
    words = [n(word) for word in _TWO_OVER_PI]
    for bit, left in ((7, 7), (6, 5), (5, 4)):
        step = 1 << (bit - 5)
        there = _bit(a, first, bit)
        words = [a.select(there, words[i + step], words[i]) for i in range(left)]
    shift = arith.andi(first, n(31))
    back = arith.xori(shift, n(31))
    high, middle, low = (
        arith.ori(arith.shli(words[i], shift), arith.shrui(arith.shrui(words[i + 1], n(1)), back))
        for i in range(3)
    )
    thirty_two = a.constant(32, i64)
    product = arith.addi(
        arith.addi(
            arith.shrui(arith.muli(wide(mantissa), wide(low)), thirty_two),
            arith.muli(wide(mantissa), wide(middle)),
        ),
        arith.shli(wide(arith.muli(mantissa, high)), thirty_two),
    )
    # Two bits before the point, 62 after it.
    point = a.constant(62, i64)
    quadrant = arith.shrui(arith.addi(product, a.constant(1 << 61, i64)), point)
    part = arith.sitofp(a.type(ir.F32Type.get()), arith.subi(product, arith.shli(quadrant, point)))
    one, two = (a.float(value * 2.0**-62, x) for value in _QUARTER[:2])
    rest = math.fma(part, one, arith.mulf(part, two))
    finite = a.compare("olt", x, a.float(float("inf"), x))
    nan = a.float(float("nan"), x)
    return arith.trunci(a.type(i32), quadrant), a.select(finite, rest, nan)


def _sinh(a: Arithmetic, x: ir.Value) -> ir.Value:
    size = math.absf(x)
    half, rest = _half_exponentials(a, size)
    large = math.copysign(a.sub(half, rest), x)
    square = a.mul(x, x)
    small = math.fma(a.mul(x, square), _polynomial(a, _SINH, square), x)
    return a.select(a.compare("olt", size, a.float(1.0, x)), small, large)


def _cosh(a: Arithmetic, x: ir.Value) -> ir.Value:
    return a.add(*_half_exponentials(a, math.absf(x)))


def _half_exponentials(a: Arithmetic, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """exp(x) / 2 and exp(-x) / 2 of a positive x, the former wherever it is a number."""
    half = a.float(0.5, x)
    root = math.exp(a.mul(x, half))
    found = a.mul(a.mul(root, half), root)
    return found, a.div(a.float(0.25, x), found)


def _atanh(a: Arithmetic, x: ir.Value) -> ir.Value:
    size, one = math.absf(x), a.float(1.0, x)
    quotient = a.div(a.add(size, size), a.sub(one, size))
    return math.copysign(a.mul(a.float(0.5, x), math.log1p(quotient)), x)


def _atan(a: Arithmetic, x: ir.Value) -> ir.Value:
    size, one = math.absf(x), a.float(1.0, x)
    steep = a.compare("ogt", size, one)
    slope = a.select(steep, a.div(one, size), size)
    square = a.mul(slope, slope)
    found = math.fma(a.mul(slope, square), _polynomial(a, _ATAN, square), slope)
    high, low, _ = (a.float(part, x) for part in _QUARTER)
    return math.copysign(a.select(steep, a.add(a.sub(high, found), low), found), x)


def _powf(a: Arithmetic, x: ir.Value, y: ir.Value) -> ir.Value:
    """x ** y of an x that is not negative, as 2 ** (y log2(x)), where log2(x) has two numbers."""
    high, low = _log2(a, x)
    product = arith.mulf(y, high)
    error = math.fma(y, high, arith.negf(product))
    error = math.fma(y, low, error)
    # Beyond these bounds results are 0 and infinite.
    least, most = a.float(-250.0, x), a.float(250.0, x)
    bounded = a.select(a.compare("olt", product, least), least, product)
    bounded = a.select(a.compare("ogt", product, most), most, bounded)
    inside = a.compare("oeq", bounded, product)
    rounded = arith.addf(bounded, a.float(_ROUND, x))
    fraction = arith.subf(bounded, arith.subf(rounded, a.float(_ROUND, x)))
    fraction = arith.addf(fraction, a.select(inside, error, a.float(0.0, x)))
    power = math.fma(fraction, _polynomial(a, _EXP2, fraction), a.float(1.0, x))
    # In two steps, so that a subnormal result is rounded once.
    whole = arith.subi(_bits(a, rounded), a.constant(_ROUND_BITS, _i32()))
    half = arith.shrsi(whole, a.constant(1, _i32()))
    for exponent in (half, arith.subi(whole, half)):
        power = arith.mulf(power, _power_of_two(a, exponent))
    return power


def _log2(a: Arithmetic, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """log2(x) as a sum: x is m 2^e with m near 1, and log(m) is 2 atanh((m - 1) / (m + 1))."""
    i32, zero, one = _i32(), a.float(0.0, x), a.float(1.0, x)
    tiny = a.compare("olt", x, a.float(2.0**-126, x))
    bits = _bits(a, a.select(tiny, arith.mulf(x, a.float(2.0**24, x)), x))
    above = arith.subi(bits, a.constant(0x3F3504F3, i32))  # sqrt(1 / 2)
    exponent: ir.Value = arith.shrsi(above, a.constant(23, i32))
    near = arith.bitcast(x.type, arith.subi(bits, arith.shli(exponent, a.constant(23, i32))))
    exponent = arith.sitofp(x.type, exponent)
    exponent = a.select(tiny, arith.subf(exponent, a.float(24.0, x)), exponent)

    less, more = arith.subf(near, one), arith.addf(near, one)
    left = arith.subf(near, arith.subf(more, one))  # of the sum's rounding
    inverse = arith.divf(one, more)
    quotient = arith.mulf(less, inverse)
    negative = arith.negf(quotient)
    error = arith.mulf(math.fma(negative, left, math.fma(negative, more, less)), inverse)
    first, second = (a.float(part, x) for part in _LOG2)
    high = arith.mulf(quotient, first)
    low = math.fma(quotient, first, arith.negf(high))
    low = math.fma(quotient, second, math.fma(error, first, low))
    square = arith.mulf(quotient, quotient)
    cube = arith.mulf(quotient, square)
    low = math.fma(cube, _polynomial(a, _ATANH, square), low)
    total = arith.addf(exponent, high)
    low = arith.addf(arith.subf(high, arith.subf(total, exponent)), low)

    infinite = a.float(float("inf"), x)
    ordinary = arith.andi(a.compare("ogt", x, zero), a.compare("olt", x, infinite))
    limit = a.select(a.compare("oeq", x, zero), arith.negf(infinite), x)
    return a.select(ordinary, total, limit), a.select(ordinary, low, zero)


def _polynomial(a: Arithmetic, coefficients: Sequence[float], x: ir.Value) -> ir.Value:
    result = a.float(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        result = math.fma(result, x, a.float(coefficient, x))
    return result


def _i32() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def _bits(a: Arithmetic, x: ir.Value) -> ir.Value:
    return arith.bitcast(a.type(_i32()), x)


def _sign(a: Arithmetic, x: ir.Value) -> ir.Value:
    return arith.andi(_bits(a, x), a.constant(1 << 31, _i32()))


def _at_sign(a: Arithmetic, number: ir.Value, bit: int) -> ir.Value:
    """A bit of a number, moved to the bit of an f32's sign."""
    shifted = arith.shli(number, a.int(31 - bit, number))
    return arith.andi(shifted, a.constant(1 << 31, _i32()))


def _flipped(a: Arithmetic, x: ir.Value, sign: ir.Value) -> ir.Value:
    return arith.bitcast(x.type, arith.xori(_bits(a, x), sign))


def _bit(a: Arithmetic, number: ir.Value, bit: int) -> ir.Value:
    mask = a.int(1 << bit, number)
    return a.icompare("ne", arith.andi(number, mask), a.int(0, number))


def _power_of_two(a: Arithmetic, exponent: ir.Value) -> ir.Value:
    biased = arith.addi(exponent, a.int(127, exponent))
    f32 = a.type(ir.F32Type.get())
    return arith.bitcast(f32, arith.shli(biased, a.int(23, exponent)))


def _any(a: Arithmetic, condition: ir.Value) -> ir.Value:
    """Whether any element of a condition holds."""
    if a.vector is None:
        return condition
    bit = ir.IntegerType.get_signless(1)
    flat = ir.VectorType.get([prod(a.vector)], bit)
    kind: Any = ir.Attribute.parse("#vector.kind<or>")
    return vector.reduction(bit, kind, vector.shape_cast(flat, condition))


_F32: dict[str, Function] = {
    "math.atan": _atan,
    "math.atanh": _atanh,
    "math.cos": _cos,
    "math.cosh": _cosh,
    "math.powf": _powf,
    "math.sin": _sin,
    "math.sinh": _sinh,
    "math.tan": _tan,
}
