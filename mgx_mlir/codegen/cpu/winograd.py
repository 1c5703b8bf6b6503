"""Convolutions of 3x3 windows by Winograd's F(4x4, 3x3): 36 multiplications for 144.

A tile of 4x4 outputs reads 6x6 pixels. Its pixels and the filters are transformed, multiplied
position by position and summed over the channels, and the sums are transformed back:

    Y = A' [ (G g G') * (B' d B) ] A

The points of the transformation are 0, the square roots of 1/2 and 2 with both signs, and infinity.
Rounding errors of f32 are then about twice those of the direct sum; with the usual points
0, 1, -1, 2, -2 they would be four times them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.contraction import Store
from mgx_mlir.codegen.cpu.winograd_schedule import (
    ELEMENT,
    FILTER_CHANNELS,
    OUTPUTS,
    PIXELS,
    POSITIONS,
    WINDOW,
    Squares,
    WinogradSchedule,
    pitch_of,
    tiles_of,
)
from mgx_mlir.sizes.arithmetic import ceil_div

# Transformations -------------------------------------------------------------------------------

Vectors = Sequence[ir.Value]


def _scaled(x: ir.Value, factor: float, to: ir.Value | None = None) -> ir.Value:
    """x * factor, or x * factor + to."""
    (lanes,) = ir.VectorType(x.type).shape
    number = emit.constant(factor, ELEMENT, lanes)
    return arith.mulf(x, number) if to is None else emit.multiply_add(x, number, to, ELEMENT)


def _pixel_transform(x: Vectors) -> list[ir.Value]:
    """B' x: 6 pixels."""
    even, odd = (_scaled(x[n], -2.0, x[n + 2]) for n in (2, 1))
    wide_even, wide_odd = (_scaled(x[n], -0.5, x[n + 2]) for n in (2, 1))
    return [
        _scaled(x[2], -2.5, arith.addf(x[0], x[4])),
        _scaled(odd, sqrt(0.5), even),
        _scaled(odd, -sqrt(0.5), even),
        _scaled(wide_odd, sqrt(2), wide_even),
        _scaled(wide_odd, -sqrt(2), wide_even),
        _scaled(x[3], -2.5, arith.addf(x[1], x[5])),
    ]


def _filter_transform(x: Vectors) -> list[ir.Value]:
    """G x: 3 elements of a filter."""
    even = _scaled(x[2], -1 / 3, _scaled(x[0], -2 / 3))
    wide_even = _scaled(x[2], 1 / 3, _scaled(x[0], 1 / 6))
    return [
        x[0],
        _scaled(x[1], -sqrt(2) / 3, even),
        _scaled(x[1], sqrt(2) / 3, even),
        _scaled(x[1], sqrt(2) / 6, wide_even),
        _scaled(x[1], -sqrt(2) / 6, wide_even),
        x[2],
    ]


def _sum_transform(x: Vectors) -> list[ir.Value]:
    """A' x: 6 sums."""
    even, odd = arith.addf(x[1], x[2]), arith.subf(x[1], x[2])
    wide_even, wide_odd = arith.addf(x[3], x[4]), arith.subf(x[3], x[4])
    return [
        arith.addf(arith.addf(even, wide_even), x[0]),
        _scaled(wide_odd, sqrt(2), _scaled(odd, sqrt(0.5))),
        _scaled(wide_even, 2.0, _scaled(even, 0.5)),
        _scaled(wide_odd, 2 * sqrt(2), _scaled(odd, sqrt(0.125), x[5])),
    ]


_Transform = Callable[[Vectors], list[ir.Value]]


def _both_ways(
    transform: _Transform,
    sizes: tuple[int, int],
    temporary: ir.Value,
    load: Callable[[Index, Index], ir.Value],
    store: Callable[[Index, Index, ir.Value], None],
) -> None:
    """Transforms a square's columns, then its rows: `sizes` are its side before and after."""
    side, result = sizes
    (length,) = ir.MemRefType(temporary.type).shape
    lanes = length // POSITIONS

    def column(j: Index) -> None:
        found = transform([load(i, j) for i in range(side)])
        for i, x in enumerate(found):
            emit.store_vector(x, temporary, emit.linear(i * PIXELS * lanes, (j, lanes)))

    def row(i: Index) -> None:
        start = emit.mul(i, PIXELS * lanes)
        own = [emit.load_vector(temporary, emit.add(start, j * lanes), lanes) for j in range(side)]
        for j, x in enumerate(transform(own)):
            store(i, j, x)

    emit.loop(0, side, 1, column)
    emit.loop(0, result, 1, row)


# Filters ---------------------------------------------------------------------------------------


