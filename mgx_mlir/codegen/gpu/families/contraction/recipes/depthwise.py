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

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.choice import least
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import grid_of, linear_block, thread_number
from mgx_mlir.codegen.gpu.families.contraction.constraints import direct_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue, stored_vector
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors, WorkGroups
from mgx_mlir.codegen.gpu.families.contraction.plan import Recipe, Request
from mgx_mlir.codegen.gpu.families.contraction.recipes.windows import DOT, PlainSums, Windows
from mgx_mlir.codegen.problem.match import Match, mapped
from mgx_mlir.codegen.problem.problem import Axis, ComputedImage, Image, Matrix, vector_width
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
    def dots(self) -> bool:
        """Whether instructions multiply four bytes of a channel and sum them up."""
        elements = {self.image.element, self.filter.element}
        return elements == {"i8"} and self.lanes % DOT == 0

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
    def vector(self) -> tuple[int, int]:
        return self.lanes, 1

    @property
    def prefetch_distance(self) -> int:
        vectors = len(self.columns) + self.geometry[-1].window
        return max(1, _MOST_WAITING // (vectors * self.lanes * self.size // 4))

    @property
    def fits(self) -> bool:
        """Whether a thread's instructions and registers are not too many."""
        high, wide = self.geometry[-2:]
        # Sums; a row of pixels; elements of the filter, kept while rows of results need them.
        kept = len(self.columns) + wide.window * min(high.window, 1 + (self.rows - 1) * high.step)
        pixels = self.rows * self.width
        registers = self.lanes * pixels + kept * self.lanes * self.size // 4
        work = self.match.problem.K * self.lanes * pixels
        return work <= _MOST_WORK and registers <= _MOST_REGISTERS * self.target.register_share

    @cached_property
    def clocks(self) -> float:
        target, lanes = self.target, self.lanes
        taps, pixels = self.match.problem.K, self.rows * self.width
        reads = len(self.steps) * len(self.columns)
        work = taps * lanes * pixels
        if self.dots:
            work = self._dot_work
        elif self.match.problem.accumulator == "i32":
            work += work // 2  # a product, and a sum of two of them
        elif not self.mixed:
            # Two products at a time where instructions take them, and the conversions.
            work = work // (2 if "packed-f32" in target.features else 1) + (
                self.size < 4
            ) * lanes * (reads + taps)
        work += 6 * reads + 30 * pixels
        path = (reads + taps + pixels) * max(lanes * self.size, 4)
        for x in self.match.reads:
            # Reads of a part of each lane's elements touch the lines of all.
            bytes_ = lanes * emit.element_bytes(x.element)
            path += ceil_div(bytes_, CHUNK_BYTES) * bytes_
        return self.estimate(work, path, self.threads, target)

    @property
    def _dot_work(self) -> int:
        """Instructions that multiply bytes, and that transpose them: two for a register."""
        wide, lanes = self.geometry[-1], self.lanes
        parts = range(0, wide.window, DOT)
        corners = {j * wide.step + s * wide.dilation for j in range(self.width) for s in parts}
        users = sum(len(step.users) for step in self.steps)
        rows = self.match.problem.K // wide.window
        blocks = len(self.steps) * len(corners) + rows * len(parts)
        return lanes * (users * self.width * len(parts) + 2 * blocks)

    def describe(self) -> str:
        return f"{self.lanes} channels of {self.rows}x{self.width} pixels a thread"

    def emit(self, tensors: Tensors) -> None:
        epilogue, groups = self.epilogue(tensors), self.groups
        block = emit.mul(linear_block(groups.grid), groups.threads)
        thread = emit.add(block, thread_number(groups.threads))
        inside: list[ir.Value] = []
        if math.prod(groups.grid) * groups.threads != self.threads:
            inside.append(emit.compare("slt", thread, self.threads))
        emit_depthwise(self, thread, inside, tensors.inputs, epilogue)


def as_depthwise(request: Request) -> Depthwise | Refusal:
    """The best plan for a convolution as matrices [image, pixel, channel].

    A Refusal where its channels are not last, or not read as vectors.
    """
    plan = depthwise_of(request.match, request.target)
    return plan if isinstance(plan, Refusal) else best_of(plan)


