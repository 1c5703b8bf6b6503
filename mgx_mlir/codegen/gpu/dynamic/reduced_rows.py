"""Products of dynamic rows whose rows are reduced: in one function, or one after the other.

    %c = mgx.dot %a, %b : tensor<?x64xf16, #mgx.dims<[batch, _]>>, tensor<64x32xf16>
    %y = mgx.fused_reduce(%c, %x) axes = [1] ...

A work-group that has whole rows of the product goes on with them, where that is faster for any
usual number of rows. Else the product goes to scratch memory.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.function import signature
from mgx_mlir.codegen.gpu.builders.program import (
    Generated,
    GpuProgram,
    aligned,
    append_functions,
)
from mgx_mlir.codegen.gpu.dynamic import rows
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.dynamic.row_blocks import RowBlocks
from mgx_mlir.codegen.gpu.families.contraction import first_layers, products
from mgx_mlir.codegen.gpu.families.contraction import rows as product_rows
from mgx_mlir.codegen.gpu.families.contraction.reduced import TOGETHER
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.gpu.families.rows.generator import rows_program
from mgx_mlir.codegen.gpu.families.rows.match import Rows, match_rows
from mgx_mlir.codegen.meaning.element import sizes_of
from mgx_mlir.codegen.problem.halves import Halves, split_kernel
from mgx_mlir.codegen.problem.views import element_name
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number
from mgx_mlir.sizes.parser import parse

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
            return Generated(_in_sequence(kernel, halves, first.program, second.program), words)
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


def _in_sequence(
    kernel: mgx.KernelOp, halves: Halves, first: DynamicProgram, second: DynamicProgram
) -> DynamicProgram:
    """Both programs' functions, with the product at the start of scratch memory."""
    formulas = Formulas()
    product = halves.product
    size = math.prod(sizes_of(product)) * emit.element_bytes(element_name(product))
    given = len(signature(halves.first)[1][0])
    base: Number = aligned(size)
    launches: list[Launch] = []
    for program, made in ((first, Argument("output", 0)), (second, Argument("input", given))):

        def value(number: int, own: DynamicProgram = program) -> Number:
            return number if number >= 0 else parse(own.formulas[-1 - number])

        def moved(argument: Argument, made: Argument = made, base: Number = base) -> Argument:
            if argument == made:
                return Argument("scratch", 0)
            if argument.kind not in ("scratch", "size"):
                return argument
            number = value(argument.index) + (base if argument.kind == "scratch" else 0)
            return replace(argument, index=formulas.number(number))

        for launch in program.launches:
            x, y, z = (formulas.number(value(number)) for number in launch.grid)
            arguments = tuple(map(moved, launch.arguments))
            launches.append(replace(launch, grid=(x, y, z), arguments=arguments))
        base = base + aligned(value(program.scratch_bytes))
    append_functions(first.module, second.module)
    bits = max(first.index_bits, second.index_bits)
    both = GpuProgram(first.module, tuple(launches), formulas.number(base), bits)
    return DynamicProgram.of(both, formulas)


FAMILY = Family("reduced_rows", 15, reduced_rows_program)
