"""Products of dynamic rows whose rows are reduced: in one function, or one after the other.

    %c = mgx.dot %a, %b : tensor<?x64xf16, #mgx.dims<[batch, _]>>, tensor<64x32xf16>
    %y = mgx.fused_reduce(%c, %x) axes = [1] ...

A work-group that has whole rows of the product goes on with them, where that is faster for any
usual number of rows. Else the product goes to scratch memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_TENSORS
from mgx_mlir.codegen.gpu.builders.function import signature
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.contraction import first_layers, products
from mgx_mlir.codegen.gpu.families.contraction import rows as product_rows
from mgx_mlir.codegen.gpu.families.contraction.reduced import TOGETHER, in_sequence
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.gpu.families.rows.generator import rows_program
from mgx_mlir.codegen.gpu.families.rows.match import Rows, match_rows
from mgx_mlir.codegen.meaning.element import sizes_of
from mgx_mlir.codegen.problem.halves import Halves, split_kernel
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Size

# The families that the product is offered to, in this order.
_PRODUCTS = (product_rows.FAMILY, first_layers.FAMILY, products.FAMILY)

_UNEVEN = Refusal("rows that are not evenly apart in memory")


def reduced_rows_program(
    kernel: mgx.KernelOp, target: Target
) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` with symbolic sizes, and the schedule in words.

    None where the kernel reduces no product.
    """
    with kernel.context, kernel.location:
        halves = split_kernel(kernel)
        if halves is None:
            return None
        found = _together(kernel, halves, target)
        if isinstance(found, Generated):
            return found
        refusals = [str(found)]
        for family in _PRODUCTS:
            first = family.program(halves.first, target)
            if not isinstance(first, Generated):
                refusals += [str(first)] if first else []
                continue
            second = rows_program(halves.second, target)
            if second is None or isinstance(second, Refusal):
                return second
            words = f"{first.schedule}; its rows after it ({found}): {second.schedule}"
            return Generated(in_sequence(halves, first.program, second.program), words)
        return Refusal("; ".join(refusals))


def _together(
    kernel: mgx.KernelOp, halves: Halves, target: Target
) -> Generated[GpuProgram] | Refusal:
    """Functions of tiles that have whole rows, or why there are none."""
    anchor, own = product_rows.anchor_of_product(halves.first), match_rows(halves.second)
    if anchor is None or isinstance(anchor, Refusal) or not isinstance(own, Rows):
        return Refusal("unmatched")
    steps, columns = _steps_of(own), _columns_of(own)
    if steps is None or columns is None:
        return _UNEVEN
    moved = {number: step for number, step in steps.items() if step}
    if refusal := _refusal(halves.second, own, moved, columns):
        return refusal
    product = len(signature(halves.first)[1][0])
    ends = product_rows.Ends(
        kernel,
        partial(_with_count, own),
        product,
        columns,
        {n: x for n, x in moved.items() if n != product},
    )
    made = product_rows.product_of_rows(halves.first, anchor, target, ends)
    if isinstance(made, Refusal):
        return made
    return replace(made, schedule=f"{made.schedule}, {TOGETHER}")


def _refusal(
    kernel: mgx.KernelOp, rows: Rows, steps: Mapping[int, int], columns: Sequence[int]
) -> Refusal | None:
    """Why the rows cannot be split over work-groups; None where they can."""
    _, (inputs, results) = signature(kernel)
    for number in rows.used:
        size, step = math.prod(sizes_of(inputs[number])), steps.get(number)
        if isinstance(size, Size) if step is None else size != rows.rows * step:
            return Refusal(f"input {number} is not of whole rows, or has no size without arguments")
    for type_, own in zip(results, columns, strict=True):
        if math.prod(sizes_of(type_)) != rows.rows * own:
            return Refusal("results of other sizes")
    count = len(rows.used) + len(results)
    return Refusal(f"{count} tensors") if count > MAX_TENSORS else None


def _steps_of(rows: Rows) -> dict[int, int] | None:
    """Elements from row to row of each input; None where these vary."""
    steps: dict[int, int] = {}
    for source in rows.sources.values():
        if isinstance(source, MemoryOperand):
            step = source.outer.stride
            if step is None or isinstance(step, Size) or isinstance(source.offset, Size):
                return None
            if step < 0 or steps.setdefault(source.argument, step) != step:
                return None
    return steps


def _columns_of(rows: Rows) -> tuple[int, ...] | None:
    """Elements from row to row of each result, in order; None where these vary."""
    found = {result.operand.argument: result.operand.outer.stride for result in rows.results}
    columns = [found[number] for number in sorted(found)]
    return None if None in columns else tuple(size or 0 for size in columns)


def _with_count(rows: Rows, count: int) -> Rows:
    """The same kernel with `count` rows."""

    def counted(x: MemoryOperand) -> MemoryOperand:
        step = x.outer.stride
        # It keeps the stride even for a single row.
        return replace(x, outer=Axis(((max(count, 2), step),)) if step else Axis(()))

    return replace(
        rows,
        rows=count,
        sources={
            value: counted(x) if isinstance(x, MemoryOperand) else x
            for value, x in rows.sources.items()
        },
        results=tuple(replace(x, operand=counted(x.operand)) for x in rows.results),
    )


FAMILY = Family("reduced_rows", 15, reduced_rows_program, symbolic=True, given=False)
