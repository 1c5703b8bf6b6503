"""Plans of plain sums: a thread's results lie side by side, and their windows share pixels.

A thread reads each pixel that its windows share once, and each element of the filter.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import product
from typing import TypeAlias

from mlir import ir
from mlir.dialects import arith
from mlir.dialects import math as math_dialect

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.multiply import dot_product
from mgx_mlir.codegen.gpu.builders.ordering import fence
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.cost import GLOBAL_LATENCY, LINE_BYTES
from mgx_mlir.codegen.gpu.families.contraction.plan import OneFunction
from mgx_mlir.codegen.gpu.families.contraction.tile import columns as byte_columns
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import Dimension, Image
from mgx_mlir.sizes.arithmetic import ceil_div


@dataclass(frozen=True)
class Step:
    """A row of pixels: its offset in the windows, and the rows of results and filters it meets.

    `users`: each a row of results, and the number of the first tap.
    """

    plane: tuple[int, ...]
    row: int
    users: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PlainSums(OneFunction):
    """A thread has `width` results along the last dimension, in `rows` rows before it."""

    product: Product
    image: Image
    target: Target
    rows: int
    width: int

    @property
    def match(self) -> Match:
        """The convolution; each row of its problem's A is a filter."""
        return self.product.match

    @cached_property
    def geometry(self) -> tuple[Dimension, ...]:
        """The spatial dimensions, two at least."""
        flat = Dimension(1, 0, 1, 1, 1, 1, 0)
        return (*[flat] * (2 - len(self.image.dims)), *self.image.dims)

    @cached_property
    def each(self) -> tuple[int, ...]:
        """Results of a thread along each dimension."""
        return (*[1] * (len(self.geometry) - 2), self.rows, self.width)

    @property
    def counts(self) -> tuple[int, ...]:
        """Threads along each dimension."""
        dims = zip(self.geometry, self.each, strict=True)
        return tuple(ceil_div(dim.outputs, each) for dim, each in dims)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The rows of pixels that a thread's windows meet."""
        *outer, high, wide = self.geometry
        planes = product(*([tap * dim.dilation for tap in range(dim.window)] for dim in outer))
        found = []
        for number, plane in enumerate(planes):
            for row in range((self.rows - 1) * high.step + high.reach):
                users = tuple(
                    (i, (number * high.window + r) * wide.window)
                    for i in range(self.rows)
                    for r in range(high.window)
                    if i * high.step + r * high.dilation == row
                )
                if users:
                    found.append(Step(plane, row, users))
        return tuple(found)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The columns of pixels that a thread's windows meet, from the first window's corner."""
        *_, wide = self.geometry
        taps = range(0, wide.window * wide.dilation, wide.dilation)
        return tuple(sorted({i * wide.step + tap for i in range(self.width) for tap in taps}))

    @property
    def reads(self) -> Sequence[tuple[int, int]]:
        """The reads of a row of pixels: the first column, as in `columns`, and how many."""
        return [(column, 1) for column in self.columns]

    @property
    @abstractmethod
    def vector(self) -> tuple[int, int]:
        """The elements of a vector of sums, and how many neighbouring results they are."""

    @property
    def prefetch_distance(self) -> int:
        """Steps whose reads are on their way before the first's are used; 0: LLVM orders them."""
        return 0

    def estimate(self, work: int, path: int, threads: int, target: Target) -> float:
        """The estimate, from a thread's instructions of the vector units, and its bytes.

        A compute unit's vector units do one instruction of a wave of 64 a clock, or two of 32; its
        path to memory gives 64 bytes a clock. All threads of a unit read, and then compute; units
        get whole work-groups.
        """
        wave, group = target.wave_size, self.groups.threads
        waves = ceil_div(ceil_div(threads, group), target.compute_units) * group // wave
        busy = work * wave // 16 // target.gpu.simds + path * wave // LINE_BYTES
        return 2 * GLOBAL_LATENCY + max(work * wave // 16, waves * busy)

    def starts(self, number: Index) -> tuple[Index, list[Index]]:
        """The rest of a thread's number, and its first result along each dimension."""
        starts: list[Index] = []
        for count, each in reversed(list(zip(self.counts, self.each, strict=True))):
            starts.insert(0, emit.mul(emit.rem(number, count), each))
            number = emit.div(number, count)
        return number, starts

    def along(self, d: int, start: Index, distance: int) -> tuple[Index, list[ir.Value]]:
        """A coordinate along a dimension, and the conditions for it to lie in the image.

        start: the thread's first result. distance: pixels from its first window's corner.
        """
        dim, count = self.geometry[d], self.each[d]
        at = emit.add(emit.mul(start, dim.step), distance - dim.pad)
        end = (ceil_div(dim.outputs, count) * count - 1) * dim.step - dim.pad + dim.reach
        return at, [emit.compare("ult", at, dim.size)] if dim.pad or not end <= dim.size else []

    def row(
        self, start: Index, starts: Sequence[Index], step: Step
    ) -> tuple[Index, list[ir.Value]]:
        """The place of a step's row of pixels, and the conditions for it to lie in the image."""
        place, conditions = start, []
        for d, distance in enumerate((*step.plane, step.row)):
            at, condition = self.along(d, starts[d], distance)
            conditions += condition
            place = emit.add(place, emit.mul(at, self.geometry[d].stride))
        return place, conditions

    def result(self, starts: Sequence[Index], i: int, j: int) -> tuple[Index, list[ir.Value]]:
        """The number of a thread's result, and the conditions for it to be one."""
        *outer, y, x = starts
        y, x = emit.add(y, i), emit.add(x, j)
        conditions = []
        for at, dim, each in zip((y, x), self.geometry[-2:], self.each[-2:], strict=True):
            if dim.outputs % each:
                conditions.append(emit.compare("slt", at, dim.outputs))
        number: Index = 0
        for at, dim in zip((*outer, y, x), self.geometry, strict=True):
            number = emit.add(emit.mul(number, dim.outputs), at)
        return number, conditions


# Bytes that one instruction multiplies and sums up.
DOT = 4


# Pixels that a read returns, and the conditions under which they lie in the image.
_Pixel: TypeAlias = tuple[ir.Value, list[ir.Value]]


def or_fill(image: Image, x: ir.Value, inside: Sequence[ir.Value]) -> ir.Value:
    """Pixels of a guarded read; the number of the padding where a condition fails."""
    if not image.fill or not inside:
        return x
    condition = reduce(arith.andi, inside)
    if not isinstance(x.type, ir.VectorType):
        return arith.select(condition, x, emit.constant(image.fill, image.element))
    lanes = ir.VectorType(x.type).shape[0]
    return memory.select(condition, x, emit.constant(image.fill, image.element, lanes))


@dataclass(frozen=True)
class Windows:
    """A thread's windows.

    start: the image's first element. starts: the thread's first result along each dimension.
    inside: conditions for the thread to have work. tap: reads an element of the filter. pixels:
    reads so many of a row, from a place on, where conditions hold. Vectors of sums along channels
    take both as vectors of the image's type: `mixed` multiplies f16 without a conversion before,
    `dots` bytes, up to four taps of a row at a time. Those along a row take a tap as a vector of
    the sums' type, and pixels one by one.
    """

    plan: PlainSums
    start: Index
    starts: Sequence[Index]
    inside: Sequence[ir.Value]
    tap: Callable[[int], ir.Value]
    pixels: Callable[[Index, Sequence[ir.Value], int], Sequence[ir.Value]]
    mixed: bool = False
    dots: bool = False
    _words: dict[tuple[int, ...], list[ir.Value]] = field(default_factory=dict)

    def sums(self) -> list[list[ir.Value]]:
        """The vectors of sums, row by row."""
        plan, (lanes, across) = self.plan, self.plan.vector
        zero = emit.constant(0, plan.match.problem.accumulator, lanes)
        sums = [[zero] * (plan.width // across) for _ in range(plan.rows)]
        steps, early, depth = plan.steps, plan.prefetch_distance, plan.match.problem.K
        taps = {} if early else {number: self.tap(number) for number in range(depth)}
        rows: dict[Step, dict[int, _Pixel]] = {}
        for number in range(-early, len(steps)):
            # LLVM would wait for each read where it is used.
            if number + early < len(steps):
                step = steps[number + early]
                for _, first in step.users:
                    for tap in range(first, first + plan.geometry[-1].window):
                        if tap not in taps:
                            taps[tap] = self.tap(tap)
                rows[step] = self._row(step)
            if early:
                fence()
            if number >= 0:
                # The first use of a pixel waits for its read: padding is selected here.
                read = rows.pop(steps[number])
                pixels = {column: or_fill(plan.image, *pixel) for column, pixel in read.items()}
                self._multiply(steps[number], pixels, taps, sums)
        return sums

    def _row(self, step: Step) -> dict[int, _Pixel]:
        """A step's pixels as they are read, by their columns."""
        plan = self.plan
        found: dict[int, _Pixel] = {}
        place, conditions = plan.row(self.start, self.starts, step)
        for first, count in plan.reads:
            at, condition = plan.along(-1, self.starts[-1], first)
            at = emit.add(place, emit.mul(at, plan.geometry[-1].stride))
            inside = [*self.inside, *conditions, *condition]
            read = self.pixels(at, inside, count)
            found |= {column: (x, inside) for column, x in enumerate(read, first)}
        return found

    def _multiply(
        self,
        step: Step,
        pixels: Mapping[int, ir.Value],
        taps: Mapping[int, ir.Value],
        sums: Sequence[list[ir.Value]],
    ) -> None:
        """Adds the products of a row of pixels to the results' sums."""
        if self.dots:
            self._add_dots(step, pixels, taps, sums)
            return
        wide, (lanes, across) = self.plan.geometry[-1], self.plan.vector
        if not self.mixed:
            pixels = {column: self._converted(x) for column, x in pixels.items()}
        for i, first in step.users:
            for s in range(wide.window):
                w = taps[first + s]
                if not (self.mixed or lanes == across):
                    w = self._converted(w)
                for j in range(len(sums[i])):
                    places = range(j * across, (j + 1) * across)
                    mine = [pixels[place * wide.step + s * wide.dilation] for place in places]
                    x = memory.joined(mine) if lanes == across else mine[0]
                    sums[i][j] = self._sum(x, w, sums[i][j])

    def _add_dots(
        self,
        step: Step,
        pixels: Mapping[int, ir.Value],
        taps: Mapping[int, ir.Value],
        sums: Sequence[list[ir.Value]],
    ) -> None:
        """As `_multiply`, for bytes: a register holds one channel's taps, or pixels, of a row."""
        plan, wide = self.plan, self.plan.geometry[-1]
        signs = plan.target.gpu.matrix == "wmma"
        rows: dict[tuple[int, ...], list[ir.Value]] = {}
        for i, first in step.users:
            for start in range(0, wide.window, DOT):
                run = range(start, min(start + DOT, wide.window))
                right = self._channels(self._words, taps, [first + tap for tap in run])
                for j in range(plan.width):
                    columns = [j * wide.step + tap * wide.dilation for tap in run]
                    left, total = self._channels(rows, pixels, columns), sums[i][j]
                    sums[i][j] = memory.joined(
                        [
                            dot_product("i8", x, w, memory.element(total, n), signs=signs)
                            for n, (x, w) in enumerate(zip(left, right, strict=True))
                        ]
                    )

    def _channels(
        self,
        known: dict[tuple[int, ...], list[ir.Value]],
        vectors: Mapping[int, ir.Value],
        numbers: Sequence[int],
    ) -> list[ir.Value]:
        """For each channel its bytes of some vectors, as an i32 that ends with zeros."""
        key = tuple(numbers)
        if key not in known:
            lanes = self.plan.vector[0]
            rows = [vectors[number] for number in key]
            rows += [emit.constant(0, "i8", lanes)] * (DOT - len(rows))
            channel = byte_columns(rows)
            known[key] = [memory.word(channel(n), 0) for n in range(lanes)]
        return known[key]

    def _sum(self, x: ir.Value, w: ir.Value, total: ir.Value) -> ir.Value:
        if not self.mixed:
            return emit.multiply_add(x, w, total, self.plan.match.problem.accumulator)
        elements = [
            [memory.element(v, n) for v in (x, w, total)] for n in range(self.plan.vector[0])
        ]
        return memory.joined(
            [math_dialect.fma(self._converted(x), self._converted(w), s) for x, w, s in elements]
        )

    def _converted(self, x: ir.Value) -> ir.Value:
        return emit.convert(x, self.plan.image.element, self.plan.match.problem.accumulator)
