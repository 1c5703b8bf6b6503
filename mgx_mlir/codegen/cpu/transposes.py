"""Copies between two orders of memory, as squares of vectors transposed in registers.

A loop over elements would read or write with a stride: one element from each cache line.
"""

from __future__ import annotations

from math import prod

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.pack import transpose
from mgx_mlir.codegen.generic.buffers import emission
from mgx_mlir.codegen.generic.buffers.body import BufferBody
from mgx_mlir.codegen.generic.buffers.loops import Nest
from mgx_mlir.codegen.generic.buffers.memory import Piece
from mgx_mlir.sizes.arithmetic import ceil_div

# The size of a square: a cache line of 32-bit elements.
SIDE = 16


def crossed_group(nest: Nest) -> int | None:
    """The parallel group along which a copy reads contiguous elements but does not write them so.

    None unless the nest is such a copy of 32-bit elements in squares.
    """
    if nest.reduction or len(nest.parallel) < 2 or len(nest.operands) != 2:
        return None
    source, target = nest.operands
    if source.view is None or target.view is None or source.form.rest or target.form.rest:
        return None
    if source.view.piece.bytes != 4 * source.view.piece.elements or not is_copy(nest):
        return None
    *slower, last = nest.parallel
    if target.form.coefficient(last.dims[-1]) != 1 or last.size < SIDE:
        return None
    for number, group in enumerate(slower):
        if source.form.coefficient(group.dims[-1]) == 1 and group.size >= SIDE:
            return number
    return None


def is_copy(nest: Nest) -> bool:
    """Whether a nest stores exactly what it reads, in any order."""
    if nest.body is None:
        return True
    first = next(iter(nest.body.operations)).operation
    return bool(first.name == "linalg.yield" and first.operands[0] == nest.body.arguments[0])


def copy_items(nest: Nest, crossed: int) -> int:
    """Work items of a copy: stripes of `SIDE` elements of the crossed group."""
    others = prod(g.size for n, g in enumerate(nest.parallel[:-1]) if n != crossed)
    return others * ceil_div(nest.parallel[crossed].size, SIDE)


def build_copy(body: BufferBody, nest: Nest, crossed: int, begin: ir.Value, end: ir.Value) -> None:
    """Builds the work items begin .. end. The last square of a row overlaps the previous one."""
    across, along = nest.parallel[crossed], nest.parallel[-1]
    others = [g for n, g in enumerate(nest.parallel[:-1]) if n != crossed]
    stripes = ceil_div(across.size, SIDE)
    source, target = nest.operands
    read = source.form.coefficient(along.dims[-1])
    write = target.form.coefficient(across.dims[-1])
    assert source.view is not None and target.view is not None
    have, want = pointer(body, source.view.piece), pointer(body, target.view.piece)

    def item(number: Index) -> None:
        dims: list[Index] = [0] * len(nest.sizes)
        offsets = emission.start(body, nest)
        rest = emit.div(number, stripes)
        for position, group in reversed(list(enumerate(others))):
            here = rest if position == 0 else emit.rem(rest, group.size)
            offsets = emission.bind(body, nest, group, here, offsets, dims)
            rest = emit.div(rest, group.size)
        i = emit.minimum(emit.mul(emit.rem(number, stripes), SIDE), across.size - SIDE)

        def square(start: Index) -> None:
            j = emit.minimum(start, along.size - SIDE)
            first = emit.linear(emit.add(offsets[0], i), (j, read))
            rows = [
                emit.load_vector(have, emit.add(first, lane * read), SIDE) for lane in range(SIDE)
            ]
            first = emit.linear(emit.add(offsets[1], j), (i, write))
            for lane, x in enumerate(transpose(rows)):
                emit.store_vector(x, want, emit.add(first, lane * write))

        emit.loop(0, along.size, SIDE, square)

    emit.loop(begin, end, 1, item)


def pointer(body: BufferBody, piece: Piece) -> ir.Value:
    """The memref of a piece of memory in the function under construction."""
    return body._pointer(piece)