def emit_filters(
    squares: Squares,
    plan: WinogradSchedule,
    source: ir.Value,
    target: ir.Value,
    begin: ir.Value,
    end: ir.Value,
) -> None:
    """Transforms the filters: items begin .. end, some channels of a block of filters each."""
    lanes, channels = plan.lanes, squares.channels
    filters = squares.filters
    parts = ceil_div(channels, FILTER_CHANNELS)
    temporary = emit.stack(POSITIONS * lanes, ELEMENT)

    def vector(block: Index, channel: Index, j: int) -> None:
        first = emit.add(emit.mul(block, plan.width), j * lanes)
        exact = squares.count % plan.width == 0
        mask = None if exact else emit.lane_mask(emit.sub(squares.count, first), lanes)
        start = emit.add(filters.start(0), filters.column.offset(first))
        start = emit.linear(start, (channel, squares.c_step))
        to = emit.linear(j * lanes, (block, POSITIONS * channels * plan.width))
        to = emit.linear(to, (channel, plan.width))

        def load(i: Index, j: Index) -> ir.Value:
            place = emit.linear(start, (i, squares.taps[0]), (j, squares.taps[1]))
            return emit.load_vector(source, place, lanes, mask)

        def store(i: Index, j: Index, x: ir.Value) -> None:
            step = channels * plan.width
            emit.store_vector(x, target, emit.linear(to, (i, PIXELS * step), (j, step)))

        _both_ways(_filter_transform, (WINDOW, PIXELS), temporary, load, store)

    def item(number: Index) -> None:
        block, first = emit.div(number, parts), emit.mul(emit.rem(number, parts), FILTER_CHANNELS)
        count = part_at(channels, FILTER_CHANNELS, first)

        def channel(c: Index) -> None:
            for j in range(plan.vectors):
                vector(block, emit.add(first, c), j)

        emit.loop(0, count, 1, channel)

    emit.loop(begin, end, 1, item)


# Convolution -----------------------------------------------------------------------------------


def emit_winograd(
    squares: Squares,
    plan: WinogradSchedule,
    filters: ir.Value,
    image: ir.Value,
    store: Store,
    begin: ir.Value,
    end: ir.Value,
) -> None:
    """Builds the work of items begin .. end at the insertion point.

    `filters` are those that `emit_filters` made. `store` takes rows of all images' pixels.
    """
    emitter = _Emitter(squares, plan, filters, image, store)
    blocks = plan.blocks(squares)
    high, wide = tiles_of(squares)

    def item(number: Index) -> None:
        batch = emit.div(number, blocks)
        first = emit.mul(emit.rem(number, blocks), plan.tiles)
        emitter.emit(batch, first, part_at(high * wide, plan.tiles, first))

    emit.loop(begin, end, 1, item)


