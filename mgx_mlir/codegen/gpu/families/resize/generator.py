"""One gpu.func for a resize: a thread computes vectors in some neighbouring lines.

A line is the last resized dimension with those after it, which are copied. Tables hold the
offsets and weights of the taps along it: a thread reads them once for all of its lines. Along
the other dimensions the threads of a wave mostly read the same table entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders import lanes, memory
from mgx_mlir.codegen.gpu.builders.launches import BLOCK, OUTPUT, Launches
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand, vector_lanes
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled
from mgx_mlir.codegen.gpu.families.resize.match import Resize, Shared, Taps, match_resize
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import change, convert, load
from mgx_mlir.codegen.meaning.element import F32
from mgx_mlir.codegen.meaning.pointwise import number
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.sizes.arithmetic import ceil_div

# Up to this number of taps the code is unrolled; more are a loop.
_UNROLLED = 4
# Up to this number of taps along a line are read once for all lines of a thread.
_KEPT = 16
# The most elements of lines of x, weighted along them, that a thread keeps.
_ROWS = 32


@dataclass(frozen=True)
class ResizeSchedule:
    """`across` threads share a line, with vectors of `lanes` elements; a thread has `lines`
    lines."""

    across: int
    lanes: int
    lines: int

    def describe(self) -> str:
        """The schedule in words."""
        return f"{self.lanes} elements at a time, {self.across} threads a line, {self.lines} lines"


def choose(resize: Resize, target: Target) -> ResizeSchedule:
    """Vectors of the copied elements; several lines for a thread where there are many."""
    size = math.prod(resize.shape)
    result = MemoryOperand(0, resize.element, 0, Axis(()), Axis.of((resize.copied, 1)))
    width = vector_lanes(resize.copied, [resize.source, result]) if resize.copied > 1 else 1
    line = resize.shape[resize.last] * resize.copied // width
    # Whole waves in a line read the tables once; prefer the fewest idle threads.
    least = min(target.wave_size, 1 << (line - 1).bit_length())
    across = min(
        (n for n in (BLOCK, 128, 64, least) if n >= least), key=lambda n: ceil_div(line, n) * n
    )
    height = resize.shape[resize.last - 1] if resize.last else 1
    threads = 4 * target.compute_units * BLOCK
    many = [n for n in (4, 2) if n <= height and size // width >= n * threads]
    if not resize.nearest:
        # Lines can share reads only where each thread has the same number of them.
        many = [n for n in many if height % n == 0]
    lines = many[0] if many else 1
    return ResizeSchedule(across, width, lines)


def build(resize: Resize, launches: Launches, schedule: ResizeSchedule, target: Target) -> None:
    """Adds the function to those of `launches`."""
    tables = {d: _Tables(taps, launches) for d, taps in resize.taps.items()}
    shape, last = resize.shape, resize.last
    vectors = shape[last] * resize.copied // schedule.lanes
    height = shape[last - 1] if last else 1
    together = BLOCK // schedule.across
    columns = ceil_div(vectors, schedule.across)
    rows = ceil_div(height, together * schedule.lines)
    blocks = columns * rows * math.prod(shape[: max(0, last - 1)])
    grid = builder.grid_of(blocks)
    source = Argument("input", resize.source.argument)
    shared = _shared(resize, schedule, launches)
    with launches.function([source], [OUTPUT], BLOCK, grid) as (buffers, _):
        thread, block = builder.thread_number(BLOCK), builder.linear_block(grid)
        side = emit.div(thread, schedule.across)
        if schedule.across % target.wave_size == 0:
            side = lanes.uniform(side) if together > 1 else 0
        column = emit.mul(emit.rem(block, columns), schedule.across)
        column = emit.add(column, emit.rem(thread, schedule.across))
        rest = emit.div(block, columns)
        row = emit.add(emit.mul(emit.rem(rest, rows), together), side)
        row = emit.mul(row, schedule.lines)
        guards = []
        if columns * schedule.across != vectors:
            guards.append(emit.compare("slt", column, vectors))
        if blocks != grid[0] * grid[1]:
            guards.append(emit.compare("slt", block, blocks))
        # Reads of tables have no bounds check.
        column = emit.minimum(column, vectors - 1) if guards else column
        work = _Lines(resize, schedule, tables, buffers, source, shared)
        work.begin(emit.mul(column, schedule.lanes), emit.div(rest, rows))
        bounded = rows * together * schedule.lines != height
        work.rows(emit.minimum(row, height - schedule.lines) if bounded else row)
        for line in range(schedule.lines):
            y = emit.add(row, line)
            inside = [*guards, *([emit.compare("slt", y, height)] if bounded else [])]
            work.line(line, emit.minimum(y, height - 1) if bounded else y, inside)


def _shared(
    resize: Resize, schedule: ResizeSchedule, launches: Launches
) -> tuple[Shared, Callable[[], ir.Value]] | None:
    """The reads that lines of a thread share, and the table of their offsets."""
    taps = resize.taps.get(resize.last - 1)
    found = Shared.of(taps, schedule.lines) if taps and taps.weights is not None else None
    if taps is None or found is None or len(found.indices) * schedule.lanes > _ROWS:
        return None
    return found, launches.table(taps.places(found.indices))


class _Tables:
    """The tables of a dimension's taps, read at run time."""

    def __init__(self, taps: Taps, launches: Launches) -> None:
        self.taps = taps
        self.places = launches.table(taps.places(taps.indices))
        self.weights = launches.table(taps.weights) if taps.weights is not None else None
        self.inside = launches.table(taps.inside) if taps.inside is not None else None

    def tap(self, tap: Index, index: Index) -> tuple[Index, ir.Value | None]:
        """The offset in x of a tap of a result index, and its weight as f32."""
        at = emit.add(emit.mul(tap, self.taps.indices.shape[1]), index)
        place = arith.index_cast(ir.IndexType.get(), _read(self.places, at))
        return place, _read(self.weights, at) if self.weights is not None else None

    def each(
        self,
        index: Index,
        zero: ir.Value,
        term: Callable[[Index, ir.Value | None], ir.Value],
        a: Arithmetic,
    ) -> ir.Value:
        """The sum of a term for each tap; for a nearest resize, the only term."""

        def step(tap: Index, total: ir.Value | None) -> list[ir.Value]:
            x = term(*self.tap(tap, index))
            return [x if total is None else a.add(total, x)]

        if self.taps.count > _UNROLLED:
            return emit.loop(0, self.taps.count, 1, step, [zero])[0]
        found: ir.Value | None = None
        for tap in range(self.taps.count):
            (found,) = step(tap, found)
        assert found is not None
        return found


