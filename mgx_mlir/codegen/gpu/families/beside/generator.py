"""The function of independent works: each work-group has a piece of one of the parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders.launches import BLOCK, Launches
from mgx_mlir.codegen.gpu.builders.operands import vector_lanes
from mgx_mlir.codegen.gpu.families.beside.match import Beside, Part, match_beside
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled, inputs_in_front
from mgx_mlir.codegen.gpu.families.moves.generator import (
    beside,
    blocks_of,
    emit_part,
    inputs_of,
    lanes_of,
)
from mgx_mlir.codegen.gpu.families.pointwise.generator import emit_elements
from mgx_mlir.codegen.gpu.families.pointwise.match import Elements
from mgx_mlir.codegen.gpu.families.pointwise.space import PointwiseSchedule
from mgx_mlir.sizes.arithmetic import ceil_div

# The most elements that a thread has in flight, of all operands of a part together.
_IN_FLIGHT = 128


@dataclass(frozen=True)
class BesideSchedule:
    """Vectors of `lanes` elements, by part; a thread takes one."""

    lanes: tuple[int, ...]

    def describe(self) -> str:
        """The schedule in words."""
        return f"{len(self.lanes)} parts, {', '.join(map(str, self.lanes))} elements at a time"


def choose(problem: Beside, _target: Target) -> BesideSchedule:
    """The widest vectors that no part cuts."""
    return BesideSchedule(tuple(map(_lanes_of, problem.parts)))


def _lanes_of(part: Part) -> int:
    if not isinstance(part, Elements):
        return lanes_of(part)
    lanes = vector_lanes(part.size, part.operands)
    lanes = min([lanes, *(r.part.width(lanes) for r in part.results if r.part is not None)])
    while lanes > 1 and lanes * len(part.operands) > _IN_FLIGHT:
        lanes //= 2
    return lanes


def build(problem: Beside, launches: Launches, schedule: BesideSchedule, _target: Target) -> None:
    """Adds the function to those of `launches`."""
    read, count = launches.inputs(inputs_of_parts(problem)), sum(counts_of(problem, schedule))
    with launches.groups(read, launches.results, BLOCK, count) as group:
        sources = {a.index: group.buffers[a] for a in read}
        outputs = [group.buffers[a] for a in launches.results]
        emit_parts(problem, schedule, group.number, sources, outputs)


def inputs_of_parts(problem: Beside) -> list[int]:
    """The numbers of the inputs that parts read."""
    moves = [(part, 1) for part in problem.parts if not isinstance(part, Elements)]
    elements = [part for part in problem.parts if isinstance(part, Elements)]
    return sorted({*inputs_of(moves), *(number for part in elements for number in part.used)})


def counts_of(problem: Beside, schedule: BesideSchedule) -> list[int]:
    """The work-groups of each part."""
    pairs = zip(problem.parts, schedule.lanes, strict=True)
    return [
        ceil_div(part.size, lanes * BLOCK)
        if isinstance(part, Elements)
        else blocks_of([(part, lanes)], 1)[0]
        for part, lanes in pairs
    ]


def emit_parts(
    problem: Beside,
    schedule: BesideSchedule,
    here: Index,
    sources: dict[int, ir.Value],
    outputs: Sequence[ir.Value],
) -> None:
    """Builds the work of a thread in work-group number `here`.

    Raw buffers: `sources` of the inputs, by number, and `outputs` of all results.
    """

    def work(part: Part, lanes: int) -> Callable[[Index], None]:
        def body(block: Index) -> None:
            if not isinstance(part, Elements):
                emit_part(part, lanes, 1, block, sources, outputs[part.target.argument])
                return
            own = PointwiseSchedule(BLOCK, lanes, 1)
            first = emit.add(emit.mul(block, BLOCK), builder.thread_number(BLOCK))
            first = emit.mul(first, lanes)
            emit_elements(part, own, sources, outputs, first, part.size % own.elements != 0)

        return body

    works = [work(*pair) for pair in zip(problem.parts, schedule.lanes, strict=True)]
    beside(here, counts_of(problem, schedule), works)


_program = Scheduled(match_beside, choose, build, launches=inputs_in_front)
FAMILY = Family("beside", 80, _program, symbolic=True)
