"""The matrix instructions against matrix_model.py."""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache

import numpy as np
import pytest
from assembler import GFX, LLVM_MC
from harness import matrix_shape, run_matrix
from matrix_model import BITS, F8F6F4, Instruction, format_of, gather, multiply, numbers, parse
from pcode_values import encode


@lru_cache
def mnemonics() -> tuple[str, ...]:
    """Every matrix mnemonic in LLVM's own table of names."""
    library = next(LLVM_MC.parent.parent.glob("lib/libLLVM.so*"))
    text = subprocess.run(
        ["strings", "-n", "8", str(library)], capture_output=True, text=True, check=True
    ).stdout
    found = re.findall(
        r"\bv_(?:s?mfmac?|mfma|s?wmmac?|swmmac|wmma)_(?:scale_)?(?:f64|f32|f16|bf16|i32)_\d+x\d+x\d+\w*",
        text,
    )
    return tuple(sorted(set(found)))


def instructions() -> list[Instruction]:
    """The instructions of each chip: a mnemonic counts if LLVM prints it for some operands."""
    from assembler import matrix_encodings

    result = []
    for chip in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1200", "gfx1201"):
        for wave in (64,) if chip.startswith("gfx9") else (32, 64):
            result += [
                parse(name, chip, wave) for name in matrix_encodings(chip, wave, mnemonics())
            ]
    return result


ALL = instructions()
IDS = [f"{ins.chip}-w{ins.wave}-{ins.mnemonic}" for ins in ALL]


def modifiers_of(ins: Instruction) -> list[dict]:
    if ins.a == "f8f6f4":
        choices = [(0, 0), (1, 4), (2, 3), (3, 2), (4, 1), (4, 4), (0, 2)]
        select = {"op_sel": 1, "op_sel_hi": 2} if ins.scaled else {}
        return [
            dict(cbsz=a, blgp=b, **(select if n % 2 else {})) for n, (a, b) in enumerate(choices)
        ]
    if ins.kind == "mfma" and ins.acc == "f64":
        return [{"blgp": n} for n in ((0,) if ins.chip == "gfx90a" else (0, 3, 4))]
    if ins.kind == "mfma":
        broadcasts = [
            {"cbsz": n, "abid": (1 << n) - 1} for n in range(1, 5) if 1 << n <= ins.blocks
        ]
        return [{}, *broadcasts, *({"blgp": n} for n in range(1, 8))]
    if ins.kind == "smfmac":
        return [{"abid": n} for n in range(4)] + [{"cbsz": 1, "abid": 1}]
    result: list[dict] = [{}]
    if ins.acc == "i32":
        result = [{"neg_lo": n} for n in range(4)] + [{"neg_lo": 3, "clamp": True}]
    elif ins.a in ("f16", "bf16"):
        result += [{"neg_lo": 1, "neg_hi": 2}, {"neg_lo": 2, "neg_hi": 1}]
        if ins.kind == "wmma":
            result += [{"neg_lo": 4}, {"neg_hi": 4}, {"neg_lo": 5, "neg_hi": 6}]
    if ins.kind == "swmmac":
        result += [{"op_sel": n} for n in range(1, sets_of(ins))]
    elif ins.chip.startswith("gfx11") and BITS[ins.acc] == 16:
        result.append({"op_sel": 4})
    return result


def sets_of(ins: Instruction) -> int:
    lanes = 32 if BITS[ins.a] == 4 and ins.columns == 16 else ins.wave
    return 16 // (16 * ins.columns // lanes)


def small_integers(rng, count: int, name: str, chip: str) -> np.ndarray:
    """Codes of numbers whose products and sums are exact in every format."""
    values = rng.choice([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0], count)
    fmt = format_of(name, chip)
    table = {v: encode(float(v), fmt) for v in set(values.tolist())}
    return np.array([table[v] for v in values.tolist()], np.uint64)


