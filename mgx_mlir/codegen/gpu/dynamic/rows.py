"""Reductions of dynamic rows: the generator's function for the rows of one work-group."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.function import (
    MAX_THREADS,
    block_number,
    element_bytes,
    thread_number,
)
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.open_rows import open_rows_program
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
from mgx_mlir.sizes.arithmetic import Number, Size

UNEVEN = Refusal("rows that are not evenly apart in memory")


def _program(
    kernel: mgx.KernelOp, rows: Rows, target: Target
) -> Generated[DynamicProgram] | Refusal:
    even = _of_even_rows(kernel, rows, target)
    if not isinstance(even, Refusal):
        return even
    found = open_rows_program(kernel, rows, target)
    return Refusal(f"{even}; {found}") if isinstance(found, Refusal) else found


def _of_even_rows(
    kernel: mgx.KernelOp, rows: Rows, target: Target
) -> Generated[DynamicProgram] | Refusal:
    """The program of rows of static length that are evenly apart: a work-group has several."""
    if isinstance(rows.columns, Size):
        return Refusal("the length of its rows is an argument")
    rows, whole = _with_whole(rows)
    steps, columns = steps_of(rows, whole), columns_of(rows)
    if steps is None or columns is None:
        return UNEVEN
    moved = {number: step for number, step in steps.items() if step}
    blocks = RowBlocks(kernel, rows.rows, tuple(rows.used), moved, columns, whole)
    if refusal := blocks.refusal():
        return refusal
    usual = with_count(rows, USUAL_ROWS)
    schedule = choose(usual, target, whole=True)
    if schedule is None:
        return Refusal(f"no schedule fits {target.name}")
    widest = max(element_bytes(operand.element) for operand in rows.operands)
    if max([*columns, *steps.values()]) * schedule.together * widest > MAX_BYTES:
        return Refusal("places in a row that 31 bits do not reach")
    words = f"any number of rows, {schedule.describe()}"
    return Generated(_generate(blocks, rows, schedule, target), words)


def steps_of(rows: Rows, whole: Collection[int] = ()) -> dict[int, int] | None:
    """Elements from row to row of each input but those of `whole`; None where these vary."""
    steps: dict[int, int] = {}
    for source in rows.sources.values():
        if isinstance(source, MemoryOperand) and source.argument not in whole:
            step = source.outer.stride
            if step is None or isinstance(step, Size) or isinstance(source.offset, Size):
                return None
            if step < 0 or steps.setdefault(source.argument, step) != step:
                return None
    return steps


def columns_of(rows: Rows) -> tuple[int, ...] | None:
    """Elements from row to row of each result, in order; None where these vary."""
    found = {result.operand.argument: result.operand.outer.stride for result in rows.results}
    columns = [found[number] for number in sorted(found)]
    return None if None in columns else tuple(size or 0 for size in columns)


def _generate(
    blocks: RowBlocks, rows: Rows, schedule: RowSchedule, target: Target
) -> DynamicProgram:
    own = with_count(rows, schedule.together)
    reductions = [Reduction(op) for op in own.reductions]
    lds = lds_arrays(schedule, reductions, target)
    with blocks.function(schedule.together, schedule.block, lds=lds) as (made, frame):
        numbers = {number: position for position, number in enumerate(blocks.used)}
        layout = Along(own, schedule, target, frame, numbers)
        layout.begin(thread_number(schedule.block), 0)
        RowsBody(own, schedule, layout, reductions, bounded=False).emit()
    return made.program()


@dataclass(frozen=True)
class _Whole(MemoryOperand):
    """An operand whose rows have no step, as other rows repeat them: offsets are from its start.

    first: rows of a work-group.
    """

    first: int = 0

    def start(self, outer: Index) -> Index:
        before = emit.mul(block_number("x", MAX_THREADS), self.first)
        return super().start(emit.add(before, outer))


def _with_whole(rows: Rows) -> tuple[Rows, dict[int, Number]]:
    """The rows with operands that have no step as `_Whole`, and the bytes that these span."""
    found: dict[int, Number] = {}
    sources = dict(rows.sources)
    for value, x in rows.sources.items():
        if isinstance(x, MemoryOperand) and x.outer.stride is None:
            strides = [stride for axis in (x.outer, x.inner) for _, stride in axis.factors]
            if any(isinstance(n, Size) or n < 0 for n in (x.offset, *strides)):
                continue
            span: Number = x.offset
            for axis in (x.outer, x.inner):
                for count, stride in axis.factors:
                    span = span + count * stride
            found[x.argument] = span * element_bytes(x.element)
            sources[value] = _Whole(x.argument, x.element, x.offset, x.outer, x.inner)
    mixed = [
        x
        for x in sources.values()
        if isinstance(x, MemoryOperand) and x.argument in found and not isinstance(x, _Whole)
    ]
    return (rows, {}) if mixed else (replace(rows, sources=sources), found)


def with_count(rows: Rows, count: int) -> Rows:
    """The same kernel with `count` rows."""

    def counted(x: MemoryOperand) -> MemoryOperand:
        if isinstance(x, _Whole):
            return replace(x, first=count)
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
