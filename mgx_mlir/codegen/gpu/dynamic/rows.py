"""Reductions of dynamic rows: the generator's function for the rows of one work-group."""

from __future__ import annotations

from dataclasses import replace

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.gpu.builders.function import element_bytes, thread_number
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.dynamic.row_blocks import USUAL_ROWS, RowBlocks, rows_axis
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.gpu.families.rows.body import RowsBody
from mgx_mlir.codegen.gpu.families.rows.cost import choose
from mgx_mlir.codegen.gpu.families.rows.evaluate import Reduction
from mgx_mlir.codegen.gpu.families.rows.layouts import Along, lds_arrays
from mgx_mlir.codegen.gpu.families.rows.match import Rows, match_rows
from mgx_mlir.codegen.gpu.families.rows.space import RowSchedule
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Size

_UNEVEN = Refusal("rows that are not evenly apart in memory")


def _program(
    kernel: mgx.KernelOp, rows: Rows, target: Target
) -> Generated[DynamicProgram] | Refusal:
    if isinstance(rows.columns, Size):
        return Refusal("the length of its rows is an argument")
    steps: dict[int, int] = {}
    for source in rows.sources.values():
        if isinstance(source, MemoryOperand):
            step = source.outer.stride
            if step is None or isinstance(step, Size) or isinstance(source.offset, Size):
                return _UNEVEN
            if step < 0 or steps.setdefault(source.argument, step) != step:
                return _UNEVEN
    if any(result.operand.outer.stride is None for result in rows.results):
        return _UNEVEN
    columns = tuple(result.operand.outer.stride or 0 for result in rows.results)
    moved = {number: step for number, step in steps.items() if step}
    blocks = RowBlocks(kernel, rows.rows, tuple(rows.used), moved, columns)
    if refusal := blocks.refusal():
        return refusal
    usual = _with_rows(rows, USUAL_ROWS)
    schedule = choose(usual, target, whole=True)
    if schedule is None:
        return Refusal(f"no schedule fits {target.name}")
    widest = max(element_bytes(operand.element) for operand in rows.operands)
    if max([*columns, *steps.values()]) * schedule.together * widest > MAX_BYTES:
        return Refusal("places in a row that 31 bits do not reach")
    words = f"any number of rows, {schedule.describe()}"
    return Generated(_generate(blocks, rows, schedule, target), words)


def _generate(
    blocks: RowBlocks, rows: Rows, schedule: RowSchedule, target: Target
) -> DynamicProgram:
    own = _with_rows(rows, schedule.together)
    reductions = [Reduction(op) for op in own.reductions]
    lds = lds_arrays(schedule, reductions, target)
    with blocks.function(schedule.together, schedule.block, lds=lds) as (made, frame):
        numbers = {number: position for position, number in enumerate(blocks.used)}
        layout = Along(own, schedule, target, frame, numbers)
        layout.begin(thread_number(schedule.block), 0)
        RowsBody(own, schedule, layout, reductions, bounded=False).emit()
    return made.program()


def _with_rows(rows: Rows, count: int) -> Rows:
    """The same kernel with `count` rows."""

    def counted(x: MemoryOperand) -> MemoryOperand:
        return replace(x, outer=rows_axis(count, x.outer.stride or 0))

    return replace(
        rows,
        rows=count,
        sources={
            value: counted(x) if isinstance(x, MemoryOperand) else x
            for value, x in rows.sources.items()
        },
        results=tuple(replace(x, operand=counted(x.operand)) for x in rows.results),
    )


FAMILY = Family("rows", 40, Matched(match_rows, _program))
