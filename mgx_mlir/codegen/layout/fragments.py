"""Matrix instructions: the elements of operands and result that each lane of a wave holds.

An instruction multiplies a tile of A, rows r by k, with one of B, k by columns c. Names of bits
along k are free where both operands agree: A's is chosen such that a lane's values of one read of
LDS are neighbours. Only an instruction that scales blocks along k fixes them. Sources: AMD's CDNA
3 and 4, RDNA 3 and 4 ISA documents, and
https://github.com/ROCm/amd_matrix_instruction_calculator.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mgx_mlir.codegen.layout.map import Map


@dataclass(frozen=True, eq=False)
class Fragments:
    """The layouts of an instruction: (lane, value) -> (r, k) of A, (c, k) of B, (r, c) of C.

    Instances are told apart by identity: they are those of the tables below.
    """

    a: Map
    b: Map
    c: Map

    @cached_property
    def rows(self) -> int:
        """Rows of A, and of the result."""
        return 1 << self.c.bits("r")

    @cached_property
    def columns(self) -> int:
        """Columns of B, and of the result."""
        return 1 << self.c.bits("c")

    @cached_property
    def depth(self) -> int:
        """Elements along k of one instruction."""
        return 1 << self.a.bits("k")

    @cached_property
    def per_lane(self) -> int:
        """Elements along k that a lane holds of a column of B."""
        return 1 << len(self.b.moving("value", "k"))

    @cached_property
    def groups(self) -> int:
        """Groups of lanes along k: each holds other elements."""
        return 1 << len(self.b.moving("lane", "k"))

    @cached_property
    def values(self) -> int:
        """Results of a lane."""
        return 1 << self.c.bits("value")

    def order(self, run: int) -> Map:
        """(r, tile) -> n: the row or column n of a larger matrix that a tile's row r holds.

        It makes `run` results of a lane neighbours, across tiles where one has fewer: the
        lowest bits of n are those of the lane's results, then those of the joined tiles; the
        lane's own bits follow, then the bits of results beyond a run.
        """
        values, lanes = (
            [bit for i in self.c.moving(name, "r") for group, bit in self.c.image(name, i)
             if group == "r"]
            for name in ("value", "lane")
        )  # fmt: skip
        inner = run.bit_length() - 1
        own, tiles = [("r", bit) for bit in values], range(max(0, inner - len(values)))
        ordered = [*own[:inner], *(("tile", t) for t in tiles), *(("r", b) for b in lanes)]
        place = {bit: number for number, bit in enumerate([*ordered, *own[inner:]])}
        groups = {"r": range(self.c.bits("r")), "tile": tiles}
        return Map.of(**{
            name: " ".join(f"n{place[name, bit]}" for bit in bits) for name, bits in groups.items()
        })  # fmt: skip


def _fragments(lane: str, value: str, result_lane: str, result_value: str) -> Fragments:
    a = Map.of(lane=lane, value=value)
    return Fragments(a, a.renamed(r="c"), Map.of(lane=result_lane, value=result_value))


# By rows x columns x k. The lanes and values of A come first, then those of the result.
MFMA = {
    "16x16x4": _fragments("r0-3 k0-1", "", "c0-3 r2-3", "r0-1"),
    "16x16x8": _fragments("r0-3 k1-2", "k0", "c0-3 r2-3", "r0-1"),
    "16x16x16": _fragments("r0-3 k2-3", "k0-1", "c0-3 r2-3", "r0-1"),
    "16x16x32": _fragments("r0-3 k3-4", "k0-2", "c0-3 r2-3", "r0-1"),
    "16x16x64": _fragments("r0-3 k4-5", "k0-3", "c0-3 r2-3", "r0-1"),
    "16x16x128": _fragments("r0-3 k4-5", "k0-3 k6", "c0-3 r2-3", "r0-1"),
    "32x32x2": _fragments("r0-4 k0", "", "c0-4 r2", "r0-1 r3-4"),
    "32x32x4": _fragments("r0-4 k1", "k0", "c0-4 r2", "r0-1 r3-4"),
    "32x32x8": _fragments("r0-4 k2", "k0-1", "c0-4 r2", "r0-1 r3-4"),
    "32x32x16": _fragments("r0-4 k3", "k0-2", "c0-4 r2", "r0-1 r3-4"),
    "32x32x32": _fragments("r0-4 k4", "k0-3", "c0-4 r2", "r0-1 r3-4"),
    "32x32x64": _fragments("r0-4 k4", "k0-3 k5", "c0-4 r2", "r0-1 r3-4"),
}
MFMA_F64 = _fragments("r0-3 k0-1", "", "c0-3 r0-1", "r2-3")
# A wave of 32 lanes, whose halves hold copies of an operand.
WMMA_GFX11 = _fragments("r0-3 -", "k0-3", "c0-3 r0", "r1-3")
WMMA_GFX12 = _fragments("r0-3 k3", "k0-2", "c0-3 r3", "r0-2")
# LLVM 22 compiles these; no device and no document have confirmed the order of their lanes.
WMMA_GFX1250 = {
    "16x16x4": _fragments("r0-3 k1", "k0", "c0-3 r3", "r0-2"),
    "16x16x32": _fragments("r0-3 k4", "k0-3", "c0-3 r3", "r0-2"),
    "16x16x64": _fragments("r0-3 k5", "k0-4", "c0-3 r3", "r0-2"),
}
# Vector instructions: eight columns by four groups of four rows for the 32 lanes of a wave. A
# lane reads 16 bytes along k of each of its rows and of its column.
VECTORS = {
    element: Fragments(
        Map.of(lane="- - - r2-3", value=f"{k} r0-1"),
        Map.of(lane="c0-2 - -", value=k),
        Map.of(lane="c0-2 r2-3", value="r0-1"),
    )
    for element, k in (("f32", "k0-1"), ("f16", "k0-2"), ("i8", "k0-3"))
}
# The same for attention: a lane has scores of one query and its group's keys, as many as 16 bytes
# hold; the groups of lanes follow one another along the keys.
QUERIES = {
    "f32": Fragments(
        Map.of(lane="- - - r2-3", value="k0-1 r0-1"),
        Map.of(lane="c0-2 k0-1"),
        Map.of(lane="c0-2 r2-3", value="r0-1"),
    ),
    "f16": Fragments(
        Map.of(lane="- - - r3-4", value="k0-2 r0-2"),
        Map.of(lane="c0-2 k1-2", value="k0"),
        Map.of(lane="c0-2 r3-4", value="r0-2"),
    ),
}
