"""Bank conflicts of LDS, and a search for the swizzles of a tile's rows that avoid them.

LDS has 32 or 64 banks of 4 bytes. An access is served in phases; lanes of one phase that want
different words of one bank take turns. The lanes of a phase are a coset of the span of a few lane
numbers, and addresses are linear in the lane's bits: the turns follow from ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.layout.lds import swizzle
from mgx_mlir.codegen.layout.map import Map

BANK_BYTES = 4

# Numbers of lanes that span a phase, by bytes of a lane. Read groups of 16 bytes on gfx9:
# Composable Kernel's documents; gfx950's: the kernel optimization guide of AMD's Shark project.
# RDNA's are taken for those of gfx9, or for 8 neighbours.
NEIGHBOURS = {4: (1, 2, 4, 8, 16), 8: (1, 2, 4, 8), 16: (1, 2, 4)}
READS = NEIGHBOURS | {16: (1, 2, 20)}
READS_64_BANKS = {4: (1, 2, 4, 8, 16, 32), 8: (1, 2, 4, 8, 16), 16: (1, 2, 12, 20)}


@dataclass(frozen=True)
class Access:
    """Lanes that read or write `width` neighbouring bytes each.

    layout: the row and the 16-byte chunk of a tile that each lane takes, (lane) -> (row, chunk).
    span: numbers of lanes that span a phase.
    """

    layout: Map
    span: tuple[int, ...]
    width: int = CHUNK_BYTES

    def turns(self, lds: Map, banks: int = 32) -> int:
        """Clocks that a phase takes, in those of one without conflicts, in a tile laid out by
        `lds`: (row, chunk) -> byte."""
        return turns([lds(**self.cell(lane))["byte"] for lane in self.span], self.width, banks)

    def cell(self, lane: int) -> dict[str, int]:
        """The row and the chunk of a lane."""
        return {"row": 0, "chunk": 0} | self.layout(lane=lane)


def turns(addresses: Sequence[int], width: int, banks: int = 32) -> int:
    """Clocks of a phase, in those of one without conflicts.

    addresses: the bytes, linear in a lane's number, at which the lanes that span the phase begin.
    Each takes `width` bytes, and is aligned to them.
    """
    mask = banks * BANK_BYTES - width
    return 1 << (rank(addresses) - rank(address & mask for address in addresses))


def rows(chunks: int, moved: Map) -> Map:
    """(row, chunk) -> byte of a tile in LDS whose rows have so many chunks, a power of 2.

    moved: a swizzle, whose numbers count chunks of all banks: 128 bytes, or 256.
    """
    inner, low = chunks.bit_length() - 1, CHUNK_BYTES.bit_length() - 1
    columns = [1 << bit for bit in range(inner)]
    columns += [chunks << bit ^ turn for bit, turn in enumerate(moved.columns)]
    inputs = (("chunk", inner), *moved.inputs)
    size = low + inner + moved.bits("row")
    return Map(inputs, (("byte", size),), tuple(column << low for column in columns))


def swizzles(
    chunks: int, row_bits: int, accesses: Sequence[Access], banks: int = 32
) -> Iterator[tuple[int, ...]]:
    """All swizzles of rows under which no access has a bank conflict, the smallest first."""
    slots = banks * BANK_BYTES // CHUNK_BYTES
    inner = chunks.bit_length() - 1
    spans = [
        (tuple(cell["chunk"] | cell["row"] << inner for cell in map(access.cell, access.span)),
         access.width)
        for access in accesses
    ]  # fmt: skip
    for values in product(range(slots), repeat=row_bits):
        lds = rows(chunks, swizzle(*values))
        if rank(lds.columns) == len(lds.columns) and all(
            turns([lds.flat(cell) for cell in cells], width, banks) == 1 for cells, width in spans
        ):
            yield values


def rank(columns: Iterable[int]) -> int:
    """The dimension of the space that vectors over GF(2) span."""
    basis: list[int] = []
    for column in columns:
        for vector in basis:
            column = min(column, column ^ vector)
        if column:
            basis.append(column)
    return len(basis)
