"""Convolutions of few taps: pixels stay in LDS and filters in registers.

    y[n, y, x, f] = sum over r, s, c of x[n, y + r, x + s, c] * w[f, r, s, c]

A work-group computes a few rows of at most 16 neighbouring results, for 16 filters a wave. It
issues all its reads before it waits for the first. The pixels under its windows go to LDS once;
each wave's filters go to its registers in the layout of the matrix cores. A row of pixels is
read from LDS once for all the rows of results whose windows meet it.

With many results, the larger tiles of `pipeline` read less: they share filters and pixels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory, multiply
from mgx_mlir.codegen.gpu.builders.ordering import barrier, fence
from mgx_mlir.codegen.gpu.families.contraction.cost import BLOCK_CLOCKS, BLOCK_LATENCY, LINE_BYTES
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors
from mgx_mlir.codegen.gpu.families.contraction.plan import Recipe, Request
from mgx_mlir.codegen.gpu.families.contraction.recipes.images import ImageBlocks, ImageWork
from mgx_mlir.codegen.problem.problem import ComputedImage, Image, Matrix, vector_width
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import Size, ceil_div, common_factor

# Rows of results of a work-group.
HEIGHT = 2
MOST_WAVES = 4
# 16-byte reads of filters that a lane holds.
MOST_READS = 40
# Padding between pixels in LDS, so that no phase of a read has a bank conflict: 16 lanes read
# chunks of neighbouring pixels, whose distance is a multiple of 128 bytes plus this padding (a
# test counts the conflicts).
GAP_BYTES = 32


@dataclass(frozen=True)
class Resident(ImageBlocks):
    """A product of the windows of `image` with filters, both with channels last."""

    @property
    def filters(self) -> Matrix:
        b = self.product.match.problem.b
        assert isinstance(b, Matrix)
        return b

    @property
    def channels(self) -> int:
        return self.image.channel.size

    @property
    def step(self) -> int:
        """Channels that a step takes: a chunk of 16 bytes of each group of lanes."""
        return self.unit.groups * self.unit.chunk

    @property
    def reads(self) -> int:
        """Reads of filters by a lane, of 16 bytes each."""
        return self.image.taps * self.channels // self.step

    @property
    def count(self) -> int:
        return self.product.match.problem.N

    @property
    def own(self) -> int:
        return self.waves * self.unit.columns

    @property
    def waves(self) -> int:
        return math.gcd(self.count // self.unit.columns, MOST_WAVES)

    @property
    def pixel(self) -> int:
        """Elements from one pixel to the next in LDS."""
        whole = ceil_div(self.channels * self.size, 128) * 128
        return (whole + GAP_BYTES) // self.size

    @property
    def pitch(self) -> int:
        return self.patch[1] * self.pixel

    @property
    def clocks(self) -> float:
        """Estimated clocks: work-groups of a compute unit overlap but for what they multiply and
        move."""
        depth = self.reads * self.step
        rows = self.high * self.unit.rows
        # A wave has one of the SIMDs.
        matrix = 2 * rows * self.unit.columns * depth / (self.unit.flops / self.target.gpu.simds)
        filters = self.own * depth
        pixels = math.prod(self.patch) * self.channels
        moved = (filters + pixels) * self.size
        blocks = ceil_div(math.prod(self.groups.grid), self.target.compute_units)
        own = max(matrix, moved / LINE_BYTES)
        return BLOCK_LATENCY + blocks * own + (blocks - 1) * BLOCK_CLOCKS

    def describe(self) -> str:
        return (
            f"{self.high}x{self.wide} results of {self.waves}x{self.unit.columns} filters a block, "
            f"pixels in LDS, {self.unit.kind} of {self.unit.element}"
        )

    def emit(self, tensors: Tensors) -> None:
        fence()
        block = _Block(self, tensors.tiles)
        fence()  # offsets are computed while the loads of the pointers are in flight
        block.emit(tensors.inputs, self.epilogue(tensors))


class _Block(ImageWork):
    """The work of a thread; the constructor computes its offsets."""

    def __init__(self, found: Resident, lds: ir.Value) -> None:
        super().__init__(found)
        self.found, self.lds = found, lds
        unit, group = self.unit, self.group
        first = emit.mul(emit.linear(self.wave, (self.filters, found.waves)), unit.columns)
        self.n = emit.add(first, emit.mul(group, unit.values))
        self.pixels = self._pixels()
        filters = found.filters
        start = emit.add(filters.offset, filters.column.offset(emit.add(first, self.row)))
        self.filter = emit.add(start, emit.mul(group, unit.chunk))
        # Kept in a register: else it is computed when all wait for the results to be stored.
        self.m = memory.opaque(self.result(0, 0, self.row)[0])
        # Lanes beyond a work-group's results repeat its last one.
        here = emit.minimum(self.row, found.wide - 1) if found.wide < unit.rows else self.row
        self.lane = emit.linear(0, (here, found.pixel), (group, unit.chunk))

    def emit(self, inputs: Mapping[int, ir.Value], epilogue: Epilogue) -> None:
        buffer = inputs[self.image.argument]
        # In the order of use.
        pixels = [memory.load(buffer, place, self.unit.chunk) for _, _, place in self.pixels]
        filters = self._filters(inputs[self.found.filters.argument])
        epilogue.prepare(0, self.n, self.unit.values)
        fence()
        for (mine, place, _), x in zip(self.pixels, pixels, strict=True):
            if mine is not True:
                memory.held(x)
            emit.when(mine, partial(memory.store, x, self.lds, place))
        barrier()
        fence()
        for number, x in enumerate(self._sums(filters)):
            m = emit.add(self.m, number * self.image.dims[1].outputs)
            epilogue(x, 0, m, self.n, self.result(number, 0, self.row)[1], False)

    def _pixels(self) -> list[tuple[ir.Value | bool, Index, Index]]:
        """The thread's reads of the work-group's pixels: for each whether there is one, its offset
        in LDS, and its offset in memory."""
        found, chunk = self.found, self.unit.chunk
        (high, wide), chunks = found.patch, found.channels // chunk
        start, read = self.image.start(self.number), []
        for mine, number in self.shares(high * wide * chunks):
            c, at = emit.mul(emit.rem(number, chunks), chunk), emit.div(number, chunks)
            column, line = emit.rem(at, wide), emit.div(at, wide)
            place, inside = self.pixel(emit.add(start, c), line, column)
            place = memory.guarded(place, inside, found.size)
            read.append((mine, emit.linear(c, (at, found.pixel)), place))
        return read

    def _filters(self, buffer: ir.Value) -> list[ir.Value]:
        """A lane's part of its filter, in the order of use."""
        high, wide = (dim.window for dim in self.image.dims)
        read = []
        for c, s in self._turns():
            for r in range(high):
                place = emit.add(self.filter, (r * wide + s) * self.found.channels + c)
                read.append(memory.load(buffer, place, self.unit.chunk))
                fence()  # else LLVM reads neighbours first
        return read

    def _turns(self) -> list[tuple[int, int]]:
        """The loop's iterations: first channel of a step, and column of the windows."""
        steps = range(0, self.found.channels, self.found.step)
        return [(c, s) for c in steps for s in range(self.image.dims[1].window)]

    def _sums(self, filters: list[ir.Value]) -> list[ir.Value]:
        """The sums of each row of results."""
        found, unit, high = self.found, self.unit, self.image.dims[0].window
        turns = self._turns()

        def lines(c: int, s: int) -> list[list[ir.Value]]:
            """A lane's operands from each row of pixels, for column `s` of the windows."""
            rows = []
            for y in range(found.patch[0]):
                place = (y * found.patch[1] + s) * found.pixel + c
                x = memory.load(self.lds, emit.add(self.lane, place), unit.chunk)
                rows.append(multiply.pieces(unit, [x]))
            fence()
            return rows

        sums = [multiply.zero(unit)] * found.high
        following = lines(*turns[0])
        for number in range(len(turns)):
            now = following
            for r in range(high):
                pieces = multiply.pieces(unit, [filters[number * high + r]])
                for part, column in enumerate(pieces):
                    for t in range(found.high):
                        row = now[t + r][part]
                        sums[t] = multiply.multiply(unit, row, [column], sums[t])
                fence()
                if r == 0 and number + 1 < len(turns):
                    following = lines(*turns[number + 1])
        return sums


