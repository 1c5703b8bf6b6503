"""Conversion of values between element types, on scalars or vectors.

`load` takes a value from its storage type to the type where it is computed, `store` takes it back,
rounding; `convert` is mgx.convert. Sources: ONNX Cast (saturation of 8-bit floats), OCP OFP8.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.meaning import native
from mgx_mlir.codegen.meaning.arithmetic import CONTRACT, Arithmetic
from mgx_mlir.codegen.meaning.element import BOOL, EXPONENT_ONLY, F32, I32, SIGNED, Element
from mgx_mlir.elements import MINIFLOATS, Minifloat


def load(a: Arithmetic, element: Element, value: ir.Value, any_nan: bool = True) -> ir.Value:
    """A stored value in the type where `element` is computed.

    any_nan: any bits of a NaN of a small float will do; else some are in its upper half.
    Only the low bits of an integer of less than 8 bits count: ml_dtypes fills the rest of the byte
    with the sign or with zeros, by the operation that made the array.
    """
    if element.is_integer and element.bits < 8:
        return _wrap(a, element, value)
    if not element.is_float or element.bits >= 32:
        return value
    if element.name == EXPONENT_ONLY:
        return _decode_exponent(a, value)
    if element.is_byte_float:
        return native.decode(element, value, any_nan) or _decode(a, MINIFLOATS[element.name], value)
    return arith.extf(a.type(F32.storage()), value, fastmath=CONTRACT)


def store(
    a: Arithmetic, element: Element, value: ir.Value, saturate: bool = True, keep: bool = False
) -> ir.Value:
    """A value of the computed type of `element` as memory holds it; rounds to nearest even.

    keep: the program asks for this rounding. Other roundings may vanish between two operations.
    """
    if element.is_integer and element.bits < 8:
        return _wrap(a, element, value)
    if not element.is_float or element.bits >= 32:
        return value
    if element.name == EXPONENT_ONLY:
        return _encode_exponent(a, value)
    if element.is_byte_float:
        code = native.encode(element, value) if saturate else None
        return code or _encode(a, MINIFLOATS[element.name], value, saturate)
    type_ = a.type(element.storage())
    return arith.truncf(type_, value) if keep else arith.truncf(type_, value, fastmath=CONTRACT)


def convert(
    a: Arithmetic, source: Element, target: Element, value: ir.Value, saturate: bool = True
) -> ir.Value:
    """A stored value of `source` as a stored value of `target`, as mgx.convert says.

    A float out of the range of an integer target becomes the nearest integer in range; NaN is 0.
    An f64 goes through f32 to narrower floats: x86 has no instruction, and its library call would
    have to be linked into every kernel.
    """
    if source == target:
        return value
    value = load(a, source, value)
    value = change(a, source.computed(), target.computed(), value)
    return value if target.is_integer else store(a, target, value, saturate, keep=True)


def change(a: Arithmetic, source: Element, target: Element, value: ir.Value) -> ir.Value:
    """A value of `source` as a value of `target`; both are types where things are computed."""
    if source == target:
        return value
    if target.kind == BOOL:
        zero = a.constant(0, source.storage())
        return a.compare("une", value, zero) if source.is_float else a.icompare("ne", value, zero)
    if source.is_float and target.is_float:
        cast = arith.extf if target.bits > source.bits else arith.truncf
        return cast(a.type(target.storage()), value)
    if source.is_float:
        return _truncate(a, source, target, value)
    if target.is_float:
        to_float = arith.sitofp if source.kind == SIGNED else arith.uitofp
        return to_float(a.type(target.storage()), value)
    return _resize(a, source, target, value)


def _resize(a: Arithmetic, source: Element, target: Element, value: ir.Value) -> ir.Value:
    """Converts an integer to another width; it wraps."""
    have, want = max(source.bits, 8), max(target.bits, 8)
    if source.kind == BOOL:
        have = 1
    if want > have:
        value = a.extend(source, value, target.storage())
    elif want < have:
        value = arith.trunci(a.type(target.storage()), value)
    return _wrap(a, target, value) if target.bits < 8 else value


def _wrap(a: Arithmetic, element: Element, value: ir.Value) -> ir.Value:
    """The low bits of an i8 as a value of a narrower integer type."""
    if element.kind != SIGNED:
        return arith.andi(value, a.int(element.highest, value))
    shift = a.int(8 - element.bits, value)
    return arith.shrsi(arith.shli(value, shift), shift)


def _truncate(a: Arithmetic, source: Element, target: Element, value: ir.Value) -> ir.Value:
    """Rounds towards zero, saturates, NaN to 0: an out-of-range fptosi is undefined in LLVM."""
    lowest, highest = float(target.lowest), target.highest
    mantissa = 53 if source.bits == 64 else 24
    kept = (
        highest
        if highest.bit_length() <= mantissa
        else (highest >> (highest.bit_length() - mantissa) << (highest.bit_length() - mantissa))
    )
    low, high = a.float(lowest, value), a.float(float(kept), value)
    inside = a.select(a.compare("ogt", value, low), value, low)
    inside = a.select(a.compare("olt", inside, high), inside, high)
    to_int = arith.fptosi if target.kind == SIGNED else arith.fptoui
    result: ir.Value = to_int(a.type(target.storage()), inside)
    if kept != highest:
        beyond = a.compare("ogt", value, high)
        result = a.select(beyond, a.int(highest, result), result)
    return a.select(a.compare("uno", value, value), a.int(0, result), result)


def _decode(a: Arithmetic, format_: Minifloat, code: ir.Value) -> ir.Value:
    """The f32 with the same mantissa and exponent bits, times a power of two for the biases."""
    i32, f32 = a.type(I32.storage()), a.type(F32.storage())
    wide = arith.extui(i32, code)
    sign_bit = 1 << (format_.bits - 1)
    magnitude = arith.andi(wide, a.int(sign_bit - 1, wide))
    bits: ir.Value = arith.shli(magnitude, a.int(23 - format_.mantissa, wide))
    scale = a.constant(2.0 ** (127 - format_.bias), F32.storage())
    bits = arith.bitcast(i32, arith.mulf(arith.bitcast(f32, bits), scale))
    if format_.infinity is not None:
        exponent = a.int(0x7F800000, wide)
        special = a.icompare("uge", magnitude, a.int(format_.infinity, wide))
        bits = a.select(special, arith.ori(bits, exponent), bits)
    sign = arith.andi(wide, a.int(sign_bit, wide))
    bits = arith.ori(bits, arith.shli(sign, a.int(32 - format_.bits, wide)))
    if format_.nan is not None and format_.infinity is None:
        special = magnitude if format_.signed_zero else wide
        is_nan = a.icompare("eq", special, a.int(format_.nan, wide))
        bits = a.select(is_nan, a.int(0x7FC00000, wide), bits)
    return arith.bitcast(f32, bits)


def _encode(a: Arithmetic, format_: Minifloat, value: ir.Value, saturate: bool) -> ir.Value:
    """Rounds to nearest even in the integer domain; values below the normal range by an addition
    whose unit in the last place is the smallest subnormal."""
    i32 = a.type(I32.storage())
    bits = arith.bitcast(i32, value)
    magnitude = arith.andi(bits, a.int(0x7FFFFFFF, bits))
    drop = 23 - format_.mantissa

    odd = arith.andi(arith.shrui(magnitude, a.int(drop, bits)), a.int(1, bits))
    rebias = ((format_.bias - 127) << 23) + (1 << (drop - 1)) - 1
    rounded = arith.addi(arith.addi(magnitude, a.int(rebias, bits)), odd)
    normal = arith.shrui(rounded, a.int(drop, bits))

    anchor = a.constant(2.0 ** (1 - format_.bias - format_.mantissa + 23), F32.storage())
    absolute = arith.bitcast(a.type(F32.storage()), magnitude)
    shifted = arith.bitcast(i32, arith.addf(absolute, anchor))
    subnormal = arith.subi(shifted, arith.bitcast(i32, anchor))

    smallest_normal = a.constant(2.0 ** (1 - format_.bias), F32.storage())
    code = a.select(a.compare("olt", absolute, smallest_normal), subnormal, normal)

    # A magnitude this large may have wrapped in `normal`: decide on the float's own bits.
    exponent, fraction = (
        format_.largest >> format_.mantissa,
        format_.largest & ((1 << format_.mantissa) - 1),
    )
    limit = ((exponent - format_.bias + 127) << 23) | (fraction << drop) | (1 << (drop - 1))
    tie_rounds_up = format_.largest & 1
    over = a.icompare("uge" if tie_rounds_up else "ugt", magnitude, a.int(limit, bits))
    beyond = format_.largest if saturate else format_.overflow
    code = a.select(over, a.int(beyond, bits), code)

    sign: ir.Value = arith.andi(
        arith.shrui(bits, a.int(32 - format_.bits, bits)), a.int(1 << (format_.bits - 1), bits)
    )
    if not format_.signed_zero:
        zero = a.icompare("eq", code, a.int(0, bits))
        sign = a.select(zero, code, sign)
    code = arith.ori(code, sign)
    if format_.nan is not None:
        is_nan = a.icompare("ugt", magnitude, a.int(0x7F800000, bits))
        code = a.select(is_nan, a.int(format_.nan, bits), code)
    return arith.trunci(a.type(ir.IntegerType.get_signless(8)), code)


def _decode_exponent(a: Arithmetic, code: ir.Value) -> ir.Value:
    i32 = a.type(I32.storage())
    wide = arith.extui(i32, code)
    bits: ir.Value = arith.shli(wide, a.int(23, wide))
    bits = a.select(a.icompare("eq", wide, a.int(0, wide)), a.int(0x00400000, wide), bits)
    bits = a.select(a.icompare("eq", wide, a.int(255, wide)), a.int(0x7FC00000, wide), bits)
    return arith.bitcast(a.type(F32.storage()), bits)


def _encode_exponent(a: Arithmetic, value: ir.Value) -> ir.Value:
    """Nearest power of two, ties up; zero is the smallest, a negative number NaN."""
    bits = arith.bitcast(a.type(I32.storage()), value)
    code: ir.Value = arith.shrui(arith.addi(bits, a.int(0x00400000, bits)), a.int(23, bits))
    bad = a.icompare("slt", bits, a.int(0, bits))
    bad = arith.ori(bad, a.icompare("uge", bits, a.int(0x7F800000, bits)))
    code = a.select(bad, a.int(255, bits), code)
    return arith.trunci(a.type(ir.IntegerType.get_signless(8)), code)
