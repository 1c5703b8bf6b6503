"""Depthwise convolutions of images with channels last: vectors of channels, a few pixels at once.

A work item owns some rows of output and some channels. It copies the input that its windows read,
with the zeros around it; each tap of the window is then a vector of the copy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.contraction import Store
from mgx_mlir.codegen.cpu.pixels import ELEMENTS, parts_of
from mgx_mlir.codegen.cpu.schedule import BYTES, Machine, packed_element
from mgx_mlir.codegen.cpu.window_copy import Scene, WindowCopy, part_at, scene_of
from mgx_mlir.codegen.problem.match import Match, Source
from mgx_mlir.codegen.problem.problem import Contraction, Matrix
from mgx_mlir.sizes.arithmetic import ceil_div

MAX_TAPS = 64
# Bytes of channels of an item's copy: two cache lines; and of the copy.
CHANNEL_BYTES, COPY_BYTES = 128, 64 << 10
# Neighbouring pixels whose sums are in registers together.
PIXELS = 7
# Multiply-adds of an item, at the least.
ITEM_MULTIPLY_ADDS = 1 << 16


@dataclass(frozen=True)
class Depthwise:
    """A depthwise convolution. `match` has results [image, pixel, channel]."""

    match: Match
    scene: Scene
    filters: Matrix
    lanes: int

    def __str__(self) -> str:
        return f"{self.channels} channels, {self.rows} rows of pixels an item"

    @property
    def problem(self) -> Contraction:
        return self.match.problem

    @property
    def element(self) -> str:
        """The type of the sums; of bytes that is f32, where MAX_TAPS products are exact."""
        return packed_element(self.problem)

    @property
    def channels(self) -> int:
        """Channels of an item."""
        size = CHANNEL_BYTES // emit.element_bytes(self.element)
        return min(size, ceil_div(self.problem.N, self.lanes) * self.lanes)

    @property
    def rows(self) -> int:
        """Rows of output of an item."""
        scene = self.scene
        high, wide = scene.outputs
        size = emit.element_bytes(self.element)
        most = max(1, ITEM_MULTIPLY_ADDS // (wide * self.channels * self.problem.K), high // 8)
        while most > 1 and scene.copied(most, self.channels) * size > COPY_BYTES:
            most -= 1
        return ceil_div(high, ceil_div(high, min(most, high)))

    def items(self) -> int:
        blocks = ceil_div(self.scene.outputs[0], self.rows)
        return self.problem.batch * blocks * ceil_div(self.problem.N, self.channels)


def match_depthwise(match: Match, machine: Machine) -> Depthwise | None:
    """The convolution of a match that this generator takes; None for any other."""
    problem, place = match.problem, match.place
    if place is None or match.added or problem.M != 1 or problem.N == 1 or problem.K > MAX_TAPS:
        return None
    scene = scene_of(problem)
    channels = place.column.stride
    if scene is None or scene.channels != 1 or type(problem.a) is not Matrix or not channels:
        return None
    known = BYTES if problem.accumulator == "i32" else ELEMENTS
    if not {problem.a.element, problem.b.element} <= known or problem.batch % channels:
        return None
    count = problem.batch // channels

    def turned(matrix: Matrix) -> Matrix | None:
        """[(image, channel), 1, column] as [image, column, channel]."""
        found = matrix.batch.split(channels)
        return found and replace(matrix, batch=found[0], row=matrix.column, column=found[1])

    sources: list[Source] = []
    for source in match.sources:
        moved = turned(source) if isinstance(source, Matrix) else source
        if moved is None and source is not None:
            return None
        sources.append(moved)
    filters, image = turned(problem.a), scene.batch.split(channels)
    own_place = turned(place)
    if filters is None or image is None or own_place is None:
        return None
    if filters.column.stride != 1:
        return None
    scene = replace(scene, batch=image[0], channels=channels, channel=image[1])
    found = replace(
        match,
        problem=replace(problem, batch=count, M=problem.N, N=channels),
        sources=tuple(sources),
        place=own_place,
    )
    return Depthwise(found, scene, filters, machine.lanes(problem.accumulator))


def emit_depthwise(
    own: Depthwise, a: ir.Value, b: ir.Value, store: Store, begin: ir.Value, end: ir.Value
) -> None:
    """Builds the work of items begin .. end at the insertion point."""
    problem, scene, lanes = own.problem, own.scene, own.lanes
    element, channels = own.element, own.channels
    copy = WindowCopy(scene, own.rows, channels, lanes, b, element)
    sums = emit.stack(min(PIXELS, scene.outputs[1]) * lanes, element)
    parts = ceil_div(problem.N, channels)
    blocks = ceil_div(scene.outputs[0], own.rows)

    def item(number: Index) -> None:
        first = emit.mul(emit.rem(number, parts), channels)
        block = emit.div(number, parts)
        row = emit.mul(emit.rem(block, blocks), own.rows)
        count = part_at(problem.N, channels, first)
        rows = part_at(scene.outputs[0], own.rows, row)
        batch = emit.div(block, blocks)
        copy.emit(batch, row, first, count)

        def vector(c: Index) -> None:
            channel = emit.add(first, c)
            mask = None
            if problem.N % lanes:
                mask = emit.lane_mask(emit.sub(problem.N, channel), lanes)
            weights = _weights(own, a, batch, channel, mask)

            def line(r: Index) -> None:
                column = 0
                for size, times in parts_of(scene.outputs[1], PIXELS):
                    end = column + size * times

                    def tile(x: Index, size: int = size) -> None:
                        here = emit.linear(c, (r, scene.copied_steps[0] * copy.line))
                        here = emit.linear(here, (x, scene.copied_steps[1] * copy.pitch))
                        _multiply(own, copy, weights, here, size, sums)
                        m = emit.linear(x, (emit.add(row, r), scene.outputs[1]))

                        def pixel(i: Index) -> None:
                            total = emit.load_vector(sums, emit.mul(i, lanes), lanes)
                            total = emit.convert(total, element, problem.accumulator)
                            store(total, batch, emit.add(m, i), channel, mask)

                        emit.loop(0, size, 1, pixel)

                    emit.loop(column, end, size, tile)
                    column = end

            emit.loop(0, rows, 1, line)

        emit.loop(0, count, lanes, vector)

    emit.loop(begin, end, 1, item)


def _weights(
    own: Depthwise, a: ir.Value, batch: Index, channel: Index, mask: ir.Value | None
) -> list[ir.Value]:
    """A vector of filters for each tap."""
    filters, found = own.filters, []
    for k in range(own.problem.K):
        w = emit.load_vector(a, filters.at(batch, k, channel), own.lanes, mask)
        found.append(emit.convert(w, filters.element, own.element))
    return found


def _multiply(
    own: Depthwise,
    copy: WindowCopy,
    weights: list[ir.Value],
    here: Index,
    pixels: int,
    sums: ir.Value,
) -> None:
    """Stores the sums of neighbouring pixels, whose windows start at `here` of the copy."""
    scene, lanes, element = own.scene, own.lanes, own.element
    (high, wide), (down, right) = scene.window, scene.dilations
    totals = [emit.constant(0, element, lanes)] * pixels
    for kh in range(high):
        read: dict[int, ir.Value] = {}
        for kw in range(wide):
            for i in range(pixels):
                column = i * scene.copied_steps[1] + kw * right
                if column not in read:
                    offset = kh * down * copy.line + column * copy.pitch
                    read[column] = emit.load_vector(copy.memory, emit.add(here, offset), lanes)
                w = weights[kh * wide + kw]
                totals[i] = emit.multiply_add(w, read[column], totals[i], element)
    for i, total in enumerate(totals):
        emit.store_vector(total, sums, i * lanes)
