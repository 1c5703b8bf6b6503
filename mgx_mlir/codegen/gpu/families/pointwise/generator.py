"""One gpu.func for a pointwise kernel: vectors of elements, one after another in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand, vector_lanes
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled
from mgx_mlir.codegen.gpu.families.pointwise import blocks
from mgx_mlir.codegen.gpu.families.pointwise.cost import choose
from mgx_mlir.codegen.gpu.families.pointwise.match import Elements, match_elements
from mgx_mlir.codegen.gpu.families.pointwise.space import PointwiseSchedule
from mgx_mlir.codegen.gpu.families.pointwise.tiles import emit_tiles
from mgx_mlir.codegen.gpu.families.pointwise.transposed import (
    BLOCK,
    TransposedSchedule,
    transposed_schedule,
)
from mgx_mlir.codegen.gpu.families.rows.evaluate import Chunk, Evaluator
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import ceil_div


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
    used, threads = elements.used, schedule.block
    grid = builder.grid_of(ceil_div(elements.size, schedule.elements))
    with launches.whole(used, threads, grid) as frame:
        thread, number = builder.thread_number(threads), builder.linear_block(grid)
        sources = {number: frame.buffers[position] for position, number in enumerate(used)}
        first = emit.mul(number, schedule.elements)
        first = emit.add(first, emit.mul(thread, schedule.lanes))
        bounded = grid[0] * grid[1] * schedule.elements != elements.size
        emit_elements(elements, schedule, sources, frame.buffers[len(used) :], first, bounded)


def _build_tiles(
    elements: Elements, launches: Launches, schedule: TransposedSchedule, target: Target
) -> None:
    """Adds the function of tiles, a wave's each, to those of `launches`."""
    read = launches.inputs(elements.used)
    count = ceil_div(schedule.waves, BLOCK // target.wave_size)
    with launches.groups(read, launches.results, BLOCK, count) as group:
        thread = builder.thread_number(BLOCK)
        emit_tiles(elements, schedule, group.buffers, thread, group.number, target)


def _build_blocks(elements: Elements, launches: Launches, schedule: PointwiseSchedule) -> None:
    """Adds the function of elements of symbolic sizes to those of `launches`."""
    if schedule.lanes > vector_lanes(elements.size, elements.operands):
        _, elements = blocks.divided_by(elements)
    own, moves = blocks.parts_of(elements, launches, schedule)
    groups = ceil_div(elements.size, schedule.elements)
    with launches.moved(moves, schedule.block, (groups, 1, 1)) as (frame, block):
        own = blocks.at_block(own, emit.mul(block, schedule.elements))
        read = len(moves) - len(own.results)
        sources, outputs = dict(enumerate(frame.buffers[:read])), frame.buffers[read:]
        emit_elements(own, schedule, sources, outputs, blocks.first_of(schedule), False)


def emit_elements(
    elements: Elements,
    schedule: PointwiseSchedule,
    sources: dict[int, ir.Value],
    outputs: Sequence[ir.Value],
    first: Index,
    bounded: bool,
) -> None:
    """Builds the work of a thread from element `first` on.

    `sources` (by an input's number) and `outputs` are raw buffers. bounded: whether elements may
    lie past the last one.
    """
    values = Evaluator(elements, _Layout(schedule.lanes, sources))
    chunks = []
    for number in range(schedule.times):
        offset = emit.add(first, number * schedule.block * schedule.lanes)
        inside = emit.compare("slt", offset, elements.size) if bounded else None
        chunks.append(Chunk(offset, inside))
    # All reads go first: they are in flight together, and results may overwrite the inputs.
    for chunk in chunks:
        for value, source in elements.sources.items():
            if isinstance(source, MemoryOperand) and elements.is_whole(value):
                values.whole(value, chunk)
    for chunk in chunks:
        guards = [chunk.inside] if chunk.inside is not None else []
        for result in elements.results:
            x = values.whole(result.value, chunk)
            operand = elements.operand_of(result)
            operand.store(x, outputs[result.number], operand.start(0), chunk.column, guards)


@dataclass(frozen=True)
class _Layout:
    """Vectors of neighbours, by the number of their first element."""

    lanes: int
    sources: dict[int, ir.Value]

    def load(self, source: MemoryOperand, chunk: Chunk) -> ir.Value:
        # Elements after the last one are read as zero, or their values are not used.
        buffer = self.sources[source.argument]
        return source.load(buffer, source.start(0), chunk.column, self.lanes, [])

    def load_row(self, source: MemoryOperand) -> ir.Value:
        return source.load_one(self.sources[source.argument], source.start(0))

    def of_row(self, value: ir.Value) -> ir.Value:
        return value

    def repeated(self, value: ir.Value) -> ir.Value:
        return emit.splat(value, self.lanes)

    def columns_of(self, chunk: Chunk) -> ir.Value:
        raise AssertionError("only reductions ask for indices")


def _launches(kernel: mgx.KernelOp, elements: Elements) -> Launches:
    return Launches(kernel, elements.overwritable, inputs_first=True)


pointwise_program = Scheduled[Elements, PointwiseSchedule | TransposedSchedule](
    match_elements, best, build, blocks.regimes, _launches
)
FAMILY = Family("pointwise", 60, pointwise_program, symbolic=True)
