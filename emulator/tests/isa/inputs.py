"""Register and memory contents for a case: edge values and random ones of the types it reads."""

from __future__ import annotations

import re
import struct

import numpy as np
from cases import ADDRESS, BASE, DESCRIPTOR, Case, Operand
from snippet import State

F32 = [
    0x00000000,
    0x80000000,
    0x00000001,
    0x807FFFFF,
    0x00800000,
    0x3F800000,
    0xBF800000,
    0x3F000000,
    0x40490FDB,
    0x7F7FFFFF,
    0x7F800000,
    0xFF800000,
    0x7FC00000,
    0x7F800001,
    0xFFC12345,
    0x4B800001,
    0xCB000001,
    0x4F000000,
    0xCF000001,
    0x3EFFFFFF,
    0xC0200000,
    0x477FF000,
]
F16 = [
    0x0000,
    0x8000,
    0x0001,
    0x83FF,
    0x0400,
    0x3C00,
    0xBC00,
    0x3800,
    0x4248,
    0x7BFF,
    0x7C00,
    0xFC00,
    0x7E00,
    0x7C01,
    0x6400,
    0xE3FF,
    0x37FF,
    0x4100,
]
F64 = [
    0,
    1 << 63,
    1,
    0x800FFFFFFFFFFFFF,
    0x0010000000000000,
    0x3FF0000000000000,
    0xBFF0000000000000,
    0x3FE0000000000000,
    0x7FEFFFFFFFFFFFFF,
    0x7FF0000000000000,
    0xFFF0000000000000,
    0x7FF8000000000000,
    0x7FF0000000000001,
    0x41E0000000000000,
    0xC1E0000000200000,
    0x4330000000000001,
]
INTEGERS = [
    0,
    1,
    2,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    0x8000,
    0x7FFF,
    0xFFFF0000,
    0x00FF00FF,
    0x80,
    31,
    32,
    33,
    63,
]


def kind_of(case: Case, name: str) -> str:
    """f64, f32, f16, bf16, fp8 or i: what a source mostly is."""
    found = re.findall(rf"(?<![\w]){name}(?:\[[^\]]*\])?\.((?:bf|fp|[fuib])\d+)", case.pcode)
    for kind in ("f64", "f32", "bf16", "f16"):
        if kind in found:
            return kind
    if "_MIX" in case.name:
        return "f32"
    if "SIN" in case.name or "f32" in "".join(found):
        return "f32"
    return "i"


def values(rng: np.random.Generator, kind: str, count: int) -> list[int]:
    """Bit patterns of 64 bits; narrower kinds are repeated to fill them."""
    result = []
    for _ in range(count):
        choice = rng.random()
        word = int(rng.integers(0, 1 << 64, dtype=np.uint64))
        if kind == "f64":
            moderate = struct.unpack("<Q", struct.pack("<d", float(rng.normal(0, 50))))[0]
            result.append(
                int(rng.choice(F64)) if choice < 0.35 else moderate if choice < 0.75 else word
            )
        elif kind == "f32":
            parts = []
            for half in range(2):
                moderate = struct.unpack("<I", struct.pack("<f", float(rng.normal(0, 20))))[0]
                draw = rng.random()
                parts.append(
                    int(rng.choice(F32))
                    if draw < 0.35
                    else moderate
                    if draw < 0.75
                    else word >> 32 * half & 0xFFFFFFFF
                )
            result.append(parts[0] | parts[1] << 32)
        elif kind in ("f16", "bf16"):
            bits = 0
            for n in range(4):
                draw = rng.random()
                moderate = struct.unpack("<H", struct.pack("<e", float(rng.normal(0, 5))))[0]
                part = (
                    int(rng.choice(F16))
                    if draw < 0.35
                    else moderate
                    if draw < 0.75
                    else word >> 16 * n & 0xFFFF
                )
                bits |= part << 16 * n
            result.append(bits)
        else:
            small = int(rng.integers(0, 70))
            low = (
                int(rng.choice(INTEGERS))
                if choice < 0.3
                else small
                if choice < 0.5
                else word & 0xFFFFFFFF
            )
            high = int(rng.choice(INTEGERS)) if rng.random() < 0.3 else word >> 32
            result.append(low | high << 32)
    return result


