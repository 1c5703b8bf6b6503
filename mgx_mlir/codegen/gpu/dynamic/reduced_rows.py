"""Products of dynamic rows whose rows are reduced: in one function, or one after the other.

    %c = mgx.dot %a, %b : tensor<?x64xf16, #mgx.dims<[batch, _]>>, tensor<64x32xf16>
    %y = mgx.fused_reduce(%c, %x) axes = [1] ...

A work-group that has whole rows of the product goes on with them, where that is faster for any
usual number of rows. Else the product goes to scratch memory.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.function import signature
from mgx_mlir.codegen.gpu.builders.program import (
    Generated,
)
from mgx_mlir.codegen.gpu.dynamic import rows
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.dynamic.row_blocks import RowBlocks
from mgx_mlir.codegen.gpu.families.contraction import first_layers, products
from mgx_mlir.codegen.gpu.families.contraction import rows as product_rows
from mgx_mlir.codegen.gpu.families.contraction.reduced import TOGETHER, in_sequence
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.gpu.families.rows.generator import rows_program
from mgx_mlir.codegen.gpu.families.rows.match import Rows, match_rows
from mgx_mlir.codegen.problem.halves import Halves, split_kernel
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx

# The families that the product is offered to, in this order.
_PRODUCTS = (product_rows.FAMILY, first_layers.FAMILY, products.FAMILY)


def reduced_rows_program(
    kernel: mgx.KernelOp, target: Target
) -> Generated[DynamicProgram] | Refusal | None:
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
) -> Generated[DynamicProgram] | Refusal:
    """Functions of tiles that have whole rows, or why there are none."""
    anchor, own = product_rows.anchor_of_product(halves.first), match_rows(halves.second)
    if anchor is None or isinstance(anchor, Refusal) or not isinstance(own, Rows):
        return Refusal("unmatched")
    steps, columns = rows.steps_of(own), rows.columns_of(own)
    if steps is None or columns is None:
        return rows.UNEVEN
    moved = {number: step for number, step in steps.items() if step}
    blocks = RowBlocks(halves.second, own.rows, tuple(own.used), moved, columns)
    if refusal := blocks.refusal():
        return refusal
    product = len(signature(halves.first)[1][0])
    ends = product_rows.Ends(
        kernel,
        partial(rows.with_count, own),
        product,
        columns,
        {n: x for n, x in moved.items() if n != product},
    )
    made = product_rows.product_of_rows(halves.first, anchor, target, ends)
    if isinstance(made, Refusal):
        return made
    return replace(made, schedule=f"{made.schedule}, {TOGETHER}")


FAMILY = Family("reduced_rows", 15, reduced_rows_program)
