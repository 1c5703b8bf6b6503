"""Copies of the input that windows of some rows of output read, with what is around it."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.problem.problem import Axis, ComputedImage, Contraction, Image, Matrix


@dataclass(frozen=True)
class Scene:
    """An image of two dimensions, and its windows: as `Image`, with `channels` known."""

    argument: int
    element: str
    offset: int
    batch: Axis
    channels: int
    channel: Axis
    sizes: tuple[int, int]
    strides: tuple[int, int]
    outputs: tuple[int, int]
    window: tuple[int, int]
    steps: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]
    fill: int = 0

    @property
    def skips(self) -> tuple[int, int]:
        """Rows and columns from one that is copied to the next: windows of one element skip."""
        high, wide = (s if n == 1 else 1 for s, n in zip(self.steps, self.window, strict=True))
        return high, wide

    @property
    def copied_steps(self) -> tuple[int, int]:
        """The step of windows in the copy."""
        high, wide = (s // n for s, n in zip(self.steps, self.skips, strict=True))
        return high, wide

    def copied_size(self, axis: int, outputs: int) -> int:
        """Rows or columns of the copy for some rows or columns of output."""
        reach = (self.window[axis] - 1) * self.dilations[axis] + 1
        return (outputs - 1) * self.copied_steps[axis] + reach

    def copied(self, rows: int, channels: int) -> int:
        """Elements of the copy for some rows of output."""
        return self.copied_size(0, rows) * self.copied_size(1, self.outputs[1]) * channels


def scene_of(problem: Contraction) -> Scene | None:
    """The image of a convolution of at most two dimensions; None for any other problem."""
    b = problem.b
    if isinstance(b, ComputedImage):
        return None
    if not isinstance(b, Image):
        if type(b) is not Matrix:
            return None
        pixel = b.column.stride
        if pixel is None:
            return None
        sizes = _folded(b.column.size)
        strides = (pixel * sizes[1], pixel)
        return Scene(
            b.argument, b.element, b.offset, b.batch, b.row.size, b.row,
            sizes, strides, sizes, (1, 1), (1, 1), (1, 1), (0, 0),
        )  # fmt: skip
    if len(b.sizes) > 2:
        return None
    lead = len(b.sizes) == 1

    def two(numbers: tuple[int, ...], first: int) -> tuple[int, int]:
        return (first, numbers[0]) if lead else (numbers[0], numbers[1])

    return Scene(
        b.argument, b.element, b.offset, b.batch, b.channel.size, b.channel,
        two(b.sizes, 1), two(b.strides, 0), two(b.outputs, 1), two(b.window, 1),
        two(b.steps, 1), two(b.dilations, 1), two(b.pads, 0), b.fill,
    )  # fmt: skip


def _folded(pixels: int) -> tuple[int, int]:
    """Pixels without neighbourhood as rows of equal width."""
    for width in range(min(pixels, 64), 15, -1):
        if pixels % width == 0:
            return pixels // width, width
    return 1, pixels


class WindowCopy:
    """The copy on the stack: [row, column, channel], `pitch` elements a column, `line` a row."""

    def __init__(
        self, scene: Scene, rows: int, channels: int, lanes: int, source: ir.Value, element: str
    ) -> None:
        self.scene, self.lanes, self.source, self.element = scene, lanes, source, element
        self.pitch = channels
        # Whether all parts of the channels are whole vectors.
        self.whole = scene.channels % lanes == 0 and channels % lanes == 0
        self.rows = scene.copied_size(0, rows)
        self.columns = scene.copied_size(1, scene.outputs[1])
        self.line = self.columns * self.pitch
        # A vector may be written past the end.
        self.memory = emit.stack(self.rows * self.line + lanes, element)

    def emit(self, batch: Index, row: Index, channel: Index, channels: Index) -> None:
        """Copies the input of the rows of output from `row` on, `channels` from `channel` on."""
        scene = self.scene
        start = emit.add(scene.batch.offset(batch), scene.offset)
        first = emit.add(emit.mul(row, scene.steps[0]), -scene.pads[0])
        # Columns that the image has: the others are padding.
        skip, pad = scene.skips[1], scene.pads[1]
        low = min(self.columns, -(-pad // skip))
        high = max(low, min(self.columns, (scene.sizes[1] - 1 + pad) // skip + 1))

        def line(r: Index) -> None:
            to = emit.mul(r, self.line)
            at = emit.linear(first, (r, scene.skips[0]))
            inside = emit.compare("ult", at, scene.sizes[0])

            def fill() -> None:
                self._clear(to, 0, low)
                place = emit.linear(start, (at, scene.strides[0]))
                self._columns(to, place, (low, high), (channel, channels))
                self._clear(to, high, self.columns)

            emit.when(inside, fill, lambda: self._clear(to, 0, self.columns))

        emit.loop(0, self.rows, 1, line)

    def _clear(self, to: Index, first: int, end: int) -> None:
        x = emit.constant(self.scene.fill, self.element, self.lanes)
        emit.loop(
            first * self.pitch,
            end * self.pitch,
            self.lanes,
            lambda i: emit.store_vector(x, self.memory, emit.add(to, i)),
        )

    def _columns(
        self, to: Index, place: Index, columns: tuple[int, int], part: tuple[Index, Index]
    ) -> None:
        """Copies columns of some channels: the first, and how many.

        A vector may write past a column's end, before the next is written.
        """
        scene, lanes = self.scene, self.lanes
        channel, channels = part
        step = scene.skips[1] * scene.strides[1]

        def column(c: Index) -> None:
            here = emit.linear(to, (c, self.pitch))
            back = scene.pads[1] * scene.strides[1]
            origin = emit.add(emit.linear(place, (c, step)), -back)

            def at(k: Index) -> Index:
                return emit.add(origin, scene.channel.offset(emit.add(channel, k)))

            def vector(k: Index) -> None:
                mask = None
                if not self.whole:
                    mask = emit.lane_mask(emit.sub(channels, k), lanes)
                x = emit.load_vector(self.source, at(k), lanes, mask)
                x = emit.convert(x, scene.element, self.element)
                emit.store_vector(x, self.memory, emit.add(here, k))

            def scalar(k: Index) -> None:
                x = emit.load(self.source, at(k))
                x = emit.convert(x, scene.element, self.element)
                emit.store(x, self.memory, emit.add(here, k))

            if scene.channel.contiguous(lanes):
                emit.loop(0, channels, lanes, vector)
            else:
                emit.loop(0, channels, 1, scalar)

        emit.loop(*columns, 1, column)


def part_at(size: int, part: int, first: Index) -> Index:
    """The size of the part that starts at `first`."""
    return part if size % part == 0 else emit.minimum(part, emit.sub(size, first))
