"""Windows of images of any size as rows of a product: tiles pack the rows that they multiply."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.pack import Copy, Packing
from mgx_mlir.codegen.problem.problem import Axis, Image


@dataclass(frozen=True)
class Windows(Packing):
    """The windows of images as rows: those of all pixels of one image after another.

    Several images of equal outputs follow each other in a row. group: the steps of groups of
    channels, which are the product's matrices. memory: by the image's argument.
    """

    images: tuple[Image, ...]
    group: Axis
    memory: Mapping[int, ir.Value] = field(default_factory=dict, compare=False)

    @staticmethod
    def of(images: Sequence[Image], group: Axis, usual: int) -> Windows:
        depth = sum(map(depth_of, images))
        first = images[0]
        # Rows have no place of their own: their strides say nothing.
        row, column = Axis(((usual, 0),)), Axis(((depth, 2),))
        argument, element = first.argument, first.element
        return Windows(argument, element, 0, Axis(()), row, column, tuple(images), group)

    def pack(self, copy: Copy, first: Index, rows: int) -> None:
        def one(r: Index) -> None:
            number, pixels = emit.add(first, r), math.prod(self.images[0].outputs)
            image, pixel = emit.div(number, pixels), emit.rem(number, pixels)
            to, done = emit.mul(r, copy.target.step), 0
            for own in self.images:
                source = replace(copy, source=self.memory[own.argument])
                origin = emit.add(own.start(image), self.group.offset(copy.batch))
                starts = window_starts(own, pixel)
                _WindowCopy(source, own, origin, starts, emit.add(to, done), done).emit()
                done += depth_of(own)

        emit.loop(0, rows, 1, one)


def depth_of(image: Image) -> int:
    """The elements of a window."""
    return math.prod(image.window) * image.channel.size


def window_starts(image: Image, pixel: Index) -> list[Index]:
    """Where the window of a pixel begins along each dimension: before the image, or in it."""
    found: list[Index] = []
    for size, step, pad in reversed(list(zip(image.outputs, image.steps, image.pads, strict=True))):
        out = pixel if len(found) == len(image.outputs) - 1 else emit.rem(pixel, size)
        pixel = emit.div(pixel, size)
        found.insert(0, emit.add(emit.mul(out, step), -pad))
    return found


def is_last(image: Image) -> bool:
    """Whether the channels of a pixel are neighbours in memory."""
    return image.channel.stride == 1


def always_inside(image: Image, axis: int) -> bool:
    """Whether all windows lie inside of the image along an axis, whatever its size."""
    last = (image.outputs[axis] - 1) * image.steps[axis] - image.pads[axis]
    last = last + (image.window[axis] - 1) * image.dilations[axis]
    return not image.pads[axis] and last < image.sizes[axis]


@dataclass(frozen=True)
class _WindowCopy:
    """The copy of one window's part that is in a block's depth, to `to` on, without `copy.k`.

    origin: where its image begins. starts: the window's place along each dimension. done: elements
    of the row before the window. A run is what lies together: the last row of a window, of all
    channels, or of one where these are apart.
    """

    copy: Copy
    image: Image
    origin: Index
    starts: Sequence[Index]
    to: Index
    done: int

    def emit(self) -> None:
        """Copies all runs."""
        copy, image = self.copy, self.image
        width = image.window[-1] * (image.channel.size if is_last(image) else 1)
        low = emit.maximum(emit.sub(copy.k, self.done), 0)
        end = emit.sub(emit.add(copy.k, copy.depth), self.done)
        high = emit.maximum(emit.minimum(end, depth_of(image)), 0)
        base = emit.sub(self.to, copy.k)

        def run(number: Index) -> None:
            before = emit.mul(number, width)
            first = emit.maximum(emit.sub(low, before), 0)
            last = emit.minimum(emit.sub(high, before), width)
            place, inside = self._line(number)
            here = emit.add(base, before)
            if is_last(image):
                self._channels_of_line(place, inside, here, (first, last))
            else:
                self._line_of_channel(place, inside, here, (first, last))

        count = emit.div(emit.add(high, width - 1), width)
        emit.loop(emit.div(low, width), count, 1, run)

    def _line(self, number: Index) -> tuple[Index, ir.Value | bool]:
        """Where the line of the image that a run is of begins, and whether there is one."""
        image, place = self.image, self.origin
        inside: ir.Value | bool = True
        for axis in reversed(range(len(image.window) - 1)):
            length = image.window[axis]
            tap = emit.mul(emit.rem(number, length), image.dilations[axis])
            number, at = emit.div(number, length), emit.add(self.starts[axis], tap)
            place = emit.linear(place, (at, image.strides[axis]))
            if not always_inside(image, axis):
                inside = emit.both(inside, emit.compare("ult", at, image.sizes[axis]))
        if not is_last(image):
            place = emit.add(place, image.channel.offset(number))
        return place, inside

    def _channels_of_line(
        self, place: Index, inside: ir.Value | bool, to: Index, part: tuple[Index, Index]
    ) -> None:
        """Copies the last row of a window, of neighbouring channels: at once where it is inside."""
        image, (low, high) = self.image, part
        channels, length, start = image.channel.size, image.window[-1], self.starts[-1]
        dilation, stride, size = image.dilations[-1], image.strides[-1], image.sizes[-1]

        def column(number: Index) -> None:
            before, at = emit.mul(number, channels), emit.add(start, emit.mul(number, dilation))
            first = emit.maximum(emit.sub(low, before), 0)
            last = emit.minimum(emit.sub(high, before), channels)
            source, target = emit.linear(place, (at, stride)), emit.add(to, before)
            exists = inside
            if not always_inside(image, len(image.window) - 1):
                exists = emit.both(inside, emit.compare("ult", at, size))
            whole = channels % self.copy.lanes == 0
            emit.when(
                exists,
                lambda: self._vectors(source, target, first, last, whole),
                lambda: self._fill(target, first, last),
            )

        def columns() -> None:
            first, last = emit.div(low, channels), emit.add(high, channels - 1)
            emit.loop(first, emit.div(last, channels), 1, column)

        if length == 1 or dilation != 1 or stride != channels:
            columns()
            return
        exists = inside
        if not always_inside(image, len(image.window) - 1):
            end = emit.add(start, length)
            within = arith.andi(emit.compare("sge", start, 0), emit.compare("sle", end, size))
            exists = emit.both(inside, within)
        source, whole = emit.linear(place, (start, stride)), channels % self.copy.lanes == 0
        emit.when(exists, lambda: self._vectors(source, to, low, high, whole), columns)

    def _line_of_channel(
        self, place: Index, inside: ir.Value | bool, to: Index, part: tuple[Index, Index]
    ) -> None:
        """Copies the last row of a window, of one channel."""
        image, lanes, (low, high) = self.image, self.copy.lanes, part
        length, start, size = image.window[-1], self.starts[-1], image.sizes[-1]

        def scalar(number: Index) -> None:
            at = emit.add(start, emit.mul(number, image.dilations[-1]))
            here = emit.linear(place, (at, image.strides[-1]))
            exists = emit.both(inside, emit.compare("ult", at, size))

            def move() -> None:
                x = emit.load(self.copy.source, here)
                x = emit.convert(x, image.element, self.copy.accumulator)
                emit.store(x, self.copy.target.memory, emit.add(to, number))

            def fill() -> None:
                x = emit.constant(image.fill, self.copy.accumulator)
                emit.store(x, self.copy.target.memory, emit.add(to, number))

            emit.when(exists, move, fill)

        def scalars() -> None:
            emit.loop(low, high, 1, scalar)

        if (image.strides[-1], image.dilations[-1]) != (1, 1) or not 1 < length <= lanes:
            scalars()
            return

        def vector() -> None:
            left = emit.sub(size, start)
            if not isinstance(inside, bool):
                left = emit.select(inside, left, 0)
            mask = emit.lane_mask(emit.minimum(left, length), lanes)
            before = emit.lane_mask(emit.value(emit.sub(0, start)), lanes)
            assert mask is not None and before is not None
            mask = arith.andi(mask, arith.xori(before, emit.constant(1, "i1", lanes)))
            fill = emit.constant(image.fill, image.element, lanes)
            x = emit.load_vector(self.copy.source, emit.add(place, start), lanes, mask, fill)
            self.copy.store(x, image.element, to)

        is_whole = arith.andi(emit.compare("eq", low, 0), emit.compare("eq", high, length))
        emit.when(is_whole, vector, scalars)

    def _vectors(self, source: Index, to: Index, first: Index, last: Index, is_whole: bool) -> None:
        """Copies elements first .. last of a run. A vector may write past its end."""
        copy, lanes = self.copy, self.copy.lanes

        def vector(c: Index) -> None:
            mask = None if is_whole else emit.lane_mask(emit.sub(last, c), lanes)
            x = emit.load_vector(copy.source, emit.add(source, c), lanes, mask)
            copy.store(x, self.image.element, emit.add(to, c))

        emit.loop(first, last, lanes, vector)

    def _fill(self, to: Index, first: Index, last: Index) -> None:
        copy = self.copy
        x = emit.constant(self.image.fill, copy.accumulator, copy.lanes)

        def vector(c: Index) -> None:
            emit.store_vector(x, copy.target.memory, emit.add(to, c))

        emit.loop(first, last, copy.lanes, vector)
