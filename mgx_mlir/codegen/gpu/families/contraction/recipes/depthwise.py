"""Convolutions of one channel a group with channels last: each thread has neighbouring channels.

A thread computes its channels of some neighbouring pixels, whose windows overlap. It reads each
pixel that the windows share once, as one vector, and the filter's elements of its channels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from mlir import ir
from mlir.dialects import math as math_dialect

from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.access import vector_width
from mgx_mlir.codegen.gpu.builders.function import grid_of, linear_block, thread_number
from mgx_mlir.codegen.gpu.builders.ordering import fence
from mgx_mlir.codegen.gpu.families.choice import least
from mgx_mlir.codegen.gpu.families.contraction.constraints import direct_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product, split
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue, stored_vector
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors, WorkGroups
from mgx_mlir.codegen.gpu.families.contraction.recipes.windows import PlainSums, Step
from mgx_mlir.codegen.gpu.families.contraction.request import Recipe, Request
from mgx_mlir.codegen.problem.match import mapped
from mgx_mlir.codegen.problem.problem import Axis, Image, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import ceil_div

# Channels that a thread may have, and its pixels along a dimension.
_LANES, _SIDES = (8, 4, 2), (8, 4, 2, 1)
# Threads of a work-group where there are enough for all compute units, and elsewhere.
_THREADS, _FEW_THREADS = 256, 64
# Multiply-adds of a thread, each of which is an instruction, and its registers, about.
_MOST_WORK, _MOST_REGISTERS = 3200, 128
# Registers for values on their way from memory.
_MOST_WAITING = 80


@dataclass(frozen=True)
class Depthwise(PlainSums):
    """The convolution as matrices [image, pixel, channel]; a thread has `lanes` channels.

    The sizes, sources and results of `product` are those of these matrices; its operands are the
    fields here. `image.batch` counts images, `channel` their channels. `filter`: [-, tap,
    channel]. `mixed`: instructions multiply f16 and add to f32. Otherwise all values become f32
    first, which is less work where a chip multiplies two at a time and pixels have several users.
    """

    channel: Axis
    filter: Matrix
    lanes: int
    mixed: bool = False

    @cached_property
    def size(self) -> int:
        """Bytes of an element of the image."""
        return emit.element_bytes(self.image.element)

    @property
    def threads(self) -> int:
        """All threads that have work."""
        problem = self.match.problem
        return problem.batch * math.prod(self.counts) * (problem.N // self.lanes)

    @property
    def groups(self) -> WorkGroups:
        many = self.threads >= _THREADS * self.target.compute_units
        threads = _THREADS if many else _FEW_THREADS
        return WorkGroups(threads, grid_of(ceil_div(self.threads, threads)), is_vectors=True)

    @property
    def spans(self) -> tuple[int, int]:
        """Rows and columns that the windows of a thread cover."""
        high, wide = (
            len(
                {
                    i * dim.step + tap * dim.dilation
                    for i in range(count)
                    for tap in range(dim.window)
                }
            )
            for count, dim in zip(self.each[-2:], self.geometry[-2:], strict=True)
        )
        return high, wide

    @property
    def prefetch_distance(self) -> int:
        """Steps whose reads are on their way before the first's are used."""
        vectors = self.spans[1] + self.geometry[-1].window
        return max(1, _MOST_WAITING // (vectors * self.lanes * self.size // 4))

    @property
    def fits(self) -> bool:
        """Whether a thread's instructions and registers are not too many."""
        high, wide = self.geometry[-2:]
        # Sums; a row of pixels; elements of the filter, kept while rows of results need them.
        kept = self.spans[1] + wide.window * min(high.window, 1 + (self.rows - 1) * high.step)
        pixels = self.rows * self.width
        registers = self.lanes * pixels + kept * self.lanes * self.size // 4
        work = self.match.problem.K * self.lanes * pixels
        return work <= _MOST_WORK and registers <= _MOST_REGISTERS * self.target.register_share

    @cached_property
    def clocks(self) -> float:
        target, lanes = self.target, self.lanes
        taps, pixels = self.match.problem.K, self.rows * self.width
        reads = len(self.steps) * self.spans[1]
        work = taps * lanes * pixels
        if not self.mixed:
            # Two products at a time where instructions take them, and the conversions.
            work = work // (2 if "packed-f32" in target.features else 1) + (
                self.size < 4
            ) * lanes * (reads + taps)
        work += 6 * reads + 30 * pixels
        path = (reads + taps + pixels) * max(lanes * self.size, 4)
        return self.estimate(work, path, self.threads, target)

    def describe(self) -> str:
        return f"{self.lanes} channels of {self.rows}x{self.width} pixels a thread"

    def emit(self, tensors: Tensors) -> None:
        epilogue, groups = self.epilogue(tensors), self.groups
        block = emit.mul(linear_block(groups.grid), groups.threads)
        thread = emit.add(block, thread_number(groups.threads))
        _emit(self, thread, tensors.inputs, epilogue)


