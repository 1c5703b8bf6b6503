"""The functions of a kernel of moves, and of pointwise work beside them: each work-group has a
piece of one of the parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.launches import BLOCK, Launches
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand, vector_lanes
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled, inputs_in_front
from mgx_mlir.codegen.gpu.families.moves.match import (
    Copy,
    Gather,
    Move,
    Moves,
    Pad,
    Part,
    match_moves,
)
from mgx_mlir.codegen.gpu.families.pointwise.generator import emit_elements
from mgx_mlir.codegen.gpu.families.pointwise.match import Elements, PointwiseSchedule
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import BOOL
from mgx_mlir.codegen.meaning.pointwise import number
from mgx_mlir.sizes.arithmetic import ceil_div, common_factor

# The most parts of a concat in one function: more take longer to tell apart than to copy.
MAX_PARTS = 16
# The most elements that a thread has in flight, of all operands of pointwise work together.
_IN_FLIGHT = 128
_CHOSEN = 4  # elements, each with its own index, that a thread takes at a time


@dataclass(frozen=True)
class MoveSchedule:
    """Vectors of `lanes` elements, by part; a thread takes `times` of them."""

    lanes: tuple[int, ...]
    times: int

    def describe(self) -> str:
        widths = ", ".join(map(str, dict.fromkeys(self.lanes)))
        return f"{widths} elements at a time, {self.times} times"


def choose(moves: Moves, target: Target) -> MoveSchedule:
    """The widest vectors that no part cuts; several for a thread where there are many copies."""
    lanes = tuple(lanes_of(part) for part in moves.parts)
    if not moves.is_one:
        return MoveSchedule(lanes, 1)
    vectors = sum(part.size // n for part, n in zip(moves.parts, lanes, strict=True))
    if not isinstance(vectors, int):
        return MoveSchedule(lanes, 1)
    times = next((n for n in (4, 2) if vectors >= 8 * target.compute_units * BLOCK * n), 1)
    return MoveSchedule(lanes, times)


def lanes_of(part: Part) -> int:
    """Elements of a vector: neighbours that are either all copied, or all padding."""
    if isinstance(part, Elements):
        lanes = vector_lanes(part.size, part.operands)
        lanes = min([lanes, *(r.part.width(lanes) for r in part.results if r.part is not None)])
        while lanes > 1 and lanes * len(part.operands) > _IN_FLIGHT:
            lanes //= 2
        return lanes
    if isinstance(part, Gather):
        if part.run == 1:
            lanes = min(_CHOSEN, vector_lanes(part.size, [part.target]))
        else:
            lanes = vector_lanes(part.run, [part.source, part.target])
        return part.target.width(lanes)
    if isinstance(part, Pad):
        last = part.spans[-1] if part.spans else None
        edges = math.gcd(*map(common_factor, (last.size, last.low, last.inside))) if last else 1
        return vector_lanes(edges, [part.source, part.target])
    # Where a source's neighbours lie apart, a vector of results still is one access.
    read = [part.source] if isinstance(part.source, MemoryOperand) else []
    lanes = vector_lanes(part.size, [*read, part.target])
    return part.target.width(lanes)


def build(moves: Moves, launches: Launches, schedule: MoveSchedule, _target: Target) -> None:
    """Adds the functions, each of some parts, to those of `launches`."""
    most = MAX_PARTS if moves.is_one else len(moves.parts)
    for first in range(0, len(moves.parts), most):
        some = slice(first, first + most)
        parts = list(zip(moves.parts[some], schedule.lanes[some], strict=True))
        _function(launches, parts, schedule.times)


def _function(launches: Launches, parts: Sequence[tuple[Part, int]], times: int) -> None:
    """A function of some parts, each with the number of elements of its vectors."""
    read = launches.inputs(sorted({number for part, _ in parts for number in _read(part)}))
    counts = [ceil_div(part.size, lanes * BLOCK * times) for part, lanes in parts]
    with launches.groups(read, launches.results, BLOCK, sum(counts)) as group:

        def work(part: Part, lanes: int) -> Callable[[Index], None]:
            return lambda block: _emit(part, lanes, times, block, group.buffers)

        beside(group.number, counts, [work(*pair) for pair in parts])


def beside(here: Index, counts: Sequence[int], works: Sequence[Callable[[Index], None]]) -> None:
    """Builds works beside each other, each in so many work-groups, whose own number it is given.

    here: the work-group's number among those of all works.
    """
    end = 0
    for work, count in zip(works, counts, strict=True):
        start, end = end, end + count
        block = emit.sub(here, start)
        if len(works) == 1:
            work(block)
            continue
        mine = arith.andi(emit.compare("sge", here, start), emit.compare("slt", here, end))
        emit.when(mine, partial(work, block))


def _read(part: Part) -> list[int]:
    """The numbers of the inputs that a part reads."""
    if isinstance(part, Elements):
        return part.used
    if isinstance(part, Gather):
        places = [c.indices.argument for c in part.places.coordinates]
        return [part.source.argument, *places]
    return [part.source.argument] if isinstance(part.source, MemoryOperand) else []


def _emit(
    part: Part, lanes: int, times: int, block: Index, buffers: Mapping[Argument, ir.Value]
) -> None:
    """Builds the work of a thread on a part; `block` is its work-group's number within the part."""
    first = emit.add(emit.mul(block, BLOCK * times), builder.thread_number(BLOCK))
    bounded = part.size % (lanes * BLOCK * times) != 0
    if isinstance(part, Elements):
        own = PointwiseSchedule(BLOCK, lanes, 1)
        emit_elements(part, own, buffers, emit.mul(first, lanes), bounded)
        return
    output, vectors = buffers[Argument("output", part.target.argument)], []
    for n in range(times):
        offset = emit.mul(emit.add(first, n * BLOCK), lanes)
        inside = [emit.compare("slt", offset, part.size)] if bounded else []
        x = _value(part, _Vector(offset, lanes, inside, buffers))
        vectors.append((x, offset, inside))
    for x, offset, inside in vectors:
        part.target.store(x, output, part.target.start(0), offset, inside)