def fill(state: State, operand: Operand, rng: np.random.Generator, kind: str) -> None:
    if operand.kind == "v":
        for first in range(0, operand.words, 2):
            for lane, value in enumerate(values(rng, kind, 64)):
                state.vgpr[operand.index + first, lane] = value & 0xFFFFFFFF
                if first + 1 < operand.words:
                    state.vgpr[operand.index + first + 1, lane] = value >> 32
    elif operand.kind == "s":
        for first in range(0, operand.words, 2):
            value = values(rng, kind, 1)[0]
            state.sgpr[operand.index + first] = value & 0xFFFFFFFF
            if first + 1 < operand.words:
                state.sgpr[operand.index + first + 1] = value >> 32


def state_for(case: Case, seed: int) -> State:
    rng = np.random.default_rng([seed, *case.name.encode()[:40]])
    state = State(case.wave)
    state.vgpr[:96] = rng.integers(0, 1 << 32, (96, 64), dtype=np.uint64).astype(np.uint32)
    state.sgpr[:104] = rng.integers(0, 1 << 32, 104, dtype=np.uint64).astype(np.uint32)
    state.vcc = int(rng.integers(0, 1 << 64, dtype=np.uint64)) & (1 << case.wave) - 1
    state.scc = int(rng.integers(0, 2))
    state.memory[:] = rng.integers(0, 256, state.memory.size)
    state.lds[:] = rng.integers(0, 256, state.lds.size)
    # The pseudocode of v_permlane leaves out its handling of inactive lanes (op_sel).
    if seed % 2 and "PERMLANE" not in case.name:
        state.exec &= int(rng.integers(0, 1 << 64, dtype=np.uint64)) | int(
            rng.integers(0, 1 << 64, dtype=np.uint64)
        )
    if case.chip.startswith("gfx12"):
        state.mode = 0xF0
    for n, source in enumerate(case.sources):
        fill(state, source, rng, kind_of(case, f"S{n}"))
    if case.dst and case.dst.kind == "v":
        fill(state, case.dst, rng, kind_of(case, "D0"))
    if "SCALEF32" in case.name and case.sources[-1].kind == "v":
        state.vgpr[case.sources[-1].index] = rng.integers(120, 134, 64).astype(
            np.uint32
        ) << np.uint32(23)
    shifts = re.search(r"SHIFT|SHL|SHR", case.name)
    if shifts and case.sources and case.sources[0].kind == "v" and seed % 2:
        state.vgpr[case.sources[0].index] = rng.integers(0, 70, 64).astype(np.uint32)
    memory = case.extra.get("memory")
    if memory == "lds":
        state.vgpr[ADDRESS] = rng.permutation(64).astype(np.uint32) * np.uint32(
            4 if "PERMUTE" in case.name else 32
        )
        float_memory(case, state.lds, rng)
    elif memory == "flat":
        where = state.memory_address + rng.permutation(64).astype(np.uint64) * np.uint64(32)
        state.vgpr[ADDRESS], state.vgpr[ADDRESS + 1] = (
            (where & np.uint64(0xFFFFFFFF)).astype(np.uint32),
            (where >> np.uint64(32)).astype(np.uint32),
        )
        float_memory(case, state.memory, rng)
    elif memory == "buffer":
        state.vgpr[ADDRESS] = rng.permutation(64).astype(np.uint32) * np.uint32(32)
        float_memory(case, state.memory, rng)
    if memory in ("scalar", "buffer"):
        # A raw buffer: stride 0, so that records are bytes. The last word is a 32-bit format, which
        # each generation writes differently; raw accesses need none but its bits for bounds checks.
        where = state.memory_address
        last = 0x31016FAC if case.chip.startswith(("gfx10", "gfx11", "gfx12")) else 0x00027000
        state.sgpr[DESCRIPTOR : DESCRIPTOR + 4] = (
            where & 0xFFFFFFFF,
            where >> 32 & 0xFFFF,
            state.memory.size,
            last,
        )
    if memory == "scalar":
        where = state.memory_address + 256
        state.sgpr[BASE], state.sgpr[BASE + 1] = where & 0xFFFFFFFF, where >> 32
    return state


def float_memory(case: Case, data: np.ndarray, rng: np.random.Generator) -> None:
    """Atomics on floats meet floats; compare and swap meets equal values."""
    kind = next((k for k in ("f64", "f32", "bf16", "f16") if f".{k}" in case.pcode), None)
    if kind:
        data[:] = np.array(values(rng, kind, data.size // 8), np.uint64).view(np.uint8)
