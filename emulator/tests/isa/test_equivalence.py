"""Dual instructions and scratch memory against single instructions, which test_oracle.py covers."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from assembler import CHIPS, assemble, wave_sizes
from snippet import State, find_library, run

pytestmark = pytest.mark.skipif(find_library() is None, reason="the emulator is not built")

DUAL = [
    "fmac_f32",
    "fmaak_f32",
    "fmamk_f32",
    "mul_f32",
    "add_f32",
    "sub_f32",
    "subrev_f32",
    "mul_dx9_zero_f32",
    "mov_b32",
    "cndmask_b32",
    "max_f32",
    "min_f32",
    "max_num_f32",
    "min_num_f32",
    "dot2acc_f32_f16",
    "dot2acc_f32_bf16",
    "add_nc_u32",
    "lshlrev_b32",
    "and_b32",
]
LITERAL = "0x40490fdb"


def half(name: str, dst: str, a: str, b: str, *, single: bool) -> str:
    """One operation, as half of a pair or alone."""
    mnemonic = name if single else f"dual_{name}"
    if name == "mov_b32":
        return f"v_{mnemonic} {dst}, {a}"
    if name == "fmaak_f32":
        return f"v_{mnemonic} {dst}, {a}, {b}, {LITERAL}"
    if name == "fmamk_f32":
        return f"v_{mnemonic} {dst}, {a}, {LITERAL}, {b}"
    if name == "cndmask_b32":
        return f"v_{mnemonic} {dst}, {a}, {b}" + ", vcc_lo"
    return f"v_{mnemonic} {dst}, {a}, {b}"


@pytest.mark.parametrize("chip", ("gfx1100", "gfx1151", "gfx1200", "gfx1201"))
def test_dual_instructions_do_what_two_do(chip: str) -> None:
    pairs = [
        (
            x,
            y,
            half(x, "v8", "v1", "v2", single=False)
            + " :: "
            + half(y, "v9", "v4", "v7", single=False),
        )
        for x, y in itertools.product(DUAL, DUAL)
    ]
    pairs += [
        (
            x,
            y,
            half(x, "v8", "s4", "v2", single=False)
            + " :: "
            + half(y, "v9", "v4", "v7", single=False),
        )
        for x, y in itertools.product(DUAL[3:6], DUAL)
    ]
    dual = assemble(chip, 32, [text for _, _, text in pairs])
    singles = {
        (name, first): assemble(
            chip,
            32,
            [half(name, *("v8", first, "v2") if place == 0 else ("v9", first, "v7"), single=True)],
        )[0]
        for name in DUAL
        for place, first in ((0, "v1"), (1, "v4"), (0, "s4"))
    }
    seen = 0
    for (x, y, text), got in zip(pairs, dual, strict=False):
        one, two = singles[x, "s4" if "s4" in text else "v1"], singles[y, "v4"]
        if not got or not one or not two:
            continue
        seen += 1
        rng = np.random.default_rng(seen)
        state = State(32)
        state.vgpr[:16] = (rng.standard_normal((16, 64)) * 4).astype(np.float32).view(np.uint32)
        state.sgpr[4] = np.float32(1.25).view(np.uint32)
        state.vcc = int(rng.integers(0, 1 << 32))
        state.exec = int(rng.integers(0, 1 << 32)) | 1
        want = state.copy()
        for code in (one[1], two[1]):
            run(chip, code, want)
        run(chip, got[1], state)
        assert np.array_equal(state.vgpr[:16], want.vgpr[:16]), text
    assert seen > 150


def scalar_base(chip: str) -> str:
    """gfx90a has no scratch instructions without an address register; s4 holds 0 here."""
    return "s4" if chip == "gfx90a" else "off"


@pytest.mark.parametrize(
    ("chip", "wave"), [(chip, wave) for chip in CHIPS for wave in wave_sizes(chip)]
)
def test_scratch_gives_back_what_was_stored(chip: str, wave: int) -> None:
    old = chip.startswith(("gfx9", "gfx10"))
    names = {
        1: ("dword", "b32"),
        2: ("dwordx2", "b64"),
        3: ("dwordx3", "b96"),
        4: ("dwordx4", "b128"),
    }
    for words, spellings in names.items():
        size = spellings[0] if old else spellings[1]
        data = "v4" if words == 1 else f"v[4:{3 + words}]"
        back = "v10" if words == 1 else f"v[10:{9 + words}]"
        base = scalar_base(chip)
        encoded = assemble(
            chip,
            wave,
            [
                f"scratch_store_{size} off, {data}, {base} offset:64",
                f"scratch_load_{size} {back}, off, {base} offset:64",
            ],
        )
        assert all(encoded)
        rng = np.random.default_rng(words)
        state = State(wave)
        state.vgpr[:16] = rng.integers(0, 1 << 32, (16, 64), dtype=np.uint64).astype(np.uint32)
        want = state.vgpr[4 : 4 + words].copy()
        run(chip, b"".join(code for _, code in filter(None, encoded)), state)
        assert np.array_equal(state.vgpr[10 : 10 + words, :wave], want[:, :wave])


@pytest.mark.parametrize(
    ("chip", "wave"), [(chip, wave) for chip in CHIPS for wave in wave_sizes(chip)]
)
def test_scratch_bytes_are_private_to_lanes(chip: str, wave: int) -> None:
    old = chip.startswith(("gfx9", "gfx10"))
    byte, load = ("byte", "ubyte") if old else ("b8", "u8")
    base = scalar_base(chip)
    lines = [f"scratch_store_{byte} off, v{4 + n}, {base} offset:{32 + n}" for n in range(4)]
    lines += [
        f"scratch_load_{'dword' if old else 'b32'} v10, off, {base} offset:32",
        f"scratch_load_{load} v11, off, {base} offset:34",
    ]
    encoded = assemble(chip, wave, lines)
    assert all(encoded)
    state = State(wave)
    state.vgpr[:16] = (
        np.random.default_rng(5).integers(0, 1 << 32, (16, 64), dtype=np.uint64).astype(np.uint32)
    )
    low = state.vgpr[4:8] & np.uint32(0xFF)
    want = low[0] | low[1] << np.uint32(8) | low[2] << np.uint32(16) | low[3] << np.uint32(24)
    run(chip, b"".join(code for _, code in filter(None, encoded)), state)
    assert np.array_equal(state.vgpr[10, :wave], want[:wave])
    assert np.array_equal(state.vgpr[11, :wave], low[2, :wave])


def test_pairs_are_spelled_as_llvm_prints_them() -> None:
    (got,) = assemble("gfx1100", 32, ["v_dual_mul_f32 v8, v1, v2 :: v_dual_mov_b32 v9, v4"])
    assert got and re.match(r"v_dual_mul_f32 v8, v1, v2 :: v_dual_mov_b32 v9, v4", got[0])
