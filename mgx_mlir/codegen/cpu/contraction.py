"""Matrix products as register tiles over packed blocks.

A work item owns some rows and one block of columns of C. It packs its block of B where that is not
shared, and for each register tile of rows the rows of A where tiles do not read these in place. The
tile's sums stay in registers for the whole
depth of a block, pass through a small tile in memory, and leave through the epilogue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu import joined, pack
from mgx_mlir.codegen.cpu.pack import Copy, InPlace, Line, Packed, Packing
from mgx_mlir.codegen.cpu.schedule import PACK_DEPTH, SUM_DEPTH, CpuSchedule, are_signed
from mgx_mlir.codegen.problem.problem import Contraction, Matrix
from mgx_mlir.sizes.arithmetic import Size, ceil_div

# store(sums, batch, m, n, mask): handles a vector of results of row m from column n on.
Store = Callable[[ir.Value, Index, Index, Index, ir.Value | None], None]


def emit_contraction(
    problem: Contraction,
    schedule: CpuSchedule,
    a: ir.Value,
    b: ir.Value,
    store: Store,
    begin: ir.Value,
    end: ir.Value,
    rows: ir.Value | None = None,
) -> None:
    """Builds the work of items begin .. end at the insertion point.

    `b` is the operand or, with a schedule that shares it, the block that `emit_packing` made.
    `rows`: those of A and C where a run knows them and problem.M is their usual number. Sizes of
    the problem may be formulas.
    """
    _Emitter(problem, schedule, a, b, store, rows).emit(begin, end)


def emit_packing(
    problem: Contraction,
    schedule: CpuSchedule,
    b: ir.Value,
    packed: ir.Value,
    begin: Index,
    end: Index,
    rows: tuple[int, int] | None = None,
) -> None:
    """Builds the packing of B for all items: pieces begin .. end, PACK_DEPTH rows of a block.

    `rows`: of a block that B is a part of, its first one and their number.
    """
    before, size = rows or (0, problem.K)
    parts, blocks = ceil_div(size, PACK_DEPTH), schedule.column_blocks(problem)
    raw = raw_block(problem, schedule)

    def item(number: Index) -> None:
        k = emit.mul(emit.rem(number, parts), PACK_DEPTH)
        block = emit.div(number, parts)
        depth = emit.minimum(PACK_DEPTH, emit.sub(size, k)) if size % PACK_DEPTH else PACK_DEPTH
        batch = emit.div(block, blocks)
        columns = column_block(problem, schedule, emit.rem(block, blocks))
        start = emit.mul(block, schedule.packed_block(problem))
        target = first_block(problem, schedule, packed)
        start = emit.linear(start, (emit.add(k, before), target.k_step))
        element = schedule.held_element(problem)
        copy = Copy(b, replace(target, start=start), element, schedule.lanes, batch, k, depth)
        pack_block(problem, schedule, copy, columns, raw)

    emit.loop(begin, end, 1, item)


@dataclass(frozen=True)
class Columns:
    """One block of columns: the first column of C, and their count."""

    first: Index
    count: Index


def column_block(problem: Contraction, schedule: CpuSchedule, number: Index) -> Columns:
    first, most = emit.mul(number, schedule.columns), schedule.columns
    left = most if problem.N % most == 0 else emit.sub(problem.N, first)
    return Columns(first, emit.minimum(most, left))


def first_block(problem: Contraction, schedule: CpuSchedule, memory: ir.Value) -> Packed:
    """The first packed block of B in `memory`."""
    k_step, vector_step = schedule.packing(problem)
    return Packed(memory, 1, k_step, vector_step=vector_step)


def raw_block(problem: Contraction, schedule: CpuSchedule) -> ir.Value | None:
    """The memory of PACK_DEPTH packed rows before some of them are interleaved."""
    if schedule.joined == 1:
        return None
    size = PACK_DEPTH * schedule.packed_row + schedule.lanes
    return emit.stack(size, schedule.held_element(problem))


def pack_block(
    problem: Contraction,
    schedule: CpuSchedule,
    copy: Copy,
    columns: Columns,
    raw: ir.Value | None = None,
) -> None:
    """Packs rows k .. k + depth of one block of columns of B, joined by way of `raw`."""
    if raw is not None:

        def piece(first: Index) -> None:
            depth = emit.minimum(PACK_DEPTH, emit.sub(copy.depth, first))
            here = emit.linear(copy.target.start, (first, copy.target.k_step))
            rows = Packed(raw, 1, schedule.packed_row)
            part = replace(copy, target=rows, k=emit.add(copy.k, first), depth=depth)
            pack_block(problem, schedule, part, columns)
            vectors = emit.div(emit.add(columns.count, copy.lanes - 1), copy.lanes)
            target = replace(copy.target, start=here)
            shifted = are_signed(problem)
            joined.interleave(part, target, vectors, schedule.joined, shifted)

        emit.loop(0, copy.depth, PACK_DEPTH, piece)
        return
    vectors = emit.div(emit.add(columns.count, copy.lanes - 1), copy.lanes)
    assert isinstance(problem.b, Matrix)
    pack.pack_b(copy, problem.b, columns.first, vectors)


@dataclass(frozen=True)
class _Rows:
    """Rows of A: element k of row i lies at starts[i] + k * k_step.

    With `runs`, k is that of all of A, from `first` on, and a row is such runs (`pack.InPlace`).
    """

    memory: ir.Value
    starts: list[Index]
    k_step: int
    runs: InPlace | None = None
    first: Index = 0


class _Emitter:
    def __init__(
        self,
        problem: Contraction,
        schedule: CpuSchedule,
        a: ir.Value,
        b: ir.Value,
        store: Store,
        count: ir.Value | None = None,
    ) -> None:
        if count is None and isinstance(problem.M, Size):
            count = emit.value(problem.M)
        self.problem, self.schedule, self.count = problem, schedule, count
        self.a, self.b, self.store = a, b, store
        self.lanes = schedule.lanes
        # Blocks of depth: of any depth several, through which sums go, and one of nothing.
        self.depths: Index = schedule.depths(problem)
        self.is_deep = not isinstance(self.depths, int) or self.depths > 1
        if isinstance(self.depths, Size):
            self.depths = emit.maximum(self.depths, 1)
        self.width = ceil_div(schedule.columns, self.lanes) * self.lanes
        self.packed, self.held = schedule.packed_element(problem), schedule.held_element(problem)
        # The type of the sums in registers.
        self.element = problem.accumulator if schedule.joined > 1 else self.packed
        self.line = problem.b if isinstance(problem.b, Line) else None
        self.raw = None if schedule.shared else raw_block(problem, schedule)
        if not (schedule.shared or self.line):
            b = emit.stack(schedule.packed_block(problem), self.held)
        self.packed_b = (
            Packed(b, 1, 0, 0, self.lanes) if self.line else first_block(problem, schedule, b)
        )
        self.packed_a = None if schedule.reads_in_place(problem) else self._room_for_rows()
        shifted = schedule.joined == 4 and are_signed(problem)
        self.offsets = emit.stack(schedule.rows, "i32") if shifted else None
        self.row_tiles = ceil_div(schedule.item_rows, schedule.rows)
        # Heights of register tiles, the vectors of each, and its rows past those that there are.
        self.tiles = {schedule.rows: (schedule.vectors, 0)}
        if count is not None:
            self.tiles = schedule.tiles(repeats=not isinstance(problem.a, InPlace | Packing))
        most = max(wide for wide, _ in self.tiles.values())
        self.sum_row = self.width if self.is_deep else most * self.lanes
        tiles = (self.row_tiles if self.is_deep else 1) + (count is not None)
        self.sums = emit.stack(tiles * schedule.rows * self.sum_row, problem.accumulator)

    def _room_for_rows(self) -> Packed:
        """Memory for a tile's rows of A."""
        schedule, lanes, a = self.schedule, self.lanes, self.problem.a
        depth = ceil_div(schedule.depth, lanes) * lanes
        # The first row of a tile may be any: blocks of rows would be crossed.
        if schedule.joined > 1 or a.row.stride != 1 or a.column.contiguous(lanes):
            a_row = depth + lanes
            return Packed(emit.stack(schedule.rows * a_row, self.packed), a_row, 1)
        a_row = ceil_div(schedule.rows, lanes) * lanes
        return Packed(emit.stack(depth * a_row, self.packed), 1, a_row)

    def emit(self, begin: ir.Value, end: ir.Value) -> None:
        """Orders items [batch, column block, row block], so that neighbours share B."""
        item_rows = self.schedule.item_rows
        row_blocks: Index = self.schedule.row_blocks(self.problem)
        if self.count is not None:
            row_blocks = emit.div(emit.add(self.count, item_rows - 1), item_rows)
        column_blocks = self.schedule.column_blocks(self.problem)

        lines = 1 if self.line is None else self.line.lines

        def item(number: Index, image: Index, part: Index, line: Index, row_block: Index) -> None:
            batch = image if lines == 1 else emit.Digits(image, line, lines)
            block = emit.linear(part, (batch, column_blocks))
            columns = column_block(self.problem, self.schedule, part)
            first = emit.mul(row_block, item_rows)
            most = self.problem.M if self.count is None else self.count
            rows = emit.minimum(item_rows, emit.sub(most, first))
            if isinstance(most, int) and most % item_rows == 0:
                rows = item_rows
            fresh: ir.Value | bool = True
            if self.schedule.shared:
                fresh = False
                is_one = not self.problem.b.batch.factors and self.problem.batch != 1
                own = part if is_one else block
                start = emit.mul(own, self.schedule.packed_block(self.problem))
                self.packed_b = replace(self.packed_b, start=start)
            elif self.line is not None:
                fresh = False
                start = emit.add(self.line.start(batch), columns.first)
                self.packed_b = replace(self.packed_b, start=start)
            elif not self.is_deep and row_blocks != 1:
                # The previous item's packed block of B serves this one too.
                is_first = emit.compare("eq", row_block, 0)
                fresh = arith.ori(is_first, emit.compare("eq", number, begin))
            self._item(batch, first, rows, columns, fresh)

        emit.count(begin, end, (column_blocks, lines, row_blocks), item)

    def _item(
        self, batch: Index, first: Index, rows: Index, columns: Columns, fresh: ir.Value | bool
    ) -> None:
        problem, schedule, lanes = self.problem, self.schedule, self.lanes
        vectors = emit.div(emit.add(columns.count, lanes - 1), lanes)

        def depth_block(number: Index) -> None:
            k = emit.mul(number, schedule.depth)
            depth: Index = schedule.depth
            if problem.K % schedule.depth:
                depth = emit.minimum(depth, emit.sub(problem.K, k))
            copy_b = Copy(self.b, self.packed_b, self.held, lanes, batch, k, depth)
            emit.when(fresh, lambda: pack_block(problem, schedule, copy_b, columns, self.raw))
            first_row: Index = k if schedule.shared else 0
            is_first: ir.Value | bool = True
            last = is_first
            if self.is_deep:
                is_first = emit.compare("eq", number, 0)
                last = emit.compare("eq", number, emit.sub(self.depths, 1))

            def row_tile(row: Index, height: int) -> None:
                m, (wide, past) = emit.add(first, row), self.tiles[height]
                begin = m
                if self.count is None and problem.M % height:
                    # The last tile begins before the rows that are left.
                    begin = emit.minimum(m, problem.M - height)
                most = emit.sub(self.count, 1) if past and self.count is not None else None
                left = self._rows_of(batch, k, depth, begin, height, most)
                end = emit.minimum(height, emit.sub(rows, row)) if past else height

                def tile(vector: Index, count: int) -> None:
                    column = emit.mul(vector, lanes)
                    at: Index = 0
                    if self.is_deep:
                        at = emit.linear(column, (row, self.sum_row))
                        # Sums of one block go no further: they stay in the first-level cache.
                        if not isinstance(self.depths, int):
                            at = emit.select(emit.compare("eq", self.depths, 1), 0, at)
                    steps = vector, (height, count), first_row, depth
                    self._multiply(*steps, at, left, is_first)
                    own = begin, emit.sub(m, begin), end
                    store = partial(self._store_tile, batch, own, columns, column, count)
                    emit.when(last, lambda: store(at))

                done: Index = 0
                for width in self._widths(wide):
                    parts = emit.div(emit.sub(vectors, done), width)
                    there = emit.add(done, emit.mul(parts, width))
                    emit.loop(done, there, width, partial(tile, count=width))
                    done = there

            if self.count is None:
                emit.loop(0, rows, schedule.rows, partial(row_tile, height=schedule.rows))
                return
            done: Index = 0
            for height, (_, past) in self.tiles.items():
                left = emit.add(emit.sub(rows, done), past)
                end = emit.add(done, emit.mul(emit.div(left, height), height))
                emit.loop(done, end, height, partial(row_tile, height=height))
                done = emit.minimum(end, rows) if past else end

        emit.loop(0, self.depths, 1, depth_block)

    def _widths(self, widest: int) -> list[int]:
        """Vectors of tiles for any number of vectors, falling to 1: halves for symbolic lines."""
        is_line = self.line is not None and not isinstance(self.problem.N, int)
        halves = [widest >> n for n in range(1, widest.bit_length() - 1)] if is_line else []
        return list(dict.fromkeys([widest, *halves, 1]))

    def _rows_of(
        self, batch: Index, k: Index, depth: Index, first: Index, rows: int, most: Index | None
    ) -> _Rows:
        """Columns k .. k + depth of rows of A from `first` on, of which row `most` is the last:
        where they lie, or packed."""
        a, packed = self.problem.a, self.packed_a
        if isinstance(a, InPlace):
            return _Rows(self.a, a.starts(batch, first, rows), 1, a, k)
        numbers = [emit.add(first, row) for row in range(rows)]
        if most is not None:
            numbers[1:] = [emit.minimum(number, most) for number in numbers[1:]]
        if packed is None:
            start = emit.add(a.start(batch), k)
            return _Rows(self.a, [emit.add(start, a.row.offset(n)) for n in numbers], 1)
        copy = Copy(self.a, packed, self.packed, self.lanes, batch, k, depth)
        pack.pack_a(copy, a, numbers)
        if self.offsets is not None:
            joined.store_offsets(copy, rows, self.offsets)
        return _Rows(packed.memory, [row * packed.step for row in range(rows)], packed.k_step)

    def _multiply(
        self,
        vector: Index,
        tile: tuple[int, int],
        row: Index,
        depth: Index,
        at: Index,
        left: _Rows,
        is_first: ir.Value | bool,
    ) -> None:
        """Adds one register tile's products over a block's depth to the sums from `at` on, of which
        the first block has none.

        `vector`: the tile's first. `tile`: its rows and vectors. The block starts at row `row` of
        the packed B.
        """
        together = self.schedule.joined
        lanes, (rows, vectors) = self.lanes, tile
        packed_b = self.packed_b
        right_start = emit.linear(packed_b.vector(vector, lanes), (row, packed_b.k_step))
        element, accumulator, wide = self.element, self.problem.accumulator, lanes * together
        places = [
            emit.add(at, row * self.sum_row + j * lanes)
            for row in range(rows)
            for j in range(vectors)
        ]
        start = -math.inf if self.line is not None and self.line.is_largest else 0
        zero = emit.constant(start, element, lanes)

        def step(k: Index, *sums: ir.Value, far: Index = 0, near: Index = 0) -> list[ir.Value]:
            base = emit.linear(emit.add(right_start, near), (k, packed_b.k_step))
            right = [
                emit.load_vector(packed_b.memory, emit.add(base, j * packed_b.vector_step), wide)
                for j in range(vectors)
            ]
            if self.held != self.packed:
                right = [emit.convert(x, self.problem.b.element, self.packed) for x in right]
            base = emit.add(emit.mul(k, left.k_step), far)
            result = list(sums)
            # The fewer of the two stay in registers.
            order = [divmod(number, vectors) for number in range(rows * vectors)]
            if rows < vectors:
                order.sort(key=lambda place: place[1])
            column: dict[int, ir.Value] = {}
            for row, j in order:
                if row not in column:
                    place = emit.add(base, left.starts[row])
                    column[row] = self._left(left.memory, place)
                at = row * vectors + j
                result[at] = self._added(column[row], right[j], result[at])
            return result

        def put(result: Sequence[ir.Value], is_first: bool) -> None:
            for place, x in zip(places, result, strict=True):
                total = emit.convert(x, element, accumulator)
                if not is_first:
                    before = emit.load_vector(self.sums, place, lanes)
                    total = emit.plus(before, total, accumulator)
                emit.store_vector(total, self.sums, place)

        def part(first: Index, end: Index, is_first: ir.Value | bool) -> None:
            starts = [zero] * len(places)
            if self.offsets is not None:
                loaded = [emit.load(self.offsets, row) for row in range(rows)]
                starts = [emit.splat(x, lanes) for x in loaded for _ in range(vectors)]
            result = self._steps(left, first, end, step, starts)
            emit.when(is_first, partial(put, result, True), partial(put, result, False))

        if not self.schedule.totals(self.problem):
            part(0, depth, is_first)
            return
        some = SUM_DEPTH
        if self.line is not None:
            some = SUM_DEPTH // len(self.line.taps) * len(self.line.taps)
        part(0, emit.minimum(some, depth) if self.is_deep else some, is_first)

        def more(k: Index) -> None:
            part(k, emit.minimum(emit.add(k, some), depth), False)

        emit.loop(some, depth, some, more)

    def _steps(
        self,
        left: _Rows,
        first: Index,
        end: Index,
        step: Callable[..., list[ir.Value]],
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """The sums after steps first .. end of k, of a block that starts at `left.first`."""
        if self.line is not None:
            taps, places = self.line.taps, self.line.runs

            def line(number: Index, *sums: ir.Value) -> list[ir.Value]:
                start, place, found = emit.mul(number, len(taps)), places.offset(number), list(sums)
                for tap, ahead in enumerate(taps):
                    found = step(emit.add(start, tap), *found, near=emit.add(place, ahead))
                return found

            return emit.loop(emit.div(first, len(taps)), emit.div(end, len(taps)), 1, line, sums)
        if left.runs is None:
            return emit.loop(first, end, self.schedule.joined, step, sums)
        length, runs = left.runs.length, left.runs.runs

        def run(number: Index, *sums: ir.Value) -> list[ir.Value]:
            start = emit.sub(emit.mul(number, length), left.first)
            low = emit.maximum(start, first)
            high = emit.minimum(emit.add(start, length), end)
            far = emit.sub(runs.offset(number), start)
            return emit.loop(low, high, 1, partial(step, far=far), sums)

        low, high = emit.add(left.first, first), emit.add(left.first, end)
        high = emit.div(emit.add(high, length - 1), length)
        return emit.loop(emit.div(low, length), high, 1, run, sums)

    def _left(self, memory: ir.Value, place: Index) -> ir.Value:
        """An element of A in all lanes, or those that are joined."""
        if self.schedule.joined > 1:
            return joined.splat(memory, place, self.lanes, self.schedule.joined)
        return emit.splat(emit.load(memory, place), self.lanes)

    def _added(self, left: ir.Value, right: ir.Value, sums: ir.Value) -> ir.Value:
        """The sums and the products of two vectors."""
        if self.schedule.joined > 1:
            unsigned = self.schedule.joined == 4 and self.problem.a.element == "ui8"
            return joined.dot(sums, *((left, right) if unsigned else (right, left)))
        if self.line is not None and self.line.is_largest:  # the largest, of zeros any
            return arith.maximumf(sums, right, fastmath=arith.FastMathFlags.nsz)
        return emit.multiply_add(left, right, sums, self.element)

    def _store_tile(
        self,
        batch: Index,
        rows: tuple[Index, Index, Index],
        columns: Columns,
        column: Index,
        vectors: int,
        at: Index,
    ) -> None:
        """Stores a tile. `rows`: its first row, and from which to which of its rows."""
        lanes, (m, before, end) = self.lanes, rows

        def row(mask: ir.Value | None, r: Index) -> None:
            for j in range(vectors):
                here = emit.add(column, j * lanes)
                place = emit.linear(emit.add(at, j * lanes), (r, self.sum_row))
                x = emit.load_vector(self.sums, place, lanes)
                to = batch, emit.add(m, r), emit.add(columns.first, here)
                self.store(x, *to, mask if j == vectors - 1 else None)

        # Only the last vector may have fewer columns. Stores of parts of vectors take many times as
        # long on some processors.
        left = emit.sub(columns.count, emit.add(column, (vectors - 1) * lanes))
        exact = isinstance(columns.count, int) and columns.count % lanes == 0
        whole = partial(emit.loop, before, end, 1, partial(row, None))

        def part() -> None:
            emit.loop(before, end, 1, partial(row, emit.lane_mask(left, lanes)))

        emit.when(exact or emit.compare("sge", left, lanes), whole, part)
