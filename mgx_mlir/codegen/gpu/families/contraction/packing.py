"""Packs images and filters with channels last: a convolution becomes a product of matrices.

    x[n, c, y, x]  ->  p[n, y + before, x + before, c]

with the padding around the image and zeros after the last channel, so that channels fill chunks
of 16 bytes. A window of `p` is then a row of a matrix whose strides overlap: k = (r, s, c) moves
through it in three strides, and no read has to ask whether it is inside of the image.

One function does this for all of a kernel's operands that need it, into scratch memory. A
thread transposes the channels of a chunk for as many neighbouring pixels as one read gives.
Computed pixels are computed here, each once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import block_number, thread_number
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors
from mgx_mlir.codegen.problem.computed import compute
from mgx_mlir.codegen.problem.problem import Axis, ComputedImage, Image, vector_width
from mgx_mlir.sizes.arithmetic import ceil_div, common_factor

THREADS = 512


@dataclass(frozen=True)
class Packing:
    """One operand: its layout in input `argument`, and its layout in scratch memory.

    `sizes`, `strides`, `before` and `after` (around it, where elements are `fill`) have one number
    for each spatial dimension; `start` is its first byte in scratch memory. `chunk`: channels of a
    thread, in elements; channels are padded to a multiple of it; 0 for as many as 16 bytes hold.
    `computed`: the image that computes the elements; None where they are read unchanged. `near`:
    chunks of neighbouring threads; 0 for all of a pixel.
    """

    argument: int
    element: str
    offset: int
    batch: Axis
    channel: Axis
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    start: int
    chunk: int = 0
    computed: ComputedImage | None = None
    fill: float = 0
    near: int = 0

    def __post_init__(self) -> None:
        if not self.chunk:
            chunk = CHUNK_BYTES // emit.element_bytes(self.element)
            object.__setattr__(self, "chunk", chunk)

    @property
    def channels(self) -> int:
        """Channels in scratch memory."""
        return ceil_div(self.channel.size, self.chunk) * self.chunk

    @property
    def padded(self) -> tuple[int, ...]:
        """Spatial sizes in scratch memory."""
        return tuple(map(sum, zip(self.before, self.sizes, self.after, strict=True)))

    @property
    def elements(self) -> int:
        return self.batch.size * math.prod(self.padded) * self.channels

    @property
    def bytes(self) -> int:
        return self.elements * emit.element_bytes(self.element)

    @property
    def tensors(self) -> Sequence[Packing | Image]:
        """The tensors that are read."""
        return self.computed.tensors if self.computed else (self,)

    @property
    def width(self) -> int:
        """Pixels of a thread: neighbours along the last dimension, of one read."""
        most = max(emit.element_bytes(x.element) for x in (self, *self.tensors))
        limit = math.gcd(CHUNK_BYTES // most, common_factor(self.sizes[-1]))
        for x in self.tensors:
            *outer, last = zip(self.sizes, x.strides, strict=True)
            if last[1] != 0:
                others = [x.batch, x.channel, *(Axis.of(dim) for dim in outer)]
                limit = vector_width(Axis((last,)), *others, offset=x.offset, limit=limit)
        return limit

    @property
    def threads(self) -> int:
        chunks = self.channels // self.chunk
        return self.batch.size * math.prod(self.padded[:-1]) * self.groups * chunks

    @property
    def groups(self) -> int:
        """Threads along the last dimension."""
        return self.sizes[-1] // self.width

    @property
    def blocks(self) -> int:
        return ceil_div(self.threads, THREADS)

    # Strides in scratch memory, in elements.

    @property
    def packed_strides(self) -> tuple[int, ...]:
        """Strides of the spatial dimensions."""
        padded = self.padded
        return tuple(math.prod(padded[i + 1 :]) * self.channels for i in range(len(padded)))

    @property
    def packed_batch(self) -> int:
        return math.prod(self.padded) * self.channels


def emit_packing(packings: Sequence[Packing], tensors: Tensors) -> None:
    """Emits the function's body: work-groups of the first operand, then those of the next."""
    inputs, outputs = tensors.inputs, tensors.outputs
    thread, block = thread_number(THREADS), block_number("x", sum(p.blocks for p in packings))
    emit_packings(packings, inputs, outputs, (thread, block), len(packings) == 1)


