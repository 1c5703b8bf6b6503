"""Kernels of pooling, maxima and averages of windows: a thread computes some neighbouring results.

Windows of neighbours overlap: shared elements are read once, in vectors where rows of x are
aligned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.contraction.convolution import row_major
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled, anchor_of, inputs_in_front
from mgx_mlir.codegen.loops.ops.movement import word
from mgx_mlir.codegen.loops.ops.windows import of_window, pooling_reducer
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import Element, element_of
from mgx_mlir.codegen.meaning.reducers import Reducer
from mgx_mlir.codegen.problem.match import Match, with_epilogue
from mgx_mlir.codegen.problem.problem import Axis, Contraction, Matrix
from mgx_mlir.codegen.problem.views import element_name, resolve
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.codegen.regimes import in_ranges
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import shape_of
from mgx_mlir.sizes.arithmetic import Number, common_factor

# Rows of windows up to this width are unrolled, wider ones a loop over parts. Neighbours share
# the elements that they read in unrolled code.
MAX_ROW = 32
# Above this number of elements in a thread's windows, their rows are a loop.
MAX_CODE = 512


@dataclass(frozen=True)
class Window:
    """One spatial dimension: the sizes of x and of the result, and the geometry of windows."""

    size: int
    outputs: int
    length: int
    stride: int
    dilation: int
    low: int
    high: int

    @property
    def reach(self) -> int:
        return (self.length - 1) * self.dilation + 1

    def holds(self, tap: Index) -> bool:
        """Whether element number `tap` of every window is known to lie inside of x."""
        first, last = (tap, tap) if isinstance(tap, int) else (0, self.length - 1)
        end = (self.outputs - 1) * self.stride - self.low + last * self.dilation
        return first * self.dilation >= self.low and bool(end < self.size)


@dataclass(frozen=True)
class Pooling:
    """Windows of images: `images` of x, by the outer index of `source`, whose inner index
    counts the elements of an image.

    mode: 'max'; 'average', which divides by the number of elements inside x, or, if `padded`,
    inside the padding; or 'lpnorm', of the given order. `match`: the result [image, 0, pixel]
    and its epilogue, if any.
    """

    images: int
    source: MemoryOperand
    element: Element
    windows: tuple[Window, ...]
    mode: str
    padded: bool
    order: int
    match: Match
    name: ClassVar[str] = mgx.PoolingOp.OPERATION_NAME

    @property
    def outputs(self) -> int:
        """Results of an image."""
        return math.prod(window.outputs for window in self.windows)

    @property
    def row(self) -> int:
        """Neighbouring elements of a window that are unrolled: a row of it, or a part of one."""
        length = self.windows[-1].length
        return max(n for n in range(1, min(length, MAX_ROW) + 1) if length % n == 0)

    @property
    def rows(self) -> int:
        """The number of such rows, or parts, in a window."""
        return math.prod(window.length for window in self.windows) // self.row

    @property
    def reducer(self) -> Reducer:
        return pooling_reducer(self.mode, self.element, self.order)


def match_pooling(kernel: mgx.KernelOp) -> Pooling | Refusal | None:
    """The kernel as a pooling, or why it does not match; None where it holds other work."""
    op = _anchor(kernel)
    if op is None or isinstance(op, Refusal):
        return op
    result = op.y
    mode = word(op.mode)
    view = resolve(op.x)
    if view is None:
        return Refusal(f"{Pooling.name}: an input that is no strided view")
    shape, outputs = view.shape, tuple(shape_of(result.type))
    rank = len(shape) - 2
    pads = list(op.pads)
    windows = tuple(
        Window(
            shape[2 + d], outputs[2 + d], op.lengths[d], op.strides[d], op.dilations[d],
            pads[d], pads[rank + d],
        )
        for d in range(rank)
    )  # fmt: skip
    if rank == 0 or 0 in shape:
        return Refusal(f"{Pooling.name}: no elements")
    element = element_of(result.type)
    if element.is_byte_float or (mode == "lpnorm" and not element.is_float):
        return Refusal(f"{Pooling.name}: elements of type {element.name}")
    source = MemoryOperand.row(view, element, 2)
    padded = bool(op.count_include_pad.value)
    order = op.lp_order.value
    images, pixels = shape[0] * shape[1], math.prod(window.outputs for window in windows)
    name = element_name(result.type)
    nothing = Matrix(0, name, 0, Axis(()), Axis(()), Axis(()))
    sizes = Contraction(images, 1, pixels, 1, nothing, nothing, name)
    match = with_epilogue(kernel.regions[0].blocks[0], [op], sizes)
    if match is None:
        return Refusal(
            f"{Pooling.name}: types, views or an epilogue that the generator does not match"
        )
    return Pooling(images, source, element, windows, mode, padded, order, match)


def _anchor(kernel: mgx.KernelOp) -> mgx.PoolingOp | Refusal | None:
    """The pooling op of a kernel that else holds views, and pointwise ops on its result."""
    ops = list(kernel.regions[0].blocks[0].operations)
    poolings = [op for op in ops if isinstance(op, mgx.PoolingOp)]
    if len(poolings) != 1 or not any(isinstance(op, mgx.PointwiseOp) for op in ops):
        return anchor_of(kernel, mgx.PoolingOp)
    (pooling,) = poolings
    if 0 in pooling.y.type.shape:
        return Refusal(f"{Pooling.name}: no elements")
    return pooling


@dataclass(frozen=True)
class PoolingSchedule:
    """A thread computes `run` neighbours, and reads x in vectors of `lanes`."""

    run: int
    lanes: int

    def describe(self) -> str:
        return f"{self.run} results a thread, {self.lanes} elements at a time"


def choose(pooling: Pooling, target: Target) -> PoolingSchedule:
    """As many neighbours as one access stores; fewer where that would leave units idle."""
    found, results = _schedules(pooling), pooling.images * pooling.outputs
    enough = [x for x in found if results // x.run >= _busy_threads(target)]
    return (enough or found[-1:])[0]


def regimes(pooling: Pooling, target: Target) -> list[tuple[Number, PoolingSchedule]] | Refusal:
    """The schedules of symbolic sizes: of as many neighbours a thread as leave no unit idle, in
    steps of four times as many."""
    if not pooling.source.forwards:
        return Refusal("images that are read backwards")
    ways, results = _schedules(pooling)[::2], pooling.images * pooling.outputs
    ends = [way.run * _busy_threads(target) for way in ways[-2::-1]]
    return [(share, ways[-1 - n]) for share, n in in_ranges(results, [*ends, math.inf])]


def _busy_threads(target: Target) -> int:
    """The threads that leave no compute unit without work."""
    return 2 * target.compute_units * 64


def _schedules(pooling: Pooling) -> list[PoolingSchedule]:
    """The schedules, that of most neighbours first, that of one last: threads read vectors that
    are at most four of them apart, so that a wave's share lines."""
    last, size = pooling.windows[-1], builder.element_bytes(pooling.element)
    most = math.gcd(common_factor(last.outputs), min(8, CHUNK_BYTES // size))
    found = [_schedule(pooling, most >> n) for n in range(most.bit_length())]
    return [x for x in found if x.run * last.stride <= 4 * x.lanes] or found[-1:]


def _schedule(pooling: Pooling, run: int) -> PoolingSchedule:
    last, size = pooling.windows[-1], builder.element_bytes(pooling.element)
    # Vectors start at multiples of their length, in each part of a row too.
    part = pooling.row * last.dilation if pooling.row < last.length else 0
    width = pooling.source.width(CHUNK_BYTES // size)
    return PoolingSchedule(run, math.gcd(width, common_factor(last.size), run * last.stride, part))


def build(pooling: Pooling, launches: Launches, schedule: PoolingSchedule, _target: Target) -> None:
    """Adds the function to those of `launches`."""
    used = sorted({pooling.source.argument, *(s.argument for s in pooling.match.reads)})
    read = [Argument("input", number) for number in used]
    threads = pooling.images * (pooling.outputs // schedule.run)
    with launches.each(read, launches.results, threads) as work:
        thread, inside = work.offset, work.inside
        buffers = {number: work.buffers[a] for number, a in zip(used, read, strict=True)}
        outputs = [work.buffers[a] for a in launches.results]
        _pool(pooling, schedule, buffers, outputs, thread, inside)


def _pool(
    pooling: Pooling,
    schedule: PoolingSchedule,
    inputs: Mapping[int, ir.Value],
    outputs: Sequence[ir.Value],
    thread: Index,
    inside: Sequence[ir.Value],
) -> None:
    """The work of a thread, by its number of all; inside: whether it has work."""
    result = row_major(pooling.match.problem)
    epilogue = Epilogue(pooling.match, result, inputs, outputs)
    values = _Windows(pooling, schedule, inputs[pooling.source.argument], thread).results()
    image = emit.div(thread, pooling.outputs // schedule.run)
    pixel = emit.mul(emit.rem(thread, pooling.outputs // schedule.run), schedule.run)
    epilogue(memory.joined(values), image, 0, pixel, inside, False)


class _Windows:
    def __init__(
        self, pooling: Pooling, schedule: PoolingSchedule, buffer: ir.Value, thread: Index
    ) -> None:
        self.pooling, self.schedule, self.buffer = pooling, schedule, buffer
        self.reducer = pooling.reducer
        last = pooling.windows[-1]
        rest, column = (
            emit.div(thread, last.outputs // schedule.run),
            emit.rem(thread, last.outputs // schedule.run),
        )
        starts: list[Index] = [emit.sub(emit.mul(column, schedule.run * last.stride), last.low)]
        for window in reversed(pooling.windows[:-1]):
            index = emit.rem(rest, window.outputs)
            rest = emit.div(rest, window.outputs)
            starts.insert(0, emit.sub(emit.mul(index, window.stride), window.low))
        self.starts = starts
        self.start = pooling.source.start(rest)

    def results(self) -> list[ir.Value]:
        """The thread's results, in the type of the stored elements."""
        a, rows = Arithmetic(), self.pooling.rows
        if rows * self.pooling.row * self.schedule.run <= MAX_CODE:
            totals: list[ir.Value] = []
            for number in range(rows):
                totals = self._added(number, totals)
        else:
            initial = a.constant(self.reducer.initial, self.reducer.accumulator.storage())
            carried = [initial] * self.schedule.run
            totals = emit.loop(0, rows, 1, lambda n, *x: self._added(n, list(x)), carried)
        how, is_average = self.pooling, self.pooling.mode == "average"
        counts = [self._count(n) if is_average else 0 for n in range(len(totals))]
        return [
            of_window(a, self.reducer, how.mode, how.order, total, count)
            for total, count in zip(totals, counts, strict=True)
        ]

    def _added(self, number: Index, totals: Sequence[ir.Value]) -> list[ir.Value]:
        """The partial results with one more row of the windows; `totals` is empty at first."""
        a, last, length = Arithmetic(), self.pooling.windows[-1], self.pooling.row
        part, number = (
            emit.rem(number, last.length // length),
            emit.div(number, last.length // length),
        )
        taps: list[Index] = []
        for window in reversed(self.pooling.windows[:-1]):
            taps.insert(0, emit.rem(number, window.length))
            number = emit.div(number, window.length)
        row = self._row(taps, emit.mul(part, length * last.dilation))
        found = []
        for at in range(self.schedule.run):
            parts = [row[at * last.stride + tap * last.dilation] for tap in range(length)]
            parts = [*totals[at : at + 1], *parts]
            total = parts[0]
            for part in parts[1:]:
                total = self.reducer.combine(a, total, part)
            found.append(total)
        return found

    def _row(self, taps: Sequence[Index], offset: Index) -> list[ir.Value]:
        """The elements of one row of x that the thread's windows cover, as partial results.

        offset: along the row, in elements, where a part of a window's row starts.
        """
        pooling, lanes = self.pooling, self.schedule.lanes
        last = pooling.windows[-1]
        conditions: list[ir.Value] = []
        row: Index = 0
        for tap, window, start in zip(taps, pooling.windows, self.starts, strict=False):
            index = emit.add(start, emit.mul(tap, window.dilation))
            if not window.holds(tap):
                conditions.append(_below(index, window.size))
            row = emit.add(emit.mul(row, window.size), index)
        row = emit.mul(row, last.size)
        # Vectors start at multiples of their length: the first may start before the windows.
        early = -last.low % lanes
        reach = (pooling.row - 1) * last.dilation + 1
        span = (self.schedule.run - 1) * last.stride + reach
        found: list[ir.Value] = []
        for first in range(0, early + span, lanes):
            column = emit.add(emit.add(self.starts[-1], offset), first - early)
            inside = list(conditions)
            least = first - early - last.low
            most = (last.outputs - self.schedule.run) * last.stride + least + lanes
            if offset != 0 or least < 0 or not most <= last.size:
                inside.append(_below(column, last.size))
            element = emit.add(row, column)
            x = pooling.source.load(self.buffer, self.start, element, lanes, inside)
            vector = Arithmetic([lanes])
            x = self.reducer.term(vector, x)
            if inside and self.reducer.initial != 0:
                nothing = vector.constant(self.reducer.initial, self.reducer.accumulator.storage())
                present = inside[0]
                for condition in inside[1:]:
                    present = arith.andi(present, condition)
                x = arith.select(present, x, nothing)
            found += [memory.element(x, i) for i in range(lanes)]
        return found[early : early + span]

    def _count(self, number: int) -> Index:
        """The divisor of an average."""
        result: Index = 1
        for window, start in zip(self.pooling.windows[:-1], self.starts, strict=False):
            result = emit.mul(result, self._span(window, start, 0, 1))
        last = self.pooling.windows[-1], self.starts[-1]
        return emit.mul(result, self._span(*last, number, self.schedule.run))

    def _span(self, window: Window, start: Index, number: int, run: int) -> Index:
        """The elements of a window that count along one dimension: of one of a thread's `run`."""
        low, size, more = 0, window.size, number * window.stride
        if self.pooling.padded:
            low, size = -window.low, window.size + window.high
        start, first = emit.add(start, more), more - window.low
        last = (window.outputs - run) * window.stride + first

        def edge(limit: int) -> Index:
            """ceil((limit - start) / dilation) within [0, length]."""
            value = emit.sub(limit, start)
            if window.dilation != 1:
                value = arith.ceildivsi(emit.value(value), emit.value(window.dilation))
            return emit.minimum(emit.maximum(value, 0), window.length)

        end = window.length if last + window.reach <= size else edge(size)
        return end if first >= low else emit.sub(end, edge(low))


def _below(index: Index, size: int) -> ir.Value:
    """Whether an index is inside x. As unsigned numbers, negative ones exceed any size."""
    return arith.cmpi(arith.CmpIPredicate.ult, emit.value(index), emit.value(size))


pooling_program = Scheduled(match_pooling, choose, build, regimes, inputs_in_front, vectors=16)
FAMILY = Family("pooling", 80, pooling_program, symbolic=True)
