"""The function of a convolution of few channels: see narrow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.capabilities import CHUNK_BYTES, PIXEL_CHANNELS
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.choice import terms
from mgx_mlir.codegen.gpu.builders import memory, multiply
from mgx_mlir.codegen.gpu.builders.layouts import index_of
from mgx_mlir.codegen.gpu.builders.ordering import barrier, fence
from mgx_mlir.codegen.gpu.families.contraction import cost
from mgx_mlir.codegen.gpu.families.contraction.convolution import split
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors
from mgx_mlir.codegen.gpu.families.contraction.recipes import images
from mgx_mlir.codegen.problem.computed import compute
from mgx_mlir.codegen.problem.problem import ComputedImage, Matrix
from mgx_mlir.sizes.arithmetic import ceil_div, common_factor

# Clocks of a work-group's instructions before it multiplies; other work-groups can hide half.
START_CLOCKS = 2000
# Tiles of results side by side that a wave computes at a time, and registers for their sums.
MOST_SIDE, MOST_SUMS = 4, {"mfma": 32, "wmma": 16}


@dataclass(frozen=True)
class Narrow(images.ImageBlocks):
    """A work-group has `high` x `wide` results; each of `waves_m` waves computes a row at a time.

    `computed`: the image as a computation of that in memory, or None where it is that itself.
    `filters`: a matrix with a row for each filter and columns (channel, tap). `transposed`: whether
    filters are the product's columns, and not its rows. `tiles`: tiles of filters of a wave.
    """

    computed: ComputedImage | None
    filters: Matrix
    transposed: bool
    tiles: int = 1
    waves_m: int = 1
    waves_n: int = 1

    @cached_property
    def count(self) -> int:
        return self.filters.row.size

    @property
    def own(self) -> int:
        return self.waves_n * self.tiles * self.unit.rows

    @cached_property
    def pixel_size(self) -> int:
        """Bytes of a pixel's element in memory."""
        return emit.element_bytes(self.image.element)

    @cached_property
    def taps(self) -> int:
        return self.image.taps

    @cached_property
    def together(self) -> int:
        """Pixels that a lane multiplies at a time."""
        return max(1, self.unit.per_lane // PIXEL_CHANNELS)

    @cached_property
    def steps(self) -> int:
        return ceil_div(self.taps, self.unit.groups * self.together)

    @cached_property
    def group(self) -> int:
        return images.pixel_group(self.image)

    @cached_property
    def parts(self) -> int:
        """Kinds of columns that lie together in LDS: as many as windows move by."""
        step = self.image.dims[1].step
        return step if self.group % step == 0 else 1

    @cached_property
    def pitch(self) -> int:
        return self.patch[1] * self.group * PIXEL_CHANNELS

    @property
    def waves(self) -> int:
        return self.waves_m * self.waves_n

    @property
    def turns(self) -> int:
        return ceil_div(math.prod(self.patch), self.waves * self.target.wave_size)

    @property
    def registers(self) -> int:
        """Registers of a lane's filters."""
        return self.tiles * self.steps * self.together * PIXEL_CHANNELS * self.size // 4

    @property
    def joined(self) -> int:
        """Tiles whose results a lane stores together, to store 16 bytes."""
        size = max(emit.element_bytes(e) for e in self.product.match.result_elements)
        wide = self.unit.kind == "mfma" and self.unit.values * size == 8
        return 2 if self.transposed and wide and self.tiles % 2 == 0 else 1

    @property
    def whole(self) -> bool:
        """Whether rows of results end where a lane's neighbours do."""
        return self.transposed or common_factor(self.image.dims[1].outputs) % self.unit.values == 0

    def emit(self, tensors: Tensors) -> None:
        epilogue = self.epilogue(tensors)
        _Block(self, tensors.tiles).emit(tensors.inputs, epilogue)

    @property
    def instructions(self) -> int:
        """Instructions of one wave that multiply."""
        pieces = min(PIXEL_CHANNELS // self.unit.per_lane, self.image.channel.size)
        tiles = self.high // self.waves_m * ceil_div(self.wide, self.unit.rows) * self.tiles
        return tiles * self.steps * max(1, pieces)

    @property
    def clocks(self) -> float:
        """Estimated clocks; see `cost`."""
        unit, target, gpu = self.unit, self.target, self.target.gpu
        each = 2 * unit.rows * unit.columns * unit.depth / (unit.flops / gpu.simds)
        matrix = self.instructions * each * max(1.0, self.waves / gpu.simds)
        read = self.instructions // self.tiles * self.target.wave_size * unit.per_lane * self.size
        filled = self.lds_elements * self.size
        lds = (self.waves * read + 2 * filled) / cost.LDS_BYTES_A_CLOCK
        own = self.registers * 4 * self.target.wave_size * self.waves
        result = self.high * self.wide * self.own * self.size
        pixels = self.lds_elements * self.pixel_size * self.image.channel.size // PIXEL_CHANNELS
        moved = (pixels + own + result) / cost.LINE_BYTES
        a_unit = ceil_div(math.prod(self.groups.grid), target.compute_units)
        waves = 8
        if unit.kind == "mfma":
            waves = gpu.lane_vgprs // (self.registers + 96) * gpu.simds
        held = max(1, min(target.lds_bytes // filled, waves // self.waves, a_unit))
        rounds = ceil_div(a_unit, held)
        busy = START_CLOCKS / 2 + cost.together(matrix, lds, moved)
        alone = START_CLOCKS + matrix + lds + moved
        terms(matrix=a_unit * matrix, lds=a_unit * lds, memory=a_unit * moved)
        return rounds * cost.BLOCK_LATENCY + max(a_unit * busy, rounds * alone)

    def describe(self) -> str:
        return (
            f"{self.high}x{self.wide} results of {self.waves_n}x{self.tiles * self.unit.rows} "
            f"filters a block, {self.waves_m}x{self.waves_n} waves, "
            f"pixels of {PIXEL_CHANNELS} in LDS, {self.unit.kind} of {self.unit.element}"
        )


class _Block(images.ImageWork):
    """The work of a thread."""

    def __init__(self, found: Narrow, lds: ir.Value) -> None:
        super().__init__(found)
        self.found, self.lds, unit = found, lds, self.unit
        self.wave_m: Index = emit.rem(self.wave, found.waves_m) if found.waves_m > 1 else 0
        wave_n: Index = emit.div(self.wave, found.waves_m) if found.waves_n > 1 else 0
        first = emit.linear(wave_n, (self.filters, found.waves_n))
        self.n0 = emit.mul(first, found.tiles * unit.rows)
        # The lane's first tap in a step.
        self.tap: Index = emit.mul(self.group, found.together) if unit.groups > 1 else 0

    def emit(self, inputs: Mapping[int, ir.Value], epilogue: Epilogue) -> None:
        found, unit = self.found, self.unit
        patches = self._read_pixels(inputs[self.image.argument])
        read = self._read_filters(inputs[found.filters.argument])
        # One for each of a wave's tiles, or for tiles that are stored together.
        self.columns = self._columns()
        if found.transposed:
            for n in self.columns:
                epilogue.prepare(0, n, unit.values * found.joined)
        fence()  # all reads are issued before any is waited for
        for mine, place, values in patches:
            for x in values if mine is not True else ():
                memory.held(x)
            emit.when(mine, partial(self._put, place, values))
        barrier()
        filters = [
            [memory.concatenated([self._clean(x) for x in parts]) for parts in mine]
            for mine in read
        ]
        lane = self._spread(self.row) if not found.transposed else self.row
        places = self._places(lane)

        side = MOST_SUMS[unit.kind] // (found.tiles * unit.sums)
        side = min(MOST_SIDE, max(1, side))

        def results(turn: Index) -> None:
            y = emit.add(self.wave_m, emit.mul(turn, found.waves_m))
            line = emit.mul(y, self.image.dims[0].step * found.pitch)
            starts = range(0, found.wide, unit.rows)
            for first in range(0, len(starts), side):
                some = starts[first : first + side]
                for x, sums in zip(some, self._sums(places, filters, line, some), strict=True):
                    self._store(epilogue, y, x, sums)
                if unit.kind == "wmma":
                    fence()  # else LLVM reads for all of them first

        emit.loop(0, found.high // found.waves_m, 1, results, rolled=True)

    def _columns(self) -> list[Index]:
        """The first filter of a lane's results, for each tile or joined tiles of its wave."""
        found, unit, own = self.found, self.unit, self.row
        if found.transposed:
            own = emit.mul(self.group, unit.values * found.joined)
        tiles = range(0, found.tiles, found.joined)
        return [
            emit.add(emit.add(self.n0, unit.first_column(tile, found.joined)), own)
            for tile in tiles
        ]

    def _spread(self, row: Index) -> Index:
        """The column of a tile that a lane reads, such that its results are neighbours."""
        return index_of(self.unit.order(self.found.joined), r=row)

    def _taps(self, step: int) -> list[Index]:
        found = self.found
        first = step * self.unit.groups * found.together
        return [emit.add(self.tap, first + i) for i in range(found.together)]

    def _all_inside(self, step: int) -> bool:
        """Whether the taps of all lanes in a step lie in the window."""
        return (step + 1) * self.unit.groups * self.found.together <= self.found.taps

    def _read_pixels(self, buffer: ir.Value) -> list[tuple[ir.Value | bool, Index, list[ir.Value]]]:
        """The thread's groups of pixels: for each whether there is one, its offset in LDS, and
        the values read."""
        found, image = self.found, self.image
        (lines, groups), channels = found.patch, image.channel.size
        start, read = image.start(self.number), []
        for mine, number in self.shares(lines * groups):
            line, group = emit.div(number, groups), emit.rem(number, groups)
            place, inside = self.pixel(start, line, group)
            step = image.channel.stride if image.dims[1].stride == 1 else found.group
            values = []
            for c in range(channels):
                at = memory.guarded(emit.add(place, c * (step or 0)), inside, found.pixel_size)
                values.append(memory.load(buffer, at, found.group))
            to = emit.linear(
                emit.mul(line, found.pitch), (group, found.group // found.parts * PIXEL_CHANNELS)
            )
            read.append((mine, to, values))
        return read

    def _put(self, place: Index, values: Sequence[ir.Value]) -> None:
        """Stores a group's pixels to LDS, pixels of a kind together."""
        found, planar = self.found, self.image.dims[1].stride == 1
        channels, kinds = len(values), found.parts
        zero = emit.constant(0, self.unit.element)
        if found.computed is not None:
            values = [compute(found.computed, [x]) for x in values]

        def element(pixel: int, c: int) -> ir.Value:
            if c >= channels:
                return zero
            number = pixel if planar else pixel * channels + c
            return memory.element(
                values[c if planar else number // found.group], number % found.group
            )

        whole = found.patch[1] * found.group // kinds * PIXEL_CHANNELS
        each = max(1, CHUNK_BYTES // (PIXEL_CHANNELS * found.size))
        for kind in range(kinds):
            pixels = range(kind, found.group, kinds)
            for first in range(0, len(pixels), each):
                some = [
                    element(p, c)
                    for p in pixels[first : first + each]
                    for c in range(PIXEL_CHANNELS)
                ]
                at = emit.add(place, kind * whole + first * PIXEL_CHANNELS)
                memory.store(memory.joined(some), self.lds, at)

    def _read_filters(self, buffer: ir.Value) -> list[list[list[ir.Value]]]:
        """For each step the taps that a lane multiplies of each of its wave's tiles."""
        found, filters, image, unit = self.found, self.found.filters, self.image, self.unit
        _, tap = split(filters.column, image.channel.size)
        lane = self._spread(self.row) if found.transposed else self.row
        read = []
        for step in range(found.steps):
            mine = []
            for tile in range(found.tiles):
                n = emit.add(self.n0, emit.add(lane, unit.first_column(tile, found.joined)))
                start = emit.add(filters.offset, filters.row.offset(n))
                parts = []
                for t in self._taps(step):
                    inside = []
                    if not self._all_inside(step):
                        if isinstance(t, int) and t >= found.taps:
                            parts.append(emit.constant(0, unit.element, PIXEL_CHANNELS))
                            continue
                        inside.append(emit.compare("slt", t, found.taps))
                    if found.count % found.own:
                        inside.append(emit.compare("slt", n, found.count))
                    at = memory.guarded(emit.add(start, tap.offset(t)), inside, found.size)
                    parts.append(memory.load(buffer, at, PIXEL_CHANNELS))
                mine.append(parts)
            read.append(mine)
        return read

    def _clean(self, x: ir.Value) -> ir.Value:
        """A tap's channels, with zeros after the last."""
        channels, zero = self.image.channel.size, emit.constant(0, self.unit.element)
        if channels == PIXEL_CHANNELS:
            return x
        kept = [memory.element(x, c) for c in range(channels)]
        return memory.joined([*kept, *[zero] * (PIXEL_CHANNELS - channels)])

    def _places(self, lane: Index) -> list[list[Index]]:
        """For each step the offsets of a lane's pixels in LDS, for the first row of results."""
        found, image = self.found, self.image
        part = found.patch[1] * found.group // found.parts
        base = emit.mul(lane, image.dims[1].step // found.parts)
        places = []
        for step in range(found.steps):
            mine: list[Index] = []
            for t in self._taps(step):
                if not self._all_inside(step):
                    t = emit.minimum(t, found.taps - 1)
                r, s = emit.div(t, image.dims[1].window), emit.rem(t, image.dims[1].window)
                x = emit.add(emit.mul(s, image.dims[1].dilation), found.shift - image.dims[1].pad)
                pixel = emit.linear(
                    emit.add(base, emit.div(x, found.parts)), (emit.rem(x, found.parts), part)
                )
                mine.append(
                    emit.linear(
                        emit.mul(pixel, PIXEL_CHANNELS),
                        (emit.mul(r, image.dims[0].dilation), found.pitch),
                    )
                )
            places.append(mine)
        return places

    def _sums(
        self,
        places: Sequence[Sequence[Index]],
        filters: Sequence[Sequence[ir.Value]],
        line: Index,
        starts: Sequence[int],
    ) -> list[list[ir.Value]]:
        """Tiles of results that begin at some columns of the work-group, for the wave's filters."""
        found, unit = self.found, self.unit
        sums = [[multiply.zero(unit)] * found.tiles for _ in starts]
        for step in range(found.steps):
            pixels = [self._pixels(places, step, line, x) for x in starts]
            for rows, mine in zip(pixels, sums, strict=True):
                for tile, fragment in enumerate(filters[step]):
                    for a, b in zip(rows, self._pieces(fragment), strict=True):
                        row, column = (a, b) if found.transposed else (b, a)
                        mine[tile] = multiply.multiply(unit, row, [column], mine[tile])
        return sums

    def _pixels(
        self, places: Sequence[Sequence[Index]], step: int, line: Index, x: int
    ) -> list[ir.Value]:
        """A lane's operands in a step, of a tile that begins at column x of the work-group."""
        found, unit = self.found, self.unit
        far = x * self.image.dims[1].step // found.parts * PIXEL_CHANNELS
        parts = []
        for place, t in zip(places[step], self._taps(step), strict=True):
            here = emit.add(emit.add(place, line), far)
            if found.wide - x < unit.rows:
                # Lanes beyond a work-group's results read other pixels.
                here = emit.minimum(here, found.lds_elements - PIXEL_CHANNELS)
            pixel = memory.load(self.lds, here, PIXEL_CHANNELS)
            if not self._all_inside(step):
                zero = emit.constant(0, unit.element, PIXEL_CHANNELS)
                pixel = arith.select(emit.compare("slt", t, found.taps), pixel, zero)
            parts.append(pixel)
        return self._pieces(memory.concatenated(parts))

    def _pieces(self, x: ir.Value) -> list[ir.Value]:
        """A lane's pixels as the operands of one instruction after another."""
        unit, channels = self.unit, self.image.channel.size
        if unit.per_lane >= PIXEL_CHANNELS:
            return [x]
        starts = range(0, channels, unit.per_lane)
        if unit.per_lane == 1:
            return [memory.element(x, c) for c in starts]
        return [memory.part(x, start, unit.per_lane) for start in starts]

    def _store(self, epilogue: Epilogue, y: Index, x: int, sums: Sequence[ir.Value]) -> None:
        """Stores a tile's results, from column x of row y of the work-group on."""
        found, unit = self.found, self.unit
        lane = self.row if found.transposed else emit.mul(self.group, unit.values)
        position, inside = self.result(y, x, lane)
        beyond = found.count % found.own != 0
        for number, n in enumerate(self.columns):
            first = number * found.joined
            total = memory.concatenated(sums[first : first + found.joined])
            if found.transposed:
                epilogue(total, 0, position, n, inside, beyond)
                continue
            known = [emit.compare("slt", n, found.count)] if beyond else []
            if found.whole:
                epilogue(total, 0, n, position, [*inside, *known], False)
                continue
            for i in range(unit.values):
                position, inside = self.result(y, x, emit.add(lane, i))
                epilogue(memory.part(total, i, 1), 0, n, position, [*inside, *known], False)