@dataclass(frozen=True)
class _Vector:
    """The elements offset .. offset + lanes of a part's result."""

    offset: Index
    lanes: int
    inside: Sequence[ir.Value]
    buffers: Mapping[Argument, ir.Value]

    def buffer(self, number: int) -> ir.Value:
        """The buffer of an input."""
        return self.buffers[Argument("input", number)]


def _value(part: Move, own: _Vector) -> ir.Value:
    source = part.source
    if not isinstance(source, MemoryOperand):
        return emit.attribute_constant(source, own.lanes)
    buffer = own.buffer(source.argument)
    if isinstance(part, Copy):
        x = source.load(buffer, source.start(0), own.offset, own.lanes, own.inside)
        return emit.convert(x, source.element.name, part.target.element.name)
    if isinstance(part, Gather):
        return _gathered(part, own)
    return _padded(part, own)


def _gathered(part: Gather, own: _Vector) -> ir.Value:
    offset, lanes = own.offset, own.lanes
    point, along = emit.div(offset, part.run), emit.rem(offset, part.run)
    indices, source = own.buffer(part.places.argument), part.source
    count = lanes if part.run == 1 else 1
    found = []
    for number_ in range(count):
        start = source.start(part.places.slot(indices, emit.add(point, number_)))
        buffer = own.buffer(source.argument)
        x = source.load(buffer, start, along, lanes // count, own.inside)
        found += [x] if count == 1 else [memory.element(x, 0)]
    return found[0] if count == 1 else memory.joined(found)


def _padded(part: Pad, own: _Vector) -> ir.Value:
    conditions = list(own.inside)
    start: Index = part.source.offset
    along: Index = 0
    rest = own.offset
    for position, span in reversed(list(enumerate(part.spans))):
        index = rest if position == 0 else emit.rem(rest, span.size)
        rest = emit.div(rest, span.size)
        index = emit.sub(index, span.low)
        if span.padded:
            # As unsigned numbers, negative indices exceed any size.
            limit = emit.value(span.inside)
            conditions.append(arith.cmpi(arith.CmpIPredicate.ult, emit.value(index), limit))
        if position == len(part.spans) - 1:
            along = index
        else:
            start = emit.add(start, span.axis.offset(index))
    buffer = own.buffer(part.source.argument)
    x = part.source.load(buffer, start, along, own.lanes, conditions)
    padding = conditions[len(own.inside) :]
    if not padding or (part.value == 0 and part.source.element.kind != BOOL):
        return x  # reads outside give 0
    other = emit.splat(number(Arithmetic(), part.source.element, part.value), own.lanes)
    return arith.select(reduce(arith.andi, padding), x, other)


_program = Scheduled(match_moves, choose, build, launches=inputs_in_front, together=False)
FAMILY = Family("moves", 70, _program, symbolic=True)
