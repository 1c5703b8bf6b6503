"""Copies of operand blocks into the layout that the register tiles read.

A block of A is packed for one register tile, a block of B for all tiles of a work item. The
elements have the accumulator's type and are contiguous. Blocks are complete: rows and columns
past the end hold numbers that no stored result depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.problem.problem import Axis, Computed, Matrix
from mgx_mlir.sizes.arithmetic import Number

# Rows of B that are on their way from memory while one is packed: they lie too far apart for the
# processor to foresee them.
ROWS_AHEAD = 8


@dataclass(frozen=True)
class Packed:
    """A packed block: element (x, k) lies at start + x * step + k * k_step of `memory`.

    vector_step: elements from one vector of columns to the next, where these do not follow each
    other.
    """

    memory: ir.Value
    step: int
    k_step: int
    start: Index = 0
    vector_step: int = 0

    def vector(self, number: Index, lanes: int) -> Index:
        """Where a vector of columns starts."""
        return emit.linear(self.start, (number, self.vector_step or lanes))


@dataclass(frozen=True)
class Copy:
    """A copy of an operand's elements of one batch, from k on, `depth` of them, into a block.

    `source`: the operand's memory, or what gives vectors of a computed one. `accumulator`: the
    element type of the block. `lanes`: those of the vectors that are moved.
    """

    source: Any  # ir.Value | Vectors
    target: Packed
    accumulator: str
    lanes: int
    batch: Index
    k: Index
    depth: Index

    def store(self, x: ir.Value, element: str, place: Index) -> None:
        """Stores a vector of operand elements at a place of the block, converted."""
        emit.store_vector(emit.convert(x, element, self.accumulator), self.target.memory, place)


@dataclass(frozen=True)
class Packing(Matrix):
    """A left operand that packs rows itself."""

    def pack(self, copy: Copy, first: Index, rows: int) -> None:
        """As `pack_a`, each row's elements contiguous."""
        raise NotImplementedError


@dataclass(frozen=True)
class InPlace(Matrix):
    """A left operand whose rows are runs of `length` elements, `runs` of them, read in place.

    Element k of a row is element k % length of run k / length.
    """

    runs: Axis
    length: int

    def starts(self, batch: Index, first: Index, rows: int) -> list[Index]:
        """Where so many rows from `first` on begin."""
        raise NotImplementedError


@dataclass(frozen=True)
class Line(Matrix):
    """A right operand whose columns are neighbours in memory, read in place: up to a vector more.

    Element k of a column lies in run k / n, of `runs`, at place k % n of the n `taps`. phases: the
    neighbours in memory of a pixel, each for one tap in so many. is_largest: the largest element is
    wanted, not the sum of products. lines: the batch's last digits are below it.
    """

    runs: Axis
    taps: tuple[int, ...]
    phases: int
    is_largest: bool
    lines: Number

    @property
    def held(self) -> int:
        """Bytes of memory that a column reads."""
        return emit.element_bytes(self.element) * self.runs.size * self.phases


def pack_a(copy: Copy, matrix: Matrix, rows: Sequence[Index]) -> None:
    """Packs columns k .. k + depth of rows of A: neighbours, but that the last may come again.

    With a target of `k_step` 1, each row's elements are contiguous; else those of each k are.
    """
    if isinstance(matrix, Packing):
        matrix.pack(copy, rows[0], len(rows))
        return
    start = matrix.start(copy.batch)
    if copy.target.k_step != 1:
        _pack_a_by_columns(copy, matrix, start, rows[0], len(rows))
        return
    _pack_a_by_rows(copy, matrix, [emit.add(start, matrix.row.offset(row)) for row in rows])


def _pack_a_by_columns(copy: Copy, matrix: Matrix, start: Index, first: Index, rows: int) -> None:
    lanes, size = copy.lanes, matrix.row.size
    mask = emit.lane_mask(emit.sub(size, first), lanes)

    def column(i: Index) -> None:
        place = emit.add(start, matrix.column.offset(emit.add(copy.k, i)))
        for at in range(0, rows, lanes):
            here = emit.add(place, matrix.row.offset(emit.add(first, at)))
            part = mask if not at else emit.lane_mask(emit.sub(size - at, first), lanes)
            x = emit.load_vector(copy.source, here, lanes, part)
            copy.store(x, matrix.element, emit.add(emit.mul(i, copy.target.k_step), at))

    emit.loop(0, copy.depth, 1, column)


def _pack_a_by_rows(copy: Copy, matrix: Matrix, places: Sequence[Index]) -> None:
    """Packs the rows that start at `places`."""
    lanes, step, to = copy.lanes, copy.target.step, copy.target.start
    if not matrix.column.contiguous(lanes):

        def scalars(i: Index) -> None:
            moved = matrix.column.offset(emit.add(copy.k, i))
            for row, place in enumerate(places):
                x = emit.load(copy.source, emit.add(place, moved))
                x = emit.convert(x, matrix.element, copy.accumulator)
                emit.store(x, copy.target.memory, emit.add(to, emit.add(i, row * step)))

        emit.loop(0, copy.depth, 1, scalars)
        return
    exact = matrix.column.size % lanes == 0

    def vectors(i: Index) -> None:
        moved = matrix.column.offset(emit.add(copy.k, i))
        mask = None if exact else emit.lane_mask(emit.sub(copy.depth, i), lanes)
        for row, place in enumerate(places):
            x = emit.load_vector(copy.source, emit.add(place, moved), lanes, mask)
            copy.store(x, matrix.element, emit.add(to, emit.add(i, row * step)))

    emit.loop(0, copy.depth, lanes, vectors)


