"""Convolutions of one channel a group (depthwise): no product of matrices, but plain sums.

A thread computes neighbouring results of a few rows. It reads each row of its window once,
as vectors where the image's rows allow. Where images are large, all threads of a work-group
share the filter's elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import block_number, thread_number
from mgx_mlir.codegen.gpu.families.contraction.constraints import direct_refusal, image_in_memory
from mgx_mlir.codegen.gpu.families.contraction.cost import LINE_BYTES
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors, WorkGroups
from mgx_mlir.codegen.gpu.families.contraction.plan import Recipe, Request
from mgx_mlir.codegen.gpu.families.contraction.recipes.windows import PlainSums, Windows
from mgx_mlir.codegen.problem.problem import Axis, vector_width
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import ceil_div

THREADS = 256


class Direct(PlainSums):
    """Plain sums of one channel a thread; a thread's columns divide those of the results."""

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
    def groups(self) -> WorkGroups:
        problem, blocks = self.match.problem, ceil_div(self.threads, THREADS)
        grid = (blocks, 1, 1) if self.flat else (blocks, problem.M, problem.batch)
        return WorkGroups(THREADS, grid)

    @cached_property
    def reads(self) -> list[tuple[int, int]]:
        """The reads of a row of pixels: the first column, as in `columns`, and how many."""
        (*outer, last), image = self.geometry, self.image
        most, size = 1, emit.element_bytes(image.element)
        if last.stride == 1:
            rows = [Axis.of((dim.size, dim.stride)) for dim in outer]
            limit = math.gcd(16 // size, last.size, self.width * last.step)
            row, offset = Axis(((last.size, 1),)), image.offset
            most = vector_width(row, *rows, image.batch, offset=offset, limit=limit)
        found = []
        columns = [column - last.pad for column in self.columns]
        for first in sorted({x // most * most for x in columns}):
            mine = [x - first for x in columns if first <= x < first + most]
            # The narrowest vector that holds them.
            count = most
            while count > 1 and mine[0] // (count // 2) == mine[-1] // (count // 2):
                count //= 2
            found.append((first + mine[0] // count * count + last.pad, count))
        return found

    @property
    def vector(self) -> tuple[int, int]:
        return self.width, self.width

    @property
    def clocks(self) -> float:
        size, taps = emit.element_bytes(self.image.element), self.match.problem.K
        results = self.rows * self.width
        work = taps * results // (2 if "packed-f32" in self.target.features else 1)
        work += (size < 4) * (len(self.steps) * len(self.columns) + taps) + 30 * self.rows
        work += 6 * (len(self.steps) * len(self.reads) + taps)
        # Lanes whose elements are no neighbours take a line of the cache each.
        near = self.geometry[-1].stride == 1, self.product.result.column.stride == 1
        path = sum(max(count * size, 4) if near[0] else LINE_BYTES for _, count in self.reads)
        path = len(self.steps) * path + results * (size if near[1] else LINE_BYTES) + 4 * taps
        channels = 1 if self.flat else self.match.problem.batch * self.match.problem.M
        return self.estimate(work, path, channels * self.threads, self.target)

    def describe(self) -> str:
        return f"{self.width}x{self.rows} results a thread"

    def emit(self, tensors: Tensors) -> None:
        _emit(self, tensors, self.epilogue(tensors))


def as_direct(request: Request) -> Direct | Refusal:
    """The plan for a convolution that `direct_refusal` does not refuse."""
    if refusal := direct_refusal(request.match):
        return refusal
    image = image_in_memory(request.match.problem.b)
    assert image is not None
    *_, high, wide = Direct(request.product, image, request.target, 1, 1).geometry
    rows, width = min(high.outputs, 4 if high.step == 1 else 2), math.gcd(wide.outputs, 8)
    plan = Direct(request.product, image, request.target, rows, width)
    # One wave takes longer for all than several that share a small image.
    while plan.threads < THREADS and max(plan.rows, plan.width) > 1:
        tall = plan.rows > 1
        plan = replace(plan, rows=plan.rows // 2) if tall else replace(plan, width=plan.width // 2)
    return plan


def _emit(direct: Direct, tensors: Tensors, epilogue: Epilogue) -> None:
    """Emits the work of a thread."""
    problem, thread = direct.match.problem, thread_number(THREADS)
    x, m, batch = (block_number(d, n) for d, n in zip("xyz", direct.groups.grid, strict=True))
    number = emit.linear(thread, (x, THREADS))
    inside = [emit.compare("slt", number, direct.threads)] if direct.threads % THREADS else []
    rest, starts = direct.starts(number)
    if direct.flat:
        # Threads beyond the last have to stay in bounds: filters are read without a check.
        rest = emit.minimum(rest, problem.batch * problem.M - 1)
        m, batch = emit.rem(rest, problem.M), emit.div(rest, problem.M)

    filters, image, element = problem.a, direct.image, direct.image.element
    pointer, buffer = tensors.pointers[filters.argument], tensors.inputs[image.argument]

    def tap(number: int) -> ir.Value:
        x = emit.load(pointer, filters.at(batch, m, number))
        return emit.splat(emit.convert(x, filters.element, problem.accumulator), direct.width)

    def pixels(at: Index, conditions: Sequence[ir.Value], count: int) -> Sequence[ir.Value]:
        x = memory.load(buffer, memory.guarded(at, conditions, emit.element_bytes(element)), count)
        # Pixels of another type are rounded to that of the convolution.
        x = emit.convert(emit.convert(x, element, problem.b.element), problem.b.element, element)
        return [memory.element(x, i) for i in range(count)]

    windows = Windows(direct, image.start(batch), starts, inside, tap, pixels)
    for i, (total,) in enumerate(windows.sums()):
        n, conditions = direct.result(starts, i, 0)
        epilogue(total, batch, m, n, [*inside, *conditions], False)


RECIPE = Recipe("direct", as_direct, plain=True)
