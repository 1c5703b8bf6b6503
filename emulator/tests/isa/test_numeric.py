"""numeric.h against numpy, ml_dtypes and exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from harness import numeric
from pcode_values import FNUZ, IEEE, decode, encode
from pcode_values import OCP as SMALL

SMALL_FORMATS = [
    SMALL["fp8"],
    SMALL["bf8"],
    FNUZ["fp8"],
    FNUZ["bf8"],
    SMALL["fp6"],
    SMALL["bf6"],
    SMALL["fp4"],
]
ML_DTYPES = [
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float6_e2m3fn,
    ml_dtypes.float6_e3m2fn,
    ml_dtypes.float4_e2m1fn,
]
DENORMALS = 0xF0


def floats(width: int, count: int, seed: int = 0) -> np.ndarray:
    """Bit patterns: all kinds of numbers, with many near the edges of the exponent's range."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 64, count, dtype=np.uint64, endpoint=False) >> np.uint64(64 - width)
    fmt = IEEE[width]
    exponents = rng.choice(
        [
            0,
            1,
            2,
            fmt.bias - 3,
            fmt.bias,
            fmt.bias + 2,
            2 * fmt.bias - 1,
            2 * fmt.bias,
            2 * fmt.bias + 1,
        ],
        count,
    )
    keep = rng.random(count) < 0.5
    field = np.uint64(2 * fmt.bias + 1) << np.uint64(fmt.fraction_bits)
    edge = (bits & ~field) | exponents.astype(np.uint64) << np.uint64(fmt.fraction_bits)
    bits = np.where(keep, bits, edge)
    sparse = rng.random(count) < 0.2
    return np.where(sparse, bits & ~np.uint64((1 << (fmt.fraction_bits - 2)) - 1), bits)


def same(got: np.ndarray, want: np.ndarray, width: int) -> None:
    """Equal bits, any NaN for a NaN."""
    fmt = IEEE[width]
    magnitude = np.uint64(fmt.sign - 1)
    nan = lambda x: (x & magnitude) > np.uint64(fmt.largest + 1)  # noqa: E731
    bad = np.flatnonzero((got != want) & ~(nan(got) & nan(want)))
    assert not bad.size, [(hex(int(got[i])), hex(int(want[i]))) for i in bad[:5]]


def rounded(exact: Fraction | float, width: int, mode: int) -> int:
    """The code of an exact value under MODE.round 0 to 3."""
    if isinstance(exact, float) or mode == 0:
        return encode(exact, IEEE[width])
    up = mode == 1 or (mode == 3 and exact < 0)
    toward_zero = encode(exact, IEEE[width], toward_zero=True)
    away = exact > 0 if up else exact < 0
    if mode == 3 or not away or Fraction(decode(toward_zero, IEEE[width])) == exact:
        return toward_zero
    return toward_zero + 1


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("width", (16, 32, 64))
@pytest.mark.parametrize("operation", ("add", "mul", "fma"))
def test_rounds_once_in_every_mode(operation: str, width: int, mode: int) -> None:
    count = 1500
    a, b, c = (floats(width, count, seed) for seed in range(3))
    # Products near an addend, for cancellation.
    c[: count // 3] = numeric(f"mul_f{width}", a[: count // 3], b[: count // 3]) ^ np.uint64(
        1 << (width - 1)
    )
    got = numeric(f"{operation}_f{width}", a, b, c, mode=DENORMALS | mode | mode << 2)
    for i in range(count):
        x, y, z = (decode(int(v[i]), IEEE[width]) for v in (a, b, c))
        if not all(np.isfinite(v) for v in (x, y, z)):
            continue
        exact = {
            "add": Fraction(x) + Fraction(y),
            "mul": Fraction(x) * Fraction(y),
            "fma": Fraction(x) * Fraction(y) + Fraction(z),
        }[operation]
        if exact == 0:
            continue  # the sign of zero has its own test
        assert int(got[i]) == rounded(exact, width, mode), (
            hex(int(a[i])),
            hex(int(b[i])),
            hex(int(c[i])),
        )


@pytest.mark.parametrize("width", (32, 16))
def test_sum_of_opposites_is_minus_zero_only_when_rounding_down(width: int) -> None:
    one = np.array([encode(1.0, IEEE[width])], np.uint64)
    minus_one = one | np.uint64(1 << (width - 1))
    for mode, want in ((0, 0), (1, 0), (2, 1 << (width - 1)), (3, 0)):
        assert (
            int(numeric(f"add_f{width}", one, minus_one, mode=DENORMALS | mode | mode << 2)[0])
            == want
        )


def test_flushes_denormals_as_the_mode_says() -> None:
    tiny, two, half = (np.array([x], np.uint64) for x in (0x00400000, 0x40000000, 0x3F000000))
    smallest = np.array([0x00800000], np.uint64)
    assert numeric("mul_f32", tiny, two, mode=0xF0)[0] == 0x00800000
    assert numeric("mul_f32", tiny, two, mode=0xE0)[0] == 0  # input denormals flushed
    assert numeric("mul_f32", smallest, half, mode=0xD0)[0] == 0  # output denormals flushed
    assert numeric("mul_f32", smallest, half, mode=0xE0)[0] == 0x00400000


