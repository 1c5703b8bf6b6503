"""dot and quant_dot: one nest over batch, rows, columns and the common dimension.

attention: the scores, their softmax over the keys, and the product with v, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from mgx_mlir.codegen.loops.body import Body, Indices, Lazy
from mgx_mlir.codegen.loops.kernel import Kernel, lowers
from mgx_mlir.codegen.loops.ops.reductions import accumulate, reduce_axes, rounded
from mgx_mlir.codegen.loops.value import Computed, reshape
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import change, load
from mgx_mlir.codegen.meaning.element import Element, element_of
from mgx_mlir.codegen.meaning.pointwise import emit_pointwise
from mgx_mlir.codegen.meaning.reducers import lowest
from mgx_mlir.dialects import mgx

# An operand of a contraction is read once for each row or column of the other one.
OPERAND_COST = 2


@lowers(mgx.DotOp, mgx.QuantDotOp)
def dot(kernel: Kernel, op: mgx.DotOp | mgx.QuantDotOp, operands: Sequence[Lazy]) -> Lazy:
    if made := kernel.packed_product(op, operands):
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


@lowers(mgx.AttentionOp)
def attention(kernel: Kernel, op: mgx.AttentionOp, operands: Sequence[Lazy]) -> Lazy:
    q, k, v = (kernel.settled(x, OPERAND_COST) for x in operands[:3])
    wide = q.element.computed()
    scores = kernel.stored(_scores(kernel, op, q, k, operands[3:]))
    rank = len(scores.shape)
    row_maximum = reduce_axes(kernel, scores, [rank - 1], (lowest(wide), Arithmetic.maximum))
    powers = kernel.stored(
        Computed(
            scores.shape,
            wide,
            lambda body, indices: body.arithmetic.math(
                "exp",
                body.arithmetic.sub(
                    body.at(scores, indices), body.at(row_maximum, (*indices[:-1], indices[-1] * 0))
                ),
            ),
            5,
        )
    )
    total = reduce_axes(kernel, powers, [rank - 1])

    def term(body: Body, dims: Indices) -> ir.Value:
        *batch, query, column, key = dims
        x = body.at(powers, (*batch, query, key))
        y = body.at(v, (*batch, key, column))
        return multiply(body.arithmetic, wide, (powers, x), (v, y))

    extents = [*scores.shape[:-1], v.shape[-1], scores.shape[-1]]
    sums = accumulate(kernel, extents, rank, wide, term, neighbours=True)
    totals, row_maxima = (reshape(x, scores.shape[:-1]) for x in (total, row_maximum))

    def share(body: Body, indices: Indices) -> ir.Value:
        a, sum_, divisor = body.arithmetic, body.at(sums, indices), body.at(totals, indices[:-1])
        zero = a.float(0, divisor)
        if op.nan_as_zero:
            # Where shares are NaN, the powers are NaN, and so is their sum; else it is 1 or more.
            return a.select(a.compare("ogt", divisor, zero), a.div(sum_, divisor), zero)
        if op.empty_as_zero:
            highest = body.at(row_maxima, indices[:-1])
            none = a.compare("oeq", highest, a.float(lowest(wide), highest))
            return a.select(none, zero, a.div(sum_, divisor))
        return a.div(sum_, divisor)

    return rounded(Computed(sums.shape, wide, share, 1), q.element)


def _scores(kernel: Kernel, op: mgx.AttentionOp, q: Lazy, k: Lazy, extras: Sequence[Lazy]) -> Lazy:
    """The softmax's input: the body's result, and -inf for keys that a query does not see."""
    wide = q.element.computed()
    shape = [*q.shape[:-1], k.shape[-2]]

    def term(body: Body, dims: Indices) -> ir.Value:
        *batch, query, key, common = dims
        x = body.at(q, (*batch, query, common))
        y = body.at(k, (*batch, key, common))
        return multiply(body.arithmetic, wide, (q, x), (k, y))

    products = accumulate(kernel, [*shape, q.shape[-1]], len(shape), wide, term)
    bounds = [None if x is None else x.value for x in (op.causal, op.earliest)]

    def score(body: Body, indices: Indices) -> ir.Value:
        values = [body.at(x, indices) for x in (products, *extras)]
        (result,) = emit_pointwise(op, values)
        return _visible(body, wide, indices, bounds, result)

    return Computed(shape, wide, score, 8 + sum(x.cost for x in extras))


def _visible(
    body: Body,
    element: Element,
    indices: Indices,
    bounds: Sequence[int | None],
    score: ir.Value,
) -> ir.Value:
    """The score of a key the query sees: from query + second bound to query + first; else -inf."""
    a: Arithmetic = body.arithmetic
    for bound, holds in zip(bounds, ("sle", "sge"), strict=True):
        if bound is not None:
            key, end = body.scalar(indices[-1]), body.scalar(indices[-2] + bound)
            score = a.select(a.icompare(holds, key, end), score, a.float(lowest(element), score))
    return score
