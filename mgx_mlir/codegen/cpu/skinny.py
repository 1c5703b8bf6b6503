"""Products with few rows (skinny): B is read once, without packing, at the speed of memory.

Where the elements of a row of B are contiguous (k-major), a tile is a few rows by several vectors
of columns, as in `contraction`. Where the elements of a column are (the weights of a fully
connected layer), sums run along k in vectors, several columns at a time. Their lanes are added
up at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu import pack
from mgx_mlir.codegen.cpu.contraction import Store
from mgx_mlir.codegen.cpu.pack import Packed
from mgx_mlir.codegen.cpu.schedule import SUM_DEPTH, Machine, joined_by, packs_once
from mgx_mlir.codegen.problem.computed import readable
from mgx_mlir.codegen.problem.problem import Computed, Contraction, Matrix, transposed
from mgx_mlir.sizes.arithmetic import Size, ceil_div

# vectors(batch, k, column, lanes, along rows): gives elements of a computed operand.
Vectors = Callable[[Index, Index, Index, int, bool], ir.Value]

MAX_ROWS = 8
# Bytes of the packed rows of A: they stay in the caches beside the stream of B.
MAX_A_BYTES = 256 << 10
# Bytes of B that one work item reads, where columns of B are contiguous.
ITEM_BYTES = 256 << 10
# Columns of a work item where rows of B are contiguous: few long runs, but several items.
LEAST_COLUMNS, MOST_COLUMNS = 256, 2048
# Vectors of products along k that one sum adds up before it goes to a total.
SUM_VECTORS = 64
# With more rows than this, packing B pays; with more than one where that is done once, and elements
# stay as they are.
MAX_ROWS_ACROSS = 2
# Costs in multiply-adds of one vector: a vector of B from memory, one of A, sums that are loaded
# and stored, and adding up the lanes of a sum.
LOAD, LOAD_A, LOAD_SUMS, SUM = 2.0, 1.0, 2.0, 8.0


@dataclass(frozen=True)
class Skinny:
    """How a product with few rows is cut.

    `columns` belong to a work item. `along_k`: sums run along k in vectors, `tile` columns
    at a time; else along the columns, `tile` rows of k at a time. `transposed`: the product is
    transposed, because its transpose has few rows.
    """

    lanes: int
    along_k: bool
    tile: int
    columns: int
    transposed: bool = False

    def __str__(self) -> str:
        way = "along k" if self.along_k else "across k"
        turned = " of the transposed product" if self.transposed else ""
        return f"few rows{turned}, sums {way}, {self.columns} columns an item"

    def work(self, problem: Contraction) -> float:
        """The estimated work of a problem of given sizes, in multiply-adds of vectors."""
        rows, columns = (problem.N, problem.M) if self.transposed else (problem.M, problem.N)
        steps = problem.K * columns / self.lanes
        if self.along_k:
            return problem.batch * (
                steps * (rows * (1 + LOAD_A / self.tile) + LOAD) + SUM * rows * columns
            )
        return problem.batch * steps * (rows * (1 + LOAD_SUMS / self.tile) + LOAD)

    def items(self, problem: Contraction) -> int:
        columns = problem.M if self.transposed else problem.N
        return problem.batch * ceil_div(columns, self.columns)


def choose_skinny(problem: Contraction, machine: Machine) -> Skinny | None:
    """The cut of a product that this generator takes; None for any other."""
    joined = joined_by(problem, machine)
    if not isinstance(problem.b, Matrix) or (joined > 1 and packs_once(problem)):
        return None  # tiles take several bytes at a time
    if problem.N < problem.M and problem.N <= MAX_ROWS:
        cut = _cut(transposed(problem), machine)
        return replace(cut, transposed=True) if cut and cut.along_k else None
    return _cut(problem, machine) if problem.M <= MAX_ROWS else None


def reads_computed(problem: Contraction, machine: Machine) -> bool:
    """Whether this generator takes the product and computes elements of B as it reads them."""
    if isinstance(problem.a, Computed) or not isinstance(problem.b, Computed):
        return False
    cut = choose_skinny(problem, machine)
    if cut is None or cut.transposed or not cut.along_k or problem.K % cut.lanes:
        return False
    return readable(problem.b, True, cut.lanes)


def _cut(problem: Contraction, machine: Machine) -> Skinny | None:
    lanes = machine.lanes(problem.accumulator)
    size = emit.element_bytes(problem.accumulator)
    if problem.M * problem.K * size > MAX_A_BYTES and not is_direct(problem):
        return None
    assert isinstance(problem.b, Matrix)
    registers = machine.registers - 2
    if problem.b.row.contiguous(lanes) and lanes <= problem.K:
        # M + tile operands and M * tile sums.
        tile = max(1, min(8, (registers - problem.M) // (problem.M + 1)))
        wanted = max(1, ITEM_BYTES // (problem.K * size))
        columns = ceil_div(wanted, lanes) * lanes
        return Skinny(lanes, True, tile, min(columns, ceil_div(problem.N, lanes) * lanes))
    keeps = problem.b.element == problem.accumulator and packs_once(problem)
    most = 1 if keeps else MAX_ROWS_ACROSS
    if problem.b.column.stride == 1 and most >= problem.M:
        tile = min(8, max(1, (registers - problem.M) // problem.M), problem.K)
        wanted = min(max(problem.N // 4, LEAST_COLUMNS), MOST_COLUMNS)
        parts = ceil_div(problem.N, wanted)
        columns = ceil_div(ceil_div(problem.N, parts), lanes) * lanes
        return Skinny(lanes, False, tile, columns)
    return None


def is_direct(problem: Contraction) -> bool:
    """Whether rows of A can be read in vectors without packing."""
    return problem.a.column.stride == 1 and problem.a.element == problem.accumulator


def emit_skinny(
    problem: Contraction,
    cut: Skinny,
    a: ir.Value,
    b: ir.Value | Vectors,
    store: Store,
    begin: ir.Value,
    end: ir.Value,
) -> None:
    """Builds the work of items begin .. end at the insertion point.

    `b` is the operand's memory or, where `reads_computed` holds, the function that computes it.
    """
    if cut.transposed:
        assert isinstance(b, ir.Value)
        problem, a, b = transposed(problem), b, a
    _Emitter(problem, cut, a, b, store).emit(begin, end)


class _Emitter:
    def __init__(
        self, problem: Contraction, cut: Skinny, a: ir.Value, b: ir.Value | Vectors, store: Store
    ) -> None:
        self.problem, self.cut, self.b, self.store = problem, cut, b, store
        assert isinstance(problem.b, Matrix)
        self.matrix = problem.b
        self.lanes = cut.lanes
        self.source = a
        self.direct = is_direct(problem)
        self.packed: Packed | None = None
        accumulator = problem.accumulator
        if not self.direct:
            depth = ceil_div(problem.K, self.lanes) * self.lanes
            self.packed = Packed(emit.stack(problem.M * depth, accumulator), depth, 1)
        # Sums of a transposed product keep the few rows of a column together, in whole vectors:
        # a row of the result.
        self.transposed_row = ceil_div(problem.M, self.lanes) * self.lanes
        rows = self.transposed_row if cut.transposed else problem.M
        self.sums = emit.stack(rows * cut.columns, accumulator)
        # The totals that sums across k are moved to every SUM_DEPTH products.
        self.totals: ir.Value | None = None
        is_long = isinstance(problem.K, Size) or problem.K > SUM_DEPTH
        if not cut.along_k and is_long and emit.is_float(accumulator):
            self.totals = emit.stack(rows * cut.columns, accumulator)

    def emit(self, begin: ir.Value, end: ir.Value) -> None:
        blocks = ceil_div(self.problem.N, self.cut.columns)

        def item(number: Index) -> None:
            batch = emit.div(number, blocks)
            first = emit.mul(emit.rem(number, blocks), self.cut.columns)
            if self.packed is not None:
                problem = self.problem
                copy = pack.Copy(
                    self.source, self.packed, problem.accumulator, self.lanes, batch, 0, problem.K
                )
                pack.pack_a(copy, problem.a, range(problem.M))
            count: Index = self.cut.columns
            if self.problem.N % self.cut.columns:
                count = emit.minimum(count, emit.sub(self.problem.N, first))
            if self.cut.along_k:
                self._along_k(batch, first, count)
            else:
                self._across_k(batch, first, count)
            self._finish(batch, first, count)

        emit.loop(begin, end, 1, item)

    def _left(self, batch: Index, row: int, k: Index) -> tuple[ir.Value, Index]:
        """The memory of A's element [row, k] and its offset there."""
        if self.packed is not None:
            place = emit.linear(row * self.packed.step, (k, self.packed.k_step))
            return self.packed.memory, place
        return self.source, self.problem.a.at(batch, row, k)

    def _across_k(self, batch: Index, first: Index, count: Index) -> None:
        problem, lanes, columns = self.problem, self.lanes, self.cut.columns
        accumulator, b = problem.accumulator, self.b
        assert isinstance(b, ir.Value)
        start = emit.add(self.matrix.start(batch), first)
        zero = emit.constant(0, accumulator, lanes)
        memories = [self.sums, *([] if self.totals is None else [self.totals])]
        for memory in memories:
            emit.loop(
                0,
                problem.M * columns,
                lanes,
                lambda i, memory=memory: emit.store_vector(zero, memory, i),
            )

        def rows(k: Index, depth: int) -> None:
            left = [
                [
                    emit.splat(emit.load(*self._left(batch, row, emit.add(k, i))), lanes)
                    for i in range(depth)
                ]
                for row in range(problem.M)
            ]
            places = [emit.add(start, self.matrix.row.offset(emit.add(k, i))) for i in range(depth)]

            def vectors(column: Index) -> None:
                mask = self._mask(count, column)
                right = []
                for place in places:
                    x = emit.load_vector(b, emit.add(place, column), lanes, mask)
                    right.append(emit.convert(x, self.matrix.element, accumulator))
                for row in range(problem.M):
                    at = emit.add(column, row * columns)
                    total = emit.load_vector(self.sums, at, lanes)
                    for x, y in zip(left[row], right, strict=True):
                        total = emit.multiply_add(x, y, total, accumulator)
                    emit.store_vector(total, self.sums, at)

            emit.loop(0, count, lanes, vectors)

        tile = self.cut.tile
        whole = problem.K // tile * tile
        if self.totals is None:
            emit.loop(0, whole, tile, lambda k: rows(k, tile))
        else:
            step = SUM_DEPTH // tile * tile
            totals = self.totals

            def part(first: Index) -> None:
                end = emit.minimum(emit.add(first, step), whole)
                emit.loop(first, end, tile, lambda k: rows(k, tile))
                self._add_to_totals(totals, zero)

            emit.loop(0, whole, step, part)
        if isinstance(problem.K, Size):
            emit.loop(whole, problem.K, 1, lambda k: rows(k, 1))
        elif problem.K % tile:
            rows(whole, problem.K % tile)
        if self.totals is not None:
            self._add_to_totals(self.totals, None)

    def _add_to_totals(self, totals: ir.Value, zero: ir.Value | None) -> None:
        """Moves the sums to the totals, and sets them to zero; without `zero`, the reverse."""
        lanes = self.lanes

        def vectors(at: Index) -> None:
            x, y = (emit.load_vector(m, at, lanes) for m in (self.sums, totals))
            total = emit.plus(x, y, self.problem.accumulator)
            emit.store_vector(total, self.sums if zero is None else totals, at)
            if zero is not None:
                emit.store_vector(zero, self.sums, at)

        emit.loop(0, self.problem.M * self.cut.columns, lanes, vectors)

    def _mask(self, count: Index, column: Index) -> ir.Value | None:
        """The mask of a vector of a work item's columns; None where all columns exist."""
        if self.problem.N % self.lanes == 0:
            return None
        return emit.lane_mask(emit.sub(count, column), self.lanes)

    def _along_k(self, batch: Index, first: Index, count: Index) -> None:
        start, width = self.matrix.start(batch), self.cut.tile

        def tile(column: Index, width: int) -> None:
            here = emit.add(first, column)
            places = [
                emit.add(start, self.matrix.column.offset(emit.add(here, j))) for j in range(width)
            ]
            for number, sums in enumerate(self._sums_along_k(batch, here, places)):
                x = emit.reduce_add(sums, self.problem.accumulator)
                row, j = divmod(number, width)
                at = emit.add(column, row * self.cut.columns + j)
                if self.cut.transposed:
                    at = emit.add(emit.mul(emit.add(column, j), self.transposed_row), row)
                emit.store(x, self.sums, at)

        tiled = emit.mul(emit.div(count, width), width)
        emit.loop(0, tiled, width, lambda column: tile(column, width))
        emit.loop(tiled, count, 1, lambda column: tile(column, 1))

    def _sums_along_k(
        self, batch: Index, first: Index, places: Sequence[Index]
    ) -> Sequence[ir.Value]:
        """Vectors of partial sums of each row with the columns at `places`, `first` and next."""
        problem, lanes, width = self.problem, self.lanes, len(places)

        def step(k: Index, mask: ir.Value | None, sums: list[ir.Value]) -> list[ir.Value]:
            moved = self.matrix.row.offset(k)
            left = []
            for row in range(problem.M):
                memory, place = self._left(batch, row, k)
                left.append(emit.load_vector(memory, place, lanes, mask))
            result = list(sums)
            for j, place in enumerate(places):
                if isinstance(self.b, ir.Value):
                    x = emit.load_vector(self.b, emit.add(place, moved), lanes, mask)
                else:
                    x = self.b(batch, k, emit.add(first, j), lanes, True)
                x = emit.convert(x, self.matrix.element, problem.accumulator)
                for row in range(problem.M):
                    at = row * width + j
                    result[at] = emit.multiply_add(left[row], x, result[at], problem.accumulator)
            return result

        zero = emit.constant(0, problem.accumulator, lanes)
        whole = problem.K // lanes * lanes
        sums = [zero] * (problem.M * width)

        def part(first: Index, end: Index) -> list[ir.Value]:
            return emit.loop(first, end, lanes, lambda k, *s: step(k, None, list(s)), sums)

        far = SUM_VECTORS * lanes
        if whole <= far or not emit.is_float(problem.accumulator):
            sums = part(0, whole)
        else:

            def some(k: Index, *totals: ir.Value) -> list[ir.Value]:
                found = part(k, emit.minimum(emit.add(k, far), whole))
                return [
                    emit.plus(x, y, problem.accumulator) for x, y in zip(totals, found, strict=True)
                ]

            sums = emit.loop(0, whole, far, some, sums)
        if problem.K % lanes:
            sums = step(whole, emit.lane_mask(problem.K - whole, lanes), sums)
        return sums

    def _finish(self, batch: Index, first: Index, count: Index) -> None:
        lanes = self.lanes
        if self.cut.transposed:

            def result_row(column: Index) -> None:
                for row in range(0, self.problem.M, lanes):
                    mask = emit.lane_mask(self.problem.M - row, lanes)
                    at = emit.add(emit.mul(column, self.transposed_row), row)
                    x = emit.load_vector(self.sums, at, lanes)
                    self.store(x, batch, emit.add(first, column), row, mask)

            emit.loop(0, count, 1, result_row)
            return

        def vectors(column: Index) -> None:
            mask = self._mask(count, column)
            for row in range(self.problem.M):
                at = emit.add(column, row * self.cut.columns)
                x = emit.load_vector(self.sums, at, lanes)
                self.store(x, batch, row, emit.add(first, column), mask)

        emit.loop(0, count, lanes, vectors)
