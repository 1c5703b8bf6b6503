"""Typed values of AMD's instruction pseudocode, and its number formats.

A value is `V(kind, width, x)`. Kinds: ``u`` and ``i`` integers, ``b`` bits, ``n`` a literal without
width, ``f`` IEEE floats, and the names of the small formats (``bf``, ``fp8``, ``bf8``, ``fp6``,
``bf6``, ``fp4``). Floats of every format are held as Python floats, NaNs with their payload, so
that a signalling NaN stays one.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import NamedTuple


class V(NamedTuple):
    kind: str
    width: int | None
    x: int | float


class Format(NamedTuple):
    exponent_bits: int
    fraction_bits: int
    bias: int
    special: str  # ieee, only_nan (no infinity), finite, fnuz

    @property
    def sign(self) -> int:
        return 1 << (self.exponent_bits + self.fraction_bits)

    @property
    def largest(self) -> int:
        everything = self.sign - 1
        if self.special == "ieee":
            return everything - (1 << self.fraction_bits)
        return everything - (self.special == "only_nan")


IEEE = {
    16: Format(5, 10, 15, "ieee"),
    32: Format(8, 23, 127, "ieee"),
    64: Format(11, 52, 1023, "ieee"),
}
SMALL = {
    "bf": Format(8, 7, 127, "ieee"),
    "fp8": Format(4, 3, 7, "only_nan"),
    "bf8": Format(5, 2, 15, "ieee"),
    "fp6": Format(2, 3, 1, "finite"),
    "bf6": Format(3, 2, 3, "finite"),
    "fp4": Format(2, 1, 1, "finite"),
}
# gfx942 has the fnuz variants.
FNUZ = {"fp8": Format(4, 3, 8, "fnuz"), "bf8": Format(5, 2, 16, "fnuz")}
OCP = dict(SMALL)


def select_formats(chip: str) -> None:
    """Which fp8 and bf8 the suffixes mean from now on."""
    SMALL.update(FNUZ if chip == "gfx942" else OCP)


FLOAT_KINDS = {"f", *SMALL}
SMALL_WIDTH = {"bf": 16, "fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}


def double_bits(x: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def double_of(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", bits & (1 << 64) - 1))[0]


def decode(code: int, fmt: Format) -> float:
    negative, magnitude = bool(code & fmt.sign), code & (fmt.sign - 1)
    if fmt.special == "fnuz" and negative and not magnitude:
        return math.nan
    if fmt.special != "finite" and fmt.special != "fnuz" and magnitude > fmt.largest:
        if fmt.special == "ieee" and magnitude == fmt.largest + 1:
            return -math.inf if negative else math.inf
        payload = (magnitude & ((1 << fmt.fraction_bits) - 1)) << (52 - fmt.fraction_bits)
        return double_of(negative << 63 | 0x7FF << 52 | (payload or 1 << 51))
    exponent, fraction = magnitude >> fmt.fraction_bits, magnitude & ((1 << fmt.fraction_bits) - 1)
    if exponent:
        fraction |= 1 << fmt.fraction_bits
    value = math.ldexp(fraction, max(exponent, 1) - fmt.bias - fmt.fraction_bits)
    return -value if negative else value


def encode(
    x: float | Fraction, fmt: Format, *, toward_zero: bool = False, saturate: bool = False
) -> int:
    """The code of `x` rounded to nearest even (or towards zero)."""
    if isinstance(x, float):
        if math.isnan(x):
            if fmt.special == "fnuz":
                return fmt.sign
            bits = double_bits(x)
            sign = fmt.sign if bits >> 63 else 0
            if fmt.special == "finite":
                return sign | fmt.largest
            if fmt.special == "only_nan":
                return sign | (fmt.sign - 1)
            payload = bits >> (52 - fmt.fraction_bits) & ((1 << fmt.fraction_bits) - 1)
            return sign | (fmt.largest + 1) | (payload or 1 << (fmt.fraction_bits - 1))
        negative = math.copysign(1, x) < 0
        if math.isinf(x):
            return _overflow(negative, fmt, saturate)
        if fmt is IEEE[64]:
            return double_bits(x)
        x = Fraction(x)
    else:
        negative = x < 0
    sign = fmt.sign if negative else 0
    x = abs(x)
    if x == 0:
        return 0 if fmt.special == "fnuz" else sign
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if x < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, 1 - fmt.bias)
    scaled = x / Fraction(2) ** (exponent - fmt.fraction_bits)
    kept = int(scaled) if toward_zero else round(scaled)
    code = ((exponent - (1 - fmt.bias)) << fmt.fraction_bits) + kept
    if code > fmt.largest:
        return sign | fmt.largest if toward_zero else _overflow(negative, fmt, saturate)
    return sign | code if code or fmt.special != "fnuz" else 0


def _overflow(negative: bool, fmt: Format, saturate: bool) -> int:
    sign = fmt.sign if negative else 0
    if saturate or fmt.special == "finite":
        return sign | fmt.largest
    return fmt.sign if fmt.special == "fnuz" else sign | (fmt.largest + 1)


def format_of(kind: str, width: int | None) -> Format:
    return IEEE[width or 64] if kind == "f" else SMALL[kind]


def mask(width: int) -> int:
    return (1 << width) - 1


def is_float(v: V) -> bool:
    return v.kind in FLOAT_KINDS


def bits_of(v: V) -> int:
    if is_float(v):
        return encode(v.x, format_of(v.kind, v.width))
    return v.x & mask(v.width) if v.width else v.x & mask(64)


def make(kind: str, width: int | None, x) -> V:
    """A value with `x` brought into the range of its type."""
    if kind in FLOAT_KINDS:
        return V(kind, width, float(x) if not isinstance(x, Fraction) else x)
    x = int(x)
    if width is not None:
        x &= mask(width)
        if kind == "i" and x >> (width - 1):
            x -= 1 << width
    return V(kind, width, x)


def from_bits(kind: str, width: int, bits: int) -> V:
    if kind in FLOAT_KINDS:
        return V(kind, width, decode(bits & mask(width), format_of(kind, width)))
    return make(kind, width, bits)


def round_float(width: int | None, x) -> V:
    """An IEEE value of `width` bits from an exact or double result."""
    width = width or 64
    if width == 64 and isinstance(x, float):
        return V("f", 64, x)
    return V("f", width, decode(encode(x, IEEE[width]), IEEE[width]))


def cast(kind: str, width: int, v: V) -> V:
    """``32'U(v)``: conversion by value; bits and hexadecimal literals become floats as they are."""
    if kind in FLOAT_KINDS:
        if is_float(v):
            if kind == "f":
                return V("f", width, v.x) if math.isnan(v.x) else round_float(width, v.x)
            return from_bits(kind, width, encode(v.x, SMALL[kind]))
        if v.kind in "bn":
            return from_bits(kind, width, v.x)
        return round_float(width, float(v.x))
    if is_float(v):
        return (
            make(kind, width, 0 if math.isnan(v.x) or math.isinf(v.x) else int(v.x))
            if kind != "b"
            else make(kind, width, bits_of(v))
        )
    return make(kind, width, v.x)


def suffix(kind: str, width: int, v: V) -> V:
    """``v.u32``: the same bits under another type; float to float converts."""
    if kind in FLOAT_KINDS and is_float(v):
        return cast(kind, width, v)
    if kind in FLOAT_KINDS:
        return from_bits(kind, width, bits_of(v))
    if is_float(v):
        return make(kind, width, bits_of(v))
    return make(kind, width, v.x)
