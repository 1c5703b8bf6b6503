"""Memory instructions whose pseudocode is prose, against models in numpy: typed buffers,
transposing and block loads, addresses by lane, scalar stores and atomics.

Formats are told by the names LLVM gives them, which list components from the highest bits down.
"""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from assembler import CHIPS, assemble, wave_sizes
from snippet import SnippetError, State, find_library, run

pytestmark = pytest.mark.skipif(find_library() is None, reason="the emulator is not built")

GFX9 = tuple(chip for chip in CHIPS if chip.startswith("gfx9"))
GFX12 = ("gfx1200", "gfx1201")
LAYOUTS = "8 16 8_8 32 16_16 10_11_11 11_11_10 10_10_10_2 2_10_10_10 8_8_8_8 32_32".split()
LAYOUTS += ["16_16_16_16", "32_32_32", "32_32_32_32"]
NUMBERS = ("UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "FLOAT")
COUNTS = {1: "x", 2: "xy", 3: "xyz", 4: "xyzw"}


def fresh(wave: int, seed: int) -> State:
    rng = np.random.default_rng(seed)
    state = State(wave)
    state.vgpr[:64] = rng.integers(0, 1 << 32, (64, 64), dtype=np.uint64).astype(np.uint32)
    state.memory[:] = rng.integers(0, 256, state.memory.size)
    return state


def descriptor(state: State, word3: int, stride: int = 0, size: int = 4096) -> None:
    """The whole memory as a buffer in s[84:87]."""
    base = state.memory_address
    state.sgpr[84:88] = [base & 0xFFFFFFFF, base >> 32 | stride << 16, size, word3]


def register(first: int, words: int, letter: str = "v") -> str:
    return f"{letter}{first}" if words == 1 else f"{letter}[{first}:{first + words - 1}]"


# ---- formats ----
def bits_of(layout: str) -> list[int]:
    return [int(x) for x in reversed(layout.split("_"))]


def exists(layout: str, number: str) -> bool:
    """Number formats that mean something for the layout."""
    widest = max(bits_of(layout))
    if number == "FLOAT":
        return widest in (16, 32) or layout in ("10_11_11", "11_11_10")
    return widest != 32 or number in ("UINT", "SINT")


def small_float(raw: int, bits: int) -> float:
    """11 and 10 bits: five of exponent, no sign."""
    fraction_bits = bits - 5
    exponent, fraction = raw >> fraction_bits, raw & (1 << fraction_bits) - 1
    if exponent == 31:
        return float("nan") if fraction else float("inf")
    scale = 2.0 ** (max(exponent, 1) - 15 - fraction_bits)
    return (fraction + ((1 << fraction_bits) if exponent else 0)) * scale


def decoded(raw: int, bits: int, number: str) -> int | float:
    top = (1 << bits) - 1
    signed = raw - (1 << bits) if raw >> bits - 1 else raw
    if number == "FLOAT":
        if bits == 32:
            return float(np.uint32(raw).view(np.float32))
        return float(np.uint16(raw).view(np.float16)) if bits == 16 else small_float(raw, bits)
    return {
        "UNORM": raw / top,
        "SNORM": max(signed / (top >> 1), -1.0),
        "USCALED": float(raw),
        "SSCALED": float(signed),
        "UINT": raw,
        "SINT": signed,
    }[number]


def elements(memory: bytes, layout: str, number: str) -> list[int | float]:
    """X, Y, Z, W; the missing ones are 0, 0, 1."""
    whole = int.from_bytes(memory, "little")
    values: list[int | float] = []
    for bits in bits_of(layout):
        values.append(decoded(whole & (1 << bits) - 1, bits, number))
        whole >>= bits
    return values + [0, 0, 0, 1][len(values) :]


def word(value: float, number: str) -> int:
    if number in ("UINT", "SINT"):
        return int(value) & 0xFFFFFFFF
    return int(np.float32(value).view(np.uint32))


def same(have: np.ndarray, want: list[int]) -> bool:
    """Bits, but any NaN is as good as another."""
    a, b = have.view(np.float32), np.array(want, np.uint32).view(np.float32)
    return bool(np.all((have == np.array(want, np.uint32)) | (np.isnan(a) & np.isnan(b))))


def typed(chip: str, name: str, data: str, layout: str, number: str) -> list[str]:
    """Spellings of a typed access at `v60` bytes; LLVM takes one of them."""
    if chip.startswith("gfx9"):
        form = f"format:[BUF_DATA_FORMAT_{layout},BUF_NUM_FORMAT_{number}]"
    else:
        form = f"format:[BUF_FMT_{layout}_{number}]"
    off = "null" if chip.startswith("gfx12") else "0"
    return [
        f"{name} {data}, v60, s[84:87], {form} {off} offen",
        f"{name} {data}, v60, s[84:87], {off} {form} offen",
        f"{name} {data}, v60, s[84:87], {off}, {form} offen",
    ]


def d16_name(chip: str, verb: str, count: str, kind: str = "t") -> str:
    middle = "format_d16" if chip.startswith(("gfx9", "gfx10")) else "d16_format"
    return f"{kind}buffer_{verb}_{middle}_{count}"


@pytest.mark.parametrize("chip", CHIPS)
def test_typed_loads_convert_every_format(chip: str) -> None:
    chosen = [(x, n) for x, n in product(LAYOUTS, NUMBERS) if exists(x, n)]
    spelled = [typed(chip, "tbuffer_load_format_xyzw", "v[8:11]", x, n) for x, n in chosen]
    got = assemble(chip, wave_sizes(chip)[0], [text for texts in spelled for text in texts])
    seen = 0
    for k, (layout, number) in enumerate(chosen):
        code = next((g[1] for g in got[3 * k : 3 * k + 3] if g and number in g[0]), None)
        if layout == "8" and number == "UNORM":  # the default: LLVM prints no format
            code = next((g[1] for g in got[3 * k : 3 * k + 3] if g), None)
        if code is None:
            continue
        seen += 1
        wave = wave_sizes(chip)[0]
        state = fresh(wave, k)
        size = sum(bits_of(layout)) // 8
        state.vgpr[60] = np.arange(64) * 16
        descriptor(state, 0)
        run(chip, code, state)
        for lane in (0, 1, wave - 1):
            raw = state.memory[16 * lane : 16 * lane + size].tobytes()
            want = [word(x, number) for x in elements(raw, layout, number)]
            assert same(state.vgpr[8:12, lane], want), (layout, number, lane)
    assert seen >= (40 if chip.startswith(("gfx9", "gfx10")) else 60)


def word3(chip: str, layout: str, number: str, select: list[int]) -> int:
    """The descriptor's last word: 0, 1, or 4 + the number of the component for each result."""
    low = sum(s << 3 * i for i, s in enumerate(select))
    if chip.startswith("gfx9"):
        data = {"8_8_8_8": 10, "16_16": 5, "32_32_32_32": 14}[layout]
        return low | data << 15 | (7 if number == "FLOAT" else NUMBERS.index(number)) << 12
    unified = {"8_8_8_8": (56, 42), "16_16": (29, 29), "32_32_32_32": (75, 61)}[layout]
    return low | unified[chip != "gfx1030"] << 12 | 3 << 28


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("layout", "number"), [("8_8_8_8", "UNORM"), ("16_16", "FLOAT"), ("32_32_32_32", "UINT")]
)
def test_the_descriptor_names_a_format_and_orders_components(
    chip: str, layout: str, number: str
) -> None:
    wave = wave_sizes(chip)[0]
    state = fresh(wave, 3)
    state.vgpr[60] = np.arange(64) * 16
    descriptor(state, word3(chip, layout, number, [5, 1, 4, 0]))
    off = "null" if chip.startswith("gfx12") else "0"
    (got,) = assemble(chip, wave, [f"buffer_load_format_xyzw v[8:11], v60, s[84:87], {off} offen"])
    assert got
    run(chip, got[1], state)
    size = sum(bits_of(layout)) // 8
    for lane in (0, 7, wave - 1):
        raw = state.memory[16 * lane : 16 * lane + size].tobytes()
        x, y, *_ = elements(raw, layout, number)
        want = [word(v, number) for v in (y, 1, x, 0)]
        assert same(state.vgpr[8:12, lane], want)