def random_registers(rng, count: int, name: str, chip: str, exact: bool) -> np.ndarray:
    """`count` registers of 64 lanes, packed with elements of a format."""
    bits = BITS[name]
    if name in ("i8", "iu8", "iu4", "i32"):
        words = rng.integers(0, 1 << 32, (count, 64), dtype=np.uint64)
        return (words & np.uint64(0xFFFF) if name == "i32" else words).astype(np.uint32)
    if name == "f64":
        items = (
            rng.choice([-2.0, -1.0, 0.5, 1.0], (count // 2, 64))
            if exact
            else rng.standard_normal((count // 2, 64))
        ).view(np.uint64)
        return (
            np.stack([items & np.uint64(0xFFFFFFFF), items >> np.uint64(32)], 1)
            .reshape(count, 64)
            .astype(np.uint32)
        )
    total = count * 32 // bits
    if exact:
        codes = small_integers(rng, total * 64, name if name != "xf32" else "f32", chip).reshape(
            total, 64
        )
    elif name in ("f32", "xf32"):
        codes = (
            rng.standard_normal((total, 64)).astype(np.float32).view(np.uint32).astype(np.uint64)
        )
    elif name == "f16":
        codes = (
            rng.standard_normal((total, 64)).astype(np.float16).view(np.uint16).astype(np.uint64)
        )
    elif name == "bf16":
        codes = (
            rng.standard_normal((total, 64)).astype(np.float32).view(np.uint32) >> np.uint32(16)
        ).astype(np.uint64)
    else:
        codes = rng.integers(0, 1 << bits, (total, 64), dtype=np.uint64)
        finite = np.isfinite(numbers(codes, name, chip))
        codes = np.where(finite, codes, 0)
    lanes = [0] * 64
    for item in range(total - 1, -1, -1):
        lanes = [lane << bits | int(code) for lane, code in zip(lanes, codes[item], strict=False)]
    return np.array(
        [[lane >> 32 * r & 0xFFFFFFFF for lane in lanes] for r in range(count)], np.uint32
    )


def operands(ins: Instruction, shape, rng, exact: bool, modifiers: dict) -> dict:
    formats = (
        (F8F6F4[modifiers["cbsz"]], F8F6F4[modifiers["blgp"]])
        if ins.a == "f8f6f4"
        else (ins.a, ins.b)
    )
    registers = lambda name, count: random_registers(rng, count, name, ins.chip, exact)  # noqa: E731
    sized = lambda name, count: {6: 6, 4: 4}.get(BITS[name], count) if ins.a == "f8f6f4" else count  # noqa: E731
    result = {
        "a": registers(formats[0], sized(formats[0], shape.a_registers)),
        "b": registers(formats[1], sized(formats[1], shape.b_registers)),
        "c": registers(ins.acc, shape.acc_registers),
    }
    if ins.a == "f8f6f4":  # the engine may be handed all eight registers
        for name in "ab":
            result[name] = np.vstack(
                [
                    result[name],
                    rng.integers(0, 1 << 32, (8 - len(result[name]), 64), dtype=np.uint64).astype(
                        np.uint32
                    ),
                ]
            )
    if ins.sparse:
        pairs = rng.choice([0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110], (8, 64))
        result["index"] = np.bitwise_or.reduce(pairs << (4 * np.arange(8))[:, None]).astype(
            np.uint32
        )
    if ins.scaled:
        for name in ("scale_a", "scale_b"):
            result[name] = rng.integers(125, 130, (4, 64)).astype(np.uint32)
            result[name] = np.bitwise_or.reduce(
                result[name] << (8 * np.arange(4, dtype=np.uint32))[:, None]
            )
    return result


def check(
    ins: Instruction, got: np.ndarray, ops: dict, before: np.ndarray, modifiers: dict, exact: bool
) -> None:
    """`got` are D's registers, `before` what they held."""
    model = multiply(ins, **ops, **modifiers)
    d = numbers(gather(got, model.lane, model.item, BITS[ins.acc]), ins.acc, ins.chip)
    if ins.acc == "i32":
        assert np.array_equal(d, model.d)
    elif exact:
        assert np.array_equal(d, model.d), (d[d != model.d][:5], model.d[d != model.d][:5])
    else:
        unit = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}[ins.acc]
        tolerance = (
            model.magnitude * 2.0**-23 * 4 + np.abs(model.d) * unit
            if ins.acc != "f64"
            else model.magnitude * unit * 4
        )
        # f16 results may overflow; small ones lose bits below 2^-24.
        finite = np.isfinite(d)
        assert (
            np.abs(d - model.d)[finite] <= tolerance[finite] + (2.0**-24 if ins.acc == "f16" else 0)
        ).all()
    # Registers that hold no element of D keep their bits.
    kept = np.full(got.shape, 0xFFFFFFFF, np.uint32)
    for lane, item in {
        (int(x), int(y)) for x, y in zip(model.lane.ravel(), model.item.ravel(), strict=False)
    }:
        bits = BITS[ins.acc]
        for word in range(item * bits // 32, (item * bits + bits + 31) // 32):
            kept[word, lane] &= (
                ~np.uint32((1 << bits) - 1 << item * bits % 32 & 0xFFFFFFFF)
                if bits < 32
                else np.uint32(0)
            )
    lanes = slice(0, ins.wave)
    assert np.array_equal(got[:, lanes] & kept[:, lanes], before[:, lanes] & kept[:, lanes])


@pytest.mark.parametrize("exact", (True, False), ids=("exact", "random"))
@pytest.mark.parametrize("ins", ALL, ids=IDS)
def test_matches_the_model(ins: Instruction, exact: bool) -> None:
    rng = np.random.default_rng(len(ins.mnemonic) + 2 * ins.k)
    shape = matrix_shape(ins.mnemonic, GFX[ins.chip], ins.wave)
    assert shape, ins.mnemonic
    for modifiers in modifiers_of(ins):
        ops = operands(ins, shape, rng, exact, modifiers)
        before = (
            ops["c"]
            if ins.sparse
            else rng.integers(0, 1 << 32, ops["c"].shape, dtype=np.uint64).astype(np.uint32)
        )
        got = run_matrix(ins.mnemonic, GFX[ins.chip], ins.wave, d=before, **ops, **modifiers)
        check(ins, got, ops, before, modifiers, exact)


def test_inline_constant_fills_c() -> None:
    shape = matrix_shape("v_mfma_f32_16x16x16_f16", GFX["gfx942"], 64)
    zero = np.zeros((2, 64), np.uint32)
    one = int(np.float32(1.0).view(np.uint32))
    got = run_matrix(
        "v_mfma_f32_16x16x16_f16",
        GFX["gfx942"],
        64,
        a=zero,
        b=zero,
        c=None,
        d=np.zeros((shape.acc_registers, 64)),
        c_is_constant=1,
        c_constant=one,
    )
    assert (got == one).all()


def test_gfx90a_flushes_denormals_of_16_bit_inputs() -> None:
    tiny = np.full((2, 64), 0x00010001, np.uint32)
    big = np.full((2, 64), 0x7BFF7BFF, np.uint32)
    zero = np.zeros((4, 64), np.uint32)
    for chip, flushed in (("gfx90a", True), ("gfx942", False)):
        name = "v_mfma_f32_16x16x16f16" if chip == "gfx90a" else "v_mfma_f32_16x16x16_f16"
        got = run_matrix(name, GFX[chip], 64, a=tiny, b=big, c=zero, d=zero)
        assert bool((got == 0).all()) == flushed


def test_unknown_names_are_refused() -> None:
    for name, chip, wave in (
        ("v_mfma_f32_16x16x16_f16", "gfx1100", 32),
        ("v_wmma_f32_16x16x16_f16", "gfx942", 64),
        ("v_mfma_f32", "gfx942", 64),
        ("v_add_f32", "gfx942", 64),
        ("v_mfma_f32_0x0x0_f16", "gfx942", 64),
    ):
        assert matrix_shape(name, GFX[chip], wave) is None
