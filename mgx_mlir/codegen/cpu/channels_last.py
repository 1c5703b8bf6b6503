"""Convolutions of images with channels last: register tiles of pixels by vectors of filters.

A work item owns some rows of output and some filters. It copies the input that its windows read,
with the zeros around it, for a chunk of channels at a time. A tile multiplies elements of the
copy, each in all lanes, by vectors of filters, which lie in memory as they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.contraction import Store
from mgx_mlir.codegen.cpu.pixels import Pixels, PixelSchedule, parts_of
from mgx_mlir.codegen.cpu.window_copy import WindowCopy, part_at
from mgx_mlir.sizes.arithmetic import ceil_div


def emit_pixels(
    pixels: Pixels,
    plan: PixelSchedule,
    a: ir.Value,
    b: ir.Value,
    store: Store,
    begin: ir.Value,
    end: ir.Value,
) -> None:
    """Builds the work of items begin .. end at the insertion point.

    `store` takes rows of pixels, as `as_rows` has them.
    """
    _Emitter(pixels, plan, a, b, store).emit(begin, end)


@dataclass(frozen=True)
class _Item:
    """A work item, or its part for one chunk of channels: counts, and the first of each."""

    batch: Index
    row: Index
    rows: Index
    filter: Index
    filters: Index
    channel: Index = 0
    channels: Index = 0
    is_first: ir.Value | bool = True
    is_last: ir.Value | bool = True


@dataclass(frozen=True)
class _Tile:
    """A register tile: rows and columns of pixels, vectors, and the lanes of the last vector."""

    high: int
    wide: int
    vectors: int
    mask: ir.Value | None

    @property
    def pixels(self) -> int:
        return self.high * self.wide


class _Emitter:
    def __init__(
        self, pixels: Pixels, plan: PixelSchedule, a: ir.Value, b: ir.Value, store: Store
    ) -> None:
        self.pixels, self.plan, self.a, self.store = pixels, plan, a, store
        self.problem, self.scene, self.lanes = pixels.problem, pixels.scene, plan.lanes
        self.element = pixels.problem.accumulator
        self.chunks = ceil_div(self.scene.channels, plan.chunk)
        self.copy = WindowCopy(self.scene, plan.rows, plan.chunk, self.lanes, b, self.element)
        width = self.scene.outputs[1]
        self.sum_row = plan.vectors * self.lanes
        count = plan.high * plan.wide
        if self.chunks > 1:
            self.sum_row = ceil_div(plan.filters, self.lanes) * self.lanes
            count = plan.rows * width
        self.sums = emit.stack(count * self.sum_row, self.element)

    def emit(self, begin: ir.Value, end: ir.Value) -> None:
        """Orders items [batch, block of rows, block of filters]."""
        plan, height, filters = self.plan, self.scene.outputs[0], self.problem.M
        parts = ceil_div(filters, plan.filters)
        blocks = ceil_div(height, plan.rows)

        def item(number: Index) -> None:
            first = emit.mul(emit.rem(number, parts), plan.filters)
            block = emit.div(number, parts)
            row = emit.mul(emit.rem(block, blocks), plan.rows)
            own = _Item(
                emit.div(block, blocks),
                row,
                part_at(height, plan.rows, row),
                first,
                part_at(filters, plan.filters, first),
            )
            emit.loop(0, self.chunks, 1, lambda n: self._chunk(own, n))

        emit.loop(begin, end, 1, item)

    def _chunk(self, item: _Item, number: Index) -> None:
        plan, lanes = self.plan, self.lanes
        channel = emit.mul(number, plan.chunk)
        item = replace(
            item, channel=channel, channels=part_at(self.scene.channels, plan.chunk, channel)
        )
        if self.chunks > 1:
            last = emit.compare("eq", number, self.chunks - 1)
            item = replace(item, is_first=emit.compare("eq", number, 0), is_last=last)
        self.copy.emit(item.batch, item.row, channel, item.channels)
        step = plan.vectors * lanes
        whole = emit.mul(emit.div(item.filters, step), step)
        emit.loop(0, whole, step, lambda n: self._pixels(item, n, plan.vectors, None))
        rest, tail = self.problem.M % step, self.problem.M % lanes
        if rest:
            mask = emit.lane_mask(tail, lanes) if tail else None
            count = ceil_div(rest, lanes)
            emit.loop(whole, item.filters, step, lambda n: self._pixels(item, n, count, mask))

    def _pixels(self, item: _Item, filter_: Index, vectors: int, mask: ir.Value | None) -> None:
        """All tiles of an item's pixels, for the vectors from `filter_` of the item on."""
        plan, width = self.plan, self.scene.outputs[1]
        whole = emit.mul(emit.div(item.rows, plan.high), plan.high)

        def rows(high: int) -> Callable[[Index], None]:
            def row(r: Index) -> None:
                first = 0
                for size, count in parts_of(width, plan.wide):
                    tile = _Tile(high, size, vectors, mask)
                    end = first + size * count
                    emit.loop(first, end, size, partial(self._tile, item, tile, filter_, r))
                    first = end

            return row

        emit.loop(0, whole, plan.high, rows(plan.high))
        if plan.high > 1:
            emit.loop(whole, item.rows, 1, rows(1))

    def _tile(self, item: _Item, tile: _Tile, filter_: Index, row: Index, column: Index) -> None:
        """Multiplies one tile, and stores it after the last chunk."""
        lanes, width = self.lanes, self.scene.outputs[1]
        at: Index = 0
        places = [n * self.sum_row for n in range(tile.pixels)]
        if self.chunks > 1:
            at = emit.linear(filter_, (row, width * self.sum_row), (column, self.sum_row))
            places = [
                (r * width + c) * self.sum_row for r in range(tile.high) for c in range(tile.wide)
            ]
        sums = self._multiply(item, tile, filter_, row, column)
        spots = [emit.add(at, place + j * lanes) for place in places for j in range(tile.vectors)]

        def put(adds: bool) -> None:
            for spot, x in zip(spots, sums, strict=True):
                if adds:
                    before = emit.load_vector(self.sums, spot, lanes)
                    x = emit.plus(before, x, self.element)
                emit.store_vector(x, self.sums, spot)

        if self.chunks == 1:
            put(False)
        else:
            emit.when(item.is_first, lambda: put(False))
            emit.when(emit.compare("ne", item.channel, 0), lambda: put(True))
        emit.when(item.is_last, lambda: self._store(item, tile, filter_, (row, column), at))

    def _store(
        self, item: _Item, tile: _Tile, filter_: Index, first: tuple[Index, Index], at: Index
    ) -> None:
        lanes, width = self.lanes, self.scene.outputs[1]
        n = emit.add(item.filter, filter_)
        pitch = width if self.chunks > 1 else tile.wide

        def row(r: Index) -> None:
            line = emit.add(emit.add(item.row, first[0]), r)

            def pixel(c: Index) -> None:
                m = emit.linear(emit.add(first[1], c), (line, width))
                spot = emit.linear(at, (r, pitch * self.sum_row), (c, self.sum_row))
                for j in range(tile.vectors):
                    x = emit.load_vector(self.sums, emit.add(spot, j * lanes), lanes)
                    mask = tile.mask if j == tile.vectors - 1 else None
                    self.store(x, item.batch, m, emit.add(n, j * lanes), mask)

            emit.loop(0, tile.wide, 1, pixel)

        emit.loop(0, tile.high, 1, row)

    def _multiply(
        self, item: _Item, tile: _Tile, filter_: Index, row: Index, column: Index
    ) -> list[ir.Value]:
        """The sums of a tile over the windows of a chunk of channels."""
        lanes, element, filters = self.lanes, self.element, self.pixels.filters
        scene, taps, c_step = self.scene, self.pixels.taps, self.pixels.c_step
        pitch, line = self.copy.pitch, self.copy.line
        down, right = scene.copied_steps
        start = emit.linear(0, (row, down * line), (column, right * pitch))
        offsets = [
            r * down * line + c * right * pitch for r in range(tile.high) for c in range(tile.wide)
        ]
        origin = emit.linear(filters.start(item.batch), (item.channel, c_step))
        bases = []
        for j in range(tile.vectors):
            n = emit.add(emit.add(item.filter, filter_), j * lanes)
            bases.append(emit.add(origin, filters.row.offset(n)))

        def run(x: Index, w: Index, count: Index, sums: list[ir.Value]) -> list[ir.Value]:
            """Neighbours in the copy from x on, and their filters from w on."""

            def step(k: Index, *sums: ir.Value) -> list[ir.Value]:
                moved = emit.linear(w, (k, c_step))
                right = []
                for j, base in enumerate(bases):
                    mask = tile.mask if j == tile.vectors - 1 else None
                    y = emit.load_vector(self.a, emit.add(base, moved), lanes, mask)
                    right.append(emit.convert(y, filters.element, element))
                here, result = emit.add(x, k), []
                for i, offset in enumerate(offsets):
                    left = emit.load(self.copy.memory, emit.add(here, offset))
                    left = emit.splat(left, lanes)
                    for j in range(tile.vectors):
                        total = sums[i * tile.vectors + j]
                        result.append(emit.multiply_add(left, right[j], total, element))
                return result

            return emit.loop(0, count, 1, step, sums)

        high, wide = scene.window
        down, across = scene.dilations
        # A row of the window is one run, where its columns are neighbours in both.
        merged = self.chunks == 1 and across == 1 and taps[1] == scene.channels * c_step

        def window_row(kh: Index, *sums: ir.Value) -> list[ir.Value]:
            x, w = emit.linear(start, (kh, down * line)), emit.mul(kh, taps[0])
            if merged or wide == 1:
                return run(x, w, emit.mul(item.channels, wide), list(sums))

            def window_column(kw: Index, *sums: ir.Value) -> list[ir.Value]:
                here = emit.linear(x, (kw, across * pitch))
                return run(here, emit.linear(w, (kw, taps[1])), item.channels, list(sums))

            return emit.loop(0, wide, 1, window_column, sums)

        zero = emit.constant(0, element, lanes)
        return emit.loop(0, high, 1, window_row, [zero] * (len(offsets) * tile.vectors))