def _read(table: Callable[[], ir.Value], at: Index) -> ir.Value:
    return memory.element(memory.load(table(), at, 1), 0)


class _Lines:
    """The work of a thread, one line after another."""

    def __init__(
        self,
        resize: Resize,
        schedule: ResizeSchedule,
        tables: dict[int, _Tables],
        buffers: dict[Argument, ir.Value],
        source: Argument,
        shared: tuple[Shared, Callable[[], ir.Value]] | None,
    ) -> None:
        self.shared = shared
        self.resize, self.schedule, self.tables = resize, schedule, tables
        self.source, self.output = buffers[source], buffers[OUTPUT]
        self.a = Arithmetic([schedule.lanes])
        computed = resize.element.computed()
        self.wide = computed if computed.is_float else F32

    def begin(self, column: Index, outer: Index) -> None:
        """Computes the thread's offset in its lines, and the indices of the outer dimensions."""
        resize = self.resize
        self.column = column
        self.along = emit.rem(column, resize.copied)
        self.before: dict[int, Index] = {}
        for d in reversed(range(max(0, resize.last - 1))):
            self.before[d] = emit.rem(outer, resize.shape[d]) if d else outer
            outer = emit.div(outer, resize.shape[d])
        self.taps: list[tuple[Index, ir.Value | None]] = []
        self.x = emit.div(column, resize.copied)
        table = self.tables[resize.last]
        if table.taps.count <= _KEPT:
            self.taps = [table.tap(tap, self.x) for tap in range(table.taps.count)]

    def rows(self, row: Index) -> None:
        """Reads the elements that the lines from `row` on share."""
        self.kept: list[ir.Value] = []
        if self.shared is None:
            return
        found, table = self.shared
        count, groups = found.indices.shape
        group = emit.div(row, self.schedule.lines)
        start = self._start({**self.before, self.resize.last: self.x})
        for number_ in range(count):
            read = _read(table, emit.add(number_ * groups, group))
            place = emit.add(start, arith.index_cast(ir.IndexType.get(), read))
            self.kept.append(self._sum(self._others(self.before), place))

    def _start(self, places: dict[int, Index]) -> Index:
        """The offset in x of these indices, over the dimensions that are not resized."""
        start: Index = self.resize.source.offset
        for d, place in places.items():
            if d not in self.tables:
                start = emit.add(start, self.resize.strides[d].offset(place))
        return start

    def _others(self, places: dict[int, Index]) -> list[tuple[_Tables, Index]]:
        """The tables and indices of these dimensions, for those that are resized."""
        return [(self.tables[d], places[d]) for d in sorted(places) if d in self.tables]

    def line(self, line: int, row: Index, inside: list[ir.Value]) -> None:
        """Computes and stores the thread's vector of its `line`-th line."""
        resize = self.resize
        places = dict(self.before)
        if resize.last:
            places[resize.last - 1] = row
        if self.shared is not None:
            table, which = self.tables[resize.last - 1], self.shared[0].taps[:, line]
            parts = [
                self._weighted(self.kept[slot], table.tap(tap, row)[1])
                for tap, slot in enumerate(which)
            ]
            total = parts[0]
            for part in parts[1:]:
                total = self.a.add(total, part)
        else:
            start = self._start({**places, resize.last: self.x})
            total = self._sum(self._others(places), start)
        places[resize.last] = self.x
        number_: Index = 0
        for d in range(resize.last + 1):
            number_ = emit.add(emit.mul(number_, resize.shape[d]), places[d])
        if not resize.nearest:
            if not resize.element.computed().is_float:
                total = self.a.math("roundeven", total)
            total = convert(self.a, self.wide, resize.element, total)
        total = self._cropped(total, places)
        place = emit.add(emit.mul(number_, resize.copied), self.along)
        size = math.prod(resize.shape)
        target = MemoryOperand(0, resize.element, 0, Axis(()), Axis.of((size, 1)))
        target.store(total, self.output, 0, place, inside)

    def _sum(self, others: Sequence[tuple[_Tables, Index]], start: Index) -> ir.Value:
        """The sum over all taps, from offset `start` of x on."""
        if others:
            (table, index), *rest = others
            zero = self.a.constant(0, self.wide.storage())

            def term(place: Index, weight: ir.Value | None) -> ir.Value:
                return self._weighted(self._sum(rest, emit.add(start, place)), weight)

            return table.each(index, zero, term, self.a)

        def along(place: Index, weight: ir.Value | None) -> ir.Value:
            return self._weighted(self._element(emit.add(start, place)), weight)

        if not self.taps:
            zero = self.a.constant(0, self.wide.storage())
            return self.tables[self.resize.last].each(self.x, zero, along, self.a)
        found: ir.Value | None = None
        for tap in self.taps:
            x = along(*tap)
            found = x if found is None else self.a.add(found, x)
        assert found is not None
        return found

    def _element(self, start: Index) -> ir.Value:
        source, lanes_ = self.resize.source, self.schedule.lanes
        x = source.load(self.source, start, self.along, lanes_, [])
        if self.resize.nearest:
            return x
        x = load(self.a, source.element, x)
        return change(self.a, source.element.computed(), self.wide, x)

    def _weighted(self, x: ir.Value, weight: ir.Value | None) -> ir.Value:
        if weight is None:
            return x
        weight = change(Arithmetic(), F32, self.wide, weight)
        return self.a.mul(x, emit.splat(weight, self.schedule.lanes))

    def _cropped(self, x: ir.Value, places: dict[int, Index]) -> ir.Value:
        """x, or the extrapolation value for results that lie outside of x."""
        element = self.resize.element
        for d, table in self.tables.items():
            if table.inside is not None:
                there = arith.cmpi(
                    arith.CmpIPredicate.ne, _read(table.inside, places[d]), emit.constant(0, "i32")
                )
                outside = number(Arithmetic(), element, self.resize.outside)
                x = arith.select(there, x, emit.splat(outside, self.schedule.lanes))
        return x


FAMILY = Family("resize", 100, Scheduled(match_resize, choose, build))
