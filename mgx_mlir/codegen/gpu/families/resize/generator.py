"""One gpu.func for a resize: a thread computes vectors in some neighbouring lines.

A line is the last resized dimension with those after it, which are copied. Tables hold the
offsets and weights of the taps along it: a thread reads them once for all of its lines. Along
the other dimensions the threads of a wave mostly read the same table entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders import lanes
from mgx_mlir.codegen.gpu.builders.launches import BLOCK, MAX_LINES, OUTPUT, Launches
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand, vector_lanes
from mgx_mlir.codegen.gpu.builders.pointers import forwards
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled
from mgx_mlir.codegen.gpu.families.resize.match import (
    Computed,
    Formula,
    Reads,
    Resize,
    Shared,
    Tables,
    Taps,
    index_of,
    match_resize,
    read_table,
)
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import change, convert, load
from mgx_mlir.codegen.meaning.element import F32
from mgx_mlir.codegen.meaning.pointwise import number
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import Number, ceil_div, is_more

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
        return f"{self.lanes} elements at a time, {self.across} threads a line, {self.lines} lines"


def choose(resize: Resize, target: Target) -> ResizeSchedule:
    """Vectors of the copied elements; several lines for a thread where there are many."""
    size, width = math.prod(resize.shape), _width(resize)
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


def regimes(resize: Resize, target: Target) -> list[tuple[Number, ResizeSchedule]] | Refusal:
    """The schedules of symbolic sizes: of one line a thread, and of several for many results."""
    if not forwards(resize.source.outer, resize.source.inner):
        return Refusal("an image that is read backwards")
    width, lines = _width(resize), 4
    one = ResizeSchedule(target.wave_size, width, 1)
    if not resize.last:
        return [(1, one)]
    most = width * lines * 4 * target.compute_units * BLOCK
    many = is_more(math.prod(resize.shape), most)
    return [(1 - many, one), (many, replace(one, lines=lines))]


def _width(resize: Resize) -> int:
    """The copied elements of a vector."""
    result = MemoryOperand.flat(0, resize.element, resize.copied)
    return vector_lanes(resize.copied, [resize.source, result]) if resize.copied != 1 else 1


def build(resize: Resize, launches: Launches, schedule: ResizeSchedule, target: Target) -> None:
    """Adds the function to those of `launches`."""
    tables = {
        d: Tables(taps, launches) if isinstance(taps, Taps) else Computed(taps)
        for d, taps in resize.taps.items()
    }
    shape, last = resize.shape, resize.last
    vectors = shape[last] * resize.copied // schedule.lanes
    height = shape[last - 1] if last else 1
    together = BLOCK // schedule.across
    columns = ceil_div(vectors, schedule.across)
    rows = ceil_div(height, together * schedule.lines)
    # A line of work-groups for each of the rows of symbolic size: none divides by their number.
    lines = rows if launches.is_symbolic else 1
    blocks = columns * math.prod(shape[: max(0, last - 1)]) * (rows if lines == 1 else 1)
    source = Argument("input", resize.source.argument)
    shared = _shared(resize, schedule, launches)
    with launches.groups([source], [OUTPUT], BLOCK, blocks, lines=lines) as group:
        thread, block = builder.thread_number(BLOCK), group.number
        side = emit.div(thread, schedule.across)
        if schedule.across % target.wave_size == 0:
            side = lanes.uniform(side) if together > 1 else 0
        column = emit.mul(emit.rem(block, columns), schedule.across)
        column = emit.add(column, emit.rem(thread, schedule.across))
        rest = emit.div(block, columns)
        row = group.line if lines != 1 else emit.rem(rest, rows)
        row = emit.mul(emit.add(emit.mul(row, together), side), schedule.lines)
        guards = []
        if columns * schedule.across != vectors:
            guards.append(emit.compare("slt", column, vectors))
        guards += group.inside
        # Reads of tables have no bounds check.
        column = emit.minimum(column, vectors - 1) if guards else column
        work = _Lines(resize, schedule, tables, group.buffers, source, shared)
        outer = rest if lines != 1 else emit.div(rest, rows)
        work.begin(emit.mul(column, schedule.lanes), outer)
        bounded = rows * together * schedule.lines != height or is_more(lines, MAX_LINES) != 0
        # Symbolic lines that are kept are those of whole groups; x has no others.
        moved = bounded and isinstance(height, int)
        work.rows(emit.minimum(row, height - schedule.lines) if moved else row)
        for line in range(schedule.lines):
            y = emit.add(row, line)
            inside = [*guards, *([emit.compare("slt", y, height)] if bounded else [])]
            work.line(line, emit.minimum(y, height - 1) if bounded else y, inside)


def _shared(resize: Resize, schedule: ResizeSchedule, launches: Launches) -> _Kept | None:
    """The reads that lines of a thread share."""
    taps, lines, step = resize.taps.get(resize.last - 1), schedule.lines, 0
    if isinstance(taps, Formula):
        few = taps.repeated(lines)
        if lines == 1 or few is None:
            return None
        stride, size = taps.stride, taps.axis.size
        taps, step = few
    if taps is None or taps.weights is None:
        return None
    found = Shared.of(taps, lines)
    if found is None or len(found.indices) * schedule.lanes > _ROWS:
        return None
    if not step:
        table, groups = launches.table(taps.places(found.indices)), found.indices.shape[1]
        place = lambda row, group: index_of(read_table(table, emit.add(row * groups, group)))  # noqa: E731
        return _Kept(found, place)
    middle = found.indices.shape[1] // 2

    def computed(row: int, group: Index) -> Index:
        at = emit.add(emit.mul(group, step), int(found.indices[row, middle]) - middle * step)
        return stride.offset(emit.minimum(emit.maximum(at, 0), size - 1))

    return _Kept(found, computed, taps.weights[:, middle * lines : (middle + 1) * lines])


@dataclass(frozen=True)
class _Kept:
    """Elements of lines of x that a thread's lines share: the offset in x of each for a group of
    lines. weights: by tap and line, where they are the same for all groups."""

    shared: Shared
    place: Callable[[int, Index], Index]
    weights: Any = None


class _Lines:
    """The work of a thread, one line after another."""

    def __init__(
        self,
        resize: Resize,
        schedule: ResizeSchedule,
        tables: Mapping[int, Reads],
        buffers: dict[Argument, ir.Value],
        source: Argument,
        shared: _Kept | None,
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
        if table.count <= _KEPT:
            self.taps = [table.tap(tap, self.x) for tap in range(table.count)]

    def rows(self, row: Index) -> None:
        """Reads the elements that the lines from `row` on share."""
        self.kept: list[ir.Value] = []
        if self.shared is None:
            return
        group = emit.div(row, self.schedule.lines)
        start = self._start({**self.before, self.resize.last: self.x})
        for number_ in range(len(self.shared.shared.indices)):
            place = emit.add(start, self.shared.place(number_, group))
            self.kept.append(self._sum(self._others(self.before), place))

    def _start(self, places: dict[int, Index]) -> Index:
        """The offset in x of these indices, over the dimensions that are not resized."""
        start: Index = self.resize.source.offset
        for d, place in places.items():
            if d not in self.tables:
                start = emit.add(start, self.resize.strides[d].offset(place))
        return start

    def _others(self, places: dict[int, Index]) -> list[tuple[Reads, Index]]:
        """The tables and indices of these dimensions, for those that are resized."""
        return [(self.tables[d], places[d]) for d in sorted(places) if d in self.tables]

    def line(self, line: int, row: Index, inside: list[ir.Value]) -> None:
        """Computes and stores the thread's vector of its `line`-th line."""
        resize = self.resize
        places = dict(self.before)
        if resize.last:
            places[resize.last - 1] = row
        if self.shared is not None:
            table, which = self.tables[resize.last - 1], self.shared.shared.taps[:, line]
            known = self.shared.weights
            parts = [
                self._weighted(
                    self.kept[slot],
                    table.tap(tap, row)[1]
                    if known is None
                    else emit.constant(float(known[tap, line]), "f32"),
                )
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
        target = MemoryOperand.flat(0, resize.element, math.prod(resize.shape))
        target.store(total, self.output, 0, place, inside)

    def _sum(self, others: Sequence[tuple[Reads, Index]], start: Index) -> ir.Value:
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
            there = table.inside(places[d])
            if there is not None:
                outside = number(Arithmetic(), element, self.resize.outside)
                x = arith.select(there, x, emit.splat(outside, self.schedule.lanes))
        return x


_program = Scheduled(match_resize, choose, build, regimes)
FAMILY = Family("resize", 100, _program, symbolic=True)
