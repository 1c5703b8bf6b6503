"""Functions the pseudocode calls without defining them, and corrections of its text."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pcode_values as values
from pcode_state import Env
from pcode_values import (
    IEEE,
    SMALL,
    V,
    bits_of,
    decode,
    double_bits,
    encode,
    make,
    mask,
    round_float,
)


def divide(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if y == 0 or math.isinf(y):
        negative = math.copysign(1, x) != math.copysign(1, y)
        if (y == 0 and x == 0) or (math.isinf(x) and math.isinf(y)):
            return math.nan
        return math.copysign(math.inf if y == 0 else 0.0, -1 if negative else 1)
    return x / y


def is_denormal(v: V, width: int) -> bool:
    least = 2.0 ** (1 - IEEE[width].bias)
    # Quotients too small for the format count as well.
    return not math.isnan(v.x) and v.x != 0 and abs(v.x) < least


def bf16_arithmetic(op: str, x: float, y: float) -> V:
    result = {"+": x + y, "-": x - y, "*": x * y}[op]
    return V("bf", 16, decode(encode(result, SMALL["bf"]), SMALL["bf"]))


def is_nan(v: V) -> bool:
    return isinstance(v.x, float) and math.isnan(v.x)


def is_signaling(v: V) -> bool:
    return is_nan(v) and not double_bits(v.x) >> 51 & 1


def exact(op: Callable[..., Fraction], width: int, *arguments: V) -> V | None:
    """One rounding of an exact result; None where an argument is not finite."""
    if any(not math.isfinite(a.x) for a in arguments):
        return None
    return op(*(Fraction(a.x) for a in arguments))


def fma(env: Env, a: V, b: V, c: V) -> V:
    width = max(v.width or 32 for v in (a, b, c))
    result = exact(lambda x, y, z: x * y + z, width, a, b, c)
    if result is None or result == 0:
        return V("f", width, float(a.x) * float(b.x) + float(c.x))
    return round_float(width, result)


def ldexp(env: Env, x: V, e: V) -> V:
    if not math.isfinite(x.x) or x.x == 0:
        return x
    n = max(-5000, min(5000, e.x))
    return round_float(x.width, Fraction(x.x) * Fraction(2) ** n)


def saturating(kind: str, width: int) -> Callable:
    low, high = (0, mask(width)) if kind == "u" else (-(1 << width - 1), (1 << width - 1) - 1)

    def convert(env: Env, v: V) -> V:
        if math.isnan(v.x):
            return V(kind, width, 0)
        if math.isinf(v.x):
            return V(kind, width, high if v.x > 0 else low)
        return V(kind, width, min(high, max(low, int(v.x))))

    return convert


def to_float(width: int) -> Callable:
    return lambda env, v: (
        round_float(width, Fraction(v.x) if not isinstance(v.x, float) else v.x)
        if not is_nan(v)
        else V("f", width, v.x)
    )


def f32_to_f16(env: Env, v: V) -> V:
    mode = env.vars.get("ROUND_MODE")
    code = encode(v.x, IEEE[16], toward_zero=mode is not None and mode.x == 1)
    return V("f", 16, decode(code, IEEE[16]))


def normalized(kind: str, width: int) -> Callable:
    scale = mask(width) if kind == "u" else mask(width - 1)

    def convert(env: Env, v: V) -> V:
        if math.isnan(v.x):
            return V(kind, width, 0)
        x = min(1.0, max(0.0 if kind == "u" else -1.0, v.x))
        return V(kind, width, round(Fraction(x) * scale))

    return convert


def dithered(x: Fraction, random: int, fmt: values.Format) -> Fraction | float:
    """CDNA4 ISA 7.3: "add a random value ... and then truncate"; a multiple of the last place."""
    magnitude = abs(x)
    exponent = max(math.floor(math.log2(float(magnitude))), 1 - fmt.bias)
    place = Fraction(2) ** (exponent - fmt.fraction_bits)
    whole = math.floor(magnitude / place + Fraction(random, 1 << 32)) * place
    return whole * (1 if x > 0 else -1) if whole else math.copysign(0.0, x)


def narrow_stochastic(fmt: values.Format, kind: str) -> Callable:
    def convert(env: Env, v: V, random: V) -> V:
        x = dithered(Fraction(v.x), random.x, fmt) if math.isfinite(v.x) and v.x else v.x
        return V("b", fmt.exponent_bits + fmt.fraction_bits + 1, encode(x, fmt))

    return convert


def quotient_denormal(env: Env, a: V, b: V) -> V:
    """A quotient of finite numbers, other than 0, that has no normal number near it."""
    if not (math.isfinite(a.x) and math.isfinite(b.x)) or a.x == 0 or b.x == 0:
        return V("u", 1, 0)
    return V(
        "u", 1, int(abs(Fraction(a.x) / Fraction(b.x)) < Fraction(2) ** (1 - IEEE[a.width].bias))
    )


def small_float(source: str, target: str, *, scaled: bool, stochastic: bool) -> Callable:
    def convert(env: Env, v: V, *rest: V) -> V:
        formats = values.SMALL
        exponent = rest[-1].x - 127 if scaled else 0
        if target in formats:
            x = (
                v.x
                if not math.isfinite(v.x) or v.x == 0
                else Fraction(v.x) / Fraction(2) ** exponent
            )
            if stochastic and isinstance(x, Fraction):
                x = dithered(x, rest[0].x, formats[target])
            return V("b", values.SMALL_WIDTH[target], encode(x, formats[target]))
        x = v.x if isinstance(v.x, float) else decode(bits_of(v), formats[source])
        if scaled and rest[-1].x == 255:
            x = math.nan
        elif math.isfinite(x) and x:
            x = Fraction(x) * Fraction(2) ** exponent
        width = {"f32": 32, "f16": 16}.get(target)
        if width:
            return (
                round_float(width, x)
                if not isinstance(x, float) or not math.isnan(x)
                else V("f", width, x)
            )
        return V("bf", 16, decode(encode(x, SMALL["bf"]), SMALL["bf"]))

    return convert


def transcendental(f: Callable[[float], float]) -> Callable:
    def call(env: Env, v: V) -> V:
        try:
            return round_float(v.width, f(v.x))
        except ValueError:
            return V("f", v.width, math.nan)

    return call


def log2(x: float) -> float:
    if x == 0:
        return -math.inf
    return math.log2(x)


def power(env: Env, base: V, e: V) -> V:
    try:
        return round_float(e.width, float(base.x) ** e.x)
    except OverflowError:
        return V("f", e.width, math.inf)


def floor_like(f: Callable) -> Callable:
    def call(env: Env, v: V) -> V:
        if not math.isfinite(v.x) or v.x == 0:
            return v
        return V("f", v.width, math.copysign(float(f(v.x)), v.x))

    return call


def extend(kind: str, width: int) -> Callable:
    return lambda env, v: make(kind, width, v.x)


def signext(env: Env, v: V) -> V:
    return V("i", 64, make("i", v.width, v.x).x)


def signext_from_bit(env: Env, v: V, size: V) -> V:
    n = size.x
    if n == 0:
        return make(v.kind, v.width, 0)
    return make(v.kind, v.width, make("i", min(n, v.width or 64), v.x).x)


def mantissa(env: Env, v: V) -> V:
    m, _ = math.frexp(v.x)
    return V("f", v.width, m)


def exponent_field(env: Env, v: V) -> V:
    bits, fmt = bits_of(v), IEEE[v.width or 64]
    return V("i", 32, bits >> fmt.fraction_bits & mask(fmt.exponent_bits))


def trailing_zeros(width: int) -> Callable:
    def call(env: Env, v: V) -> V:
        bits = bits_of(v) & mask(width)
        return V("i", 32, (bits & -bits).bit_length() - 1 if bits else -1)

    return call


def absolute(env: Env, v: V) -> V:
    return (
        V(v.kind, v.width, math.copysign(v.x, 1))
        if isinstance(v.x, float)
        else make(v.kind, v.width, abs(v.x))
    )


def quiet(env: Env, v: V) -> V:
    return V(v.kind, v.width, values.double_of(double_bits(v.x) | 1 << 51)) if is_nan(v) else v


def sign_less(env: Env, a: V, b: V) -> V:
    x, y = a.x, b.x
    return V("u", 1, int(x < y or (x == 0 == y and math.copysign(1, x) < math.copysign(1, y))))


def msad(env: Env, a: V, b: V, c: V) -> V:
    total = c.x
    for i in range(4):
        x, y = bits_of(a) >> 8 * i & 255, bits_of(b) >> 8 * i & 255
        total += abs(x - y) if y else 0
    return make("u", 32, total)


def two_over_pi() -> int:
    """1201 bits of the fraction 2 / pi."""
    n = 1400

    def arctan(x: int) -> int:
        term = one // x
        total, k = term, 1
        while term:
            term //= x * x
            k += 2
            total += -(term // k) if k // 2 % 2 else term // k
        return total

    one = 1 << n
    pi = 4 * (4 * arctan(5) - arctan(239))
    return ((2 << 2 * n) // pi) >> (n - 1201)


_TWO_OVER_PI = two_over_pi()


def trig_preop(env: Env, shift: V) -> V:
    return V("f", 64, float(_TWO_OVER_PI << shift.x >> (1201 - 53) & mask(53)))


def _build() -> dict[str, Callable]:
    flag = lambda f: lambda env, *a: V("u", 1, int(f(*a)))  # noqa: E731
    table: dict[str, Callable] = {
        "isNAN": flag(is_nan),
        "isSignalNAN": flag(is_signaling),
        "isQuietNAN": flag(lambda v: is_nan(v) and not is_signaling(v)),
        "isEven": flag(lambda v: v.x % 2 == 0 if math.isfinite(v.x) else False),
        "cvtToQuietNAN": quiet,
        "sign": lambda env, v: V("u", 1, bits_of(v) >> (v.width - 1) & 1),
        "abs": absolute,
        "exponent": exponent_field,
        "mantissa": mantissa,
        "fma": fma,
        "ldexp": ldexp,
        "floor": floor_like(math.floor),
        "trunc": floor_like(math.trunc),
        "ceil": floor_like(math.ceil),
        "rndne": floor_like(round),
        "fract": lambda env, v: (
            round_float(v.width, v.x - math.floor(v.x))
            if math.isfinite(v.x)
            else V("f", v.width, math.nan)
        ),
        "sqrt": transcendental(math.sqrt),
        "log2": transcendental(log2),
        "sin": transcendental(math.sin),
        "cos": transcendental(math.cos),
        "pow": power,
        "signext": signext,
        "signext_from_bit": signext_from_bit,
        "f32_to_f16": f32_to_f16,
        "bitCount": lambda env, v: V("u", 32, bin(bits_of(v)).count("1")),
        "countbits": lambda env, v: V("u", 32, bin(bits_of(v)).count("1")),
        "s_ff1_i32_b32": trailing_zeros(32),
        "s_ff1_i32_b64": trailing_zeros(64),
        "LT_NEG_ZERO": sign_less,
        "GT_NEG_ZERO": lambda env, a, b: sign_less(env, b, a),
        "v_msad_u8": msad,
        "u32_to_u16": lambda env, v: V("u", 16, min(v.x, 0xFFFF)),
        "i32_to_i16": lambda env, v: V("i", 16, max(-0x8000, min(v.x, 0x7FFF))),
        "trig_preop": trig_preop,
        "float32": lambda env, s, e, m: values.from_bits("f", 32, s.x << 31 | e.x << 23 | m.x),
        "v_cvt_i16_f32": saturating("i", 16),
        "v_cvt_u16_f32": saturating("u", 16),
        "s_nop": lambda env, *a: None,
    }
    for kind in "ui":
        for width in (4, 8, 16, 24, 32):
            table[f"{kind}{width}_to_{kind}32"] = extend(kind, 32)
            for f in (16, 32, 64):
                table[f"{kind}{width}_to_f{f}"] = to_float(f)
                table[f"f{f}_to_{kind}{width}"] = saturating(kind, width)
    for width in (16, 32):
        table[f"f{width}_to_snorm"] = normalized("i", 16)
        table[f"f{width}_to_unorm"] = normalized("u", 16)
    for source in (16, 32, 64):
        for target in (32, 64):
            table[f"f{source}_to_f{target}"] = to_float(target)
    table["bf16_to_f32"] = lambda env, v: V("f", 32, v.x)
    table["f32_to_bf16"] = small_float("f32", "bf", scaled=False, stochastic=False)
    for small in ("fp8", "bf8", "fp6", "bf6", "fp4"):
        for wide in ("f32", "f16", "bf16"):
            for tail, scaled in (("", False), ("_scale", True)):
                table[f"{wide}_to_{small}{tail}"] = small_float(
                    wide, small, scaled=scaled, stochastic=False
                )
                table[f"{small}_to_{wide}{tail}"] = small_float(
                    small, wide, scaled=scaled, stochastic=False
                )
            table[f"{wide}_to_{small}_sr_scale"] = small_float(
                wide, small, scaled=True, stochastic=True
            )
    return table


FUNCTIONS = _build()

CONSTANTS = {
    "INF": V("f", 64, math.inf),
    "NAN": V("f", 64, math.nan),
    "PI": V("f", 64, math.pi),
    "DENORM": V("denormal", None, 0),
    "UNDERFLOW_F32": V("f", 32, 0.0),
    "OVERFLOW_F32": V("f", 32, math.inf),
    "UNDERFLOW_F64": V("f", 64, 0.0),
    "OVERFLOW_F64": V("f", 64, math.inf),
    "MAX_FLOAT_F32": V("f", 32, (2 - 2**-23) * 2.0**127),
    "ROUND_MODE": V("u", 2, 0),
    "ROUND_NEAREST_EVEN": V("u", 2, 0),
    "ROUND_TOWARD_ZERO": V("u", 2, 1),
    "CVT_OFF_TABLE": [V("f", 32, (i - 16 if i > 7 else i) / 16) for i in range(16)],
}

# Where the text is wrong or loses precision it cannot mean. Each with its reason.
CORRECTIONS: list[tuple[str, str, str]] = [
    # The rounding of floor(x + 0.5) in the format itself goes wrong next to 0.5 and above 2^23.
    ("V_RNDNE|S_RNDNE", r"(?s)D0\.(f\d+) = floor.*", r"D0.\1 = rndne(S0.\1)"),
    # 2.0 ** n alone overflows where the product does not.
    ("V_LDEXP", r"S0\.(f\d+) \* (?:\d+'F\()?2\.0F? \*\* (.*?)\)?$", r"ldexp(S0.\1, \2)"),
    # LLVM relies on frexp(0) = (0, 0), and on denormals being normalised.
    ("FREXP_EXP", r"= exponent\(S0\.f(\d+)\).*", r"= frexp_exp(S0.f\1)"),
    ("FREXP_EXP", r"16'I\(exponent\(S0\.f16\) - 15 \+ 1\)", "frexp_exp(S0.f16)"),
    # The result is below one (LLVM AMDGPUCodeGenPrepare, matchFractPat).
    ("V_FRACT", r"S0\.(f\d+) \+ -floor\(S0\.f\d+\)", r"fract_below_one(S0.\1)"),
    # The shift brings bits into the whole part, of which the text then takes the wrong end.
    ("TRIG_PREOP", r"(?s)result = .*?;", "result = trig_preop(shift);"),
    # The turns must not be rounded to f32 radians before the function is taken.
    ("V_SIN|V_COS", r"(sin|cos)\(S0\.(f\d+) \* .*\)", r"\1_turns(S0.\2)"),
    # 1 / sqrt with one rounding.
    ("V_RSQ|V_S_RSQ", r"[\d.'F]+ / sqrt\(S0\.(f\d+)\)", r"rsq(S0.\1)"),
    # "2.0F ** 32" undoes neither of V_DIV_SCALE's scalings.
    ("DIV_FMAS_F32", r"2\.0F \*\* 32 \* fma\((.*)\)", r"ldexp_fma(\1, 64)"),
    ("DIV_FMAS_F64", r"2\.0 \*\* 64 \* fma\((.*)\)", r"ldexp_fma(\1, 128)"),
    # A NaN quotient of finite operands means overflow on the way.
    (
        "DIV_FIXUP_F(32|64)",
        r"sign_out \? -abs\(S0\.(f\d+)\) : abs\(S0\.f\d+\)",
        r"isNAN(64'F(S0.\1)) ? (sign_out ? -INF.\1 : +INF.\1) "
        r": (sign_out ? -abs(S0.\1) : abs(S0.\1))",
    ),
    # The result is S0 where no case applies. "1.0 / S1 == DENORM" and "S2 / S1 == DENORM" are about
    # quotients in the format itself, and a denominator that is scaled alone for its reciprocal's
    # sake must become smaller: 2^126 and more times 2^64 is infinite.
    ("V_DIV_SCALE_(F32|F64)", r"VCC = 0x0LL;", "VCC = 0x0LL;\nD0 = S0;"),
    (
        "V_DIV_SCALE",
        r"1\.0 / (?:64'F\()?S1\.(f\d+)\)? == DENORM\.f64",
        r"quotient_denormal(one(S1.\1), S1.\1)",
    ),
    ("V_DIV_SCALE", r"S2\.(f\d+) / S1\.f\d+ == DENORM\.f\d+", r"quotient_denormal(S2.\1, S1.\1)"),
    (
        "V_DIV_SCALE",
        r"(S1\.f\d+\) && quotient_denormal\(S2[^)]*\)\) then"
        r"\s*VCC = 0x1LL;\s*if S0\.f\d+ == S1\.f\d+ then"
        r"\s*D0\.f\d+ = ldexp\(S0\.f\d+, )(\d+)",
        r"\1-\2",
    ),
    # Random bits are added and the sum truncated (CDNA4 ISA 7.3); the text adds and then rounds.
    ("CVT_SR_(FP8|BF8)_F32", r"(?s)s = sign.*?tmp = float32\(s, e, m\);", ""),
    ("CVT_SR_FP8_F32", r"f32_to_fp8\(tmp\.f32\)", "f32_to_fp8_sr(S0.f32, S1.u32)"),
    ("CVT_SR_BF8_F32", r"f32_to_bf8\(tmp\.f32\)", "f32_to_bf8_sr(S0.f32, S1.u32)"),
    ("CVT_SR_(F16|BF16)", r"_SR\(", "_sr("),
    ("CVT_SR_(F16|BF16)", r"16'B?F\((f32_to_b?f16_sr\([^)]*\))\)", r"\1"),
    # One half is written (LLVM: the intrinsic takes the old value of the destination).
    ("SCALEF32_F16_(FP8|BF8)", r"D0 = tmp\.b32", "D0[15 : 0].f16 = tmp"),
    # gfx10 and gfx11 run the halves of a wave64 apart, each within itself: code for shuffles swaps
    # them by v_permlane64 first (LLPC, SubgroupBuilder).
    ("DS_B?PERMUTE", r"% 32;", "% 32 + i / 32 * 32;"),
    # Minimum and maximum in memory keep the number where the other operand is NaN (RDNA4 ISA 13.3).
    (
        "(DS|ATOMIC)_(RTN_)?(MIN|MAX)(_NUM)?(_RTN)?_F",
        r"src (<|>) tmp \? src : tmp",
        r"number_or(src, tmp, src \1 tmp)",
    ),
    # floor(x + 0.5) as one operation.
    ("CVT_RPI|CVT_NEAREST", r"floor\(S0\.f32 \+ 0\.5F\)", "floor(64'F(S0.f32) + 0.5)"),
    # `lambda` bodies that take a whole word are given the byte they index.
    ("V_BITOP3", r"(?s)TTBL = .*?;\n", "TTBL = BITOP_TABLE;\n"),
    ("V_BITOP3", r"D\.(b\d+) =", r"D0.\1 ="),
]


def frexp_exp(env: Env, v: V) -> V:
    return V("i", 32, math.frexp(v.x)[1] if math.isfinite(v.x) else 0)


def fract_below_one(env: Env, v: V) -> V:
    if not math.isfinite(v.x):
        return V("f", v.width, math.nan)
    result = round_float(v.width, Fraction(v.x) - math.floor(v.x))
    largest = 1 - 2.0 ** -(IEEE[v.width].fraction_bits + 1)
    return V("f", v.width, min(result.x, largest))


def turns(f: Callable[[float], float]) -> Callable:
    def call(env: Env, v: V) -> V:
        if not math.isfinite(v.x):
            return V("f", v.width, math.nan)
        part = v.x - round(v.x)  # exact
        result = (
            0.0
            if abs(part) in ((0.0, 0.5) if f is math.sin else (0.25,))
            else f(2 * math.pi * part)
        )
        return round_float(v.width, result)

    return call


def rsq(env: Env, v: V) -> V:
    if v.x == 0:
        return V("f", v.width, math.copysign(math.inf, v.x))
    if math.isnan(v.x) or v.x < 0:
        return V("f", v.width, math.nan)
    if math.isinf(v.x):
        return V("f", v.width, 0.0)
    return round_float(v.width, 1 / math.sqrt(v.x))


def ldexp_fma(env: Env, a: V, b: V, c: V, n: V) -> V:
    if not all(math.isfinite(v.x) for v in (a, b, c)):
        return fma(env, a, b, c)
    exact_sum = Fraction(a.x) * Fraction(b.x) + Fraction(c.x)
    return round_float(c.width, exact_sum * Fraction(2) ** (n.x if abs(c.x) >= 2 else -n.x))


def number_or(env: Env, a: V, b: V, first: V) -> V:
    if is_nan(a):
        return b
    return a if is_nan(b) or first.x else b


for _kind in ("fp8", "bf8"):
    FUNCTIONS[f"f32_to_{_kind}_sr"] = (
        lambda kind: lambda env, v, r: narrow_stochastic(values.SMALL[kind], kind)(env, v, r)
    )(_kind)
FUNCTIONS["f32_to_f16_sr"] = narrow_stochastic(IEEE[16], "f")
FUNCTIONS["f32_to_bf16_sr"] = narrow_stochastic(SMALL["bf"], "bf")
# Rounds as the mode says (CLRX, "V_CVT_PK_U8_F32").
FUNCTIONS["f32_to_u8"] = lambda env, v: V(
    "u", 8, 0 if math.isnan(v.x) else 255 if v.x >= 255 else 0 if v.x <= 0 else round(v.x)
)
FUNCTIONS.update(
    number_or=number_or,
    quotient_denormal=quotient_denormal,
    one=lambda env, v: V("f", v.width, 1.0),
)
FUNCTIONS.update(
    frexp_exp=frexp_exp,
    fract_below_one=fract_below_one,
    sin_turns=turns(math.sin),
    cos_turns=turns(math.cos),
    rsq=rsq,
    ldexp_fma=ldexp_fma,
)
