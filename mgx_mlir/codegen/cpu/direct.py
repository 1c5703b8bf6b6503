"""Convolutions with few outputs for each group (depthwise), directly over rows of output.

A work item copies the rows of input that it needs to the stack, with the zeros around them.
Columns that the stride sets apart go to planes of their own. Every tap of the window then reads
neighbours, whatever the stride:

    stride 2: columns 0 2 4 ... | columns 1 3 5 ...
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu import pack
from mgx_mlir.codegen.cpu.contraction import Store
from mgx_mlir.codegen.cpu.schedule import Machine, packed_element
from mgx_mlir.codegen.problem.problem import Contraction, Image
from mgx_mlir.sizes.arithmetic import ceil_div

MAX_ROWS = 4
MAX_TAPS = 128
MAX_BUFFER_BYTES = 64 << 10
ITEM_MULTIPLY_ADDS = 1 << 18


@dataclass(frozen=True)
class Direct:
    """How a direct convolution is cut: rows of output of a work item, and sizes of its copy.

    The copy has `rows` rows for each channel, each of `planes` planes of `width` columns.
    """

    lanes: int
    image_rows: int
    rows: int
    planes: int
    width: int

    def items(self, problem: Contraction) -> int:
        return problem.batch * ceil_div(image_height(problem), self.image_rows)

    def elements(self, problem: Contraction) -> int:
        """Elements of the copy."""
        assert isinstance(problem.b, Image)
        channels = problem.K // math.prod(problem.b.window)
        return channels * self.rows * self.planes * self.width


def choose_direct(problem: Contraction, machine: Machine) -> Direct | None:
    """The cut of a convolution that this generator takes; None for any other kernel."""
    image = problem.b
    if not isinstance(image, Image) or len(image.sizes) > 2 or problem.M > MAX_ROWS:
        return None
    if problem.batch == 1 or problem.K > MAX_TAPS:
        return None
    lanes = machine.lanes(problem.accumulator)
    channels = problem.K // math.prod(image.window)
    step = image.steps[-1]
    reach = (image.window[-1] - 1) * image.dilations[-1] // step + 1
    width = ceil_div(ceil_div(image.width, lanes) * lanes + reach, lanes) * lanes
    row_bytes = channels * step * width * emit.element_bytes(problem.accumulator)
    tall = len(image.sizes) == 2
    row_step = image.steps[0] if tall else 1
    overlap = (image.window[0] - 1) * image.dilations[0] + 1 if tall else 1
    most = (MAX_BUFFER_BYTES // row_bytes - overlap) // row_step + 1
    if most < 1:
        return None
    wanted = max(1, ITEM_MULTIPLY_ADDS // (problem.M * problem.K * image.width))
    height = image_height(problem)
    blocks = ceil_div(height, min(most, wanted, height))
    image_rows = ceil_div(height, blocks)
    return Direct(lanes, image_rows, (image_rows - 1) * row_step + overlap, step, width)


def image_height(problem: Contraction) -> int:
    """Rows of output."""
    assert isinstance(problem.b, Image)
    return problem.N // problem.b.width


def emit_direct(
    problem: Contraction,
    cut: Direct,
    a: ir.Value,
    b: ir.Value,
    store: Store,
    begin: ir.Value,
    end: ir.Value,
) -> None:
    """Builds the work of items begin .. end at the insertion point."""
    assert isinstance(problem.b, Image)
    rows = RowBlocks(problem, problem.b, cut, b, packed_element(problem))

    def block(batch: Index, first: Index, count: Index) -> None:
        for m in range(problem.M):
            _row_of_channel(rows, a, store, (batch, m, first), count)

    rows.each(begin, end, block, problem.b.fill)


class RowBlocks:
    """Blocks of rows of output, each with a copy of the input that its windows read.

    The copy has elements of type `element`, by default the accumulator's.
    """

    def __init__(
        self, problem: Contraction, image: Image, cut: Direct, source: ir.Value, element: str = ""
    ) -> None:
        self.problem, self.image, self.cut, self.source = problem, image, cut, source
        self.element = element or problem.accumulator
        self.memory = emit.stack(cut.elements(problem), self.element)

    def each(
        self,
        begin: ir.Value,
        end: ir.Value,
        block: Callable[[Index, Index, Index], None],
        around: float = 0,
    ) -> None:
        """Builds block(batch, first row, rows) for each block begin .. end, after its copy.

        `around`: the elements around the input.
        """
        problem, cut = self.problem, self.cut
        height = image_height(problem)
        blocks = ceil_div(height, cut.image_rows)

        def item(number: Index) -> None:
            batch = emit.div(number, blocks)
            first = emit.mul(emit.rem(number, blocks), cut.image_rows)
            rows: Index = cut.image_rows
            if height % cut.image_rows:
                rows = emit.minimum(rows, emit.sub(height, first))
            self._copy(batch, first, around)
            block(batch, first, rows)

        emit.loop(begin, end, 1, item)

    def _copy(self, batch: Index, first: Index, around: float) -> None:
        """Copies the input of `cut.image_rows` rows of output from `first` on."""
        problem, image, cut = self.problem, self.image, self.cut
        channels = problem.K // math.prod(image.window)
        fill = emit.constant(around, image.element, cut.lanes) if around else None
        read = _plane_reader(self.source, image, cut.lanes, fill)
        start = image.start(batch)
        tall = len(image.sizes) == 2
        size = cut.planes * cut.width

        def channel(c: Index) -> None:
            base = emit.add(start, image.channel.offset(c))

            def row(r: Index) -> None:
                place: Index = base
                limit: Index = image.sizes[-1]
                if tall:
                    at = emit.add(emit.linear(r, (first, image.steps[0])), -image.pads[0])
                    place = emit.linear(base, (at, image.strides[0]))
                    inside = emit.compare("ult", at, image.sizes[0])
                    limit = emit.select(inside, limit, 0)
                target = emit.mul(emit.linear(r, (c, cut.rows)), size)

                def part(q: Index) -> None:
                    at = emit.add(emit.mul(q, cut.planes), -image.pads[-1])
                    for plane, x in enumerate(read(place, at, limit)):
                        x = emit.convert(x, image.element, self.element)
                        to = emit.add(emit.add(target, plane * cut.width), q)
                        emit.store_vector(x, self.memory, to)

                emit.loop(0, cut.width, cut.lanes, part)

            emit.loop(0, cut.rows, 1, row)

        emit.loop(0, channels, 1, channel)


def _plane_reader(
    source: ir.Value, image: Image, lanes: int, fill: ir.Value | None
) -> Callable[[Index, Index, Index], list[ir.Value]]:
    """read(start, at, limit): vectors of columns at, at + 1, ... of the planes."""
    step = image.steps[-1]
    if step == 2 and image.strides[-1] == 1:
        whole = pack.row_reader(source, replace(image, steps=(*image.steps[:-1], 1)), lanes, fill)

        def pair(place: Index, at: Index, limit: Index) -> list[ir.Value]:
            low, high = (whole(place, emit.add(at, n), limit) for n in (0, lanes))
            return [
                vector.shuffle(low, high, [2 * lane + odd for lane in range(lanes)])
                for odd in (0, 1)
            ]

        return pair
    read = pack.row_reader(source, image, lanes, fill)
    return lambda place, at, limit: [
        read(place, emit.add(at, plane), limit) for plane in range(step)
    ]


def _row_of_channel(
    blocks: RowBlocks,
    weights: ir.Value,
    store: Store,
    first: tuple[Index, int, Index],
    rows: Index,
) -> None:
    """Builds rows of one channel of a block; `first` is their batch, channel and first row."""
    problem, image, cut = blocks.problem, blocks.image, blocks.cut
    batch, m, top = first
    lanes, element = cut.lanes, blocks.element
    size = cut.planes * cut.width
    tall = len(image.sizes) == 2
    taps = []
    for k, offset in enumerate(tap_offsets(problem, image, cut)):
        w = emit.load(weights, problem.a.at(batch, m, k))
        w = emit.splat(emit.convert(w, problem.a.element, element), lanes)
        taps.append((w, offset))
    row_step = image.steps[0] if tall else 1

    def row(r: Index) -> None:
        base = emit.mul(r, row_step * size)
        n = emit.mul(emit.add(top, r), image.width)

        def part(column: Index) -> None:
            total = emit.constant(0, element, lanes)
            for w, offset in taps:
                x = emit.load_vector(blocks.memory, emit.add(emit.add(base, column), offset), lanes)
                total = emit.multiply_add(w, x, total, element)
            mask = None
            if image.width % lanes:
                mask = emit.lane_mask(emit.sub(image.width, column), lanes)
            total = emit.convert(total, element, problem.accumulator)
            store(total, batch, m, emit.add(n, column), mask)

        emit.loop(0, image.width, lanes, part)

    emit.loop(0, rows, 1, row)


def tap_offsets(problem: Contraction, image: Image, cut: Direct) -> list[int]:
    """The offset of each tap of the window in the copy, for the first output."""
    size = cut.planes * cut.width
    tall = len(image.sizes) == 2
    offsets = []
    for k in range(problem.K):
        rest, kw = divmod(k, image.window[-1])
        c, kh = divmod(rest, image.window[0]) if tall else (rest, 0)
        down = kh * image.dilations[0] if tall else 0
        q, plane = divmod(kw * image.dilations[-1], image.steps[-1])
        offsets.append((c * cut.rows + down) * size + plane * cut.width + q)
    return offsets
