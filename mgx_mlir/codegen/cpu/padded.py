"""Windows of images of any size that tiles read in place: of a copy with zeros around the image.

    image [image, channel, row, column]    padded [image, row, column, channel]

The copy has channels last, and of each dimension what the windows reach. No window of it leaves it,
so that a window is a few runs of neighbours: its rows, or, of several groups, its pixels. An image
that is so already is read itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from mlir import ir
from mlir.dialects import arith, vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu import pack
from mgx_mlir.codegen.cpu.frame import Frame
from mgx_mlir.codegen.cpu.pack import Copy, InPlace, Packing
from mgx_mlir.codegen.loops.place import Place
from mgx_mlir.codegen.problem.problem import Axis, Image
from mgx_mlir.rewriting.views import row_major
from mgx_mlir.sizes.arithmetic import maximum


def is_last(image: Image) -> bool:
    """Whether the channels of a pixel are neighbours in memory."""
    return image.channel.stride == 1


def always_inside(image: Image) -> bool:
    """Whether all windows lie inside of the image, whatever its size."""
    return all(
        not dim.pad and (dim.outputs - 1) * dim.step + dim.reach <= dim.size for dim in image.dims
    )


@dataclass(frozen=True)
class Padded(InPlace):
    """The windows of all pixels of images as rows. image: without padding, channels last.

    group: the steps of groups of channels, which are the product's matrices.
    """

    image: Image
    group: Axis

    @staticmethod
    def of(image: Image, group: Axis, usual: int) -> Padded:
        """The windows of an image that none of them leaves, for a usual number of pixels."""
        length = channels = image.channel.size
        taps = [(dim.window, dim.dilation * dim.stride) for dim in image.dims]
        if (image.dims[-1].stride, image.dims[-1].dilation) == (channels, 1):
            length *= taps.pop()[0]
        # Rows have no place of their own: their strides say nothing.
        row, column = Axis(((usual, 0),)), Axis(((image.taps * channels, 1),))
        return Padded(
            image.argument, image.element, image.offset, Axis(()), row, column,
            Axis.of(*taps), length, image, group,
        )  # fmt: skip

    def starts(self, batch: Index, first: Index, rows: int) -> list[Index]:
        memory, index = self.places(batch, first, rows), ir.IndexType.get()
        return [arith.index_cast(index, emit.load(memory, row)) for row in range(rows)]

    def places(self, batch: Index, first: Index, rows: int) -> ir.Value:
        """Where the windows of so many pixels from `first` on begin: one after another."""
        image = self.image
        steps = [image.batch.stride or 0, *(dim.step * dim.stride for dim in image.dims)]
        start = emit.add(image.offset, self.group.offset(batch))
        # By way of memory: LLVM would take many times as long over sums of sums.
        i64 = ir.IntegerType.get_signless(64)
        memory = emit.stack(rows, "i64")

        def one(row: Index, *at: Index) -> None:
            place = emit.linear(start, *zip(at, steps, strict=True))
            emit.store(arith.index_cast(i64, emit.value(place)), memory, emit.sub(row, first))

        emit.count(first, emit.add(first, rows), image.outputs, one)
        return memory


@dataclass(frozen=True)
class Windows(Packing):
    """The windows of images as rows that are packed: one after another in a row, and converted.

    memory: by the image's argument.
    """

    parts: tuple[Padded, ...]
    memory: Mapping[int, ir.Value] = field(default_factory=dict, compare=False)

    @staticmethod
    def of(parts: Sequence[Padded]) -> Windows:
        first, depth = parts[0], sum(part.column.size for part in parts)
        # Rows have no place of their own: their strides say nothing.
        column = Axis(((depth, 2),))
        return Windows(first.argument, first.element, 0, Axis(()), first.row, column, tuple(parts))

    def pack(self, copy: Copy, first: Index, rows: int) -> None:
        done = 0
        for part in self.parts:
            self._pack(part, replace(copy, source=self.memory[part.argument]), first, rows, done)
            done += part.column.size

    def _pack(self, part: Padded, copy: Copy, first: Index, rows: int, done: int) -> None:
        """Packs the windows of an image, before which rows have `done` elements."""
        places, length, lanes = part.places(copy.batch, first, rows), part.length, copy.lanes
        low = emit.maximum(emit.sub(copy.k, done), 0)
        end = emit.sub(emit.add(copy.k, copy.depth), done)
        high = emit.maximum(emit.minimum(end, part.column.size), 0)
        is_whole = length % lanes == 0 and len(self.parts) == 1

        def row(r: Index) -> None:
            place = arith.index_cast(ir.IndexType.get(), emit.load(places, r))
            to = emit.sub(emit.add(emit.mul(r, copy.target.step), done), copy.k)

            def run(number: Index) -> None:
                before = emit.mul(number, length)
                here = emit.sub(emit.add(place, part.runs.offset(number)), before)
                last = emit.minimum(high, emit.add(before, length))

                def vector(k: Index) -> None:
                    mask = None if is_whole else emit.lane_mask(emit.sub(last, k), lanes)
                    x = emit.load_vector(copy.source, emit.add(here, k), lanes, mask)
                    copy.store(x, part.element, emit.add(to, k))

                emit.loop(emit.maximum(low, before), last, lanes, vector)

            runs = emit.div(emit.add(high, length - 1), length)
            emit.loop(emit.div(low, length), runs, 1, run)

        emit.loop(0, rows, 1, row)


@dataclass(frozen=True)
class Padding:
    """The copy of an image with zeros around it, as input number `argument`.

    image: the one that is copied, whose channels are all of it. sizes: of the copy. slack: its
    elements behind them. element: the type of its elements, where lines are converted. step: of a
    line of one channel, each `step`-th pixels lie together.
    """

    image: Image
    sizes: tuple[int, ...]
    argument: int
    slack: int = 0
    element: str = ""
    step: int = 1

    @staticmethod
    def of(image: Image, argument: int) -> Padding:
        """The copy of what the windows of an image reach."""
        sizes = (maximum(dim.outputs - 1, 0) * dim.step + dim.reach for dim in image.dims)
        return Padding(image, tuple(sizes), argument)

    @staticmethod
    def without(image: Image, argument: int) -> Padding:
        """The copy of an image with channels last, and nothing around it."""
        return Padding(image.with_dims(lambda dim: replace(dim, pad=0)), image.sizes, argument)

    @property
    def channels(self) -> int:
        return self.image.channel.size

    @property
    def size(self) -> int:
        """Elements of the copy."""
        return self.image.batch.size * math.prod(self.sizes) * self.channels + self.slack

    def windows(self, groups: int) -> tuple[Image, Axis]:
        """The image of a group in the copy, and the steps of groups."""
        image, channels = self.image, self.channels
        batch = Axis(((image.batch.size, math.prod(self.sizes) * channels),))
        places = zip(image.dims, self.sizes, row_major(self.sizes), strict=True)
        own = replace(
            image, argument=self.argument, offset=0, batch=batch,
            channel=Axis.of((channels // groups, 1)),
            dims=tuple(replace(dim, size=n, stride=s * channels, pad=0) for dim, n, s in places),
        )  # fmt: skip
        return own, Axis.of((groups, channels // groups))

    def add(self, frame: Frame) -> Place:
        """Adds the function that makes the copy; gives its memory. Items are its lines."""
        source, share, functions = frame.inputs[self.image.argument], frame.share, frame.functions
        type_ = emit.memory_type(self.element) if self.element else source.type
        target = Place(type_, share * self.size)
        lines = self.image.batch.size * math.prod(self.sizes[:-1])
        lanes = 4 * functions.lanes // emit.element_bytes(self.image.element)

        def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
            read, written = pointers
            own = _Copy(self, read, written, lanes)
            emit.count(begin, end, self.sizes[:-1], own.line)

        functions.add_on([source, target], share * lines, body)
        return target


@dataclass(frozen=True)
class _Copy:
    padding: Padding
    source: ir.Value
    target: ir.Value
    lanes: int

    def line(self, number: Index, batch: Index, *places: Index) -> None:
        """Makes one row of pixels."""
        padding, image = self.padding, self.padding.image
        channels, width, pixel = padding.channels, padding.sizes[-1], image.dims[-1].stride
        to = emit.mul(number, emit.mul(width, channels))
        place = image.start(batch)
        inside: ir.Value | bool = True
        for axis, at in enumerate(places):
            at = emit.sub(at, image.dims[axis].pad)
            place = emit.linear(place, (at, image.dims[axis].stride))
            if image.dims[axis].pad or not padding.sizes[axis] <= image.dims[axis].size:
                inside = emit.both(inside, emit.compare("ult", at, image.dims[axis].size))
        before = image.dims[-1].pad
        low = emit.minimum(before, width) if before else 0
        high = emit.maximum(emit.minimum(emit.add(image.dims[-1].size, before), width), low)

        def copied() -> None:
            for phase in range(step := padding.step):
                long = emit.div(width, step)
                first, end = (emit.div(emit.add(x, step - 1 - phase), step) for x in (low, high))
                begin = emit.linear(to, (long, phase))
                here = emit.linear(place, (emit.sub(emit.linear(phase, (first, step)), low), pixel))
                self._fill(begin, 0, emit.mul(first, channels))
                self._pixels(here, emit.linear(begin, (first, channels)), emit.sub(end, first))
                self._fill(begin, emit.mul(end, channels), emit.mul(long, channels))

        emit.when(inside, copied, lambda: self._fill(to, 0, emit.mul(width, channels)))

    def _fill(self, to: Index, low: Index, high: Index) -> None:
        image = self.padding.image

        def some(lanes: int, at: Index) -> None:
            x = emit.constant(image.fill, self.padding.element or image.element, lanes)
            emit.store_vector(x, self.target, emit.add(to, at))

        self._by_vectors(low, high, some)

    def _by_vectors(self, low: Index, high: Index, some: Callable[[int, Index], None]) -> None:
        """Work on elements low .. high by vectors, of which fewer are shorter. The last overlaps
        the one before: parts of vectors take long."""
        count = emit.sub(high, low)

        def vectors(lanes: int) -> None:
            def one(at: Index) -> None:
                is_whole = isinstance(count, int) and count % lanes == 0
                some(lanes, at if is_whole else emit.minimum(at, emit.sub(high, lanes)))

            emit.loop(low, high, lanes, one if lanes > 1 else partial(some, 1))

        def longest(lanes: int) -> None:
            fewer = max(lanes // 4, 4) if lanes > 4 else 1
            enough = count >= lanes if isinstance(count, int) else emit.compare("sge", count, lanes)
            emit.when(lanes == 1 or enough, partial(vectors, lanes), partial(longest, fewer))

        longest(self.lanes)

    def _pixels(self, place: Index, to: Index, count: Index) -> None:
        image, channels = self.padding.image, self.padding.channels
        pixel, channel = image.dims[-1].stride * self.padding.step, image.channel.stride
        if image.dims[-1].stride == channels and 1 in (channel, channels):
            self._run(place, to, emit.mul(count, channels))
        elif channel == 1:

            def one(number: Index) -> None:
                here = emit.linear(place, (number, pixel))
                self._run(here, emit.linear(to, (number, channels)), channels)

            emit.loop(0, count, 1, one)
        else:
            self._turned(place, to, count)

    def _run(self, place: Index, to: Index, count: Index) -> None:
        padding = self.padding

        def some(lanes: int, at: Index) -> None:
            x = self._every(emit.linear(place, (at, padding.step)), lanes)
            if padding.element:
                x = emit.convert(x, padding.image.element, padding.element)
            emit.store_vector(x, self.target, emit.add(to, at))

        self._by_vectors(0, count, some)

    def _every(self, place: Index, lanes: int) -> ir.Value:
        """Elements that are the copy's step apart, none behind the last of which is read."""
        step = self.padding.step
        found = emit.load_vector(self.source, place, lanes)
        for part in range(1, step if lanes > 1 else 1):
            before = part * lanes - (step - 1) * (part == step - 1)
            x = emit.load_vector(self.source, emit.add(place, before), lanes)
            order = [
                (at if part == 1 else at // step) if at < part * lanes else lanes + at - before
                for at in range(0, step * lanes, step)
            ]
            found = vector.shuffle(found, x, [n % (2 * lanes) for n in order])
        return found

    def _turned(self, place: Index, to: Index, count: Index) -> None:
        """Copies pixels whose channels are apart: squares, where pixels are neighbours.

        The last squares overlap the ones before.
        """
        image, channels, lanes = self.padding.image, self.padding.channels, self.lanes

        def scalars() -> None:
            def one(number: Index) -> None:
                def element(c: Index) -> None:
                    pixel = image.dims[-1].stride * self.padding.step
                    here = emit.linear(place, (number, pixel))
                    x = emit.load(self.source, emit.add(here, image.channel.offset(c)))
                    x = emit.convert(x, image.element, self.padding.element or image.element)
                    emit.store(x, self.target, emit.linear(to, (number, channels), (c, 1)))

                emit.loop(0, channels, 1, element)

            emit.loop(0, count, 1, one)

        if image.dims[-1].stride != 1:
            scalars()
            return
        # Squares of neighbouring pixels by channels; of fewer channels, what is more is nothing.
        side = min(lanes, 1 << (channels - 1).bit_length())
        exist = min(side, channels)

        def square(number: Index) -> None:
            number = emit.minimum(number, emit.sub(count, side))

            def block(c: Index) -> None:
                c = emit.minimum(c, channels - exist)
                here = emit.add(place, number)
                found = [
                    emit.load_vector(
                        self.source, emit.add(here, image.channel.offset(emit.add(c, n))), side
                    )
                    for n in range(exist)
                ]
                found += [emit.constant(0, image.element, side)] * (side - exist)
                there = emit.linear(to, (number, channels), (c, 1))
                for n, x in enumerate(pack.transpose(found)):
                    # The next pixel covers what is more, but for the last one's.
                    mask = emit.lane_mask(exist, side) if n == side - 1 else None
                    emit.store_vector(x, self.target, emit.linear(there, (n, channels)), mask)

            emit.loop(0, channels, side, block)

        def squares() -> None:
            emit.loop(0, count, side, square)

        emit.when(emit.compare("sge", count, side), squares, scalars)
