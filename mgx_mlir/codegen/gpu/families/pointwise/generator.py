"""The functions of a pointwise kernel: vectors of elements, or tiles of transposed ones.

    tensor<?x64xf16, #mgx.dims<[rows, _]>>

Of elements of symbolic sizes, pointers advance to those of a work-group in 64 bits where these are
neighbours, and raw buffers end with the last one. Other operands are whole, and an element's number
has 31 bits then. Where vectors divide the sizes of a run, functions for such sizes have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.function import thread_number
from mgx_mlir.codegen.gpu.builders.launches import Launches, numbered
from mgx_mlir.codegen.gpu.builders.operands import Divided, MemoryOperand, vector_lanes
from mgx_mlir.codegen.gpu.builders.pointers import Move, reach
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled
from mgx_mlir.codegen.gpu.families.pointwise.match import (
    Elements,
    PointwiseSchedule,
    choose,
    clocks,
    match_elements,
)
from mgx_mlir.codegen.gpu.families.pointwise.transposed import (
    BLOCK,
    TransposedSchedule,
    emit_tiles,
    evaluate,
    transposed_regimes,
    transposed_schedule,
)
from mgx_mlir.codegen.gpu.families.rows.evaluate import Chunk, Layout
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.codegen.regimes import counted, scheduled
from mgx_mlir.dialects import mgx
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


def best(elements: Elements, target: Target) -> PointwiseSchedule | TransposedSchedule:
    """Tiles where an operand is transposed, else vectors by the cost model."""
    return transposed_schedule(elements, target) or choose(elements, target)


def build(
    elements: Elements,
    launches: Launches,
    schedule: PointwiseSchedule | TransposedSchedule,
    target: Target,
) -> None:
    """Adds the function to those of `launches`."""
    if isinstance(schedule, TransposedSchedule):
        _build_tiles(elements, launches, schedule, target)
        return
    if elements.size == 1:
        # All threads read and write a single element: one wave is safe.
        schedule = replace(schedule, block=target.wave_size)
    if launches.is_symbolic:
        _build_blocks(elements, launches, schedule)
        return
    read, count = launches.inputs(elements.used), ceil_div(elements.size, schedule.elements)
    with launches.groups(read, launches.results, schedule.block, count) as group:
        first = emit.mul(group.number, schedule.elements)
        first = emit.add(first, emit.mul(thread_number(schedule.block), schedule.lanes))
        bounded = bool(group.inside) or count * schedule.elements != elements.size
        emit_elements(elements, schedule, group.buffers, first, bounded)


def _build_tiles(
    elements: Elements, launches: Launches, schedule: TransposedSchedule, target: Target
) -> None:
    """Adds the function of tiles, a wave's each, to those of `launches`."""
    read = launches.inputs(elements.used)
    count = ceil_div(schedule.waves, BLOCK // target.wave_size)
    with launches.groups(read, launches.results, BLOCK, count) as group:
        emit_tiles(elements, schedule, group.buffers, thread_number(BLOCK), group.number, target)


def _build_blocks(elements: Elements, launches: Launches, schedule: PointwiseSchedule) -> None:
    """Adds the function of elements of symbolic sizes to those of `launches`."""
    if schedule.lanes > vector_lanes(elements.size, elements.operands):
        _, elements = divided_by(elements)
    own, moves = parts_of(elements, launches, schedule)
    groups = ceil_div(elements.size, schedule.elements)
    with launches.moved(moves, schedule.block, (groups, 1, 1)) as (frame, block):
        number = emit.mul(block, schedule.elements)
        placed = {
            value: replace(x, first=number) if isinstance(x, _Whole) else x
            for value, x in own.sources.items()
        }
        own = replace(own, sources=placed)
        buffers = numbered(frame.buffers, len(moves) - len(own.results))
        first = emit.mul(thread_number(schedule.block), schedule.lanes)
        emit_elements(own, schedule, buffers, first, False)


def emit_elements(
    elements: Elements,
    schedule: PointwiseSchedule,
    buffers: Mapping[Argument, ir.Value],
    first: Index,
    bounded: bool,
) -> None:
    """Builds the work of a thread from element `first` on; bounded: whether elements may lie past
    the last one."""
    chunks = []
    for number in range(schedule.times):
        offset = emit.add(first, number * schedule.block * schedule.lanes)
        inside = emit.compare("slt", offset, elements.size) if bounded else None
        chunks.append(Chunk(offset, inside))

    def store(operand: MemoryOperand, number: int, chunk: Chunk, x: ir.Value) -> None:
        guards = [chunk.inside] if chunk.inside is not None else []
        output = buffers[Argument("output", number)]
        operand.store(x, output, operand.start(0), chunk.column, guards)

    evaluate(elements, _Layout(schedule.lanes, buffers), chunks, store)


@dataclass(frozen=True)
class _Layout(Layout):
    """Vectors of neighbours, by the number of their first element."""

    lanes: int
    buffers: Mapping[Argument, ir.Value]

    def load(self, source: MemoryOperand, chunk: Chunk) -> ir.Value:
        # Elements after the last one are read as zero, or their values are not used.
        buffer = self.source(source)
        return source.load(buffer, source.start(0), chunk.column, self.lanes, [])


def _launches(kernel: mgx.KernelOp, elements: Elements) -> Launches:
    return Launches(kernel, elements.overwritable, inputs_first=True)


pointwise_program = Scheduled[Elements, PointwiseSchedule | TransposedSchedule](
    match_elements, best, build, regimes, _launches
)
FAMILY = Family("pointwise", 60, pointwise_program, symbolic=True)