def pack_b(copy: Copy, matrix: Matrix, first: Index, vectors: Index) -> None:
    """Packs rows k .. k + depth of B, `vectors` vectors of columns from `first` on."""
    start = matrix.start(copy.batch)
    if matrix.column.contiguous(copy.lanes) and not isinstance(matrix, Computed):
        _pack_b_by_rows(copy, matrix, start, first, vectors)
    elif isinstance(matrix, Computed) or matrix.row.contiguous(copy.lanes):
        _pack_b_by_squares(copy, matrix, start, first, vectors)
    else:
        _pack_b_by_elements(copy, matrix, start, first, vectors)


def _pack_b_by_rows(copy: Copy, matrix: Matrix, start: Index, first: Index, vectors: Index) -> None:
    lanes, columns, target = copy.lanes, matrix.column.size, copy.target

    def row(i: Index) -> None:
        place = emit.add(start, matrix.row.offset(emit.add(copy.k, i)))
        later = emit.minimum(emit.add(i, ROWS_AHEAD), emit.sub(copy.depth, 1))
        ahead = emit.add(start, matrix.row.offset(emit.add(copy.k, later)))

        def part(j: Index) -> None:
            column = emit.mul(j, lanes)
            here = emit.add(first, column)
            moved = emit.add(place, matrix.column.offset(here))
            emit.prefetch(copy.source, emit.add(ahead, matrix.column.offset(here)))
            # The columns that exist.
            mask = None if columns % lanes == 0 else emit.lane_mask(emit.sub(columns, here), lanes)
            x = emit.load_vector(copy.source, moved, lanes, mask)
            x = emit.convert(x, matrix.element, copy.accumulator)
            to = emit.linear(target.vector(j, lanes), (i, target.k_step))
            emit.store_vector(x, target.memory, to)

        emit.loop(0, vectors, 1, part)

    emit.loop(0, copy.depth, 1, row)


def _pack_b_by_squares(
    copy: Copy, matrix: Matrix, start: Index, first: Index, vectors: Index
) -> None:
    """Transposes squares of `lanes` rows and columns: columns are contiguous."""
    lanes, columns, target = copy.lanes, matrix.column.size, copy.target
    exact = matrix.row.size % lanes == 0

    def block(j: Index) -> None:
        column = emit.mul(j, lanes)
        own = [emit.add(emit.add(first, column), lane) for lane in range(lanes)]
        if columns % lanes:
            own = [emit.minimum(here, columns - 1) for here in own]
        places = [emit.add(start, matrix.column.offset(here)) for here in own]

        def part(number: int, i: Index, mask: ir.Value | None) -> ir.Value:
            k = emit.add(copy.k, i)
            if isinstance(matrix, Computed):
                return copy.source(copy.batch, k, own[number], lanes, True)
            here = emit.add(places[number], matrix.row.offset(k))
            return emit.load_vector(copy.source, here, lanes, mask)

        def square(i: Index) -> None:
            mask = None if exact else emit.lane_mask(emit.sub(copy.depth, i), lanes)
            rows = [
                emit.convert(part(number, i, mask), matrix.element, copy.accumulator)
                for number in range(lanes)
            ]
            for number, x in enumerate(transpose(rows)):
                row = emit.add(i, number)
                here = emit.linear(target.vector(j, lanes), (row, target.k_step))
                emit.store_vector(x, target.memory, here)

        emit.loop(0, copy.depth, lanes, square)

    emit.loop(0, vectors, 1, block)


def _pack_b_by_elements(
    copy: Copy, matrix: Matrix, start: Index, first: Index, vectors: Index
) -> None:
    target = copy.target

    def row(i: Index) -> None:
        place = emit.add(start, matrix.row.offset(emit.add(copy.k, i)))

        def element(j: Index) -> None:
            here = emit.minimum(emit.add(first, j), matrix.column.size - 1)
            x = emit.load(copy.source, emit.add(place, matrix.column.offset(here)))
            x = emit.convert(x, matrix.element, copy.accumulator)
            lane = emit.rem(j, copy.lanes)
            to = emit.add(target.vector(emit.div(j, copy.lanes), copy.lanes), lane)
            emit.store(x, target.memory, emit.linear(to, (i, target.k_step)))

        emit.loop(0, emit.mul(vectors, copy.lanes), 1, element)

    emit.loop(0, copy.depth, 1, row)


def turn_square(
    side: int, source: tuple[ir.Value, Index, Index], target: tuple[ir.Value, Index, Index]
) -> None:
    """Transposes a square from one memory to another: memory, first element, step of lines."""
    memory, place, step = source
    lines = [emit.load_vector(memory, emit.linear(place, (n, step)), side) for n in range(side)]
    memory, place, step = target
    for n, x in enumerate(transpose(lines)):
        emit.store_vector(x, memory, emit.linear(place, (n, step)))


def transpose(rows: list[ir.Value]) -> list[ir.Value]:
    """Transposes a square of n vectors of n lanes, n a power of two, in log2(n) stages."""
    n = len(rows)
    distance = n // 2
    while distance:
        # Swap the off-diagonal quarters of each square of 2 * distance.
        low = [(lane & ~distance) + (n if lane & distance else 0) for lane in range(n)]
        high = [(lane | distance) + (n if lane & distance else 0) for lane in range(n)]
        result = list(rows)
        for i in range(n):
            if not i & distance:
                a, b = rows[i], rows[i | distance]
                result[i] = vector.shuffle(a, b, low)
                result[i | distance] = vector.shuffle(a, b, high)
        rows = result
        distance //= 2
    return rows
