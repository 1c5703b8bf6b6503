"""Rows that are normalised, and the product that reads them: one kernel on GPUs.

    %y = mgx.fused_reduce(%x, %scale, %shift) ...   // a normalisation of rows
    %z = mgx.dot %y, %w ...

A product that reads all of a few rows finds what normalises them on its way, for less than the
time of a launch, which the rows alone are not worth. More work-groups than one may do so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from mgx_mlir.capabilities import FEW_ROWS, NORMALISED_COLUMNS
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.fusing import contractions_of
from mgx_mlir.rewriting.queries import (
    definition,
    has_one_use,
    has_sizes,
    shape,
    splat,
    users,
    yielded,
)


@dataclass(frozen=True)
class Normalisation:
    """How a `mgx.fused_reduce` normalises rows of x:

        y = convert(c * factor) * scale + shift,  c = x - mean(x) where `centred`, else x

    factor: a value of a row, or its reciprocal where `divides`, which comes of `moment` alone: the
    reduction that gives the mean of c * c, or its sum. x, scale, shift: arguments of the body;
    there may be no scale and no shift. last: the op whose result is c * factor, converted or not.
    """

    x: ir.Value
    centred: bool
    factor: ir.Value
    divides: bool
    moment: ir.OpView
    last: ir.Value
    scale: ir.Value | None
    shift: ir.Value | None


def normalisation_of(reduce: ir.OpView | None) -> Normalisation | None:
    """The rows that an op normalises along the last dimension; None where it does not."""
    if not isinstance(reduce, mgx.FusedReduceOp) or len(reduce.results) != 1:
        return None
    if list(reduce.axes) != [len(shape(reduce.results[0])) - 1]:
        return None
    (value,) = yielded(reduce.body.blocks[0])
    parts: dict[type[ir.OpView], ir.Value] = {}
    for kind in (mgx.AddOp, mgx.MulOp):
        value = _unconverted(value) if parts else value
        op = definition(value)
        if isinstance(op, kind) and (found := _beside_argument(op)):
            value, parts[kind] = found
    last, op = value, definition(_unconverted(value))
    if not isinstance(op, (mgx.MulOp, mgx.DivOp)):
        return None
    for centre, row in (list(op.operands), list(op.operands)[::-1]):
        factor = _of_row(row)
        if factor is None or (isinstance(op, mgx.DivOp) and row == op.operands[0]):
            continue
        x, centred = _centred(centre)
        moment = _moment(factor, x, centred)
        if definition(x) is None and moment is not None:
            scale, shift = parts.get(mgx.MulOp), parts.get(mgx.AddOp)
            divides = isinstance(op, mgx.DivOp)
            return Normalisation(x, centred, factor, divides, moment, last, scale, shift)
    return None


def before_product(product: ir.OpView | None) -> list[ir.OpView]:
    """The normalisation whose rows a product reads, and the reshapes between them, where these are
    in its kernel. Others may read the rows after it."""
    if not isinstance(product, mgx.DotOp):
        return []
    views: list[ir.OpView] = []
    value = product.a
    while isinstance(view := definition(value), mgx.RESHAPES):
        views.insert(0, view)
        value = view.x
    reduce = definition(value)
    sizes = [*shape(product.a), *shape(product.b)]
    if not isinstance(reduce, mgx.FusedReduceOp) or not all(isinstance(x, int) for x in sizes):
        return []
    *rows, columns = shape(product.a)
    if columns != shape(value)[-1] or columns > NORMALISED_COLUMNS or math.prod(rows) <= FEW_ROWS:
        return []
    if math.prod(shape(product.b)[:-2]) != 1 or normalisation_of(reduce) is None:
        return []
    last = _last_of(product)
    if last is None:
        return []
    inside = [product.operation, *(view.operation for view in views)]
    readers = [user for x in (value, *(view.results[0] for view in views)) for user in users(x)]
    block = product.operation.block
    if reduce.operation.block != block or not all(
        user.operation in inside
        or (user.operation.block == block and last.operation.is_before_in_block(user.operation))
        for user in readers
    ):
        return []
    return [reduce, *views]


def with_normalisation(
    made: Sequence[ir.OpView], last: ir.OpView, kind: str
) -> Sequence[ir.OpView]:
    """The ops of a kernel but its last one, and before them the normalisation that its product
    takes, in a program of that kind. Ops after the kernel get copies of the reshapes between."""
    product = made[-1] if made else last
    before = [] if kind == "cpu" else before_product(product.opview)
    _read_after(before[1:], last)
    return [*before, *made]


def product_after(reduce: ir.OpView) -> ir.OpView | None:
    """The product in whose kernel a reduction is, as it normalises the rows that this reads."""
    waiting = users(reduce.results[0]) if isinstance(reduce, mgx.FusedReduceOp) else []
    while waiting:
        user = waiting.pop()
        if isinstance(user, mgx.RESHAPES):
            waiting += users(user.results[0])
        elif any(op == reduce for op in before_product(user)):
            return user
    return None


def before_reduction(reduce: ir.OpView, kind: str) -> list[ir.OpView]:
    """The ops in whose kernel a reduction is the last op, in a program of that kind.

    For an argmax or argmin, the pointwise op whose results it alone reads; a CPU, which compares
    one element after another, computes exponentials and the like before. For a normalisation and
    the like, on GPUs, the product whose rows it reduces, with its pointwise work: others may read
    that result after it.
    """
    if isinstance(reduce, mgx.FusedReduceOp):
        return _reduced_product(reduce) if kind == "gpu" else []
    if not isinstance(reduce, (mgx.ArgmaxOp, mgx.ArgminOp)):
        return []
    producer = definition(reduce.x)
    if not isinstance(producer, mgx.PointwiseOp) or len(producer.results) != 1:
        return []
    if not has_one_use(reduce.x) or contractions_of(producer):
        return []
    costly = kind == "cpu" and any(
        isinstance(op, mgx.COSTLY) for op in producer.body.blocks[0].operations
    )
    outside = producer.operation.block != reduce.operation.block
    return [] if costly or outside else [producer]


def _reduced_product(reduce: mgx.FusedReduceOp) -> list[ir.OpView]:
    """A product of two matrices, with its pointwise work, whose rows a reduction reduces."""
    if product_after(reduce) is not None:
        return []
    axis = len(shape(reduce.results[0])) - 1
    sizes = [x for value in reduce.operands for x in shape(value)[axis:]]
    if (
        list(reduce.axes) != [axis]
        or not has_sizes(reduce)
        or not all(isinstance(x, int) for x in sizes)
    ):
        return []
    for value in reduce.inputs:
        views: list[ir.OpView] = []
        last = definition(value)
        while isinstance(last, mgx.RESHAPES):
            views.insert(0, last)
            last = definition(last.x)
        if last is None or len(last.results) != 1:
            continue
        made = contractions_of(last) if isinstance(last, mgx.PointwiseOp) else []
        product = made[-1] if made else last
        if not isinstance(product, mgx.DOTS) or before_product(product):
            continue
        found = [*made, last, *views]
        if all(_is_read_after(op.results[0], reduce, found) for op in (last, *views)):
            return found
    return []


def _is_read_after(value: ir.Value, reduce: ir.OpView, beside: list[ir.OpView]) -> bool:
    """Whether a reduction is the first op of its block that reads a value, `beside` some ops."""
    block = reduce.operation.block
    return all(
        user == reduce or any(user == op.operation for op in beside)
        or (user.operation.block == block and reduce.operation.is_before_in_block(user.operation))
        for user in users(value)
    )  # fmt: skip


def reductions_of(op: ir.OpView) -> list[ir.OpView]:
    """The fused reductions that read an op's first result, by reshapes or not."""
    found: list[ir.OpView] = []
    for user in users(op.results[0]):
        if isinstance(user, mgx.RESHAPES):
            found += reductions_of(user)
        elif isinstance(user, mgx.FusedReduceOp):
            found.append(user)
    return found


