"""dot and quant_dot: one nest over batch, rows, columns and the common dimension."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from mgx_mlir.codegen.loops.body import Body, Indices, Lazy
from mgx_mlir.codegen.loops.kernel import Kernel, lowers
from mgx_mlir.codegen.loops.reduce import accumulate, rounded
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import change, load
from mgx_mlir.codegen.meaning.element import Element, element_of
from mgx_mlir.dialects import mgx

# An operand of a contraction is read once for each row or column of the other one.
OPERAND_COST = 2


@lowers(mgx.DotOp, mgx.QuantDotOp)
def dot(kernel: Kernel, op: mgx.DotOp | mgx.QuantDotOp, operands: Sequence[Lazy]) -> Lazy:
    if isinstance(op, mgx.QuantDotOp) and (made := kernel.byte_product(op, operands)):
        return made
    left, right = (kernel.settled(x, OPERAND_COST) for x in operands)
    element = element_of(op.result.type)
    extents = [*left.shape[:-1], right.shape[-1], left.shape[-1]]

    def term(body: Body, dims: Indices) -> ir.Value:
        *batch, row, column, common = dims
        x = body.at(left, (*batch, row, common))
        y = body.at(right, (*batch, common, column))
        x, y = body.together([x, y])
        return multiply(body.arithmetic, element.computed(), (left, x), (right, y))

    depth, wide = len(extents) - 1, element.computed()
    total = accumulate(kernel, extents, depth, wide, term, neighbours=True)
    return rounded(total, element)


def multiply(
    a: Arithmetic, element: Element, left: tuple[Lazy, ir.Value], right: tuple[Lazy, ir.Value]
) -> ir.Value:
    """The product of two stored elements, in the type where their sum is computed."""
    factors = [
        change(a, source.element.computed(), element, load(a, source.element, value))
        for source, value in (left, right)
    ]
    return a.product(element, *factors)