def as_resident(request: Request) -> Resident | Refusal:
    """The work-groups for a small convolution."""
    match, product, unit, target = request.match, request.exact, request.unit, request.target
    image, problem = match.problem.b, product.match.problem
    if not isinstance(image, Image) or match.added or product.packings:
        return Refusal("no convolution of an image with channels last")
    if isinstance(image, ComputedImage):
        return Refusal("pixels that are computed")
    if unit.kind != "mfma" or unit.lane_chunks > 1 or unit.element != image.element:
        return Refusal("no matrix cores of 64 lanes")
    if len(image.dims) != 2 or problem.batch > 1 or product.result.column.stride != 1:
        return Refusal("groups, or other than two dimensions")
    if image.taps == 1 or any(dim.step != 1 or dim.dilation != 1 for dim in image.dims):
        return Refusal("windows that are no neighbours")
    # An image's row is divided as evenly as can be.
    outputs, wide = image.dims[1].outputs, unit.rows
    if not isinstance(outputs, Size):
        wide = ceil_div(outputs, ceil_div(outputs, unit.rows))
    found = Resident(product, image, unit, target, HEIGHT, wide)
    if image.channel.size % found.step or problem.N % unit.columns:
        return Refusal(f"{image.channel.size} channels, {problem.N} filters")
    if found.reads > MOST_READS:
        return Refusal(f"{found.reads} reads of filters")
    if found.lds_elements * found.size > min(target.lds_bytes, 64 << 10):
        return Refusal(f"{found.lds_elements * found.size} bytes of LDS")
    b = found.filters
    widths = (
        vector_width(image.channel, image.batch, offset=image.offset, limit=unit.chunk),
        math.gcd(unit.chunk, *map(common_factor, image.strides)),
        vector_width(b.row, b.column, offset=b.offset, limit=unit.chunk),
    )
    if set(widths) != {unit.chunk} or b.row.stride != 1:
        return Refusal("an order of elements that is not read by 16 bytes")
    return found


RECIPE = Recipe("resident", as_resident)