def _read_after(views: Sequence[ir.OpView], last: ir.OpView) -> None:
    """Gives those that read views after the last op of a kernel copies of the views, beside it."""
    for view in reversed(views):
        later = [use for use in view.results[0].uses if last.is_before_in_block(use.owner)]
        if later:
            with ir.InsertionPoint.after(last):
                copy = view.operation.clone()
            for use in later:
                use.owner.operands[use.operand_number] = copy.results[0]


def _last_of(product: mgx.DotOp) -> ir.OpView | None:
    """The last op of the product's kernel; None where it adds products or halves of columns."""
    readers = users(product.c)
    if any(isinstance(x, mgx.StepOp) for x in readers):
        return None
    if len(readers) != 1 or not isinstance(readers[0], mgx.PointwiseOp):
        return product
    made = contractions_of(readers[0])
    if len(made) > 1:
        return None
    return readers[0] if made and made[0] == product else product


def _beside_argument(op: ir.OpView) -> tuple[ir.Value, ir.Value] | None:
    """The operand of an op that is computed, and the other one, which is an argument."""
    for value, other in (list(op.operands), list(op.operands)[::-1]):
        computed = definition(value) is not None and _of_row(value) is None
        if computed and definition(_unconverted(other)) is None:
            return value, _unconverted(other)
    return None


def _unconverted(value: ir.Value) -> ir.Value:
    """The value that a chain of conversions between floats starts from."""
    while isinstance(op := definition(value), mgx.ConvertOp):
        value = op.x
    return value


def _of_row(value: ir.Value) -> ir.Value | None:
    """The value of a row that is repeated along it; None for others."""
    op = definition(value)
    return op.x if isinstance(op, mgx.MultibroadcastOp) else None


def _centred(value: ir.Value) -> tuple[ir.Value, bool]:
    """x of x or of x - mean(x), and whether it is the latter."""
    op = definition(value)
    if isinstance(op, mgx.SubOp) and (mean := _of_row(op.operands[1])) is not None:
        maker = definition(mean)
        if isinstance(maker, mgx.ReduceMeanOp):
            x = _unconverted(op.operands[0])
            return (x, True) if _unconverted(maker.x) == x else (value, False)
    return _unconverted(value), False


def _moment(factor: ir.Value, x: ir.Value, centred: bool) -> ir.OpView | None:
    """The one reduction that a value of a row comes of, if it is that of the squares of x, or of
    what is left of it without its mean."""
    waiting, found = [factor], set()
    while waiting:
        op = definition(waiting.pop())
        if isinstance(op, mgx.REDUCTION_OPS):
            found.add(op.results[0])
        elif op is None or not mgx.is_pointwise(op):
            return None
        else:
            waiting += [value for value in op.operands if splat(value) is None]
    moment = definition(found.pop()) if len(found) == 1 else None
    if not isinstance(moment, (mgx.ReduceMeanOp, mgx.ReduceSumOp)):
        return None
    square = definition(moment.x)
    if not isinstance(square, mgx.MulOp) or square.operands[0] != square.operands[1]:
        return None
    return moment if _centred(square.operands[0]) == (x, centred) else None
