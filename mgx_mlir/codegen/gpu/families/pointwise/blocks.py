"""Elements of symbolic sizes: a work-group's elements.

    tensor<?x64xf16, #mgx.dims<[rows, _]>>

Pointers advance to the elements of a work-group in 64 bits where these are neighbours, and raw
buffers end with the last one. Other operands are whole, and an element's number has 31 bits then.
Where vectors divide the sizes of a run, functions for such sizes have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.function import thread_number
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.builders.operands import Divided, MemoryOperand, vector_lanes
from mgx_mlir.codegen.gpu.builders.pointers import Move, reach
from mgx_mlir.codegen.gpu.families.pointwise.cost import choose, clocks
from mgx_mlir.codegen.gpu.families.pointwise.match import Elements
from mgx_mlir.codegen.gpu.families.pointwise.space import PointwiseSchedule
from mgx_mlir.codegen.gpu.families.pointwise.transposed import (
    TransposedSchedule,
    transposed_regimes,
)
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.codegen.regimes import counted, scheduled
from mgx_mlir.sizes.arithmetic import Number, ceil_div

# Numbers of elements up to an end, and the one that schedules are chosen for.
_RANGES = ((1 << 18, 1 << 15), (1 << 21, 1 << 20), (float("inf"), 1 << 23))


def regimes(
    elements: Elements, target: Target
) -> Sequence[tuple[Number, PointwiseSchedule | TransposedSchedule]] | Refusal:
    """The schedules of elements of symbolic sizes, each with its launches in a run."""
    if not all(operand.forwards for operand in elements.operands):
        return Refusal("elements that are read backwards")
    if tiles := transposed_regimes(elements, target):
        return tiles
    divided, own = divided_by(elements)
    odd = divided.odd if divided.rests else 0
    found: list[tuple[Number, PointwiseSchedule]] = []
    for problem, share in ((elements, odd), (own, 1 - odd)):
        if share == 0:
            continue
        lanes = vector_lanes(problem.size, problem.operands)

        def best(count: int, some: Elements = problem, lanes: int = lanes) -> PointwiseSchedule:
            return choose(replace(some, size=count - count % lanes), target, lanes)

        def time(schedule: PointwiseSchedule, count: int, some: Elements = problem) -> float:
            return clocks(replace(some, size=count), schedule, target)

        ways = scheduled(counted(problem.size, _RANGES), best, time)
        if isinstance(ways, Refusal):
            return ways
        found += [(share * way.share, schedule) for schedule, way in ways]
    return found


def divided_by(elements: Elements) -> tuple[Divided, Elements]:
    """The elements of sizes that vectors divide, and the condition for it."""
    divided = Divided.of(elements.operands)
    size = divided.number(elements.size)
    sources = {
        value: divided.operand(x)
        if isinstance(x, MemoryOperand) and elements.is_whole(value)
        else x
        for value, x in elements.sources.items()
    }
    return divided, replace(elements, size=size, sources=sources)


@dataclass(frozen=True)
class _Whole(MemoryOperand):
    """An operand whose offsets are from its start; `first`: the work-group's first element."""

    first: Index = 0

    def offset_of(self, start: Index, inner: Index) -> Index:
        return super().offset_of(start, emit.add(self.first, inner))


def parts_of(
    elements: Elements, launches: Launches, schedule: PointwiseSchedule
) -> tuple[Elements, list[Move]]:
    """The elements with the tensors of a work-group, and these.

    Arguments of sources are the numbers of the tensors, those of results come after them.
    """
    count, moves = schedule.elements, list[Move]()
    neighbours = Axis.of((elements.size, 1)).factors
    groups = ceil_div(elements.size, count)

    def move(x: MemoryOperand, argument: Argument) -> bool:
        whole = launches.whole_tensor(argument)
        is_part = x.inner.factors == neighbours and x.offset == 0
        if is_part:
            whole = replace(whole, parts=Axis(((groups, count),)), reach=count)
        else:
            whole = replace(whole, reach=x.offset + reach(x.inner))
            launches.limit(MAX_BYTES - elements.size)
        moves.append(whole)
        return is_part

    sources = dict(elements.sources)
    for value, x in elements.sources.items():
        if isinstance(x, MemoryOperand):
            number = len(moves)
            if move(x, Argument("input", x.argument)):
                sources[value] = replace(x, argument=number)
            else:
                sources[value] = _Whole(number, x.element, x.offset, x.outer, x.inner)
    for result in elements.results:
        move(elements.operand_of(result), Argument("output", result.number))
    return replace(elements, sources=sources, overwritable=frozenset()), moves


def at_block(elements: Elements, first: Index) -> Elements:
    """The elements of a work-group that starts at element `first`."""
    sources = {
        value: replace(x, first=first) if isinstance(x, _Whole) else x
        for value, x in elements.sources.items()
    }
    return replace(elements, sources=sources)


def first_of(schedule: PointwiseSchedule) -> Index:
    """The first element of a thread in its work-group."""
    return emit.mul(thread_number(schedule.block), schedule.lanes)