def test_f16_conversion_is_exact_both_ways() -> None:
    codes = np.arange(1 << 16, dtype=np.uint64)
    wide = (
        codes.astype(np.uint16)
        .view(np.float16)
        .astype(np.float32)
        .view(np.uint32)
        .astype(np.uint64)
    )
    same(numeric("f16_to_f32", codes), wide, 32)
    same(numeric("f32_to_f16", wide), codes, 16)


def test_narrowing_rounds_to_nearest_even() -> None:
    x = floats(32, 20000)
    single = x.astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        same(
            numeric("f32_to_f16", x),
            single.astype(np.float16).view(np.uint16).astype(np.uint64),
            16,
        )
        bf16 = single.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint64)
        got = numeric("f32_to_bf16", x)
        assert np.array_equal(got[~np.isnan(single)], bf16[~np.isnan(single)])
        y = floats(64, 20000)
        same(
            numeric("f64_to_f32", y),
            y.view(np.float64).astype(np.float32).view(np.uint32).astype(np.uint64),
            32,
        )


@pytest.mark.parametrize("index", range(7))
def test_small_formats_agree_with_ml_dtypes(index: int) -> None:
    dtype = ML_DTYPES[index]
    codes = np.arange(1 << (8 if index < 4 else 6 if index < 6 else 4), dtype=np.uint64)
    which = np.full(codes.shape, index, np.uint64)
    want = codes.astype(np.uint8).view(dtype).astype(np.float32)
    same(numeric("decode", codes, which), want.view(np.uint32).astype(np.uint64), 32)
    x = floats(32, 20000, seed=index)
    single = x.astype(np.uint32).view(np.float32)
    if index >= 4:
        x = x[np.isfinite(single)]
        single = single[np.isfinite(single)]
    with np.errstate(all="ignore"):
        want_codes = single.astype(dtype).view(np.uint8)
    got = numeric("encode", x, np.full(x.shape, index, np.uint64)).astype(np.uint8)
    nan = np.isnan(want_codes.view(dtype).astype(np.float32))
    assert np.array_equal(got[~nan], want_codes[~nan])
    assert np.isnan(got[nan].view(dtype).astype(np.float32)).all()


@pytest.mark.parametrize("index", range(4))
def test_saturation_replaces_overflow(index: int) -> None:
    big = np.array([1e30, -1e30, np.inf, -np.inf], np.float32).view(np.uint32).astype(np.uint64)
    got = numeric("encode", big, np.full(4, index, np.uint64), np.ones(4, np.uint64))
    largest, sign = SMALL_FORMATS[index].largest, SMALL_FORMATS[index].sign
    assert got.tolist() == [largest, sign | largest] * 2


@pytest.mark.parametrize("index", range(7))
def test_stochastic_rounding_picks_a_neighbour_with_the_right_odds(index: int) -> None:
    fmt, rng = SMALL_FORMATS[index], np.random.default_rng(index)
    for x in (1.3, -0.7, 0.19, 2.0**-9 * 1.4, 1.0):
        exact = np.full(4000, np.float32(x).view(np.uint32), np.uint64)
        codes = numeric(
            "encode_stochastic",
            exact,
            np.full(4000, index, np.uint64),
            rng.integers(0, 1 << 32, 4000, dtype=np.uint64),
        )
        drawn = np.array([decode(int(code), fmt) for code in codes])
        values = sorted(set(drawn))
        assert len(values) <= 2 and values[0] <= np.float32(x) <= values[-1]
        spread = values[-1] - values[0]
        assert abs(drawn.mean() - np.float32(x)) <= 0.05 * spread + 1e-12


FUNCTIONS = {
    "rcp_f32": lambda x: 1 / x,
    "sqrt_f32": np.sqrt,
    "rsq_f32": lambda x: 1 / np.sqrt(x),
    "exp2_f32": np.exp2,
    "log2_f32": np.log2,
    "sin_f32": lambda x: np.sin(2 * np.pi * (x - np.floor(x))),
    "cos_f32": lambda x: np.cos(2 * np.pi * (x - np.floor(x))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transcendental_functions_are_good_to_one_ulp(name: str) -> None:
    x = np.concatenate(
        [
            np.random.default_rng(1).uniform(-130, 130, 4000),
            np.random.default_rng(2).uniform(0, 1e-3, 1000),
        ]
    ).astype(np.float32)
    got = numeric(name, x.view(np.uint32)).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        want = FUNCTIONS[name](x.astype(np.float64))
        error = np.abs(got - want)
        limit = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    normal = np.isfinite(want) & (np.abs(want) > 2.0**-120) & (np.abs(want) < 2.0**127)
    assert (error[normal] <= limit[normal] + (1e-15 if name[:3] in ("sin", "cos") else 0)).all()
    assert np.array_equal(np.isnan(got), np.isnan(want))


@pytest.mark.parametrize("width", (32, 64))
def test_division_sequence_of_llvm_is_correctly_rounded(width: int) -> None:
    dtype = {32: np.float32, 64: np.float64}[width]
    unsigned = {32: np.uint32, 64: np.uint64}[width]
    a, b = floats(width, 100000, 5), floats(width, 100000, 6)
    with np.errstate(all="ignore"):
        want = a.astype(unsigned).view(dtype) / b.astype(unsigned).view(dtype)
    same(numeric(f"divide_f{width}", a, b), want.view(unsigned).astype(np.uint64), width)
