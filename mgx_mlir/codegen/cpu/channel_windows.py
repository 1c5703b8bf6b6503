"""The code of work on channels: vectors of neighbouring channels go through a window's elements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.padded import Padding
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import Image, Matrix
from mgx_mlir.sizes.arithmetic import Number, ceil_div, is_more

# Vectors of channels that are taken together.
_VECTORS = 4
# The clocks of a vector that is copied to or back, and the side of an image that is symbolic.
_COPY, USUAL_SIDE = 9.0, 28
# Pixels whose windows are inside along a line: so many share the filters that are read.
_PIXELS = 6


@dataclass(frozen=True)
class Channels:
    """Work on `channels` neighbouring channels of the pixels of images.

    image: its windows, without the channels. match: its results are [pixel of all images,
    channel]. mode: 'max', 'average', or 'filter' with `filters` [element of a window, channel].
    is_turned: the kernel's images and results have channels first; work is on copies.
    copy: the copy that the image is of, where channels are apart.
    """

    match: Match
    image: Image
    channels: int
    mode: str
    filters: Matrix | None = None
    counts_padding: bool = False
    is_turned: bool = False
    copy: Padding | None = None

    @property
    def rows(self) -> Number:
        """Rows of pixels of all images; none where they are empty."""
        *lines, width = self.image.outputs
        return self.image.batch.size * math.prod(lines) * is_more(width, 0)

    def __str__(self) -> str:
        copies = " of copies" if self.is_turned else ""
        return f"vectors of channels{copies}, windows of {self.image.taps}"

    def clocks(self, lanes: int) -> float:
        """The estimated clocks: of an element of a window, and of a vector that is copied."""
        sizes = (self.image.batch.size, *self.image.outputs)
        pixels = math.prod(n if isinstance(n, int) else USUAL_SIDE for n in sizes)
        each = float(self.image.taps)
        if self.is_turned or self.copy:
            each += _COPY * (1 + math.prod(dim.step for dim in self.image.dims))
        return pixels * ceil_div(self.channels, lanes) * each

    def arguments(self) -> list[int]:
        """The numbers of the inputs that are read."""
        found = {self.image.argument, *(x.argument for x in self.match.reads)}
        return sorted(found if self.filters is None else {*found, self.filters.argument})


@dataclass(frozen=True)
class ChannelWindows:
    work: Channels
    read: Mapping[int, ir.Value]
    epilogue: Epilogue
    lanes: int
    registers: int

    def row(self, number: Index, batch: Index, *places: Index) -> None:
        """All pixels of one row of results."""
        image = self.work.image
        width, origin = image.dims[-1].outputs, image.start(batch)
        # The window's place along all dimensions but the last, whose outputs count the pixels.
        lines = zip(places, image.dims, strict=False)
        starts = [emit.add(emit.mul(place, dim.step), -dim.pad) for place, dim in lines]
        ranges = [self._range(axis, start) for axis, start in enumerate(starts)]

        def some(column: Index, count: int) -> None:
            start = emit.add(emit.mul(column, image.dims[-1].step), -image.dims[-1].pad)
            last = (0, image.dims[-1].window) if count > 1 else self._range(len(starts), start)
            places = [*starts, start], [*ranges, last]
            self._pixels(count, emit.linear(column, (number, width)), origin, *places)

        first, last = self._inside()
        tiled = emit.mul(emit.div(emit.sub(last, first), _PIXELS), _PIXELS)
        tiled = emit.add(first, tiled)
        emit.loop(0, first, 1, partial(some, count=1))
        emit.loop(first, tiled, _PIXELS, partial(some, count=_PIXELS))
        emit.loop(tiled, width, 1, partial(some, count=1))

    def _inside(self) -> tuple[Index, Index]:
        """The pixels of a line whose windows are inside along it: from one, to another."""
        last = self.work.image.dims[-1]
        step, pad, width = last.step, last.pad, last.outputs
        first = emit.minimum(ceil_div(pad, step), width)
        room = emit.add(last.size, pad - last.reach)
        end = emit.div(emit.add(emit.maximum(room, -step), step), step)
        return first, emit.maximum(emit.minimum(end, width), first)

    def _pixels(
        self,
        count: int,
        number: Index,
        origin: Index,
        starts: Sequence[Index],
        ranges: Sequence[tuple[Index, Index]],
    ) -> None:
        """All channels of neighbouring pixels from one on, of those of all images."""
        work, lanes = self.work, self.lanes
        most = max(self.registers // (2 * count), 1) if count > 1 else _VECTORS
        width = min(most, _VECTORS)
        block, whole = lanes * width, work.channels // lanes * lanes
        together = work.channels // block * block

        def some(vectors: int, mask: ir.Value | None, first: Index) -> None:
            sums = self._sums(origin, starts, ranges, first, (count, vectors), mask)
            for position, x in enumerate(sums):
                pixel, vector = divmod(position, vectors)
                if work.mode == "average":
                    x = arith.divf(x, emit.splat(self._count(ranges), lanes))
                at = emit.add(first, vector * lanes)
                self.epilogue(x, 0, emit.add(number, pixel), at, mask)

        emit.loop(0, together, block, partial(some, width, None))
        emit.loop(together, whole, lanes, partial(some, 1, None))
        if whole < work.channels:
            some(1, emit.lane_mask(work.channels - whole, lanes), whole)

    def _range(self, axis: int, start: Index) -> tuple[Index, Index]:
        """The elements of a window that are inside of the image: from one, to another."""
        dim, dilation = self.work.image.dims[axis], self.work.image.dims[axis].dilation
        before = emit.sub(0, start) if isinstance(start, int) else arith.subi(emit.value(0), start)
        low = emit.div(emit.add(emit.maximum(before, 0), dilation - 1), dilation)
        left = emit.maximum(emit.sub(dim.size, start), 0)
        high = emit.div(emit.add(left, dilation - 1), dilation)
        return low, emit.minimum(high, dim.window)

    def _count(self, ranges: Sequence[tuple[Index, Index]]) -> ir.Value:
        """The divisor of an average."""
        accumulator = self.work.match.problem.accumulator
        if self.work.counts_padding:
            return emit.constant(self.work.image.taps, accumulator)
        count: Index = 1
        for low, high in ranges:
            count = emit.mul(count, emit.sub(high, low))
        i64 = ir.IntegerType.get_signless(64)
        whole = arith.index_cast(i64, emit.value(count))
        return arith.sitofp(emit.element_type(accumulator), whole)

    def _sums(
        self,
        origin: Index,
        starts: Sequence[Index],
        ranges: Sequence[tuple[Index, Index]],
        first: Index,
        tile: tuple[int, int],
        mask: ir.Value | None,
    ) -> list[ir.Value]:
        """The sums, or largest elements, of the windows of a tile: pixels, and vectors of channels
        from `first` on."""
        work, image, lanes = self.work, self.work.image, self.lanes
        accumulator, source = work.match.problem.accumulator, self.read[image.argument]
        start = -math.inf if work.mode == "max" else 0

        def level(axis: int, place: Index, tap: Index, sums: list[ir.Value]) -> list[ir.Value]:
            if axis == len(starts):
                return self._element(place, tap, first, sums, tile[1], mask, source, accumulator)

            def step(k: Index, *inner: ir.Value) -> list[ir.Value]:
                at = emit.add(starts[axis], emit.mul(k, image.dims[axis].dilation))
                here = emit.linear(place, (at, image.dims[axis].stride))
                own = emit.add(emit.mul(tap, image.dims[axis].window), k)
                return level(axis + 1, here, own, list(inner))

            low, high = ranges[axis]
            if isinstance(low, int) and isinstance(high, int) and tile[0] > 1:
                for k in range(low, high):  # neighbouring pixels share what they read
                    sums = step(k, *sums)
                return sums
            return emit.loop(low, high, 1, step, sums)

        pixels, vectors = tile
        sums = level(0, origin, 0, [emit.constant(start, accumulator, lanes)] * pixels * vectors)
        return self._padding(ranges, first, sums, vectors, mask) if image.fill else sums

    def _padding(
        self,
        ranges: Sequence[tuple[Index, Index]],
        first: Index,
        sums: list[ir.Value],
        vectors: int,
        mask: ir.Value | None,
    ) -> list[ir.Value]:
        """The sums with the products of the padding, where a window reaches beyond the image."""
        image, lanes = self.work.image, self.lanes
        accumulator = self.work.match.problem.accumulator
        fill, zero = (emit.constant(x, accumulator) for x in (image.fill, 0))
        inside: list[ir.Value] = []
        for dim, (low, high) in zip(image.dims, ranges, strict=True):
            inside += [emit.compare("eq", low, 0), emit.compare("eq", high, dim.window)]
        is_whole = reduce(arith.andi, inside)

        def level(axis: int, known: ir.Value, tap: Index, sums: list[ir.Value]) -> list[ir.Value]:
            if axis == len(ranges):
                x = emit.splat(arith.select(known, zero, fill), lanes)
                return [
                    emit.multiply_add(x, self._filter(tap, at, mask), total, accumulator)
                    for at, total in zip(places, sums, strict=True)
                ]

            def step(k: Index, *inner: ir.Value) -> list[ir.Value]:
                low, high = ranges[axis]
                within = arith.andi(emit.compare("sge", k, low), emit.compare("slt", k, high))
                own = emit.add(emit.mul(tap, image.dims[axis].window), k)
                return level(axis + 1, arith.andi(known, within), own, list(inner))

            all_ = image.dims[axis].window
            last = all_ if axis else emit.select(is_whole, 0, all_)
            return emit.loop(0, last, 1, step, sums)

        places = [emit.add(first, number % vectors * lanes) for number in range(len(sums))]
        return level(0, emit.constant(1, "i1"), 0, sums)

    def _filter(self, tap: Index, channel: Index, mask: ir.Value | None) -> ir.Value:
        """A tap of the filters of a vector of channels."""
        filters = self.work.filters
        assert filters is not None
        at = emit.add(filters.at(0, tap, 0), channel)
        y = emit.load_vector(self.read[filters.argument], at, self.lanes, mask)
        return emit.convert(y, filters.element, self.work.match.problem.accumulator)

    def _element(
        self,
        place: Index,
        tap: Index,
        first: Index,
        sums: list[ir.Value],
        vectors: int,
        mask: ir.Value | None,
        source: ir.Value,
        accumulator: str,
    ) -> list[ir.Value]:
        """The sums with one element of each window."""
        work, lanes, image = self.work, self.lanes, self.work.image
        channels = [emit.add(first, number * lanes) for number in range(vectors)]
        read: list[ir.Value] = []
        for number in range(len(sums)):
            pixel, vector = divmod(number, vectors)
            here = emit.add(place, pixel * image.dims[-1].step * image.dims[-1].stride)
            here = emit.add(here, channels[vector])
            x = emit.load_vector(source, here, lanes, mask)
            read.append(emit.convert(x, work.image.element, accumulator))
        if work.filters is None:
            # Zeros are the same: the processor's maximum tells them apart no more than NaN.
            largest = partial(arith.maximumf, fastmath=arith.FastMathFlags.nsz)
            added = largest if work.mode == "max" else arith.addf
            return [added(total, x) for total, x in zip(sums, read, strict=True)]
        filters = [self._filter(tap, c, mask) for c in channels]
        return [
            emit.multiply_add(x, filters[number % vectors], total, accumulator)
            for number, (x, total) in enumerate(zip(read, sums, strict=True))
        ]
