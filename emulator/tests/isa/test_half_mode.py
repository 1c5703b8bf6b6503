"""f16 under MODE: rounding, denormals, FP16_OVFL, against exact rationals.

MODE: FP_ROUND of f16 and f64 in bits 3:2, FP_DENORM of f16 and f64 in bits 7:6 (6 keeps those of
sources, 7 those of results), FP16_OVFL in bit 23 (CDNA3 ISA 5.2, "MODE Register").
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from assembler import CHIPS, assemble, wave_sizes
from snippet import State, find_library, run

pytestmark = pytest.mark.skipif(find_library() is None, reason="the emulator is not built")

PLAIN = 0x3F0
UP, DOWN, ZERO = 1, 2, 3
RNG = np.random.default_rng(8)
# Normal numbers, denormals, both ends of the range; no infinities.
VALUES = np.concatenate(
    [
        RNG.standard_normal(40).astype(np.float16),
        RNG.integers(0, 0x400, 12).astype(np.uint16).view(np.float16),
        np.float16(
            [65504, -65504, 6.1e-5, -6.1e-5, 1.0, -1.0, 0.0, 2048, 3e-8, 60000, 33000, -3e-8]
        ),
    ]
)


def state_of(wave: int, mode: int, *registers: np.ndarray) -> State:
    state = State(wave)
    state.mode = mode
    for number, values in enumerate(registers):
        state.vgpr[number] = values
    return state


def halves(values: np.ndarray) -> np.ndarray:
    return values.view(np.uint16).astype(np.uint32)


def run_text(chip: str, text: str, state: State) -> None:
    (got,) = assemble(chip, state.wave, [text])
    assert got, text
    run(chip, got[1], state)


def rounded(exact: Fraction, mode: int) -> np.float16:
    """The half nearest to a number that is not zero, by rounding mode."""
    with np.errstate(over="ignore"):
        near = np.float16(float(exact))
    limit = np.float16(np.inf)
    at = Fraction(float(near)) if np.isfinite(near) else exact * 2
    toward_zero = near if abs(at) <= abs(exact) else np.nextafter(near, np.float16(0))
    if Fraction(float(toward_zero)) == exact:
        return toward_zero
    with np.errstate(over="ignore"):
        away = np.nextafter(toward_zero, limit if exact > 0 else -limit)
    if toward_zero == 0:
        away = np.copysign(np.float16(6e-8), np.float16(exact > 0) - np.float16(0.5))
        toward_zero = np.copysign(np.float16(0), away)
    if mode == ZERO:
        return toward_zero
    return away if (mode == UP) == (exact > 0) else toward_zero


OPERATIONS = {
    "v_add_f16_e32 v8, v0, v1": lambda a, b, c: a + b,
    "v_sub_f16_e32 v8, v0, v1": lambda a, b, c: a - b,
    "v_subrev_f16_e32 v8, v0, v1": lambda a, b, c: b - a,
    "v_mul_f16_e32 v8, v0, v1": lambda a, b, c: a * b,
    "v_fma_f16 v8, v0, v1, v2": lambda a, b, c: a * b + c,
    "v_pk_add_f16 v8, v0, v1": lambda a, b, c: a + b,
    "v_pk_mul_f16 v8, v0, v1": lambda a, b, c: a * b,
    "v_pk_fma_f16 v8, v0, v1, v2": lambda a, b, c: a * b + c,
}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("mode", [UP, DOWN, ZERO])
def test_directed_rounding(chip: str, mode: int) -> None:
    wave = wave_sizes(chip)[-1]
    a, b, c = (RNG.permutation(VALUES) for _ in range(3))
    for text, operation in OPERATIONS.items():
        pair = "_pk_" in text
        packed = [
            halves(x) | halves(x[::-1].copy()) << 16 if pair else halves(x) for x in (a, b, c)
        ]
        state = state_of(wave, PLAIN | mode << 2, *packed)
        run_text(chip, text, state)
        for lane in range(wave):
            for half, at in ((0, lane), (16, 63 - lane))[: 2 if pair else 1]:
                x, y, z = (Fraction(float(v[at])) for v in (a, b, c))
                exact = operation(x, y, z)
                if exact == 0:
                    continue
                have = np.uint16(state.vgpr[8, lane] >> half & 0xFFFF).view(np.float16)
                want = rounded(exact, mode)
                assert have == want, (text, lane, x, y, z, float(exact))


@pytest.mark.parametrize("chip", CHIPS)
def test_conversions_round_as_the_mode_says(chip: str) -> None:
    wave = wave_sizes(chip)[0]
    values = (RNG.standard_normal(64) * 1000).astype(np.float32)
    for mode in (UP, DOWN, ZERO):
        state = state_of(
            wave, PLAIN | mode << 2, values.view(np.uint32), np.full(64, 40001, np.uint32)
        )
        run_text(chip, "v_cvt_f16_f32_e32 v8, v0", state)
        run_text(chip, "v_cvt_f16_u16_e32 v9, v1", state)
        have = state.vgpr[8].astype(np.uint16).view(np.float16)
        for lane in range(wave):
            assert have[lane] == rounded(Fraction(float(values[lane])), mode)
        got = np.uint16(state.vgpr[9, 0] & 0xFFFF).view(np.float16)
        assert got == (40032 if mode == UP else 40000)


TINY = np.uint16(0x0201).view(np.float16)  # a denormal
SMALL = np.uint16(0x0400).view(np.float16)  # the smallest normal number


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("flush", ["sources", "results"])
def test_denormals_are_flushed(chip: str, flush: str) -> None:
    wave = wave_sizes(chip)[0]
    mode = PLAIN & ~(0x40 if flush == "sources" else 0x80)
    num = "_num" if chip.startswith("gfx12") else ""
    fill = lambda x: np.full(64, halves(np.array([x]))[0] * 0x10001, np.uint32)  # noqa: E731
    sources, results = flush == "sources", flush == "results"
    # text, registers, what is left of the result
    for text, registers, want in (
        ("v_add_f16_e32 v8, v0, v1", (TINY, SMALL), SMALL if sources else SMALL + TINY),
        ("v_add_f16_e32 v8, v0, v1", (-SMALL, SMALL + TINY), 0 if results else TINY),
        ("v_mul_f16_e32 v8, v0, v1", (TINY, np.float16(1)), 0),
        ("v_pk_add_f16 v8, v0, v1", (TINY, SMALL), SMALL if sources else SMALL + TINY),
        (f"v_max{num}_f16_e32 v8, v0, v1", (TINY, -SMALL), 0),
        (f"v_pk_max{num}_f16 v8, v0, v1", (TINY, -SMALL), 0),
    ):
        state = state_of(wave, mode, *(fill(np.float16(x)) for x in registers))
        run_text(chip, text, state)
        have = state.vgpr[8].astype(np.uint16).view(np.float16)
        assert np.all(have[:wave] == np.float16(want)), (text, have[0], want)
        if "_pk_" in text:
            high = (state.vgpr[8] >> 16).astype(np.uint16).view(np.float16)
            assert np.all(high[:wave] == np.float16(want)), (text, high[0])


@pytest.mark.parametrize("chip", CHIPS)
def test_compares_and_conversions_see_flushed_sources(chip: str) -> None:
    wave = wave_sizes(chip)[0]
    for mode, kept in ((PLAIN, True), (PLAIN & ~0x40, False), (PLAIN & ~0x30, True)):
        state = state_of(wave, mode, np.full(64, 0x0201, np.uint32), np.zeros(64, np.uint32))
        run_text(chip, "v_cvt_f32_f16_e32 v8, v0", state)
        want = np.float32(TINY) if kept else np.float32(0)
        assert state.vgpr[8, 0] == want.view(np.uint32), hex(mode)
        run_text(chip, f"v_cmp_gt_f16_e32 {'vcc' if wave == 64 else 'vcc_lo'}, v0, v1", state)
        assert (state.vcc & 1 == 1) == kept, hex(mode)


@pytest.mark.parametrize("chip", [chip for chip in CHIPS if chip != "gfx90a"])
def test_mixed_precision_keeps_f16_denormals_where_f32_ones_are_flushed(chip: str) -> None:
    wave = wave_sizes(chip)[0]
    name = "v_mad_mix_f32" if chip == "gfx90a" else "v_fma_mix_f32"
    state = state_of(
        wave,
        PLAIN & ~0x30,
        np.full(64, 0x0201, np.uint32),
        np.full(64, np.float32(1).view(np.uint32)),
        np.zeros(64, np.uint32),
    )
    run_text(chip, f"{name} v8, v0, v1, v2 op_sel_hi:[1,0,0]", state)
    assert state.vgpr[8, 0] == np.float32(TINY).view(np.uint32)


@pytest.mark.parametrize("chip", CHIPS)
def test_overflow_stays_finite_if_the_mode_says_so(chip: str) -> None:
    wave = wave_sizes(chip)[0]
    big, two, infinite = 0x7B00, 0x4000, 0x7C00
    for ovfl in (False, True):
        mode, top = PLAIN | ovfl << 23, 0x7BFF if ovfl else 0x7C00
        for text, registers, want in (
            ("v_mul_f16_e32 v8, v0, v1", (big, two), top),
            ("v_mul_f16_e32 v8, v0, v1", (infinite, two), infinite),
            ("v_add_f16_e32 v8, v0, v1", (big | 0x8000, big | 0x8000), top | 0x8000),
            ("v_pk_mul_f16 v8, v0, v1", (big * 0x10001, two * 0x10001), top * 0x10001),
            ("v_cvt_f16_f32_e32 v8, v0", (int(np.float32(1e6).view(np.uint32)),), top),
            ("v_rcp_f16_e32 v8, v0", (0,), infinite),
        ):
            state = state_of(wave, mode, *(np.full(64, x, np.uint32) for x in registers))
            run_text(chip, text, state)
            have = int(state.vgpr[8, 0]) & (0xFFFFFFFF if "_pk_" in text else 0xFFFF)
            assert have == want, (text, ovfl, hex(have))
