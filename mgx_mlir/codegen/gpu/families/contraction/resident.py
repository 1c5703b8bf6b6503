"""Convolutions too small to fill a chip: pixels stay in LDS and filters in registers.

    y[n, y, x, f] = sum over r, s, c of x[n, y + r, x + s, c] * w[f, r, s, c]

A work-group computes a few rows of at most 16 neighbouring results, for 16 filters a wave. It
issues all its reads before it waits for the first. The pixels under its windows go to LDS once;
each wave's filters go to its registers in the layout of the matrix cores. A row of pixels is
read from LDS once for all the rows of results whose windows meet it.

With many results, the larger tiles of `pipeline` read less: they share filters and pixels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects import amdgpu

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.access import vector_width
from mgx_mlir.codegen.gpu.builders.function import block_number, gpu_module, thread_number
from mgx_mlir.codegen.gpu.builders.ordering import fence
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.contraction import multiply
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.cost import BLOCK_LATENCY
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.function import (
    add_function,
    buffers_of,
    parameters_of,
)
from mgx_mlir.codegen.gpu.families.contraction.specs import Unit
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import ComputedImage, Image, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import ceil_div

# Rows of results of a work-group.
HEIGHT = 2
MOST_WAVES = 4
# 16-byte reads of filters that a lane holds.
MOST_READS = 40
# Bytes that a compute unit loads in a clock: a line of the cache.
LOAD_BYTES_A_CLOCK = 64
# Padding between pixels in LDS, so that no phase of a read has a bank conflict: 16 lanes read
# chunks of neighbouring pixels, whose distance is a multiple of 128 bytes plus this padding (a
# test counts the conflicts).
GAP_BYTES = 32


@dataclass(frozen=True)
class Resident:
    """A product of the windows of `image` with filters, both with channels last."""

    product: Product
    image: Image
    unit: Unit
    wave_size: int

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
        return math.prod(self.image.window) * self.channels // self.step

    @property
    def width(self) -> int:
        """Results of a row of a work-group: an image's row is divided as evenly as can be."""
        outputs = self.image.outputs[1]
        return ceil_div(outputs, ceil_div(outputs, self.unit.rows))

    @property
    def waves(self) -> int:
        return math.gcd(self.product.match.problem.N // self.unit.columns, MOST_WAVES)

    @property
    def patch(self) -> tuple[int, int]:
        """Rows and columns of the pixels under a work-group's windows."""
        window = self.image.window
        return HEIGHT + window[0] - 1, self.width + window[1] - 1

    @property
    def pixel(self) -> int:
        """Elements from one pixel to the next in LDS."""
        size = emit.element_bytes(self.unit.element)
        return (ceil_div(self.channels * size, 128) * 128 + GAP_BYTES) // size

    @property
    def lds_elements(self) -> int:
        return math.prod(self.patch) * self.pixel

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Work-groups by image, row and column of results."""
        high, wide = self.image.outputs
        rows, columns = ceil_div(high, HEIGHT), ceil_div(wide, self.width)
        return self.image.batch.size, rows, columns

    @property
    def grid(self) -> tuple[int, int, int]:
        blocks = self.product.match.problem.N // (self.waves * self.unit.columns)
        return math.prod(self.tiles), blocks, 1

    @property
    def clocks(self) -> float:
        """Estimated clocks, where each work-group has a compute unit for itself."""
        depth = self.reads * self.step
        rows = HEIGHT * self.unit.rows
        # A wave has one of four SIMDs.
        matrix = 2 * rows * self.unit.columns * depth / (self.unit.flops / 4)
        filters = self.waves * self.unit.columns * depth
        pixels = math.prod(self.patch) * self.channels
        size = emit.element_bytes(self.unit.element)
        return BLOCK_LATENCY + max(matrix, (filters + pixels) * size / LOAD_BYTES_A_CLOCK)

    def describe(self) -> str:
        return (
            f"{HEIGHT}x{self.width} results of {self.waves}x{self.unit.columns} filters a block, "
            f"pixels in LDS, {self.unit.kind} of {self.unit.element}"
        )


def resident_refusal(match: Match, product: Product, unit: Unit, target: Target) -> Refusal | None:
    """Why such work-groups do not serve a convolution; None where they do."""
    image, problem = match.problem.b, product.match.problem
    if not isinstance(image, Image) or match.added or product.packings:
        return Refusal("no convolution of an image with channels last")
    if isinstance(image, ComputedImage):
        return Refusal("pixels that are computed")
    if unit.kind != "mfma" or unit.lane_chunks > 1 or unit.element != image.element:
        return Refusal("no matrix cores of 64 lanes")
    if len(image.sizes) != 2 or problem.batch > 1 or product.result.column.stride != 1:
        return Refusal("groups, or other than two dimensions")
    if math.prod(image.window) == 1 or {*image.steps, *image.dilations} != {1}:
        return Refusal("windows that are no neighbours")
    found = Resident(product, image, unit, target.wave_size)
    if image.channel.size % found.step or problem.N % unit.columns:
        return Refusal(f"{image.channel.size} channels, {problem.N} filters")
    if found.reads > MOST_READS:
        return Refusal(f"{found.reads} reads of filters")
    size = emit.element_bytes(unit.element)
    if found.lds_elements * size > min(target.lds_bytes, 64 << 10):
        return Refusal(f"{found.lds_elements * size} bytes of LDS")
    b = found.filters
    widths = (
        vector_width(image.channel, image.batch, offset=image.offset, limit=unit.chunk),
        math.gcd(unit.chunk, *image.strides),
        vector_width(b.row, b.column, offset=b.offset, limit=unit.chunk),
    )
    if set(widths) != {unit.chunk} or b.row.stride != 1:
        return Refusal("an order of elements that is not read by 16 bytes")
    if math.prod(found.grid) > target.compute_units:
        return Refusal(f"{math.prod(found.grid)} blocks for {target.compute_units} compute units")
    return None


def as_resident(match: Match, product: Product, unit: Unit, target: Target) -> Resident | Refusal:
    """The work-groups for a convolution and its product."""
    if refusal := resident_refusal(match, product, unit, target):
        return refusal
    image = match.problem.b
    assert isinstance(image, Image)
    return Resident(product, image, unit, target.wave_size)


def generate_resident(
    found: Resident, sizes: tuple[Sequence[int], Sequence[int]], name: str
) -> GpuProgram:
    """The function `<name>_0`. sizes: elements of each input and of each result."""
    match = found.product.match
    parameters = parameters_of(match, sizes)
    module, functions = gpu_module()
    threads = found.waves * found.wave_size

    def body(pointers: Sequence[ir.Value], lds: ir.Value | None) -> None:
        assert lds is not None
        fence()
        block = _Block(found, thread_number(threads), lds)
        fence()  # offsets are computed while the loads of the pointers are in flight
        inputs, outputs = buffers_of(match, pointers)
        block.emit(inputs, Epilogue(match, found.product.result, inputs, outputs))

    lds = (found.lds_elements, found.unit.element)
    launch = add_function(functions, f"{name}_0", parameters, threads, found.grid, body, lds)
    return GpuProgram(module, (launch,), 0, 32)


class _Block:
    """The work of a thread; the constructor computes its offsets."""

    def __init__(self, found: Resident, thread: Index, lds: ir.Value) -> None:
        self.found, self.image, self.unit, self.lds = found, found.image, found.unit, lds
        unit, (images, rows, columns) = self.unit, found.tiles
        block = block_number("x", found.grid[0])
        self.x0 = emit.mul(emit.rem(block, columns), found.width)
        rest = emit.div(block, columns)
        self.y0, self.number = emit.mul(emit.rem(rest, rows), HEIGHT), emit.div(rest, rows)
        if images == 1:
            self.number = 0
        lane, wave = emit.rem(thread, found.wave_size), emit.div(thread, found.wave_size)
        self.row, group = emit.rem(lane, unit.rows), emit.div(lane, unit.rows)
        blocks = found.grid[1]
        first = emit.mul(emit.linear(wave, (block_number("y", blocks), found.waves)), unit.columns)
        self.n = emit.add(first, emit.mul(group, unit.values))
        self.pixels = self._pixels(thread)
        filters = found.filters
        start = emit.add(filters.offset, filters.column.offset(emit.add(first, self.row)))
        self.filter = emit.add(start, emit.mul(group, unit.chunk))
        # Kept in a register: else it is computed when all wait for the results to be stored.
        column, (high, wide) = emit.add(self.x0, self.row), self.image.outputs
        self.m = memory.opaque(emit.linear(column, (self.y0, wide), (self.number, high * wide)))
        # Lanes beyond a work-group's results repeat its last one.
        here = emit.minimum(self.row, found.width - 1) if found.width < unit.rows else self.row
        self.lane = emit.linear(0, (here, found.pixel), (group, unit.chunk))

    def emit(self, inputs: Mapping[int, ir.Value], epilogue: Epilogue) -> None:
        found, outputs = self.found, self.image.outputs
        buffer = inputs[self.image.argument]
        # In the order of use.
        pixels = [memory.load(buffer, place, self.unit.chunk) for _, _, place in self.pixels]
        filters = self._filters(inputs[found.filters.argument])
        epilogue.prepare(0, self.n, self.unit.values)
        fence()
        for (mine, place, _), x in zip(self.pixels, pixels, strict=True):
            emit.when(mine, partial(memory.store, x, self.lds, place))
        amdgpu.LDSBarrierOp()
        fence()
        for number, x in enumerate(self._sums(filters)):
            y, column = emit.add(self.y0, number), emit.add(self.x0, self.row)
            inside = []
            if found.width < self.unit.rows:
                inside.append(emit.compare("slt", self.row, found.width))
            if outputs[1] % found.width:
                inside.append(emit.compare("slt", column, outputs[1]))
            if outputs[0] % HEIGHT:
                inside.append(emit.compare("slt", y, outputs[0]))
            m = emit.add(self.m, number * outputs[1])
            epilogue(x, 0, m, self.n, inside, False)

    def _pixels(self, thread: Index) -> list[tuple[ir.Value | bool, Index, Index]]:
        """The thread's reads of the work-group's pixels: for each whether there is one, its offset
        in LDS, and its offset in memory."""
        found, shape, chunk = self.found, self.image, self.unit.chunk
        threads, (high, wide) = found.waves * found.wave_size, found.patch
        chunks = found.channels // chunk
        total = high * wide * chunks
        start, read = shape.start(self.number), []
        for turn in range(ceil_div(total, threads)):
            number = emit.add(thread, turn * threads)
            mine: ir.Value | bool = True
            if (turn + 1) * threads > total:
                mine = emit.compare("slt", number, total)
            c, at = emit.mul(emit.rem(number, chunks), chunk), emit.div(number, chunks)
            column, line = emit.rem(at, wide), emit.div(at, wide)
            y = emit.sub(emit.add(self.y0, line), shape.pads[0])
            x = emit.sub(emit.add(self.x0, column), shape.pads[1])
            place = emit.linear(emit.add(start, c), (y, shape.strides[0]), (x, shape.strides[1]))
            inside = [emit.compare("ult", y, shape.sizes[0])]
            inside.append(emit.compare("ult", x, shape.sizes[1]))
            place = memory.guarded(place, inside, CHUNK_BYTES // chunk)
            read.append((mine, emit.linear(c, (at, found.pixel)), place))
        return read

    def _filters(self, buffer: ir.Value) -> list[ir.Value]:
        """A lane's part of its filter, in the order of use."""
        high, wide = self.image.window
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
        return [(c, s) for c in steps for s in range(self.image.window[1])]

    def _sums(self, filters: list[ir.Value]) -> list[ir.Value]:
        """The sums of each row of results."""
        found, unit, high = self.found, self.unit, self.image.window[0]
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

        sums = [multiply.zero(unit)] * HEIGHT
        following = lines(*turns[0])
        for number in range(len(turns)):
            now = following
            for r in range(high):
                pieces = multiply.pieces(unit, [filters[number * high + r]])
                for part, column in enumerate(pieces):
                    for t in range(HEIGHT):
                        row = now[t + r][part]
                        sums[t] = multiply.multiply(unit, row, [column], sums[t])
                fence()
                if r == 0 and number + 1 < len(turns):
                    following = lines(*turns[number + 1])
        return sums
