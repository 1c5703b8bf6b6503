"""A tile of an operand on its way from memory through registers to LDS.

In LDS every row of A, and every column of B, is a row of 64 or 128 bytes along k, in chunks of
16 bytes whose offsets are swizzled (see specs). Where the operand's neighbours in memory lie
along k, a thread moves chunks; otherwise it reads vectors across the rows at several k and
transposes them in registers. The operand's source gives the offsets of elements in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from mlir import ir
from mlir.dialects import vector

from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.layouts import LdsTile
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.contraction.sources import Load, Source
from mgx_mlir.codegen.meaning import native
from mgx_mlir.codegen.meaning.element import bit_width


class Tile:
    """Moves tiles of `rows` rows of an operand; all threads of a work-group take part."""

    def __init__(
        self, source: Source, unit: Unit, rows: int, threads: int, lds: ir.Value, start: int
    ) -> None:
        self.source, self.unit, self.rows, self.threads = source, unit, rows, threads
        self.held = LdsTile(lds, start, rows, unit.row_chunks, unit.chunk, unit.swizzle)
        chunk = unit.chunk
        each = rows * unit.tile_depth // threads
        width = source.width(CHUNK_BYTES // emit.element_bytes(source.element))
        if source.along_k:
            self.run, self.across, self.width = chunk, 1, min(width, chunk)
        else:
            self.run, self.width = transposed_block(
                chunk, width, each, emit.element_bytes(source.element)
            )
            self.across = self.width
        self.moves = each // (self.run * self.across)

    def begin(self, thread: Index, batch: Index, first: Index, limit: int | None) -> None:
        """Builds the values that no step changes: the thread's offsets in memory and in LDS.

        `first`: the work-group's first row. Rows of the operand from `limit` on are zero.
        """
        self.batch, self.first = batch, first
        runs = self.unit.tile_depth // self.run
        k = emit.mul(emit.rem(thread, runs), self.run)
        rows = [
            emit.mul(emit.div(emit.add(thread, move * self.threads), runs), self.across)
            for move in range(self.moves)
        ]
        self.source.begin(batch, [emit.add(first, row) for row in rows], k, limit)
        self.targets = [emit.add(self.held.at(row, k), self.held.start) for row in rows]

    @property
    def parts(self) -> range:
        """The offsets along k of the reads of one move."""
        return range(0, self.run, self.width if self.source.along_k else 1)

    @property
    def reads(self) -> int:
        """Values that `loads` gives."""
        return len(self.parts) * self.moves * self.source.reads

    def loads(self, k0: Index) -> list[Load]:
        """Reads of the thread's part of the tile from k0 on; see `Source.loads`."""
        return self.source.loads(k0, self.parts, self.width)

    def stores(self, values: Sequence[ir.Value]) -> Iterator[Callable[[Index], None]]:
        """Writes of the values that `loads` gave, each called with the offset of a half of LDS."""
        each = len(values) // self.moves
        for move, target in enumerate(self.targets):
            mine = values[move * each :][:each]
            if self.source.along_k:
                yield partial(self._store_chunk, mine, target)
            else:
                column = partial(_column, self.source, mine, [])
                yield from (
                    partial(self._store_transposed, column, target, i) for i in range(self.across)
                )

    def _store_chunk(self, parts: Sequence[ir.Value], target: Index, half: Index) -> None:
        mine = memory.concatenated(self.source.finish(parts))
        memory.store(self._converted(mine), self.held.lds, emit.add(target, half))

    def _store_transposed(self, column: Column, target: Index, i: int, half: Index) -> None:
        at = emit.add(self.held.below(target, i), half)
        memory.store(self._converted(column(i)), self.held.lds, at)

    def _converted(self, x: ir.Value) -> ir.Value:
        kinds = {self.source.element, self.unit.element}
        # An instruction takes either kind of 8-bit floats: it is told which an operand has.
        if kinds <= emit.BYTE_FLOATS:
            return x
        return emit.convert(x, self.source.element, self.unit.element)


def _column(
    source: Source, values: Sequence[ir.Value], found: list[Column], number: int
) -> ir.Value:
    """Column `number` of the vectors that a source makes from values.

    The first call makes the columns; `found` keeps them for the others.
    """
    if not found:
        found.append(columns(source.finish(values)))
    return found[0](number)


# Gives element i of each vector, as one vector.
Column = Callable[[int], ir.Value]


def columns(rows: Sequence[ir.Value]) -> Column:
    """The transposed vectors. Bytes are transposed 4 by 4, by two instructions a register."""
    type_ = ir.VectorType(rows[0].type)
    if bit_width(type_.element_type) != 8 or type_.shape[0] % 4 or len(rows) % 4:
        return lambda i: memory.joined([memory.element(x, i) for x in rows])
    done: dict[int, list[list[ir.Value]]] = {}

    def column(i: int) -> ir.Value:
        if i // 4 not in done:
            words = [memory.word(x, i // 4) for x in rows]
            done[i // 4] = [_transposed_bytes(words[k : k + 4]) for k in range(0, len(words), 4)]
        joined = memory.joined([block[i % 4] for block in done[i // 4]])
        return vector.bitcast(ir.VectorType.get([len(rows)], type_.element_type), joined)

    return column


def _transposed_bytes(rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The transpose of four words of four bytes."""
    first, second, third, fourth = rows
    result = []
    # The lower two bytes of each, alternating; the upper two.
    for pairs in (0x05010400, 0x07030602):
        above, below = native.permuted(second, first, pairs), native.permuted(fourth, third, pairs)
        result += [native.permuted(below, above, halves) for halves in (0x05040100, 0x07060302)]
    return result


def transposed_block(chunk: int, width: int, each: int, size: int) -> tuple[int, int]:
    """How many k's and rows a thread transposes at a time, of `each` elements that it moves.

    The run along k is the longest, for wide writes to LDS, that leaves reads of 16 bytes, or
    reads of 8 bytes with writes of 8.
    """
    each &= -each  # a power of two, as the others are
    run = chunk
    while run > 1:
        across = min(width, each // run)
        if across * size >= (CHUNK_BYTES if run * size > 8 else 8):
            return run, across
        run //= 2
    run = min(chunk, each)
    return run, max(1, min(width, each // run))
