"""Pointwise kernels of dynamic rows: the generator's function for the rows of one work-group."""

from __future__ import annotations

from dataclasses import replace

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.function import block_number, signature, thread_number
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.dynamic.row_blocks import USUAL_ROWS, RowBlocks, split_rows
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.gpu.families.pointwise.cost import choose
from mgx_mlir.codegen.gpu.families.pointwise.generator import emit_elements
from mgx_mlir.codegen.gpu.families.pointwise.match import Elements, match_elements
from mgx_mlir.codegen.meaning.element import sizes_of
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Size, ceil_div, exact


def _program(
    kernel: mgx.KernelOp, elements: Elements, target: Target
) -> Generated[DynamicProgram] | Refusal:
    _, (_, results) = signature(kernel)
    columns = 1
    for size in reversed(sizes_of(results[0])):
        if isinstance(size, Size):
            break
        columns *= size
    rows = exact(elements.size, columns)
    assert rows is not None
    steps: dict[int, int] = {}
    inner: dict[ir.Value, Axis] = {}
    for value, source in elements.sources.items():
        if isinstance(source, MemoryOperand):
            found = split_rows(source.inner, rows, columns)
            if found is None or isinstance(source.offset, Size):
                return Refusal("rows that are not evenly apart in memory")
            step, inner[value] = found
            if steps.setdefault(source.argument, step) != step:
                return Refusal("an input whose rows are read in two ways")
    moved = {number: step for number, step in steps.items() if step}
    used = tuple(elements.used)
    blocks = RowBlocks(kernel, rows, used, moved, (columns,) * len(results))
    if refusal := blocks.refusal():
        return refusal

    def of_rows(count: int) -> Elements:
        sources = {
            value: replace(
                x, inner=Axis.of((max(count, 2), steps[x.argument]), *inner[value].factors)
            )
            if isinstance(x, MemoryOperand)
            else x
            for value, x in elements.sources.items()
        }
        return replace(elements, size=count * columns, sources=sources, overwritable=frozenset())

    schedule = choose(of_rows(USUAL_ROWS), target)
    together = max(1, schedule.elements // columns)
    if max([columns, *steps.values()]) * together * 8 > MAX_BYTES:
        return Refusal("places in a row that 31 bits do not reach")
    own = of_rows(together)
    parts = ceil_div(own.size, schedule.elements)
    bounded = parts * schedule.elements != own.size
    with blocks.function(together, schedule.block, parts) as (made, frame):
        first = emit.mul(block_number("y", parts), schedule.elements)
        first = emit.add(first, emit.mul(thread_number(schedule.block), schedule.lanes))
        sources = {number: frame.buffers[position] for position, number in enumerate(used)}
        emit_elements(own, schedule, sources, frame.buffers[len(used) :], first, bounded)
    return Generated(made.program(), f"any number of rows, {schedule.describe()}")


FAMILY = Family("elements", 50, Matched(match_elements, _program))
