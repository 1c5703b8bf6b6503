"""Reductions of rows of any length, or of rows that are not evenly apart: a work-group a row.

    %y = mgx.softmax %x axis = 1 : tensor<?x?xf16, #mgx.dims<[rows, columns]>>

Pointers advance to the work-group's row in 64 bits. There are functions for rows that so many
threads keep in their registers, and one that reads longer rows for each reduction. A run launches
one of them: the grids of the others are 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders.function import Tensor
from mgx_mlir.codegen.gpu.builders.launches import MAX_GRID
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.builders.parts import Move, OpenProgram, forwards, one_part, reach
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.rows.body import RowsBody
from mgx_mlir.codegen.gpu.families.rows.constraints import lanes_of, schedule_refusal
from mgx_mlir.codegen.gpu.families.rows.evaluate import Reduction
from mgx_mlir.codegen.gpu.families.rows.layouts import Along, lds_arrays
from mgx_mlir.codegen.gpu.families.rows.match import Rows
from mgx_mlir.codegen.gpu.families.rows.space import MAX_THREADS, RowSchedule
from mgx_mlir.codegen.meaning.element import sizes_of
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, Size, ceil_div, is_more

# Waves of a row's work-group, and elements of a row that a thread keeps; 0: it keeps none.
_CLASSES = ((1, 2), (1, 8), (4, 8), (16, 8), (16, 0))


def open_rows_program(
    kernel: mgx.KernelOp, rows: Rows, target: Target
) -> Generated[DynamicProgram] | Refusal:
    """The program of rows of which nothing needs to be static, and its schedules in words."""
    _, (inputs, results) = builder.signature(kernel)
    if not forwards(*(axis for x in _all(rows) for axis in (x.outer, x.inner))):
        return Refusal("rows that are read backwards")
    elements = [math.prod(sizes_of(type_)) for type_ in inputs]
    moves: list[Move] = []
    sources = dict(rows.sources)
    for value, x in rows.sources.items():
        if isinstance(x, MemoryOperand):
            sources[value] = replace(_one_row(x), argument=len(moves))
            moves.append(_move(x, Argument("input", x.argument), elements[x.argument]))
    read = len(moves)
    for result in rows.results:
        size = math.prod(sizes_of(results[result.operand.argument]))
        argument = Argument("output", result.operand.argument)
        moves.append(_move(result.operand, argument, size))
    own = replace(
        rows,
        rows=1,
        sources=sources,
        results=tuple(replace(x, operand=_one_row(x.operand)) for x in rows.results),
    )
    schedules = list(_schedules(own, target))
    # The number of a column beyond the row's end has 31 bits too.
    limits: list[Number] = [MAX_BYTES // 2 - rows.columns]
    limits += [MAX_GRID - 1 - rows.rows * share * s.block for share, s in schedules]
    program = OpenProgram(kernel, moves, limits)
    if refusal := program.refusal():
        return refusal
    reductions = [Reduction(op) for op in own.reductions]
    for share, schedule in schedules:
        lds = lds_arrays(schedule, reductions, target)
        with program.function(schedule.block, (rows.rows * share, 1, 1), lds) as (frame, _):
            layout = Along(own, schedule, target, frame, {n: n for n in range(read)})
            layout.begin(builder.thread_number(schedule.block), 0)
            RowsBody(own, schedule, layout, reductions, bounded=False).emit()
    words = ", or ".join(schedule.describe() for _, schedule in schedules)
    return Generated(program.program(), f"any number of rows of any length, {words}")


def _all(rows: Rows) -> list[MemoryOperand]:
    read = [x for x in rows.sources.values() if isinstance(x, MemoryOperand)]
    return [*read, *(x.operand for x in rows.results)]


def _move(x: MemoryOperand, argument: Argument, size: Number) -> Move:
    tensor = Tensor(1, x.element, written=argument.kind == "output")
    return Move(argument, tensor, x.offset, x.outer, size, reach(x.inner))


def _one_row(x: MemoryOperand) -> MemoryOperand:
    return replace(x, offset=0, outer=one_part(x.offset, x.outer))


def _schedules(rows: Rows, target: Target) -> Iterator[tuple[Number, RowSchedule]]:
    """The schedules, each with its number of launches: 1 or 0 when the sizes are met."""
    lanes = lanes_of(rows, False)
    rest: Number = 1
    for waves, kept in _CLASSES:
        threads = min(waves * target.wave_size, MAX_THREADS)
        chunks = max(1, kept // lanes)
        if not kept and not isinstance(rows.columns, Size):
            chunks = ceil_div(rows.columns, threads * lanes)
        schedule = RowSchedule(threads, 1, lanes, chunks, False, kept > 0)
        if schedule_refusal(rows, schedule, target):
            continue
        more = is_more(rows.columns, threads * lanes * chunks) if kept else 0
        if rest - more != 0:
            yield rest - more, schedule
        rest = more
        if rest == 0:
            return