def as_depthwise(request: Request) -> Depthwise | Refusal:
    """The best plan for a convolution as matrices [image, pixel, channel].

    A Refusal where its channels are not last, or not read as vectors.
    """
    match, target = request.match, request.target
    if refusal := direct_refusal(match):
        return refusal
    problem, image, a = match.problem, match.problem.b, match.problem.a
    assert isinstance(image, Image)
    pixels = math.prod(image.outputs)
    channels = match.place.column.stride if match.place is not None else None
    if not channels:
        return Refusal("channels that are not last")
    if problem.M != 1 or pixels == 1:
        return Refusal(f"{problem.M} filters a channel, {pixels} pixels")
    count = problem.batch // channels
    images, channel = split(image.batch, count)
    taps = Matrix(a.argument, a.element, a.offset, Axis(()), a.column, split(a.batch, count)[1])

    def by_pixel(x: Matrix) -> Matrix:
        batch, column = split(x.batch, count)
        return replace(x, batch=batch, row=x.column, column=column)

    place = Matrix(
        0, "", 0, Axis.of((count, pixels * channels)), Axis.of((pixels, channels)),
        Axis.of((channels, 1)),
    )  # fmt: skip
    sizes = replace(problem, batch=count, M=pixels, N=channels)
    inner = replace(match, problem=sizes, sources=mapped(match.sources, by_pixel))
    transposed = Product(inner, place, {})
    most = math.gcd(channels, min(_LANES[0], CHUNK_BYTES // emit.element_bytes(image.element)))
    if most == 1:
        return Refusal("channels that no vector divides")
    image = replace(image, batch=images)
    plan = Depthwise(transposed, image, target, 1, 1, channel, taps, most)
    height, width = (dim.outputs for dim in plan.geometry[-2:])
    mixed = (True, False) if image.element == "f16" else (False,)
    found = [
        replace(plan, lanes=lanes, rows=rows, width=columns, mixed=mix)
        for lanes, rows, columns, mix in product(_LANES, _SIDES, _SIDES, mixed)
        if most % lanes == 0 and rows < 2 * height and columns < 2 * width
    ]
    legal = [plan for plan in found if plan.rows * plan.width == 1 or plan.fits]
    return least(legal, lambda plan: plan.clocks, Depthwise.describe) or plan


def _emit(
    depthwise: Depthwise, thread: Index, inputs: Mapping[int, ir.Value], epilogue: Epilogue
) -> None:
    """Emits the work of a thread, by its number of all."""
    problem, lanes, groups = depthwise.match.problem, depthwise.lanes, depthwise.groups
    inside: list[ir.Value] = []
    if math.prod(groups.grid) * groups.threads != depthwise.threads:
        inside.append(emit.compare("slt", thread, depthwise.threads))
    chunks = problem.N // lanes
    channel = emit.mul(emit.rem(thread, chunks), lanes)
    image, starts = depthwise.starts(emit.div(thread, chunks))
    zero = emit.constant(0, problem.accumulator, lanes)
    sums = [[zero] * depthwise.width for _ in range(depthwise.rows)]
    epilogue.prepare(image, channel, lanes)
    read = _Reader(depthwise, inputs, starts, (image, channel), inside)
    steps, early = depthwise.steps, depthwise.prefetch_distance
    for number in range(-early, len(steps)):
        # LLVM would wait for each read where it is used.
        if number + early < len(steps):
            read.start_step(steps[number + early])
        fence()
        if number >= 0:
            read.multiply(steps[number], sums)
    for i, j in product(range(depthwise.rows), range(depthwise.width)):
        pixel, conditions = depthwise.result(starts, i, j)
        epilogue(sums[i][j], image, pixel, channel, [*inside, *conditions], False)


class _Reader:
    """A thread's reads: pixels of its windows, and elements of the filter, each once."""

    def __init__(
        self,
        depthwise: Depthwise,
        inputs: Mapping[int, ir.Value],
        starts: Sequence[Index],
        place: tuple[Index, Index],
        inside: Sequence[ir.Value],
    ) -> None:
        """place: the image, and the thread's first channel."""
        self.depthwise, self.inputs = depthwise, inputs
        image, self.channel = place
        self.starts, self.inside = starts, inside
        view = depthwise.image
        self.start = view.start(image)
        rows = [Axis.of((dim.size, dim.stride)) for dim in depthwise.geometry]
        self.width = vector_width(
            depthwise.channel, *rows, view.batch, offset=view.offset, limit=depthwise.lanes
        )
        # Vectors as they lie in memory: of the filters by tap, and of rows of pixels by their
        # distance from the first window's column.
        self._taps: dict[int, ir.Value] = {}
        self._pixels: dict[Step, dict[int, ir.Value]] = {}

    def start_step(self, step: Step) -> None:
        """Reads a step's pixels, and the elements of the filter that no step before it read."""
        depthwise, dim = self.depthwise, self.depthwise.geometry[-1]
        for _, first in step.users:
            for tap in range(first, first + dim.window):
                if tap not in self._taps:
                    self._taps[tap] = self._tap(tap)
        place, conditions = depthwise.row(self.start, self.starts, step)
        found = {}
        for j, s in product(range(depthwise.width), range(dim.window)):
            distance = j * dim.step + s * dim.dilation
            if distance not in found:
                at, condition = depthwise.along(-1, self.starts[-1], distance)
                at = emit.add(place, emit.mul(at, dim.stride))
                found[distance] = self._pixel(at, [*self.inside, *conditions, *condition])
        self._pixels[step] = found

    def multiply(self, step: Step, sums: list[list[ir.Value]]) -> None:
        """Adds the products of a row of pixels to the results' sums, row by row."""
        depthwise, dim = self.depthwise, self.depthwise.geometry[-1]
        pixels = self._pixels.pop(step)
        if not depthwise.mixed:
            pixels = {at: self._converted(x) for at, x in pixels.items()}
        for i, first in step.users:
            for s in range(dim.window):
                w = self._taps[first + s]
                if not depthwise.mixed:
                    w = self._converted(w)
                for j in range(depthwise.width):
                    x = pixels[j * dim.step + s * dim.dilation]
                    sums[i][j] = self._sum(x, w, sums[i][j])

    def _sum(self, x: ir.Value, w: ir.Value, total: ir.Value) -> ir.Value:
        if not self.depthwise.mixed:
            return emit.multiply_add(x, w, total, self.depthwise.match.problem.accumulator)
        return memory.joined(
            [
                math_dialect.fma(
                    self._converted(memory.element(x, n)),
                    self._converted(memory.element(w, n)),
                    memory.element(total, n),
                )
                for n in range(self.depthwise.lanes)
            ]
        )

    def _tap(self, number: int) -> ir.Value:
        """Element `number` of the filters of the thread's channels."""
        taps = self.depthwise.filter
        buffer = self.inputs[taps.argument]
        return stored_vector(buffer, taps, 0, number, self.channel, self.depthwise.lanes)

    def _pixel(self, place: Index, conditions: Sequence[ir.Value]) -> ir.Value:
        image, lanes = self.depthwise.image, self.depthwise.lanes
        buffer, size = self.inputs[image.argument], emit.element_bytes(image.element)
        elements: list[ir.Value] = []
        for first in range(0, lanes, self.width):
            offset = self.depthwise.channel.offset(emit.add(self.channel, first))
            at = memory.guarded(emit.add(place, offset), conditions, size)
            x = memory.load(buffer, at, self.width)
            if self.width == lanes:
                return x
            elements += [memory.element(x, i) for i in range(self.width)]
        return memory.joined(elements)

    def _converted(self, x: ir.Value) -> ir.Value:
        problem = self.depthwise.match.problem
        return emit.convert(x, self.depthwise.image.element, problem.accumulator)


RECIPE = Recipe("depthwise", as_depthwise, plain=True)
