"""Products of any number of rows: register tiles over a packed weight, as for a given number.

    %c = mgx.dot %a, %b : tensor<?x64xf32, #mgx.dims<[batch, _]>>, tensor<64x32xf32>

The right operand is packed by a launch of its own. Rows that fill no tile of the schedule's height
go through tiles of fewer rows, so that one row costs as much as it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.contraction import emit_contraction, emit_packing
from mgx_mlir.codegen.cpu.dynamic import Functions
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.pack import by_rows
from mgx_mlir.codegen.cpu.schedule import CpuSchedule, Machine, choose
from mgx_mlir.codegen.generic.dynamic.body import Place
from mgx_mlir.codegen.generic.lowering.index import index_constant
from mgx_mlir.codegen.problem.match import Match, used_arguments
from mgx_mlir.codegen.problem.problem import Matrix
from mgx_mlir.codegen.problem.rows import Rows, match_rows, with_rows
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import ceil_div

# The number of rows that a schedule is chosen for.
USUAL_ROWS = 512


def match_product(kernel: mgx.KernelOp, machine: Machine) -> Rows | None:
    """A kernel as a product of any number of rows with a plain matrix; None for other kernels."""
    anchors = [
        op
        for op in kernel.regions[0].blocks[0].operations
        if isinstance(op, (*mgx.CONTRACTIONS, *mgx.DOTS))
    ]
    if len(anchors) != 1 or not isinstance(anchors[0], mgx.DotOp):
        return None
    found = match_rows(kernel, anchors[0].operation)
    if isinstance(found, Refusal):
        return None
    problem = with_rows(found.match, USUAL_ROWS).problem
    suits = (
        type(problem.b) is Matrix
        and emit.is_float(problem.accumulator)
        and by_rows(problem.a, machine.lanes(problem.accumulator))
    )
    return found if suits else None


def add_product(
    functions: Functions, found: Rows, outputs: Sequence[Place], machine: Machine
) -> None:
    """Adds the functions of a product whose results go to `outputs`."""
    match = with_rows(found.match, USUAL_ROWS)
    problem = match.problem
    schedule = choose(problem, machine)
    assert schedule.shared
    inputs = {
        number: Place(emit.memory_type(element), found.elements[number], Argument("input", number))
        for number, element in used_arguments(match)
    }
    packed = _add_packing(functions, match, schedule, inputs)
    places = [*inputs.values(), *outputs, packed]
    items = schedule.column_blocks(problem) * ceil_div(found.rows, schedule.item_rows)

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        read: Mapping[int, ir.Value] = dict(zip(inputs, pointers, strict=False))
        epilogue = Epilogue(match, read, pointers[len(inputs) : -1])
        a, rows = read[problem.a.argument], index_constant(found.rows)
        emit_contraction(problem, schedule, a, pointers[-1], epilogue, begin, end, rows)

    functions.add_on(places, items, body)


def _add_packing(
    functions: Functions, match: Match, schedule: CpuSchedule, inputs: Mapping[int, Place]
) -> Place:
    """Adds the function that packs the right operand, which runs once where that is a weight."""
    problem = match.problem
    element, size = schedule.packed_element(problem), schedule.packed_size(problem)
    packed = Place(emit.memory_type(element), size)

    def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
        source, target = pointers
        emit_packing(problem, schedule, source, target, begin, end)

    kept = size * emit.element_bytes(element)
    places = [inputs[problem.b.argument], packed]
    functions.add_on(places, schedule.pack_items(problem), body, kept)
    return packed


def replaced(functions: Functions, first: int, number: int, place: Place) -> None:
    """Has the functions from number `first` on read `place` for the kernel's input `number`."""
    argument = Argument("input", number)
    functions.places[first:] = [
        tuple(place if p.argument == argument else p for p in own)
        for own in functions.places[first:]
    ]
