"""The function of a convolution of few channels: see narrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce

from mlir import ir
from mlir.dialects import amdgpu, arith

from mgx_mlir.capabilities import CHUNK_BYTES, PIXEL_CHANNELS
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import block_number, gpu_module, thread_number
from mgx_mlir.codegen.gpu.builders.layouts import index_of
from mgx_mlir.codegen.gpu.builders.ordering import fence
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.contraction import multiply
from mgx_mlir.codegen.gpu.families.contraction.convolution import split
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.function import (
    add_function,
    buffers_of,
    parameters_of,
)
from mgx_mlir.codegen.gpu.families.contraction.narrow import Narrow

# Tiles of results side by side that a wave computes at a time, and registers for their sums.
MOST_SIDE, MOST_SUMS = 4, {"mfma": 32, "wmma": 16}


def generate_narrow(
    found: Narrow, sizes: tuple[Sequence[int], Sequence[int]], name: str
) -> GpuProgram:
    """The function `<name>_0`. sizes: elements of each input and of each result."""
    match = found.product.match
    parameters = parameters_of(match, sizes)
    module, functions = gpu_module()
    threads = found.waves * found.wave_size

    def body(pointers: Sequence[ir.Value], lds: ir.Value | None) -> None:
        assert lds is not None
        inputs, outputs = buffers_of(match, pointers)
        epilogue = Epilogue(match, found.product.result, inputs, outputs)
        _Block(found, thread_number(threads), lds).emit(inputs, epilogue)

    lds = (found.lds_elements, found.unit.element)
    launch = add_function(functions, f"{name}_0", parameters, threads, found.grid, body, lds)
    return GpuProgram(module, (launch,), 0, 32)


class _Block:
    """The work of a thread."""

    def __init__(self, found: Narrow, thread: Index, lds: ir.Value) -> None:
        self.found, self.image, self.unit, self.lds = found, found.image, found.unit, lds
        unit, (images, rows, columns) = self.unit, found.blocks
        block = block_number("x", found.grid[0])
        self.x0 = emit.mul(emit.rem(block, columns), found.wide) if columns > 1 else 0
        rest = emit.div(block, columns)
        self.y0 = emit.mul(emit.rem(rest, rows), found.high)
        self.number = emit.div(rest, rows) if images > 1 else 0
        self.thread = thread
        lane, wave = emit.rem(thread, found.wave_size), emit.div(thread, found.wave_size)
        self.wave_m: Index = emit.rem(wave, found.waves_m) if found.waves_m > 1 else 0
        wave_n: Index = emit.div(wave, found.waves_m) if found.waves_n > 1 else 0
        self.row, self.group = emit.rem(lane, unit.rows), emit.div(lane, unit.rows)
        own = found.tiles * unit.rows
        first = emit.linear(wave_n, (block_number("y", found.grid[1]), found.waves_n))
        self.n0 = emit.mul(first, own)
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
        amdgpu.LDSBarrierOp()
        filters = [
            [reduce(memory.concatenated, map(self._clean, parts)) for parts in mine]
            for mine in read
        ]
        lane = self._spread(self.row) if not found.transposed else self.row
        places = self._places(lane)

        side = MOST_SUMS[unit.kind] // (found.tiles * unit.sums)
        side = min(MOST_SIDE, max(1, side))

        def results(turn: Index) -> None:
            y = emit.add(self.wave_m, emit.mul(turn, found.waves_m))
            line = emit.mul(y, self.image.steps[0] * found.pitch)
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
        found = self.found
        own = self.row
        if found.transposed:
            own = emit.mul(self.group, self.unit.values * found.joined)
        tiles = range(0, found.tiles, found.joined)
        return [emit.add(emit.add(self.n0, self._tile(tile)), own) for tile in tiles]

    def _spread(self, row: Index) -> Index:
        """The column of a tile that a lane reads, such that its results are neighbours."""
        return index_of(self.unit.order(self.found.joined), r=row)

    def _tile(self, number: int) -> int:
        """The first filter of a wave's tile; the filters of `joined` tiles alternate."""
        return self.unit.first_column(number, self.found.joined)

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
        threads, (lines, groups) = found.waves * found.wave_size, found.patch
        total, size, channels = lines * groups, found.size, image.channel.size
        start, read = image.start(self.number), []
        for turn in range(found.turns):
            number = emit.add(self.thread, turn * threads)
            mine: ir.Value | bool = True
            if (turn + 1) * threads > total:
                mine = emit.compare("slt", number, total)
            line, group = emit.div(number, groups), emit.rem(number, groups)
            y = emit.sub(emit.add(emit.mul(self.y0, image.steps[0]), line), image.pads[0])
            x = emit.linear(emit.mul(self.x0, image.steps[1]), (group, found.group))
            x = emit.sub(x, found.shift)
            inside = [emit.compare("ult", y, image.sizes[0])]
            inside.append(emit.compare("ult", x, image.sizes[1]))
            place = emit.linear(start, (y, image.strides[0]), (x, image.strides[1]))
            step = image.channel.stride if image.strides[1] == 1 else found.group
            values = []
            for c in range(channels):
                at = memory.guarded(emit.add(place, c * (step or 0)), inside, size)
                values.append(memory.load(buffer, at, found.group))
            to = emit.linear(
                emit.mul(line, found.pitch), (group, found.group // found.parts * PIXEL_CHANNELS)
            )
            read.append((mine, to, values))
        return read

    def _put(self, place: Index, values: Sequence[ir.Value]) -> None:
        """Stores a group's pixels to LDS, pixels of a kind together."""
        found, planar = self.found, self.image.strides[1] == 1
        channels, kinds = len(values), found.parts
        zero = emit.constant(0, self.image.element)

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
        found, filters, image = self.found, self.found.filters, self.image
        _, tap = split(filters.column, image.channel.size)
        lane = self._spread(self.row) if found.transposed else self.row
        read = []
        for step in range(found.steps):
            mine = []
            for tile in range(found.tiles):
                n = emit.add(self.n0, emit.add(lane, self._tile(tile)))
                start = emit.add(filters.offset, filters.row.offset(n))
                parts = []
                for t in self._taps(step):
                    inside = []
                    if not self._all_inside(step):
                        if isinstance(t, int) and t >= found.taps:
                            parts.append(emit.constant(0, image.element, PIXEL_CHANNELS))
                            continue
                        inside.append(emit.compare("slt", t, found.taps))
                    if found.count % (found.waves_n * found.tiles * self.unit.rows):
                        inside.append(emit.compare("slt", n, found.count))
                    at = memory.guarded(emit.add(start, tap.offset(t)), inside, found.size)
                    parts.append(memory.load(buffer, at, PIXEL_CHANNELS))
                mine.append(parts)
            read.append(mine)
        return read

    def _clean(self, x: ir.Value) -> ir.Value:
        """A tap's channels, with zeros after the last."""
        channels, zero = self.image.channel.size, emit.constant(0, self.image.element)
        if channels == PIXEL_CHANNELS:
            return x
        kept = [memory.element(x, c) for c in range(channels)]
        return memory.joined([*kept, *[zero] * (PIXEL_CHANNELS - channels)])

    def _places(self, lane: Index) -> list[list[Index]]:
        """For each step the offsets of a lane's pixels in LDS, for the first row of results."""
        found, image = self.found, self.image
        part = found.patch[1] * found.group // found.parts
        base = emit.mul(lane, image.steps[1] // found.parts)
        places = []
        for step in range(found.steps):
            mine: list[Index] = []
            for t in self._taps(step):
                if not self._all_inside(step):
                    t = emit.minimum(t, found.taps - 1)
                r, s = emit.div(t, image.window[1]), emit.rem(t, image.window[1])
                x = emit.add(emit.mul(s, image.dilations[1]), found.shift - image.pads[1])
                pixel = emit.linear(
                    emit.add(base, emit.div(x, found.parts)), (emit.rem(x, found.parts), part)
                )
                mine.append(
                    emit.linear(
                        emit.mul(pixel, PIXEL_CHANNELS),
                        (emit.mul(r, image.dilations[0]), found.pitch),
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
        far = x * self.image.steps[1] // found.parts * PIXEL_CHANNELS
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
        return self._pieces(reduce(memory.concatenated, parts))

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
        found, unit, (high, wide) = self.found, self.unit, self.image.outputs
        lane = self.row if found.transposed else emit.mul(self.group, unit.values)
        here = emit.add(x, lane)
        column, row = emit.add(self.x0, here), emit.add(self.y0, y)
        inside = []
        if x + unit.rows > found.wide:
            inside.append(emit.compare("slt", here, found.wide))
        if wide % found.wide:
            inside.append(emit.compare("slt", column, wide))
        if high % found.high:
            inside.append(emit.compare("slt", row, high))
        position = emit.linear(column, (row, wide), (self.number, high * wide))
        beyond = bool(found.count % (found.waves_n * found.tiles * unit.rows))
        for number, n in enumerate(self.columns):
            first = number * found.joined
            total = reduce(memory.concatenated, sums[first : first + found.joined])
            if found.transposed:
                epilogue(total, 0, position, n, inside, beyond)
                continue
            bounds = [*inside, emit.compare("slt", n, found.count)] if beyond else inside
            epilogue(total, 0, n, position, bounds, False)
