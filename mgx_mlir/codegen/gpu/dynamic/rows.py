"""Rows that follow a product of any number of rows: their strides."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.dynamic.row_blocks import rows_axis
from mgx_mlir.codegen.gpu.families.rows.match import Rows
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import Size

UNEVEN = Refusal("rows that are not evenly apart in memory")


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


def with_count(rows: Rows, count: int) -> Rows:
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
