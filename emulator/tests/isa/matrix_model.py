"""The results of the matrix instructions, in numpy and element by element from the manuals.

Independent of the engine: the layouts are the formulas of the CDNA4 ISA (7.1.4, 7.1.5.1, 7.5) and
the tables of the RDNA3 (7.9) and RDNA4 ISA (7.12.2), written as they stand there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from pcode_values import FNUZ, IEEE, Format, decode
from pcode_values import OCP as SMALL

BITS = {
    "f64": 64,
    "f32": 32,
    "xf32": 32,
    "i32": 32,
    "f16": 16,
    "bf16": 16,
    "fp8": 8,
    "bf8": 8,
    "i8": 8,
    "iu8": 8,
    "iu4": 4,
    "fp6": 6,
    "bf6": 6,
    "fp4": 4,
}
F8F6F4 = ("fp8", "bf8", "fp6", "bf6", "fp4")


@dataclass(frozen=True)
class Instruction:
    mnemonic: str
    kind: str  # mfma, smfmac, wmma, swmmac
    acc: str
    m: int
    n: int
    k: int
    blocks: int
    a: str
    b: str
    wave: int
    chip: str

    @property
    def sparse(self) -> bool:
        return self.kind in ("smfmac", "swmmac")

    @property
    def scaled(self) -> bool:
        return "_scale_" in self.mnemonic

    @property
    def columns(self) -> int:
        """Columns of A as stored."""
        return self.k // 2 if self.sparse else self.k


def parse(mnemonic: str, chip: str, wave: int) -> Instruction:
    match = re.match(
        r"v_(mfma|smfmac|wmma|swmmac)_(?:scale_)?(f32|f64|i32|f16|bf16)_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_?(.*?)$",
        mnemonic,
    )
    assert match, mnemonic
    kind, acc, m, n, k, blocks, types = match.groups()
    m, n, k = int(m), int(n), int(k)
    one_k = types.endswith("_1k")
    a, b = (types.removesuffix("_1k").split("_") * 2)[:2]
    if blocks is None and chip == "gfx90a":  # the names of gfx90a leave the blocks to the shape
        held = {"f16": 4, "i8": 4, "bf16": 4 if one_k else 2}.get(a, 1)
        blocks = max(1, 64 * held // (m * k))
    return Instruction(mnemonic, kind, acc, m, n, k, int(blocks or 1), a, b, wave, chip)


# ---- layouts: (lane, item) of every element, as arrays over the element's indices ----
def cdna_input(rows: int, blocks: int, columns: int, spread: bool) -> tuple[np.ndarray, np.ndarray]:
    """A[b, i, k]; the layout of B[b, k, j] is the same with j for i."""
    b, i, k = np.ogrid[:blocks, :rows, :columns]
    if spread:  # two runs of k in a lane: gfx950's 8-bit f8f6f4 and its larger sparse shapes
        half = columns // 2
        run = half // (64 // (rows * blocks))
        return i + rows * (
            b + blocks * (k % half // run)
        ), k // half * run + k % run + 0 * i + 0 * b
    run = columns // (64 // (rows * blocks))
    return i + rows * (b + blocks * (k // run)), k % run + 0 * i + 0 * b


def cdna_output(ins: Instruction) -> tuple[np.ndarray, np.ndarray]:
    h = 1 if ins.acc == "f64" else 4
    b, i, j = np.ogrid[: ins.blocks, : ins.m, : ins.n]
    b_i = -(-64 // (ins.n * ins.m // h))
    m_i = (64 // b_i) // ins.n
    g = ins.m // (h * m_i)
    return j + ins.n * ((i // h) % m_i + m_i * (b % b_i)), i % h + h * (
        i // (h * m_i) + g * (b // b_i)
    ) + 0 * j


# RDNA4 ISA, table in 7.12.2: size of an element, columns of the packed A: (wave32, wave64), each
# lane bits, register bits, position bits. "c" is the column of A, "r" its row.
RDNA4_A = {
    (16, 16): (("c2 r3:0", "c3 c1", "c0"), ("c3:2 r3:0", "c1", "c0")),
    (8, 16): (("c3 r3:0", "c2", "c1:0"), ("c2 c3 r3:0", "", "c1:0")),
    (4, 16): (("c3 r3:0", "", "c2:0"), ("c3 r3:0", "", "c2:0")),
    (4, 32): (("c4 r3:0", "c3", "c2:0"), ("c3 c4 r3:0", "", "c2:0")),
}
# B of a sparse instruction has 32 (64) rows. The manual's own table, "B-Matrix 32x16", covers 4
# bits; the others keep each four ks with the lane of the two elements of A they belong to.
RDNA4_SPARSE_B = {
    (16, 32): (("c3 r3:0", "c4 c2 c1", "c0"), ("c4:3 r3:0", "c2 c1", "c0")),
    (8, 32): (("c4 r3:0", "c3 c2", "c1:0"), ("c3 c4 r3:0", "c2", "c1:0")),
    (4, 32): (("c4 r3:0", "c3", "c2:0"), ("c3 c4 r3:0", "", "c2:0")),
    (4, 64): (("c5 r3:0", "c4 c3", "c2:0"), ("c4 c5 r3:0", "c3", "c2:0")),
}
RDNA4_D = {
    32: (("r3 c3:0", "r2:0", ""), ("r2 r3 c3:0", "r1:0", "")),
    16: (("r3 c3:0", "r2:1", "r0"), ("r2 r3 c3:0", "r1", "r0")),
}


def bit_string(spec: str, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    value = np.zeros(np.broadcast(row, column).shape, np.int64)
    for name, high, low in re.findall(r"([rc])(\d+)(?::(\d+))?", spec):
        source = row if name == "r" else column
        for index in range(int(high), int(low or high) - 1, -1):
            value = value << 1 | (source >> index & 1)
    return value


def table_layout(
    entry: tuple[str, str, str], rows: int, columns: int, bits: int
) -> tuple[np.ndarray, np.ndarray]:
    row, column = np.ogrid[:rows, :columns]
    lane, register, position = (bit_string(spec, row, column) for spec in entry)
    return lane[None], (register * (32 // bits) + position)[None]


def layouts(ins: Instruction, formats: tuple[str, str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """(lane, item) of A[b, i, k], B[b, j, k] and D[b, i, j]."""
    a_bits, b_bits, wide = BITS[formats[0]], BITS[formats[1]], ins.wave == 64
    if ins.kind in ("mfma", "smfmac"):
        spread = ins.sparse and ins.n * ins.k // 64 * b_bits == 256
        f8f6f4 = ins.a == "f8f6f4"
        return [
            cdna_input(ins.m, ins.blocks, ins.columns, spread or (f8f6f4 and a_bits == 8)),
            cdna_input(ins.n, ins.blocks, ins.k, spread or (f8f6f4 and b_bits == 8)),
            cdna_output(ins),
        ]
    if ins.chip.startswith("gfx11"):
        i, k = np.ogrid[:16, : ins.k]
        whole = (i + 0 * k)[None], (k + 0 * i)[None]
        groups = ins.wave // 16
        i, j = np.ogrid[:16, :16]
        step = 2 if BITS[ins.acc] == 16 else 1
        return [whole, whole, ((i % groups * 16 + j)[None], (i // groups * step + 0 * j)[None])]
    a = table_layout(RDNA4_A[a_bits, ins.columns][wide], 16, ins.columns, a_bits)
    b_table = RDNA4_SPARSE_B if ins.sparse else RDNA4_A
    b = table_layout(b_table[b_bits, ins.k][wide], 16, ins.k, b_bits)
    return [a, b, table_layout(RDNA4_D[BITS[ins.acc]][wide], 16, 16, BITS[ins.acc])]


# ---- elements ----
def gather(registers: np.ndarray, lane: np.ndarray, item: np.ndarray, bits: int) -> np.ndarray:
    """The codes of elements that may cross from one register into the next."""
    first = item * bits
    word, shift = first // 32, (first % 32).astype(np.uint64)
    padded = np.vstack([registers, np.zeros((1, registers.shape[1]), registers.dtype)]).astype(
        np.uint64
    )
    pair = padded[word, lane] | padded[word + 1, lane] << np.uint64(32)
    code = pair >> shift if bits < 64 else pair
    return code & np.uint64((1 << bits) - 1)


def format_of(name: str, chip: str) -> Format:
    if name in ("fp8", "bf8"):
        return (FNUZ if chip == "gfx942" else SMALL)[name]
    return (
        SMALL["bf" if name == "bf16" else name]
        if name in ("bf16", "fp6", "bf6", "fp4")
        else IEEE[BITS[name]]
    )


def numbers(codes: np.ndarray, name: str, chip: str, signed: bool = True) -> np.ndarray:
    if name in ("f64", "f32", "f16"):
        unsigned, real = {
            "f64": (np.uint64, np.float64),
            "f32": (np.uint32, np.float32),
            "f16": (np.uint16, np.float16),
        }[name]
        return codes.astype(unsigned).view(real).astype(np.float64)
    if name == "xf32":
        return (codes.astype(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if name in ("i8", "iu8", "iu4", "i32"):
        width = BITS[name]
        x = codes.astype(np.int64)
        return np.where(x >> (width - 1) & 1, x - (1 << width), x) if signed else x
    if name == "bf16":
        return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    fmt = format_of(name, chip)
    table = np.array([decode(code, fmt) for code in range(1 << BITS[name])])
    return table[codes.astype(np.int64)]


def scale_factors(registers: np.ndarray, byte: int, rows: int, k: int) -> np.ndarray:
    """[i, block of 32 ks]; CDNA4 ISA 7.2.1, "Scale data layout"."""
    codes = registers.reshape(-1) >> np.uint32(8 * byte) & np.uint32(0xFF)
    i, block = np.ogrid[:rows, : k // 32]
    return 2.0 ** (codes[i + rows * block].astype(np.float64) - 127)


@dataclass
class Model:
    """D, and the sum of the magnitudes of all terms, which bounds the rounding error."""

    d: np.ndarray
    magnitude: np.ndarray
    lane: np.ndarray
    item: np.ndarray


def multiply(
    ins: Instruction,
    a,
    b,
    c,
    *,
    index=None,
    scale_a=None,
    scale_b=None,
    cbsz=0,
    abid=0,
    blgp=0,
    neg_lo=0,
    neg_hi=0,
    op_sel=0,
    op_sel_hi=0,
    clamp=False,
) -> Model:
    formats = (F8F6F4[cbsz], F8F6F4[blgp]) if ins.a == "f8f6f4" else (ins.a, ins.b)
    (lane_a, item_a), (lane_b, item_b), (lane_d, item_d) = layouts(ins, formats)
    if ins.kind == "mfma" and ins.a != "f8f6f4" and ins.acc != "f64":
        size = 64 >> cbsz
        if cbsz:
            lane_a = lane_a % size + size * abid
        permuted = {0: lane_b, 1: lane_b % 32, 2: lane_b % 32 + 32, 3: (lane_b + 16) % 64}
        lane_b = permuted.get(blgp, lane_b % 16 + 16 * (blgp - 4))
    signed = (
        [True, True] if ins.kind in ("mfma", "smfmac") else [bool(neg_lo & 1), bool(neg_lo & 2)]
    )
    x = numbers(gather(a, lane_a, item_a, BITS[formats[0]]), formats[0], ins.chip, signed[0])
    y = numbers(gather(b, lane_b, item_b, BITS[formats[1]]), formats[1], ins.chip, signed[1])
    half = op_sel >> 2 & 1 if ins.chip.startswith("gfx11") and BITS[ins.acc] == 16 else 0
    item_d = item_d + half
    z = numbers(gather(c, lane_d, item_d, BITS[ins.acc]), ins.acc, ins.chip)
    if ins.acc == "f64":
        x, y, z = (-v if blgp >> n & 1 else v for n, v in enumerate((x, y, z)))
    elif ins.kind in ("wmma", "swmmac") and ins.acc != "i32":
        if ins.a in ("f16", "bf16"):
            for n, v in enumerate((x, y)):
                position = (item_a if n == 0 else item_b) % 2
                flip = np.where(position, neg_hi >> n & 1, neg_lo >> n & 1)
                v *= np.where(flip, -1.0, 1.0)
        if neg_hi & 4:
            z = np.abs(z)
        if neg_lo & 4:
            z = -z
    if ins.sparse:
        sets = indices(ins, index, lane_a, item_a, formats[0], cbsz, abid, op_sel)
        dense = np.zeros((ins.blocks, ins.m, ins.k))
        i, column = np.ogrid[: ins.m, : ins.columns]
        dense[0, i, column // 2 * 4 + sets[0]] = x[0]
        x = dense
    if ins.scaled:
        byte_a, byte_b = (op_sel >> n & 1 | (op_sel_hi >> n & 1) << 1 for n in range(2))
        x = x * np.repeat(scale_factors(scale_a, byte_a, ins.m, ins.k), 32, axis=1)[None]
        y = y * np.repeat(scale_factors(scale_b, byte_b, ins.n, ins.k), 32, axis=1)[None]
    d = z + np.einsum("bik,bjk->bij", x, y)
    magnitude = np.abs(z) + np.einsum("bik,bjk->bij", np.abs(x), np.abs(y))
    if ins.acc == "i32":
        d = (
            np.clip(d, -(1 << 31), (1 << 31) - 1)
            if clamp
            else (d.astype(np.int64) + (1 << 31)) % (1 << 32) - (1 << 31)
        )
    return Model(d, magnitude, lane_d, item_d)


def indices(
    ins: Instruction, index, lane_a, item_a, name: str, cbsz: int, abid: int, op_sel: int
) -> np.ndarray:
    """Which of its four ks each element of A is."""
    items = int(item_a.max()) + 1
    sets = 16 // items
    if ins.kind == "smfmac":
        chosen = abid % sets if sets > 1 and not cbsz & 3 else 0
    else:
        chosen = op_sel & 3
    word = index.reshape(-1)[lane_a].astype(np.int64)
    return word >> (chosen * 2 * items + 2 * item_a) & 3
