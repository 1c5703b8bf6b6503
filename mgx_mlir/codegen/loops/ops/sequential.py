"""Ops whose elements depend on one another: prefix sums, scatter, nonzero, suppress."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.loops.body import Body, Indices, Lazy, Slice
from mgx_mlir.codegen.loops.kernel import Kernel, lowers
from mgx_mlir.codegen.loops.ops.movement import runtime_index
from mgx_mlir.codegen.loops.value import Computed
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import load, store
from mgx_mlir.codegen.meaning.element import SIGNED, Element, element_of, sizes_of
from mgx_mlir.codegen.meaning.index import Index, delinear, fixed, index_constant
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.rewriting.queries import splat
from mgx_mlir.rewriting.symbolic import is_named


def overlaps(
    a: Arithmetic, kept: Sequence[ir.Value], box: Sequence[ir.Value], threshold: float
) -> ir.Value:
    """Whether the intersection of two boxes is more than `threshold` of their union.

    Boxes are the f32 coordinates of two opposite corners, the lower one first. Nothing is
    fused or divided, so that the result rounds as the host's own selection does.
    """
    low = [arith.maximumf(x, y) for x, y in zip(kept[:2], box[:2], strict=True)]
    high = [arith.minimumf(x, y) for x, y in zip(kept[2:], box[2:], strict=True)]
    zero = a.float(0.0, box[0])
    sides = [arith.maximumf(arith.subf(y, x), zero) for x, y in zip(low, high, strict=True)]
    shared = arith.mulf(*sides)
    both = arith.subf(arith.addf(_area(box), _area(kept)), shared)
    over = a.compare("ogt", arith.divf(shared, both), a.float(threshold, shared))
    return arith.andi(a.compare("ogt", shared, zero), over)


def _area(box: Sequence[ir.Value]) -> ir.Value:
    return arith.mulf(arith.subf(box[2], box[0]), arith.subf(box[3], box[1]))


@lowers(mgx.PrefixScanProdOp, mgx.PrefixScanSumOp)
def prefix_scan(
    kernel: Kernel, op: mgx.PrefixScanProdOp | mgx.PrefixScanSumOp, operands: Sequence[Lazy]
) -> Lazy:
    x, axis = kernel.settled(operands[0]), op.axis.value
    element, size = x.element.computed(), x.shape[axis]
    product, number = isinstance(op, mgx.PrefixScanProdOp), splat(op.x)
    if isinstance(op, mgx.PrefixScanSumOp) and number is not None and element.is_integer:
        return _multiples(op, x, int(number))

    def scan(body: Body, row: Indices, slices: Sequence[Any]) -> list[ir.Value]:
        a = body.arithmetic

        def step(i: Index, carried: Sequence[Any]) -> list[Any]:
            total, line = carried
            place = i * -1 + (size - 1) if op.reverse.value else i
            value = load(a, x.element, body.at(x, (*row[:axis], place, *row[axis:])))
            after = (a.product if product else a.sum)(element, total, value)
            kept = store(a, x.element, total if op.exclusive.value else after)
            return [after, body.insert(kept, line, [body.scalar(place)])]

        nothing = a.constant(int(product), element.storage())
        return [body.loop(0, size, [nothing, slices[0]], step)[1]]

    extents = [n for d, n in enumerate(x.shape) if d != axis]
    return kernel.rows(extents, [kernel.empty(x.shape, x.element)], [[axis]], scan)[0]


def _multiples(op: mgx.PrefixScanSumOp, x: Lazy, step: int) -> Lazy:
    """The running sums of equal integers."""
    axis = op.axis.value

    def multiple(body: Body, indices: Indices) -> ir.Value:
        place = indices[axis] * -1 + (x.shape[axis] - 1) if op.reverse.value else indices[axis]
        count = body.scalar(place if op.exclusive.value else place + 1)
        number = arith.constant(x.element.storage(), step)
        return arith.muli(arith.index_cast(number.type, count), number)

    return Computed(x.shape, x.element, multiple, 2)


# The ops that scatter elements, and those that scatter slices.
SCATTER_ELEMENTS = (
    mgx.ScatterNoneOp,
    mgx.ScatterAddOp,
    mgx.ScatterMulOp,
    mgx.ScatterMinOp,
    mgx.ScatterMaxOp,
)
SCATTER_SLICES = (
    mgx.ScatterndNoneOp,
    mgx.ScatterndAddOp,
    mgx.ScatterndMulOp,
    mgx.ScatterndMinOp,
    mgx.ScatterndMaxOp,
)
Combine: TypeAlias = "Callable[[Arithmetic, Element, ir.Value, ir.Value], ir.Value] | None"
# Combines an element's old value with an update; None where the update replaces it.
_COMBINES: dict[str, Combine] = {
    "add": Arithmetic.sum,
    "max": Arithmetic.maximum,
    "min": Arithmetic.minimum,
    "mul": Arithmetic.product,
    "none": None,
}


def _updated(
    body: Body,
    element: Element,
    combine: Combine,
    row: Slice,
    place: list[ir.Value],
    new: ir.Value,
) -> Slice:
    """The row with the stored value at a place combined with a new one."""
    a = body.arithmetic
    if combine is not None:
        old = body.extract(row, place)
        total = combine(a, element.computed(), load(a, element, old), load(a, element, new))
        new = store(a, element, total)
    return body.insert(new, row, place)


@lowers(*SCATTER_ELEMENTS)
def scatter(kernel: Kernel, op: Any, operands: Sequence[Lazy]) -> Lazy:
    """Runs the rows along the axis in parallel: they are independent."""
    x, chosen, updates = operands[0], kernel.settled(operands[1]), kernel.settled(operands[2])
    combine, axis = _COMBINES[op.OPERATION_NAME.rpartition("_")[2]], op.axis.value

    def apply(body: Body, row: Indices, slices: Sequence[Any]) -> list[ir.Value]:
        def step(i: Index, carried: Sequence[Any]) -> list[Any]:
            where = (*row[:axis], i, *row[axis:])
            index = runtime_index(body.at(chosen, where), x.shape[axis])
            place = [body.scalar(index)]
            new = body.at(updates, where)
            return [_updated(body, x.element, combine, carried[0], place, new)]

        return body.loop(0, chosen.shape[axis], slices, step)

    extents = [n for d, n in enumerate(chosen.shape) if d != axis]
    return kernel.rows(extents, [kernel.copied(x)], [[axis]], apply)[0]


@lowers(*SCATTER_SLICES)
def scatternd(kernel: Kernel, op: ir.OpView, operands: Sequence[Lazy]) -> Lazy:
    """Runs the dimensions beyond the index tuples in parallel: they are independent."""
    x, chosen, updates = operands[0], kernel.settled(operands[1]), kernel.settled(operands[2])
    combine, depth = _COMBINES[op.OPERATION_NAME.rpartition("_")[2]], fixed(chosen.shape[-1])
    outer, shape = chosen.shape[:-1], x.shape
    count = math.prod(outer)

    def apply(body: Body, row: Indices, slices: Sequence[Any]) -> list[ir.Value]:
        def step(i: Index, carried: Sequence[Any]) -> list[Any]:
            which = delinear(i, outer)
            place = [
                body.scalar(runtime_index(body.at(chosen, (*which, Index.of(d))), shape[d]))
                for d in range(depth)
            ]
            new = body.at(updates, (*which, *row))
            return [_updated(body, x.element, combine, carried[0], place, new)]

        return body.loop(0, count, slices, step)

    return kernel.rows(shape[depth:], [kernel.copied(x)], [[*range(depth)]], apply)[0]


@lowers(mgx.NonzeroOp)
def nonzero(kernel: Kernel, op: mgx.NonzeroOp, operands: Sequence[Lazy]) -> Lazy:
    """One sequential pass; columns beyond the number of elements found are zero."""
    x, type_ = kernel.settled(operands[0]), op.result.type
    if not is_named(type_):
        raise UnsupportedError(
            f"{op.location}: mgx.nonzero with a result of unknown size ({type_}) cannot be lowered",
            (str(op.location),),
        )
    element, (rank, columns) = element_of(type_), sizes_of(type_)

    def collect(body: Body, row: Indices, slices: Sequence[Any]) -> list[ir.Value]:
        a = body.arithmetic

        def step(i: Index, carried: Sequence[Any]) -> list[Any]:
            count, table = carried
            where = delinear(i, x.shape)
            value = load(a, x.element, body.at(x, where))
            zero = a.int(0, value)
            computed = x.element.computed()
            hit = (
                a.compare("une", value, zero)
                if computed.is_float
                else a.icompare("ne", value, zero)
            )
            room = arith.cmpi(arith.CmpIPredicate.slt, count, index_constant(columns))
            hit = arith.andi(hit, room)
            column = arith.minsi(count, index_constant(columns - 1))
            for d, index in enumerate(where):
                place = [index_constant(d), column]
                new = arith.index_cast(element.storage(), body.scalar(index))
                kept = a.select(hit, new, body.extract(table, place))
                table = body.insert(kept, table, place)
            after = arith.addi(count, index_constant(1))
            return [a.select(hit, after, count), table]

        return body.loop(0, x.size, [index_constant(0), slices[0]], step)[1:]

    if columns == 0:
        return kernel.started(kernel.empty((rank, 0), element))
    return kernel.rows([], [kernel.filled((rank, columns), element, 0)], [[0, 1]], collect)[0]


@lowers(mgx.SuppressOp)
def suppress(kernel: Kernel, op: mgx.SuppressOp, operands: Sequence[Lazy]) -> Lazy:
    """Runs rows in parallel; in a row, the indices of the kept boxes are appended in order."""
    boxes, candidates = (kernel.settled(operand) for operand in operands)
    *rows, size = candidates.shape
    threshold, most = op.threshold.value, op.most.value
    index = Element("i64", SIGNED, 64)

    def row_of(body: Body, row: Indices, slices: Sequence[Any]) -> list[ir.Value]:
        a = body.arithmetic

        def corners(place: Index) -> list[ir.Value]:
            return [body.at(boxes, (*row, place, Index.of(n))) for n in range(4)]

        def step(i: Index, carried: Sequence[Any]) -> list[Any]:
            count, kept, places = carried
            room = arith.cmpi(arith.CmpIPredicate.slt, count, index_constant(most))
            flag = load(a, candidates.element, body.at(candidates, (*row, i)))
            wanted = arith.andi(room, flag)
            box = corners(i)

            def compare(j: Index, found: Sequence[ir.Value]) -> list[ir.Value]:
                number = body.extract(places, [body.scalar(j)])
                position = arith.index_cast(ir.IndexType.get(), number)
                at = Index.runtime(position, 0, size - 1)
                over = overlaps(a, corners(at), box, threshold)
                return [arith.andi(found[0], a.negate(over))]

            none = index_constant(0)
            before = Index.runtime(arith.select(wanted, count, none), 0, size)
            (keep,) = body.loop(0, before, [wanted], compare)
            kept = body.insert(store(a, candidates.element, keep), kept, [body.scalar(i)])
            last = arith.minsi(count, index_constant(size - 1))
            here = arith.index_cast(index.storage(), body.scalar(i))
            old = body.extract(places, [last])
            places = body.insert(a.select(keep, here, old), places, [last])
            return [arith.addi(count, a.select(keep, index_constant(1), none)), kept, places]

        return body.loop(0, size, [index_constant(0), *slices], step)[1:]

    inits = [kernel.empty(candidates.shape, candidates.element)]
    inits.append(kernel.filled(candidates.shape, index, 0))
    axes = [[len(rows)], [len(rows)]]
    return kernel.rows(rows, inits, axes, row_of)[0]
