"""Index arithmetic from layouts: the number that a map of bits gives for indices of a kernel, and
the addresses of a tile in LDS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.layout.map import Map


@dataclass(frozen=True)
class _Run:
    """`count` bits of an index, from `start` on, that move as one: times `factor`."""

    name: str
    start: int
    count: int
    factor: int

    @property
    def mask(self) -> int:
        """The bits that the run may set."""
        return self.factor * ((1 << self.count) - 1)


def index_of(layout: Map, **indices: Index) -> Index:
    """The output of a map with one output group. Each index is below 2 to its group's bits.

    Runs of bits are shifted and masked as one. They are added where no two set the same bit,
    and combined by XOR elsewhere.
    """
    total: Index = 0
    taken = 0
    for run in sorted(_runs(layout), key=lambda run: -run.factor):
        index = emit.div(indices.get(run.name, 0), 1 << run.start)
        if run.start + run.count < layout.bits(run.name):
            index = emit.rem(index, 1 << run.count)
        index = emit.mul(index, run.factor)
        total = exclusive_or(total, index) if taken & run.mask else emit.add(total, index)
        taken |= run.mask
    return total


def swizzled(swizzle: Map, row: Index) -> Index:
    """The number that is XORed with the chunks of a row: `swizzle` maps its lowest bits.

    Each bit stands alone: LLVM shares them between rows at a constant distance.
    """
    if isinstance(row, int):
        return swizzle.flat(row % (1 << swizzle.bits("row")))
    result: Index = 0
    for bit, value in enumerate(swizzle.columns):
        if value:
            flag = emit.rem(emit.div(row, 1 << bit), 2)
            result = exclusive_or(result, emit.mul(flag, value))
    return result


def exclusive_or(a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return a ^ b
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, int) and b == 0:
        return a
    return arith.xori(emit.value(a), emit.value(b))


def _runs(layout: Map) -> Iterator[_Run]:
    """The bits of the indices that move something, as few runs."""
    columns = iter(layout.columns)
    for name, size in layout.inputs:
        run: _Run | None = None
        for bit in range(size):
            column = next(columns)
            if run and run.factor & (run.factor - 1) == 0 and column == run.factor << run.count:
                run = _Run(name, run.start, run.count + 1, run.factor)
                continue
            if run:
                yield run
            run = _Run(name, bit, 1, column) if column else None
        if run:
            yield run


@dataclass(frozen=True)
class LdsTile:
    """Rows of `chunks` chunks along k, each of `chunk` elements, from element `start` of `lds` on.

    `swizzle`: (row) -> chunk, the XOR that moves a row's chunks. Longer rows are cut into panels
    of `rows` rows, which follow one another.
    """

    lds: ir.Value
    start: int
    rows: int
    chunks: int
    chunk: int
    swizzle: Map

    @property
    def length(self) -> int:
        """Elements of a row in one panel."""
        return self.chunks * self.chunk

    @property
    def panel(self) -> int:
        """Elements from one panel to the next."""
        return self.rows * self.length

    @property
    def swizzles_within(self) -> bool:
        """Whether the swizzle moves chunks within their row; else it changes the row's number."""
        return 1 << self.swizzle.bits("chunk") <= self.chunks

    def at(self, row: Index, k: Index) -> Index:
        """The distance from the tile's start to element k of a row, in the first panel."""
        start = emit.mul(row, self.length)
        if not self.swizzles_within:
            start, k = 0, emit.add(start, k)
        turned = exclusive_or(k, emit.mul(swizzled(self.swizzle, row), self.chunk))
        return emit.add(start, turned)

    def below(self, at: Index, i: int) -> Index:
        """The place in row + i, from that in row: i is below a power of 2 that divides the row."""
        moved = ((1 << self.swizzle.bits("chunk")) - 1) * self.chunk
        turn = emit.mul(swizzled(self.swizzle, i), self.chunk)
        turn = exclusive_or(turn, i * self.length & moved)
        return emit.add(exclusive_or(at, turn), i * self.length & ~moved)


class LdsReader:
    """A lane's reads of a tile: chunks at a distance from chunk `chunk` of row `row` in `panel`.

    Addresses that differ by a constant share a register.
    """

    def __init__(self, tile: LdsTile, row: Index, chunk: Index, panel: Index = 0) -> None:
        self.tile = tile
        joined = emit.add if tile.swizzles_within else exclusive_or
        start = emit.mul(row, tile.length)
        place = emit.mul(exclusive_or(chunk, swizzled(tile.swizzle, row)), tile.chunk)
        self._first = emit.add(joined(start, place), emit.mul(panel, tile.panel))

    def prepare(self) -> None:
        """Builds the addresses of all reads, before any loop of reads."""
        turns = range(1 << self.tile.swizzle.bits("chunk"))
        self._turned = [exclusive_or(self._first, turn * self.tile.chunk) for turn in turns]

    def read(self, row: int, chunk: Index, half: Index = 0) -> ir.Value:
        """The chunk at the distances `row` and `chunk`, in the half of LDS at `half`.

        The number `chunk` has no bit that the reader's chunk has.
        """
        tile, panel = self.tile, 0
        if isinstance(chunk, int):
            panel, chunk = divmod(chunk, tile.chunks)
        turn = exclusive_or(chunk, swizzled(tile.swizzle, row))
        if isinstance(turn, int):
            base = self._turned[turn]
        else:
            base = exclusive_or(self._first, emit.mul(turn, tile.chunk))
        far = tile.start + panel * tile.panel + row * tile.length
        return memory.load(tile.lds, emit.add(emit.add(base, half), far), tile.chunk)
