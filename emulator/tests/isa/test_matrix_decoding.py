"""Matrix instructions assembled by LLVM: operands and modifiers reach matrix.h."""

from __future__ import annotations

import re

import numpy as np
import pytest
from assembler import GFX, assemble, matrix_encodings, register
from harness import matrix_shape
from matrix_model import BITS, F8F6F4, Instruction
from snippet import State, find_library, run
from test_matrix import ALL, IDS, check, mnemonics, modifiers_of, operands

pytestmark = pytest.mark.skipif(find_library() is None, reason="the emulator is not built")


def spelled(ins: Instruction, modifiers: dict, sizes: dict[str, int], acc: bool) -> str:
    """The assembly of an instruction with D in v64, A in v0, B in v16, C in v96."""
    letter = "a" if acc else "v"
    third = "v48" if ins.sparse else register(96, sizes["c"], letter)
    d, a, b = register(64, sizes["c"], letter), register(0, sizes["a"]), register(16, sizes["b"])
    text = f"{ins.mnemonic} {d}, {a}, {b}, {third}"
    if ins.scaled:
        text += ", v49, v50"
        for name in ("op_sel", "op_sel_hi"):
            bits = modifiers.get(name, 0)
            text += f" {name}:[{bits & 1},{bits >> 1 & 1},0]"
    elif "op_sel" in modifiers and ins.kind == "swmmac":
        text += f" index_key:{modifiers['op_sel']}"
    elif "op_sel" in modifiers:
        text += " op_sel:[0,0,1]"
    if ins.acc == "f64" and "blgp" in modifiers and ins.chip != "gfx90a":
        text += " neg:[" + ",".join(str(modifiers["blgp"] >> n & 1) for n in range(3)) + "]"
    else:
        text += "".join(
            f" {name}:{modifiers[name]}" for name in ("cbsz", "abid", "blgp") if modifiers.get(name)
        )
    for name in ("neg_lo", "neg_hi"):
        if modifiers.get(name):
            text += f" {name}:[" + ",".join(str(modifiers[name] >> n & 1) for n in range(3)) + "]"
    return text + (" clamp" if modifiers.get("clamp") else "")


def sizes_of(ins: Instruction, shape, modifiers: dict) -> dict[str, int]:
    sizes = {"a": shape.a_registers, "b": shape.b_registers, "c": shape.acc_registers}
    if ins.a == "f8f6f4":
        for name, key in (("a", "cbsz"), ("b", "blgp")):
            sizes[name] = {8: 8, 6: 6, 4: 4}[BITS[F8F6F4[modifiers[key]]]]
    return sizes


@pytest.mark.parametrize("ins", ALL, ids=IDS)
def test_engine_agrees_with_the_model(ins: Instruction) -> None:
    rng = np.random.default_rng(7)
    shape = matrix_shape(ins.mnemonic, GFX[ins.chip], ins.wave)
    choices = modifiers_of(ins)
    texts = [
        spelled(ins, modifiers, sizes_of(ins, shape, modifiers), acc=False) for modifiers in choices
    ]
    encoded = assemble(ins.chip, ins.wave, texts)
    assert any(encoded), texts[0]
    for modifiers, got in zip(choices, encoded, strict=False):
        if not got:  # a modifier this chip's assembler refuses
            continue
        ops = operands(ins, shape, rng, True, modifiers)
        state = State(ins.wave)
        state.vgpr[:256] = rng.integers(0, 1 << 32, (256, 64), dtype=np.uint64).astype(np.uint32)
        for name, at in (("a", 0), ("b", 16), ("c", 64 if ins.sparse else 96)):
            state.vgpr[at : at + len(ops[name])] = ops[name]
        for name, at in (("index", 48), ("scale_a", 49), ("scale_b", 50)):
            if name in ops:
                state.vgpr[at] = ops[name]
        before = state.vgpr[64 : 64 + len(ops["c"])].copy()
        run(ins.chip, got[1], state)
        check(ins, state.vgpr[64 : 64 + len(ops["c"])], ops, before, modifiers, True)


@pytest.mark.parametrize("chip", ("gfx90a", "gfx942", "gfx950"))
def test_accumulators_in_accumulation_registers(chip: str) -> None:
    name = "v_mfma_f32_32x32x8f16" if chip == "gfx90a" else "v_mfma_f32_32x32x8_f16"
    ins = next(i for i in ALL if i.chip == chip and i.mnemonic == name)
    shape = matrix_shape(name, GFX[chip], 64)
    ops = operands(ins, shape, np.random.default_rng(1), True, {})
    (got,) = assemble(chip, 64, [spelled(ins, {}, sizes_of(ins, shape, {}), acc=True)])
    assert got
    state = State(64)
    state.vgpr[0:2], state.vgpr[16:18], state.vgpr[256 + 96 : 256 + 112] = (
        ops["a"],
        ops["b"],
        ops["c"],
    )
    run(chip, got[1], state)
    check(ins, state.vgpr[256 + 64 : 256 + 80], ops, np.zeros((16, 64), np.uint32), {}, True)


@pytest.mark.parametrize("text,value", (("0", 0.0), ("1.0", 1.0), ("-4.0", -4.0)))
def test_inline_constant_accumulators(text: str, value: float) -> None:
    for chip, wave, line, kind in (
        ("gfx942", 64, "v_mfma_f32_16x16x16_f16 v[64:67], v[0:1], v[16:17], ", np.float32),
        ("gfx1100", 32, "v_wmma_f32_16x16x16_f16 v[64:71], v[0:7], v[16:23], ", np.float32),
        ("gfx1200", 32, "v_wmma_f16_16x16x16_f16 v[64:67], v[0:3], v[16:19], ", np.float16),
    ):
        (got,) = assemble(chip, wave, [line + text])
        assert got
        state = State(wave)
        run(chip, got[1], state)
        result = state.vgpr[64:68, :wave]
        assert (np.ascontiguousarray(result).view(kind) == kind(value)).all(), (chip, text)


def test_every_name_llvm_knows_is_covered() -> None:
    covered = {ins.mnemonic for ins in ALL}
    for chip, wave in (("gfx942", 64), ("gfx950", 64), ("gfx1100", 32), ("gfx1200", 64)):
        assert set(matrix_encodings(chip, wave, mnemonics())) <= covered
    assert all(re.match(r"v_(s?mfma|smfmac|wmma|swmmac)_", name) for name in covered)