def emit_packings(
    packings: Sequence[Packing],
    inputs: Mapping[int, ir.Value],
    outputs: Sequence[ir.Value],
    place: tuple[Index, Index],
    alone: bool,
) -> None:
    """Emits the work of the operands' work-groups.

    place: the numbers of the thread, and of the work-group among theirs. alone: whether there are
    no other work-groups.
    """
    thread, block = place
    first = 0
    for packing, output in zip(packings, outputs, strict=True):
        here = emit.sub(block, first)
        first += packing.blocks
        inside: ir.Value | bool = True
        if not alone:
            # Work-groups before the operand's first are negative: large, as unsigned numbers.
            inside = emit.compare("ult", here, packing.blocks)
        number = emit.linear(thread, (here, THREADS))
        emit.when(inside, partial(_move, packing, inputs, output, number))


def _move(
    packing: Packing, inputs: Mapping[int, ir.Value], target: ir.Value, number: Index
) -> None:
    """Emits the work of thread `number` of an operand."""
    chunk, size = packing.chunk, emit.element_bytes(packing.element)
    chunks, width, padded = packing.channels // chunk, packing.width, packing.padded
    mine = emit.compare("ult", number, packing.threads)
    near = packing.near or chunks
    which, rest = emit.rem(number, near), emit.div(number, near)
    group, rest = emit.rem(rest, packing.groups), emit.div(rest, packing.groups)
    if near != chunks:
        far, rest = emit.rem(rest, chunks // near), emit.div(rest, chunks // near)
        which = emit.linear(which, (far, near))
    channel = emit.mul(which, chunk)

    column = emit.mul(group, width)
    tensors = packing.tensors
    places = [emit.add(x.offset, emit.mul(column, x.strides[-1])) for x in tensors]
    to = emit.add(channel, emit.mul(column, packing.channels))
    inside = [mine]
    for d in reversed(range(len(padded) - 1)):
        at, rest = emit.rem(rest, padded[d]), emit.div(rest, padded[d])
        here = emit.sub(at, packing.before[d])
        if padded[d] != packing.sizes[d]:
            inside.append(emit.compare("ult", here, packing.sizes[d]))
        places = [
            emit.add(place, emit.mul(here, x.strides[d]))
            for x, place in zip(tensors, places, strict=True)
        ]
        to = emit.add(to, emit.mul(at, packing.packed_strides[d]))
    places = [
        emit.add(place, x.batch.offset(rest)) for x, place in zip(tensors, places, strict=True)
    ]
    to = emit.add(to, emit.mul(rest, packing.packed_batch))

    values = []
    for i in range(chunk):
        c = emit.add(channel, i)
        conditions = list(inside)
        if packing.channels != packing.channel.size:
            conditions.append(emit.compare("slt", c, packing.channel.size))
        read = []
        for x, place in zip(tensors, places, strict=True):
            at = emit.add(place, x.channel.offset(c))
            at = memory.guarded(at, conditions, emit.element_bytes(x.element))
            read.append(_pixels(inputs[x.argument], at, width, x.strides[-1] == 0))
        value = compute(packing.computed, read) if packing.computed else read[0]
        # Reads of what is outside give zeros.
        if packing.computed or packing.fill:
            value = _or_fill(packing, value, conditions[1:])
        values.append(value)

    def put(x: ir.Value, pixel: int, conditions: Sequence[ir.Value]) -> None:
        at = emit.add(to, pixel * packing.channels)
        memory.store(x, target, memory.guarded(at, conditions, size))

    before, after = packing.before[-1], packing.after[-1]
    for pixel in range(width):
        put(memory.joined([memory.element(x, pixel) for x in values]), before + pixel, [mine])
    fill = emit.constant(packing.fill, packing.element, chunk)
    if before:
        first = [mine, emit.compare("eq", group, 0)]
        for pixel in range(before):
            put(fill, pixel, first)
    if after:
        last = [mine, emit.compare("eq", group, packing.groups - 1)]
        for pixel in range(after):
            put(fill, before + width + pixel, last)


def _pixels(source: ir.Value, place: Index, width: int, equal: bool) -> ir.Value:
    """Neighbouring pixels along a row; `equal`: they are all the same element."""
    if not equal:
        return memory.load(source, place, width)
    return emit.splat(memory.element(memory.load(source, place, 1), 0), width)


def _or_fill(packing: Packing, x: ir.Value, inside: Sequence[ir.Value]) -> ir.Value:
    """Neighbouring pixels; the number around the image unless all of `inside` hold."""
    if not inside:
        return x
    fill = emit.constant(packing.fill, packing.element, packing.width)
    return memory.select(reduce(arith.andi, inside), x, fill)
