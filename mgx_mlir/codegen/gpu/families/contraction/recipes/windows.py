"""Plans of plain sums: a thread's results lie side by side, and their windows share pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.cost import GLOBAL_LATENCY, LINE_BYTES
from mgx_mlir.codegen.gpu.families.contraction.plan import OneFunction
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import Image
from mgx_mlir.sizes.arithmetic import ceil_div


class Dimension(NamedTuple):
    """A spatial dimension of an image, and of the windows that move along it."""

    size: int
    stride: int
    outputs: int
    window: int
    step: int
    dilation: int
    pad: int


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
        image = self.image
        dims = zip(
            image.sizes, image.strides, image.outputs, image.window, image.steps,
            image.dilations, image.pads, strict=True,
        )  # fmt: skip
        flat = Dimension(1, 0, 1, 1, 1, 1, 0)
        return (*[flat] * (2 - len(image.sizes)), *(Dimension(*dim) for dim in dims))

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
            for row in range((self.rows - 1) * high.step + (high.window - 1) * high.dilation + 1):
                users = tuple(
                    (i, (number * high.window + r) * wide.window)
                    for i in range(self.rows)
                    for r in range(high.window)
                    if i * high.step + r * high.dilation == row
                )
                if users:
                    found.append(Step(plane, row, users))
        return tuple(found)

    def estimate(self, work: int, path: int, threads: int, target: Target) -> float:
        """The estimate, from a thread's instructions of the vector units, and its bytes.

        A compute unit's vector units do one instruction of a wave of 64 a clock, or two of 32; its
        path to memory gives 64 bytes a clock.
        """
        wave = target.wave_size
        alone = 2 * GLOBAL_LATENCY + work * wave // 16
        busy = max(work * wave // 16 // target.gpu.simds, path * wave // LINE_BYTES)
        return max(alone, ceil_div(ceil_div(threads, wave), target.compute_units) * busy)

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
        last = (ceil_div(dim.outputs, count) * count - 1) * dim.step - dim.pad
        last += (dim.window - 1) * dim.dilation
        return at, [emit.compare("ult", at, dim.size)] if dim.pad or last >= dim.size else []

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
