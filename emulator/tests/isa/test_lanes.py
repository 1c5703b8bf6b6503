"""Movement between lanes, and the modifiers of operands and results, against models in numpy.

DPP: RDNA3 ISA 15.3.8 "DPP16", Vega ISA 4.5.4; SDWA: Vega ISA 13.3.9; DS_SWIZZLE: GCN3 ISA 12.15.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from assembler import CHIPS, assemble, wave_sizes
from snippet import State, find_library, run

pytestmark = pytest.mark.skipif(find_library() is None, reason="the emulator is not built")

WAVES = [(chip, wave) for chip in CHIPS for wave in wave_sizes(chip)]


def fresh(wave: int, seed: int = 0, floats: bool = False) -> State:
    rng = np.random.default_rng(seed)
    state = State(wave)
    if floats:
        state.vgpr[:16] = (rng.standard_normal((16, 64)) * 8).astype(np.float32).view(np.uint32)
    else:
        state.vgpr[:16] = rng.integers(0, 1 << 32, (16, 64), dtype=np.uint64).astype(np.uint32)
    return state


def executed(chip: str, wave: int, text: str, state: State) -> State:
    (got,) = assemble(chip, wave, [text])
    assert got, text
    run(chip, got[1], state)
    return state


def accepted(chip: str, wave: int, texts: list[str]) -> dict[str, bytes]:
    """The bytes of those that LLVM takes, by their texts: one process for all."""
    found = assemble(chip, wave, texts)
    return {text: got[1] for text, got in zip(texts, found, strict=False) if got}


# ---- DPP ----
def dpp_source(control: str, lane: int, wave: int) -> int | None:
    """The lane that `lane` reads; None where there is none."""
    name, _, argument = control.partition(":")
    row, place = lane // 16 * 16, lane % 16
    if name == "quad_perm":
        return lane // 4 * 4 + [int(x) for x in argument.strip("[]").split(",")][lane % 4]
    n = int(argument) if argument.isdigit() else 0
    if name == "row_shl":
        return row + place + n if place + n < 16 else None
    if name == "row_shr":
        return row + place - n if place >= n else None
    if name == "row_ror":
        return row + (place - n) % 16
    if name == "row_mirror":
        return row + 15 - place
    if name == "row_half_mirror":
        return lane // 8 * 8 + 7 - lane % 8
    if name in ("row_share", "row_newbcast"):
        return row + n
    if name == "row_xmask":
        return row + (place ^ n)
    if name == "wave_shl":
        return lane + 1 if lane + 1 < wave else None
    if name == "wave_shr":
        return lane - 1 if lane else None
    if name == "wave_rol":
        return (lane + 1) % wave
    if name == "wave_ror":
        return (lane - 1) % wave
    if name == "row_bcast":
        size = n + 1
        return (
            lane // size * size - 1
            if lane >= size and (n == 31 or lane // 16 % 2 == 1 or True)
            else None
        )
    raise AssertionError(control)


CONTROLS = [
    "quad_perm:[3,1,0,2]",
    "quad_perm:[1,1,3,3]",
    *(f"row_{way}:{n}" for way in ("shl", "shr", "ror") for n in (1, 7, 15)),
    "row_mirror",
    "row_half_mirror",
    "row_share:5",
    "row_newbcast:5",
    "row_xmask:6",
    "wave_shl:1",
    "wave_shr:1",
    "wave_rol:1",
    "wave_ror:1",
]
OPTIONS = [
    "",
    " bound_ctrl:1",
    " row_mask:0x5 bank_mask:0xa",
    " row_mask:0xa bank_mask:0x3 bound_ctrl:1",
]


def dpp_expected(state: State, control: str, options: str) -> np.ndarray:
    wave = state.wave
    row_mask = int(m[1], 16) if (m := re.search(r"row_mask:(\w+)", options)) else 15
    bank_mask = int(m[1], 16) if (m := re.search(r"bank_mask:(\w+)", options)) else 15
    zero, inactive = "bound_ctrl:1" in options, " fi:1" in options
    want = state.vgpr[1].copy()
    for lane in range(wave):
        if (
            not state.exec >> lane & 1
            or not row_mask >> lane // 16 & 1
            or not bank_mask >> lane // 4 % 4 & 1
        ):
            continue
        source = dpp_source(control, lane, wave)
        if source is not None and (inactive or state.exec >> source & 1):
            want[lane] = state.vgpr[0, source]
        elif zero:
            want[lane] = 0
    return want


@pytest.mark.parametrize(("chip", "wave"), WAVES)
def test_dpp16_moves(chip: str, wave: int) -> None:
    texts = [
        f"v_mov_b32_dpp v1, v0 {control}{options}" for control in CONTROLS for options in OPTIONS
    ]
    if not chip.startswith("gfx9"):
        texts += [f"v_mov_b32_dpp v1, v0 {control} fi:1" for control in CONTROLS]
    usable = accepted(chip, wave, texts)
    assert len(usable) > 30
    for n, (text, code) in enumerate(usable.items()):
        control, _, options = text.removeprefix("v_mov_b32_dpp v1, v0 ").partition(" ")
        state = fresh(wave, n)
        state.exec &= (1 << wave) - 1 if n % 2 else 0x0FF3_5F0F_FFFF_3CF1
        want = dpp_expected(state, control, " " + options)
        run(chip, code, state)
        got = state.vgpr[1]
        assert np.array_equal(got[:wave], want[:wave]), (
            text,
            np.flatnonzero(got[:wave] != want[:wave])[:8],
        )


@pytest.mark.parametrize(
    ("chip", "wave"), [(chip, wave) for chip, wave in WAVES if not chip.startswith("gfx9")]
)
def test_dpp8_moves(chip: str, wave: int) -> None:
    choice = [7, 2, 0, 3, 3, 6, 1, 4]
    for suffix, inactive in (("", False), (" fi:1", True)):
        state = fresh(wave)
        state.exec &= 0x0FF3_5F0F_FFFF_3CF1
        want = state.vgpr[1].copy()
        for lane in range(wave):
            if state.exec >> lane & 1:
                source = lane // 8 * 8 + choice[lane % 8]
                want[lane] = state.vgpr[0, source] if inactive or state.exec >> source & 1 else 0
        got = executed(
            chip, wave, f"v_mov_b32_dpp v1, v0 dpp8:{choice}{suffix}".replace(" ", " "), state
        ).vgpr[1]
        assert np.array_equal(got[:wave], want[:wave])


@pytest.mark.parametrize(("chip", "wave"), [(chip, 64) for chip in ("gfx90a", "gfx942", "gfx950")])
def test_row_broadcasts_of_gfx9(chip: str, wave: int) -> None:
    for n, rows in ((15, 0b1010), (31, 0b1100)):
        state = fresh(wave)
        want = state.vgpr[1].copy()
        for lane in range(64):
            if rows >> lane // 16 & 1:
                want[lane] = state.vgpr[0, lane // (n + 1) * (n + 1) - 1]
        got = executed(
            chip, wave, f"v_mov_b32_dpp v1, v0 row_bcast:{n} row_mask:{rows:#x}", state
        ).vgpr[1]
        assert np.array_equal(got, want), n


@pytest.mark.parametrize(("chip", "wave"), WAVES)
def test_dpp_feeds_arithmetic(chip: str, wave: int) -> None:
    state = fresh(wave, floats=True)
    a, b = state.vgpr[0].view(np.float32).copy(), state.vgpr[2].view(np.float32).copy()
    got = executed(chip, wave, "v_add_f32_dpp v1, v0, v2 row_ror:3", state).vgpr[1].view(np.float32)
    lanes = np.arange(wave)
    assert np.array_equal(got[:wave], a[lanes // 16 * 16 + (lanes - 3) % 16] + b[:wave])


# ---- SDWA ----
SELECT = {
    "BYTE_0": (0, 8),
    "BYTE_1": (8, 8),
    "BYTE_2": (16, 8),
    "BYTE_3": (24, 8),
    "WORD_0": (0, 16),
    "WORD_1": (16, 16),
    "DWORD": (0, 32),
}


def selected(state: State, register: int, name: str) -> np.ndarray:
    low, width = SELECT[name]
    return state.vgpr[register].astype(np.int64) >> low & (1 << width) - 1


@pytest.mark.parametrize(
    ("chip", "wave"), [(chip, wave) for chip, wave in WAVES if chip.startswith(("gfx9", "gfx10"))]
)
def test_sdwa_selects_parts(chip: str, wave: int) -> None:
    mnemonic = "v_add_u32_sdwa" if chip.startswith("gfx9") else "v_add_nc_u32_sdwa"
    for n, (dst, (low, width)) in enumerate(SELECT.items()):
        for unused in ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"):
            a_select, b_select = list(SELECT)[(n + 3) % 7], list(SELECT)[(n + 5) % 7]
            state = fresh(wave, n)
            total = (selected(state, 0, a_select) + selected(state, 2, b_select)) & (1 << width) - 1
            old = state.vgpr[1].astype(np.int64)
            if unused == "UNUSED_PRESERVE":
                want = (old & ~((1 << width) - 1 << low)) | total << low
            elif unused == "UNUSED_SEXT" and width < 32:
                want = ((total - (total >> width - 1 << width)) << low) & 0xFFFFFFFF
            else:
                want = total << low
            text = f"{mnemonic} v1, v0, v2 dst_sel:{dst} dst_unused:{unused}"
            text += f" src0_sel:{a_select} src1_sel:{b_select}"
            got = executed(chip, wave, text, state).vgpr[1].astype(np.int64)
            assert np.array_equal(got[:wave], want[:wave]), text


@pytest.mark.parametrize(
    ("chip", "wave"), [(chip, wave) for chip, wave in WAVES if chip.startswith(("gfx9", "gfx10"))]
)
def test_sdwa_extends_signs(chip: str, wave: int) -> None:
    state = fresh(wave)
    want = (state.vgpr[0].view(np.int32) << 16 >> 24).view(np.uint32)
    got = executed(
        chip,
        wave,
        "v_mov_b32_sdwa v1, sext(v0) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1",
        state,
    ).vgpr[1]
    assert np.array_equal(got[:wave], want[:wave])


# ---- modifiers of floats ----
MODIFIED: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "v_add_f32_e64 v1, -v0, v2": lambda a, b: -a + b,
    "v_add_f32_e64 v1, |v0|, -|v2|": lambda a, b: abs(a) - abs(b),
    "v_mul_f32_e64 v1, v0, -v2 clamp": lambda a, b: np.clip(a * -b, 0, 1),
    "v_add_f32_e64 v1, v0, v2 mul:2": lambda a, b: (a + b) * np.float32(2),
    "v_add_f32_e64 v1, v0, v2 mul:4": lambda a, b: (a + b) * np.float32(4),
    "v_add_f32_e64 v1, v0, v2 div:2": lambda a, b: (a + b) * np.float32(0.5),
    "v_max_f32_e64 v1, -v0, |v2|": lambda a, b: np.maximum(-a, abs(b)),
}


@pytest.mark.parametrize(("chip", "wave"), WAVES)
def test_float_modifiers(chip: str, wave: int) -> None:
    for text, model in MODIFIED.items():
        if chip.startswith("gfx12"):
            text = text.replace("v_max_f32", "v_max_num_f32")
        state = fresh(wave, floats=True)
        state.mode = 0x3C0  # output modifiers work where f32 denormals are flushed
        want = model(state.vgpr[0].view(np.float32), state.vgpr[2].view(np.float32))
        got = executed(chip, wave, text, state).vgpr[1].view(np.float32)
        assert np.array_equal(got[:wave], want[:wave]), text


@pytest.mark.parametrize(("chip", "wave"), WAVES)
def test_packed_f16_halves_and_signs(chip: str, wave: int) -> None:
    state = fresh(wave)
    state.vgpr[:4] = (
        np.random.default_rng(3).standard_normal((4, 128)).astype(np.float16).view(np.uint32)
    )
    a, b = (state.vgpr[r].view(np.float16).reshape(64, 2).astype(np.float32) for r in (0, 2))
    want = np.stack([a[:, 1] * -b[:, 0], -a[:, 0] * b[:, 1]], 1).astype(np.float16)
    text = "v_pk_mul_f16 v1, v0, v2 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[0,1] neg_hi:[1,0]"
    got = executed(chip, wave, text, state).vgpr[1].view(np.float16).reshape(64, 2)
    assert np.array_equal(got[:wave], want[:wave])


@pytest.mark.parametrize("chip", ("gfx90a", "gfx942", "gfx1100", "gfx1200"))
def test_rounding_mode_of_f32(chip: str) -> None:
    wave = wave_sizes(chip)[0]
    for mode, shift in ((1, np.inf), (2, -np.inf), (3, 0)):
        state = fresh(wave, floats=True)
        state.mode = 0x3F0 | mode
        a, b = (state.vgpr[r].view(np.float32).astype(np.float64) for r in (0, 2))
        exact = a * b  # fits f64
        nearest = exact.astype(np.float32)
        want = (
            np.where(nearest > exact, np.nextafter(nearest, np.float32(-np.inf)), nearest)
            if shift == -np.inf
            else nearest
        )
        if shift == np.inf:
            want = np.where(nearest < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)
        elif shift == 0:
            want = np.where(
                abs(nearest) > abs(exact), np.nextafter(nearest, np.float32(0)), nearest
            )
        got = executed(chip, wave, "v_mul_f32_e32 v1, v0, v2", state).vgpr[1].view(np.float32)
        assert np.array_equal(got[:wave], want[:wave].astype(np.float32)), mode


# ---- LDS swizzles ----
def swizzle_source(offset: int, lane: int) -> int:
    group, place = lane // 32 * 32, lane % 32
    if offset & 0x8000:  # quad permute
        return lane // 4 * 4 + (offset >> 2 * (lane % 4) & 3)
    and_mask, or_mask, xor_mask = offset & 31, offset >> 5 & 31, offset >> 10 & 31
    return group + (((place & and_mask) | or_mask) ^ xor_mask)


@pytest.mark.parametrize(("chip", "wave"), WAVES)
def test_ds_swizzle(chip: str, wave: int) -> None:
    for offset in (0x801F, 0x80E4, 0x8039, 0x041F, 0x7C1F, 0x00A0, 0x3E07):
        state = fresh(wave, offset)
        want = state.vgpr[0][[swizzle_source(offset, lane) for lane in range(wave)]]
        got = executed(chip, wave, f"ds_swizzle_b32 v1, v0 offset:{offset:#x}", state).vgpr[1]
        assert np.array_equal(got[:wave], want), hex(offset)


# ---- permlane with its op_sel bits; accumulation registers; dual instructions ----
@pytest.mark.parametrize(
    ("chip", "wave"), [(chip, wave) for chip, wave in WAVES if not chip.startswith("gfx9")]
)
def test_permlane16_and_inactive_lanes(chip: str, wave: int) -> None:
    for op_sel, inactive, zero in (
        ("", False, False),
        (" op_sel:[1,0]", True, False),
        (" op_sel:[0,1]", False, True),
    ):
        for name, other in (("v_permlane16_b32", 0), ("v_permlanex16_b32", 16)):
            state = fresh(wave)
            state.exec &= 0xFFFF_0FF3_5F0F_3CF1
            state.sgpr[2], state.sgpr[3] = 0x76543210 ^ 0x31323334, 0xFEDCBA98 ^ 0x13131313
            choice = int(state.sgpr[2]) | int(state.sgpr[3]) << 32
            want = state.vgpr[1].copy()
            for lane in range(wave):
                if state.exec >> lane & 1:
                    source = (lane // 16 * 16 ^ other) + (choice >> 4 * (lane % 16) & 15)
                    if inactive or state.exec >> source & 1:
                        want[lane] = state.vgpr[0, source]
                    elif zero:
                        want[lane] = 0
            got = executed(chip, wave, f"{name} v1, v0, s2, s3{op_sel}", state).vgpr[1]
            assert np.array_equal(got[:wave], want[:wave]), name + op_sel


@pytest.mark.parametrize("chip", ("gfx90a", "gfx942", "gfx950"))
def test_accumulation_registers(chip: str) -> None:
    state = fresh(64)
    want = state.vgpr[0].copy()
    executed(chip, 64, "v_accvgpr_write_b32 a5, v0", state)
    assert np.array_equal(state.vgpr[256 + 5], want)
    executed(chip, 64, "v_accvgpr_read_b32 v9, a5", state)
    assert np.array_equal(state.vgpr[9], want)


@pytest.mark.parametrize(
    ("chip", "wave"), [(chip, 32) for chip in ("gfx1100", "gfx1151", "gfx1200", "gfx1201")]
)
def test_dual_instructions_read_before_they_write(chip: str, wave: int) -> None:
    state = fresh(wave, floats=True)
    v = state.vgpr.view(np.float32).copy()
    # Y reads what X writes, and gets the old value.
    executed(chip, wave, "v_dual_mul_f32 v0, v1, v2 :: v_dual_add_f32 v3, v0, v5", state)
    got = state.vgpr.view(np.float32)
    assert np.array_equal(got[0, :wave], (v[1] * v[2])[:wave])
    assert np.array_equal(got[3, :wave], (v[0] + v[5])[:wave])
    state = fresh(wave, floats=True)
    v = state.vgpr.view(np.float32).copy()
    executed(chip, wave, "v_dual_fmac_f32 v0, v1, v2 :: v_dual_mov_b32 v3, v4", state)
    assert np.allclose(
        state.vgpr.view(np.float32)[0, :wave], (v[1].astype(float) * v[2] + v[0])[:wave], rtol=1e-6
    )
    assert np.array_equal(state.vgpr[3, :wave].view(np.float32), v[4, :wave])


# ---- Truth tables ----
@pytest.mark.parametrize(
    "table", [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x6C, 0xC8, 0xE4]
)
def test_bitop3_takes_each_bit_from_its_truth_table(table: int) -> None:
    # The bits of the three sources, first one highest, index the table (CDNA4 ISA, V_BITOP3).
    state = fresh(64)
    a, b, c = (state.vgpr[i, :64].copy() for i in (1, 2, 3))
    expected = np.zeros(64, np.uint32)
    for index in range(8):
        if table >> index & 1:
            chosen = [v if index >> bit & 1 else ~v for v, bit in ((a, 2), (b, 1), (c, 0))]
            expected |= chosen[0] & chosen[1] & chosen[2]
    executed("gfx950", 64, f"v_bitop3_b32 v0, v1, v2, v3 bitop3:{table:#x}", state)
    np.testing.assert_array_equal(state.vgpr[0, :64], expected)