@pytest.mark.parametrize("chip", CHIPS)
def test_half_precision_results_are_packed(chip: str) -> None:
    wave = wave_sizes(chip)[0]
    for count, letters in COUNTS.items():
        data = register(8, (count + 1) // 2)
        texts = typed(chip, d16_name(chip, "load", letters), data, "16_16_16_16", "UNORM")
        code = next(got[1] for got in assemble(chip, wave, texts) if got)
        state = fresh(wave, count)
        state.vgpr[60] = np.arange(64) * 16
        descriptor(state, 0)
        old = state.vgpr[8:10].copy()
        run(chip, code, state)
        for lane in (0, 5):
            values = elements(
                state.memory[16 * lane : 16 * lane + 8].tobytes(), "16_16_16_16", "UNORM"
            )
            halves = old[:, lane].copy().view(np.uint16)
            halves[:count] = np.float32(values[:count]).astype(np.float16).view(np.uint16)
            assert np.array_equal(state.vgpr[8:10, lane].copy().view(np.uint16), halves)


STORED = {
    "UNORM": ([0.0, 0.25, 1.5, -1.0], lambda v, b: round(min(max(v, 0), 1) * ((1 << b) - 1))),
    "SNORM": ([-2.0, 0.5, 1.0, -0.25], lambda v, b: round(min(max(v, -1), 1) * ((1 << b - 1) - 1))),
    "USCALED": ([3.6, -7.0, 1e9, 12.0], lambda v, b: round(min(max(v, 0), (1 << b) - 1))),
    "SSCALED": (
        [-3.6, 7.0, 1e9, -1e9],
        lambda v, b: round(min(max(v, -(1 << b - 1)), (1 << b - 1) - 1)),
    ),
    "UINT": ([1, 255, 70000, 4000000000], lambda v, b: min(v, (1 << b) - 1)),
    "SINT": ([-1, 127, -70000, 70000], lambda v, b: min(max(v, -(1 << b - 1)), (1 << b - 1) - 1)),
    "FLOAT": (
        [1.5, -0.1, 7e4, 2.0],
        lambda v, b: int(np.float32(v).astype(np.float16).view(np.uint16)),
    ),
}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("number", NUMBERS)
def test_typed_stores_round_and_saturate(chip: str, number: str) -> None:
    wave, layout = wave_sizes(chip)[0], "16_16_16_16"
    values, encode = STORED[number]
    texts = typed(chip, "tbuffer_store_format_xyz", "v[8:10]", layout, number)
    code = next(got[1] for got in assemble(chip, wave, texts) if got)
    state = fresh(wave, 1)
    state.vgpr[60] = np.arange(64) * 16
    for k in range(3):
        state.vgpr[8 + k] = [word(values[(lane + k) % 4], number) for lane in range(64)]
    descriptor(state, 0)
    old = state.memory.copy()
    run(chip, code, state)
    for lane in range(4):
        want = old[16 * lane : 16 * lane + 16].view(np.uint16).copy()
        want[:3] = [encode(values[(lane + k) % 4], 16) & 0xFFFF for k in range(3)]
        assert np.array_equal(state.memory[16 * lane : 16 * lane + 16].view(np.uint16), want)


@pytest.mark.parametrize("chip", CHIPS)
def test_typed_loads_beyond_the_buffer_read_zero(chip: str) -> None:
    wave = wave_sizes(chip)[0]
    texts = typed(chip, "tbuffer_load_format_xyz", "v[8:10]", "16_16_16_16", "UINT")
    code = next(got[1] for got in assemble(chip, wave, texts) if got)
    state = fresh(wave, 9)
    state.vgpr[60] = np.arange(64) * 16
    descriptor(state, 0 if chip.startswith("gfx9") else 3 << 28, size=16 * 3 + 8)
    run(chip, code, state)
    assert state.vgpr[8:11, 3].tolist() == state.memory[48:54].view(np.uint16).tolist()
    assert not state.vgpr[8:11, 4:wave].any()


# ---- gfx12: transposing loads ----
def transposed(memory: np.ndarray, lane: int, bits: int) -> list[int]:
    """Elements of a lane, where lane L reads 8 elements from 8 L on.

    16 bits: 8x8 tiles in groups of 8 lanes. 8 bits: lane L reads row L / 8 * 4 + L % 4 of a 16x16
    matrix, its left or right half by bit 2 of L, and gets column L % 16, rows 8 (L / 16) onwards.
    """
    rows = memory.reshape(32, 8)
    if bits == 16:
        return [int(rows[lane // 8 * 8 + j][lane % 8]) for j in range(8)]
    column, first = lane % 16, lane // 16 * 8
    lanes = {(x // 8 * 4 + x % 4, x // 4 % 2): x for x in range(32)}
    return [int(rows[lanes[first + j, column // 8]][column % 8]) for j in range(8)]


@pytest.mark.parametrize("chip", GFX12)
@pytest.mark.parametrize(("bits", "name"), [(16, "b128"), (8, "b64")])
def test_transposing_loads(chip: str, bits: int, name: str) -> None:
    words = bits // 4
    (got,) = assemble(chip, 32, [f"global_load_tr_{name} {register(8, words)}, v[60:61], off"])
    assert got
    state = fresh(32, bits)
    addresses = state.memory_address + np.arange(64, dtype=np.uint64) * bits
    state.vgpr[60], state.vgpr[61] = addresses & 0xFFFFFFFF, addresses >> np.uint64(32)
    run(chip, got[1], state)
    dtype = np.uint16 if bits == 16 else np.uint8
    memory = state.memory[: 32 * bits].view(dtype)
    for lane in range(32):
        have = np.ascontiguousarray(state.vgpr[8 : 8 + words, lane]).view(dtype).tolist()
        assert have == transposed(memory, lane, bits), lane


def test_transposing_loads_want_all_lanes_of_a_wave32() -> None:
    (got,) = assemble("gfx1200", 32, ["global_load_tr_b64 v[8:9], v[60:61], off"])
    state = fresh(32, 1)
    state.exec = 0xFFFF
    with pytest.raises(SnippetError, match="some lanes are inactive"):
        run("gfx1200", got[1], state)
    with pytest.raises(SnippetError, match="wave64"):
        run("gfx1200", got[1], fresh(64, 1))


# ---- gfx12: blocks of registers ----
@pytest.mark.parametrize("chip", GFX12)
@pytest.mark.parametrize("space", ["global", "scratch"])
def test_blocks_move_the_registers_that_m0_names(chip: str, space: str) -> None:
    address = "v[60:61], {}, off" if space == "global" else "off, {}, off"
    load = "{}, v[60:61], off" if space == "global" else "{}, off, off"
    texts = [
        f"{space}_store_block {address.format('v[0:31]')} offset:64",
        f"{space}_load_block {load.format('v[100:131]')} offset:64",
    ]
    encoded = assemble(chip, 32, texts)
    assert all(encoded)
    state = fresh(32, 4)
    state.m0 = 0x8001_0F03
    addresses = state.memory_address + np.arange(64, dtype=np.uint64) * 256 % 3072
    state.vgpr[60], state.vgpr[61] = addresses & 0xFFFFFFFF, addresses >> np.uint64(32)
    lanes = 12 if space == "global" else 32  # where the places do not overlap
    state.exec = (1 << lanes) - 1
    values, memory = state.vgpr.copy(), state.memory.copy()
    run(chip, b"".join(x[1] for x in encoded if x), state)
    for k in range(32):
        moved = state.m0 >> k & 1
        want = values[k] if moved else values[100 + k]
        assert np.array_equal(state.vgpr[100 + k, :lanes], want[:lanes]), k
        if space == "global":
            for lane in range(lanes):
                at = 256 * lane + 64 + 4 * k
                stored = state.memory[at : at + 4].view(np.uint32)[0]
                assert stored == (
                    values[k, lane] if moved else memory[at : at + 4].view(np.uint32)[0]
                )


# ---- addresses by lane ----
@pytest.mark.parametrize("chip", [chip for chip in CHIPS if not chip.startswith("gfx9")])
def test_addtid_adds_four_bytes_a_lane(chip: str) -> None:
    wave = wave_sizes(chip)[-1]
    names = ("dword_addtid",) * 2 if chip == "gfx1030" else ("addtid_b32",) * 2
    texts = [
        f"global_load_{names[0]} v8, s[4:5] offset:16",
        f"global_store_{names[1]} v9, s[4:5] offset:1040",
    ]
    encoded = assemble(chip, wave, texts)
    assert all(encoded)
    state = fresh(wave, 6)
    state.sgpr[4:6] = [state.memory_address & 0xFFFFFFFF, state.memory_address >> 32]
    run(chip, b"".join(x[1] for x in encoded if x), state)
    assert np.array_equal(state.vgpr[8, :wave], state.memory[16 : 16 + 4 * wave].view(np.uint32))
    assert np.array_equal(
        state.vgpr[9, :wave], state.memory[1040 : 1040 + 4 * wave].view(np.uint32)
    )


def test_gfx90a_stores_from_lds() -> None:
    (got,) = assemble("gfx90a", 64, ["buffer_store_lds_dword s[84:87], 0 offset:8 lds"])
    assert got
    state = fresh(64, 2)
    state.lds[:] = np.arange(state.lds.size) % 251
    state.m0 = 256
    descriptor(state, 0, stride=4, size=1000)
    state.sgpr[87] = 0
    state.exec = 1
    run("gfx90a", got[1], state)
    assert np.array_equal(state.memory[8:12], state.lds[264:268])


# ---- scalar stores and atomics of gfx9 ----
@pytest.mark.parametrize("chip", GFX9)
@pytest.mark.parametrize("buffer", [False, True])
def test_scalar_stores(chip: str, buffer: bool) -> None:
    stem, base = ("s_buffer_store", "s[84:87]") if buffer else ("s_store", "s[4:5]")
    for words, suffix in ((1, "dword"), (2, "dwordx2"), (4, "dwordx4")):
        (got,) = assemble(chip, 64, [f"{stem}_{suffix} {register(16, words, 's')}, {base}, 0x20"])
        assert got
        state = fresh(64, words)
        state.sgpr[16:20] = [0x11223344, 0x55667788, 0x99AABBCC, 0xDDEEFF01]
        state.sgpr[4:6] = [state.memory_address & 0xFFFFFFFF, state.memory_address >> 32]
        descriptor(state, 0)
        memory = state.memory.copy()
        memory[32 : 32 + 4 * words] = state.sgpr[16 : 16 + words].view(np.uint8)
        run(chip, got[1], state)
        assert np.array_equal(state.memory, memory)


ATOMICS = {
    "swap": lambda m, d, w: d,
    "add": lambda m, d, w: m + d,
    "sub": lambda m, d, w: m - d,
    "smin": lambda m, d, w: min(m, d, key=lambda x: x - (x >> w - 1 << w)),
    "umin": lambda m, d, w: min(m, d),
    "smax": lambda m, d, w: max(m, d, key=lambda x: x - (x >> w - 1 << w)),
    "umax": lambda m, d, w: max(m, d),
    "and": lambda m, d, w: m & d,
    "or": lambda m, d, w: m | d,
    "xor": lambda m, d, w: m ^ d,
    "inc": lambda m, d, w: 0 if m >= d else m + 1,
    "dec": lambda m, d, w: d if m == 0 or m > d else m - 1,
}


@pytest.mark.parametrize("chip", GFX9)
@pytest.mark.parametrize("buffer", [False, True])
@pytest.mark.parametrize("width", [32, 64])
def test_scalar_atomics(chip: str, buffer: bool, width: int) -> None:
    stem, base = ("s_buffer_atomic", "s[84:87]") if buffer else ("s_atomic", "s[4:5]")
    data = register(16, width // 32, "s")
    names = [f"{name}{'_x2' if width == 64 else ''}" for name in ATOMICS]
    texts = [f"{stem}_{name} {data}, {base}, 0x20{glc}" for name in names for glc in ("", " glc")]
    encoded = assemble(chip, 64, texts)
    if not any(encoded):  # gfx942 and later spell the bit otherwise
        pytest.skip("LLVM's assembler takes no scalar atomics of this chip")
    for (name, glc), got in zip(product(ATOMICS, (False, True)), encoded, strict=True):
        assert got, name
        state = fresh(64, len(name) + glc)
        value, old = (
            0x8000_0001_7FFF_FFF0 & (1 << width) - 1,
            0x7000_0000_9000_0000 & (1 << width) - 1,
        )
        state.sgpr[16:18] = [value & 0xFFFFFFFF, value >> 32]
        state.memory[32:40] = np.frombuffer(old.to_bytes(8, "little"), np.uint8)
        state.sgpr[4:6] = [state.memory_address & 0xFFFFFFFF, state.memory_address >> 32]
        descriptor(state, 0)
        run(chip, got[1], state)
        have = int.from_bytes(state.memory[32 : 32 + width // 8].tobytes(), "little")
        assert have == ATOMICS[name](old, value, width) & (1 << width) - 1, name
        back = int.from_bytes(state.sgpr[16:18].tobytes(), "little") & (1 << width) - 1
        assert back == (old if glc else value), name


@pytest.mark.parametrize("chip", GFX9)
def test_scalar_compare_and_swap(chip: str) -> None:
    encoded = assemble(chip, 64, ["s_atomic_cmpswap s[16:17], s[4:5], 0x20 glc"])
    if not encoded[0]:
        pytest.skip("LLVM's assembler takes no scalar atomics of this chip")
    for equal in (False, True):
        state = fresh(64, equal)
        old = int(state.memory[32:36].view(np.uint32)[0])
        state.sgpr[16:18] = [0x1234, old if equal else old ^ 1]
        state.sgpr[4:6] = [state.memory_address & 0xFFFFFFFF, state.memory_address >> 32]
        run(chip, encoded[0][1], state)
        assert state.memory[32:36].view(np.uint32)[0] == (0x1234 if equal else old)
        assert state.sgpr[16] == old


def test_formats_are_spelled_as_llvm_prints_them() -> None:
    texts = typed("gfx1100", "tbuffer_load_format_x", "v8", "8_8", "SNORM")
    printed = next(got[0] for got in assemble("gfx1100", 32, texts) if got)
    assert re.search(r"format:\[BUF_FMT_8_8_SNORM\]", printed)
