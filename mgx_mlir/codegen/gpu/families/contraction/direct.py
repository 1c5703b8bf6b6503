"""Convolutions of one channel a group (depthwise): no product of matrices, but plain sums.

A thread computes neighbouring results of a few rows. It reads each row of its window once,
as vectors where the image's rows allow. Where images are large, all threads of a work-group
share the filter's elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.access import vector_width
from mgx_mlir.codegen.gpu.families.contraction.constraints import MAX_BATCH
from mgx_mlir.codegen.gpu.families.contraction.convolution import row_major
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import Axis, ComputedImage, Image
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import ceil_div

THREADS = 256
# Products of one result, each of which is an instruction.
MAX_TAPS = 64


def direct_refusal(match: Match) -> Refusal | None:
    """Why plain sums do not serve a convolution; None where they do."""
    problem, image = match.problem, match.problem.b
    if not isinstance(image, Image):
        return Refusal("no convolution")
    if match.added:
        return Refusal("products whose sums are added")
    if isinstance(image, ComputedImage):
        return Refusal("pixels that are computed")
    if image.channel.size != 1:
        return Refusal(f"{image.channel.size} channels a group")
    if problem.K > MAX_TAPS:
        return Refusal(f"a window of {problem.K} elements a channel")
    if max(problem.batch, problem.M) > MAX_BATCH:
        return Refusal(f"{problem.batch} images of channels are more than {MAX_BATCH}")
    return None


# A dimension's size, stride in memory, outputs, window, step, dilation and pad before.
Dimension: TypeAlias = tuple[int, int, int, int, int, int, int]


def dimensions(image: Image) -> tuple[Dimension, ...]:
    """The spatial dimensions of an image, two at least."""
    dims = zip(
        image.sizes, image.strides, image.outputs, image.window, image.steps,
        image.dilations, image.pads, strict=True,
    )  # fmt: skip
    flat: Dimension = (1, 0, 1, 1, 1, 1, 0)
    return (*[flat] * (2 - len(image.sizes)), *dims)


@dataclass(frozen=True)
class Direct:
    """A thread's results: `width` along the last dimension, in `rows` rows before it."""

    match: Match
    image: Image

    @cached_property
    def geometry(self) -> tuple[Dimension, ...]:
        return dimensions(self.image)

    @property
    def width(self) -> int:
        return math.gcd(self.geometry[-1][2], 8)

    @property
    def rows(self) -> int:
        _, _, outputs, _, step, _, _ = self.geometry[-2]
        return min(outputs, 4 if step == 1 else 2)

    @property
    def counts(self) -> tuple[int, ...]:
        """Threads along each dimension."""
        *outer, rows, width = (dim[2] for dim in self.geometry)
        return (*outer, ceil_div(rows, self.rows), width // self.width)

    @property
    def flat(self) -> bool:
        """Whether a work-group has several channels, each too small for one of its own."""
        return math.prod(self.counts) < THREADS * 3 // 4

    @property
    def threads(self) -> int:
        """Threads of one channel of one image; of all channels and images where `flat`."""
        problem, plane = self.match.problem, math.prod(self.counts)
        return problem.batch * problem.M * plane if self.flat else plane

    @property
    def grid(self) -> tuple[int, int, int]:
        problem, blocks = self.match.problem, ceil_div(self.threads, THREADS)
        return (blocks, 1, 1) if self.flat else (blocks, problem.M, problem.batch)

    def describe(self) -> str:
        return f"{self.width}x{self.rows} results a thread"


def emit_direct(
    direct: Direct,
    pointers: Mapping[int, ir.Value],
    inputs: Mapping[int, ir.Value],
    outputs: Sequence[ir.Value],
    place: tuple[Index, Index, Index],
) -> None:
    """Emits the work of a thread.

    `place`: its number, and the work-group's row of filters and batch. `inputs` and `outputs`
    are raw buffers, `pointers` the inputs as plain pointers.
    """
    match, problem = direct.match, direct.match.problem
    number, m, batch = place
    accumulator, total = problem.accumulator, direct.threads
    inside = [emit.compare("slt", number, total)] if total % THREADS else []
    starts: list[Index] = []  # the thread's first result, by dimension
    rest = number
    each = [1] * (len(direct.counts) - 2) + [direct.rows, direct.width]
    for count, size in reversed(list(zip(direct.counts, each, strict=True))):
        starts.insert(0, emit.mul(emit.rem(rest, count), size))
        rest = emit.div(rest, count)
    if direct.flat:
        # Threads beyond the last have to stay in bounds: filters are read without a check.
        rest = emit.minimum(rest, problem.batch * problem.M - 1)
        m, batch = emit.rem(rest, problem.M), emit.div(rest, problem.M)

    weights = []
    for tap in range(problem.K):
        x = emit.load(pointers[problem.a.argument], problem.a.at(batch, m, tap))
        x = emit.convert(x, problem.a.element, accumulator)
        weights.append(emit.splat(x, direct.width))
    read = _Reader(direct, inputs[direct.image.argument], starts, batch, inside)
    sums: list[ir.Value] = [emit.constant(0, accumulator, direct.width)] * direct.rows
    *outer, (_, _, _, window, step, dilation, _), (_, _, _, taps, _, _, _) = direct.geometry
    for number_of_plane, plane in enumerate(offsets(outer)):
        for row in range((direct.rows - 1) * step + (window - 1) * dilation + 1):
            users = [
                (i, r)
                for i in range(direct.rows)
                for r in range(window)
                if i * step + r * dilation == row
            ]
            if not users:
                continue
            elements = read.row(plane, row)
            for i, r in users:
                first = (number_of_plane * window + r) * taps
                for s in range(taps):
                    x = read.window(elements, s)
                    sums[i] = emit.multiply_add(x, weights[first + s], sums[i], accumulator)
    epilogue = Epilogue(match, match.place or row_major(problem), inputs, outputs)
    height = direct.geometry[-2][2]
    for i, x in enumerate(sums):
        y = emit.add(starts[-2], i)
        conditions = list(inside)
        if height % direct.rows:
            conditions.append(emit.compare("slt", y, height))
        n: Index = 0
        for start, dim in zip([*starts[:-2], y, starts[-1]], direct.geometry, strict=True):
            n = emit.add(emit.mul(n, dim[2]), start)
        epilogue(x, batch, m, n, conditions, False)


def offsets(outer: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The offsets of the window's taps in the dimensions before the last two."""
    found: list[tuple[int, ...]] = [()]
    for dim in outer:
        found = [(*x, tap * dim[5]) for x in found for tap in range(dim[3])]
    return found


class _Reader:
    """Rows of a thread's windows."""

    def __init__(
        self,
        direct: Direct,
        buffer: ir.Value,
        starts: Sequence[Index],
        batch: Index,
        inside: Sequence[ir.Value],
    ) -> None:
        self.direct, self.image, self.buffer = direct, direct.image, buffer
        self.starts, self.inside = starts, inside
        self.start = direct.image.start(batch)
        size, stride, _, _, step, _, _ = direct.geometry[-1]
        others = [Axis.of((dim[0], dim[1])) for dim in direct.geometry[:-1]]
        limit = math.gcd(16 // emit.element_bytes(self.image.element), size, direct.width * step)
        self.most = 1
        if stride == 1:
            self.most = vector_width(
                Axis(((size, 1),)), *others, self.image.batch, offset=self.image.offset, limit=limit
            )

    def row(self, plane: tuple[int, ...], row: int) -> dict[int, ir.Value]:
        """Elements by their distance from the first result's coordinate times the step.

        plane, row: distances from the first window's corner.
        """
        direct, image = self.direct, self.image
        place, conditions = self.start, list(self.inside)
        moves = [*plane, row]
        for start, move, dim in zip(self.starts[:-1], moves, direct.geometry[:-1], strict=True):
            size, stride, outputs, _, step, _, pad = dim
            at = emit.add(emit.mul(start, step), move - pad)
            reach = (outputs - 1) * step + (dim[3] - 1) * dim[5] - pad
            if pad or reach >= size or outputs % (direct.rows if dim is direct.geometry[-2] else 1):
                conditions.append(emit.compare("ult", at, size))
            place = emit.add(place, emit.mul(at, stride))
        size, stride, _, taps, step, dilation, pad = direct.geometry[-1]
        base = emit.mul(self.starts[-1], step)
        wanted = sorted(
            {i * step + s * dilation - pad for i in range(direct.width) for s in range(taps)}
        )
        elements: dict[int, ir.Value] = {}
        for first in sorted({x // self.most * self.most for x in wanted}):
            mine = [x - first for x in wanted if first <= x < first + self.most]
            # The narrowest vector that holds them.
            count = self.most
            while count > 1 and mine[0] // (count // 2) == mine[-1] // (count // 2):
                count //= 2
            begin = first + mine[0] // count * count
            column = emit.add(base, begin)
            bounds = list(conditions)
            if wanted[0] < 0 or self._beyond(wanted[-1]):
                bounds.append(emit.compare("ult", column, size))
            at = emit.add(place, emit.mul(column, stride))
            at = memory.guarded(at, bounds, emit.element_bytes(image.element))
            x = memory.load(self.buffer, at, count)
            elements |= {begin + i: memory.element(x, i) for i in range(count)}
        return elements

    def _beyond(self, last: int) -> bool:
        size, _, outputs, _, step, _, _ = self.direct.geometry[-1]
        return (outputs - self.direct.width) * step + last >= size

    def window(self, elements: Mapping[int, ir.Value], tap: int) -> ir.Value:
        """The elements that the results of a row multiply with one tap."""
        _, _, _, _, step, dilation, pad = self.direct.geometry[-1]
        x = memory.joined(
            [elements[i * step + tap * dilation - pad] for i in range(self.direct.width)]
        )
        return emit.convert(x, self.image.element, self.direct.match.problem.accumulator)