class _Emitter:
    def __init__(
        self,
        squares: Squares,
        plan: WinogradSchedule,
        filters: ir.Value,
        image: ir.Value,
        store: Store,
    ) -> None:
        self.squares, self.plan, self.scene = squares, plan, squares.image
        self.filters, self.image, self.store = filters, image, store
        self.lanes = plan.lanes
        # Transformed pixels: [tile, position, channel]; sums: [tile, position, filter of a block].
        self.pitch = pitch_of(self.squares.channels, self.lanes)
        self.sum_pitch = pitch_of(plan.width, self.lanes)
        self.transformed = emit.stack(plan.tiles * POSITIONS * self.pitch, ELEMENT)
        self.sums = emit.stack(plan.tiles * POSITIONS * self.sum_pitch, ELEMENT)
        self.temporary = emit.stack(POSITIONS * self.lanes, ELEMENT)
        self.outputs = emit.stack(OUTPUTS * OUTPUTS * self.lanes, ELEMENT)

    def emit(self, batch: Index, first: Index, count: Index) -> None:
        """Some tiles of an image, from number `first` on."""
        start = self.scene.start(batch)
        columns = tiles_of(self.squares)[1]

        def corner(t: Index) -> tuple[Index, Index]:
            """The first row and column of output of a tile of the item."""
            number = emit.add(first, t)
            row, column = emit.div(number, columns), emit.rem(number, columns)
            return emit.mul(row, OUTPUTS), emit.mul(column, OUTPUTS)

        emit.loop(0, count, 1, lambda t: self._transform(start, t, corner(t)))
        filters, width = self.squares.count, self.plan.width
        whole, rest = filters // width * width, filters % width

        def block(vectors: int, mask: ir.Value | None, n: Index) -> None:
            self._multiply(n, vectors, count)

            def tile(t: Index) -> None:
                for j in range(vectors):
                    last = mask if j == vectors - 1 else None
                    self._store(batch, corner(t), t, (n, j), last)

            emit.loop(0, count, 1, tile)

        emit.loop(0, whole, width, partial(block, self.plan.vectors, None))
        if rest:
            mask = emit.lane_mask(rest % self.lanes, self.lanes) if rest % self.lanes else None
            block(ceil_div(rest, self.lanes), mask, whole)

    def _transform(self, start: Index, t: Index, corner: tuple[Index, Index]) -> None:
        """Transforms the pixels of a tile, with zeros around the image."""
        scene, lanes, channels = self.scene, self.lanes, self.squares.channels
        first = [emit.add(at, -dim.pad) for at, dim in zip(corner, scene.dims, strict=True)]

        def vector(c: Index) -> None:
            own = emit.add(start, scene.channel.offset(c))
            left: Index = lanes if channels % lanes == 0 else emit.sub(channels, c)

            def load(i: Index, j: Index) -> ir.Value:
                at = emit.add(first[0], i), emit.add(first[1], j)
                row, column = (
                    emit.compare("ult", place, size)
                    for place, size in zip(at, scene.sizes, strict=True)
                )
                inside = arith.andi(row, column)
                count = emit.select(inside, left, 0)
                place = emit.linear(own, *zip(at, scene.strides, strict=True))
                return emit.load_vector(self.image, place, lanes, emit.lane_mask(count, lanes))

            step = self.pitch
            to = emit.linear(c, (t, POSITIONS * step))

            def store(i: Index, j: Index, x: ir.Value) -> None:
                place = emit.linear(to, (i, PIXELS * step), (j, step))
                emit.store_vector(x, self.transformed, place)

            _both_ways(_pixel_transform, (PIXELS, PIXELS), self.temporary, load, store)

        emit.loop(0, channels, lanes, vector)

    def _multiply(self, n: Index, vectors: int, count: Index) -> None:
        """The sums of so many tiles over the channels, for the block of filters from `n` on."""
        plan, lanes, channels = self.plan, self.lanes, self.squares.channels
        block = emit.mul(n, POSITIONS * channels)
        zero = emit.constant(0, ELEMENT, lanes)

        def position(p: Index) -> None:
            right_start = emit.linear(block, (p, channels * plan.width))

            def rows(r: Index) -> None:
                tile = emit.linear(p, (r, POSITIONS))
                left_start = emit.mul(tile, self.pitch)

                def step(c: Index, *sums: ir.Value) -> list[ir.Value]:
                    base = emit.linear(right_start, (c, plan.width))
                    right = [
                        emit.load_vector(self.filters, emit.add(base, j * lanes), lanes)
                        for j in range(vectors)
                    ]
                    here, result = emit.add(left_start, c), []
                    for i in range(plan.rows):
                        place = emit.add(here, i * POSITIONS * self.pitch)
                        x = emit.load(self.transformed, place)
                        left = emit.splat(x, lanes)
                        for j in range(vectors):
                            total = sums[i * vectors + j]
                            result.append(emit.multiply_add(left, right[j], total, ELEMENT))
                    return result

                sums = emit.loop(0, channels, 1, step, [zero] * (plan.rows * vectors))
                for number, x in enumerate(sums):
                    i, j = divmod(number, vectors)
                    moved = i * POSITIONS * self.sum_pitch + j * lanes
                    place = emit.linear(moved, (tile, self.sum_pitch))
                    emit.store_vector(x, self.sums, place)

            emit.loop(0, count, plan.rows, rows)

        emit.loop(0, POSITIONS, 1, position)

    def _store(
        self,
        batch: Index,
        corner: tuple[Index, Index],
        t: Index,
        filters: tuple[Index, int],
        mask: ir.Value | None,
    ) -> None:
        """Transforms a vector of a tile's sums, and stores its outputs inside of the image."""
        lanes, step = self.lanes, self.sum_pitch
        start = emit.linear(filters[1] * lanes, (t, POSITIONS * step))
        n = emit.add(filters[0], filters[1] * lanes)

        def load(i: Index, j: Index) -> ir.Value:
            place = emit.linear(start, (i, PIXELS * step), (j, step))
            return emit.load_vector(self.sums, place, lanes)

        def keep(i: Index, j: Index, x: ir.Value) -> None:
            place = emit.linear(0, (i, OUTPUTS * lanes), (j, lanes))
            emit.store_vector(x, self.outputs, place)

        _both_ways(_sum_transform, (PIXELS, OUTPUTS), self.temporary, load, keep)
        high, wide = self.scene.outputs

        def row(i: Index) -> None:
            def pixel(j: Index) -> None:
                place = emit.linear(0, (i, OUTPUTS * lanes), (j, lanes))
                x = emit.load_vector(self.outputs, place, lanes)
                at = emit.linear(emit.add(corner[1], j), (emit.add(corner[0], i), wide))
                self.store(x, 0, emit.linear(at, (batch, emit.mul(high, wide))), n, mask)

            emit.loop(0, part_at(wide, OUTPUTS, corner[1]), 1, pixel)

        emit.loop(0, part_at(high, OUTPUTS, corner[0]), 1, row)


def part_at(size: int, part: int, first: Index) -> Index:
    """The size of the part that starts at `first`."""
    return part if size % part == 0 else emit.minimum(part, emit.sub(size, first))