def depthwise_of(match: Match, target: Target) -> Depthwise | Refusal:
    """The plan of one pixel a thread for a convolution of any sizes; a Refusal as above."""
    if refusal := direct_refusal(match):
        return refusal
    problem, image, a = match.problem, match.problem.b, match.problem.a
    assert isinstance(image, Image)
    if isinstance(image, ComputedImage):
        return Refusal("converted pixels")
    pixels = math.prod(image.outputs)
    channels = match.place.column.stride if match.place is not None else None
    if not channels:
        return Refusal("channels that are not last")
    if problem.M != 1 or pixels == 1:
        return Refusal(f"{problem.M} filters a channel, {pixels} pixels")
    count = problem.batch // channels
    images, channel = image.batch.split(channels) or (None, None)
    _, filters = a.batch.split(channels) or (None, None)
    axes = [x.batch.split(channels) for x in match.reads]
    if images is None or channel is None or filters is None or None in axes:
        return Refusal("channels that no stride separates from images")
    taps = Matrix(a.argument, a.element, a.offset, Axis(()), a.column, filters)

    def by_pixel(x: Matrix) -> Matrix:
        batch, column = x.batch.split(channels) or (x.batch, x.column)
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
    return Depthwise(transposed, image, target, 1, 1, channel, taps, most)


def best_of(plan: Depthwise) -> Depthwise:
    """The best plan with the same channels at most in a thread."""
    most, image = plan.lanes, plan.image
    height, width = (dim.outputs for dim in plan.geometry[-2:])
    mixed = (True, False) if image.element == "f16" else (False,)
    found = [
        replace(plan, lanes=lanes, rows=rows, width=columns, mixed=mix)
        for lanes, rows, columns, mix in product(_LANES, _SIDES, _SIDES, mixed)
        if most % lanes == 0 and rows < 2 * height and columns < 2 * width
    ]
    legal = [plan for plan in found if plan.rows * plan.width == 1 or plan.fits]
    # Each byte that LLVM takes out of a register waits for its read.
    legal = [plan for plan in legal if plan.dots] or legal
    return least(legal, lambda plan: plan.clocks, Depthwise.describe) or plan


def emit_depthwise(
    depthwise: Depthwise,
    thread: Index,
    inside: Sequence[ir.Value],
    inputs: Mapping[int, ir.Value],
    epilogue: Epilogue,
) -> None:
    """Emits the work of a thread, by its number of all; inside: whether it has work."""
    problem, lanes = depthwise.match.problem, depthwise.lanes
    chunks = problem.N // lanes
    channel = emit.mul(emit.rem(thread, chunks), lanes)
    image, starts = depthwise.starts(emit.div(thread, chunks))
    epilogue.prepare(image, channel, lanes)
    view, taps, element = depthwise.image, depthwise.filter, depthwise.image.element
    dims = [Axis.of((dim.size, dim.stride)) for dim in depthwise.geometry]
    width = vector_width(depthwise.channel, *dims, view.batch, offset=view.offset, limit=lanes)

    def tap(number: int) -> ir.Value:
        return stored_vector(inputs[taps.argument], taps, 0, number, channel, lanes)

    def pixels(place: Index, conditions: Sequence[ir.Value], _: int) -> Sequence[ir.Value]:
        parts = []
        for first in range(0, lanes, width):
            at = emit.add(place, depthwise.channel.offset(emit.add(channel, first)))
            at = memory.guarded(at, conditions, emit.element_bytes(element))
            parts.append(memory.load(inputs[view.argument], at, width))
        return [memory.concatenated(parts)]

    windows = Windows(
        depthwise, view.start(image), starts, inside, tap, pixels, depthwise.mixed, depthwise.dots
    )
    for i, row in enumerate(windows.sums()):
        for j, total in enumerate(row):
            pixel, conditions = depthwise.result(starts, i, j)
            epilogue(total, image, pixel, channel, [*inside, *conditions], False)


RECIPE = Recipe("depthwise", as_depthwise, plain=True)
