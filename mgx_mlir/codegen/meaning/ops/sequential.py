"""Ops whose elements depend on one another: prefix sums, topk, scatter, nonzero, suppress."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from mlir import ir
from mlir.dialects import arith
from mlir.dialects import math as math_ops

from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.body import Body, Indices, Lazy
from mgx_mlir.codegen.meaning.boxes import overlaps
from mgx_mlir.codegen.meaning.convert import load, store
from mgx_mlir.codegen.meaning.element import (
    BOOLEAN,
    I64,
    SIGNED,
    Element,
    element_of,
    sizes_of,
)
from mgx_mlir.codegen.meaning.index import Index, delinear, fixed, index_constant
from mgx_mlir.codegen.meaning.kernel import Kernel, lowers
from mgx_mlir.codegen.meaning.ops.movement import runtime_index
from mgx_mlir.codegen.meaning.value import Computed, reshape
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.rewriting.queries import splat
from mgx_mlir.rewriting.symbolic import is_named
from mgx_mlir.sizes.arithmetic import Number


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

        def step(i: Index, carried: Sequence[Any]) -> list[ir.Value]:
            total, line = carried
            place = i * -1 + (size - 1) if op.reverse.value else i
            value = load(a, x.element, body.at(x, (*row[:axis], place, *row[axis:])))
            after = (a.product if product else a.sum)(element, total, value)
            kept = store(a, x.element, total if op.exclusive.value else after)
            return [after, body.insert(kept, line, [body.scalar(place)])]

        nothing = a.constant(int(product), element.storage())
        return [body.loop(0, size, [nothing, slices[0]], step)[1]]

    extents = [n for d, n in enumerate(x.shape) if d != axis]
    result = kernel.rows(extents, [kernel.empty(x.shape, x.element)], [[axis]], scan)[0]
    return kernel.memory(result, x.element)


def _multiples(op: mgx.PrefixScanSumOp, x: Lazy, step: int) -> Lazy:
    """The running sums of equal integers."""
    axis = op.axis.value

    def multiple(body: Body, indices: Indices) -> ir.Value:
        place = indices[axis] * -1 + (x.shape[axis] - 1) if op.reverse.value else indices[axis]
        count = body.scalar(place if op.exclusive.value else place + 1)
        number = arith.constant(x.element.storage(), step)
        return arith.muli(arith.index_cast(number.type, count), number)

    return Computed(x.shape, x.element, multiple, 2)


_BLOCK = 32  # elements of a row that are looked at together


@lowers(mgx.TopkOp)
def topk(kernel: Kernel, op: mgx.TopkOp, operands: Sequence[Lazy]) -> list[Lazy]:
    """The k first elements so far are a heap, whose root is the last of them. An element that
    comes before the root takes its place; most blocks of elements have none. Then the heap is
    sorted: the root goes to the end.

    NaN is above every number, as numpy sorts it."""
    x, axis = kernel.settled(operands[0], 0), op.axis.value
    element, index_element = x.element.computed(), element_of(op.results[1].type)
    size, shape = x.shape[axis], sizes_of(op.results[0].type)
    k = shape[axis]

    def find(body: Body, row: Indices, slices: Sequence[Any]) -> Sequence[Any]:
        if k == 0:
            return slices
        order = _Order(body.arithmetic, element, op.largest.value)
        heap = _Heap(body, order, x.element, index_element)
        levels = body.scalar(_last_bit(k))
        depth = Index.runtime(levels, 0, 63)

        def read(i: Index) -> _Entry:
            return body.at(x, (*row[:axis], i, *row[axis:])), body.scalar(i)

        def fill(i: Index, lines: Sequence[Any]) -> list[Any]:
            return heap.put(read(i), lines, body.scalar(i))

        def arrange(i: Index, lines: Sequence[Any]) -> list[Any]:
            place = body.scalar(i * -1 + (k // 2 - 1))
            return heap.sift(heap.get(lines, place), lines, place, index_constant(k), depth)

        def take(i: Index, lines: Sequence[Any]) -> list[Any]:
            new, root = read(i), heap.get(lines, index_constant(0))
            comes = heap.before(new, root)
            new = heap.chosen(comes, new, root)
            steps = Index.runtime(arith.select(comes, levels, index_constant(0)), 0, 63)
            return heap.sift(new, lines, index_constant(0), index_constant(k), steps)

        def sort(i: Index, lines: Sequence[Any]) -> list[Any]:
            end = body.scalar(i * -1 + (k - 1))
            last, root = heap.get(lines, end), heap.get(lines, index_constant(0))
            return heap.sift(last, heap.put(root, lines, end), index_constant(0), end, depth)

        def look(number: Index, lines: Sequence[Any]) -> list[Any]:
            first, a = number * _BLOCK + k, body.arithmetic
            root = load(a, x.element, heap.get(lines, index_constant(0))[0])

            def compare(i: Index, found: Sequence[Any]) -> list[ir.Value]:
                value = load(a, x.element, read(first + i)[0])
                return [arith.ori(found[0], order.above(value, root))]

            (some,) = body.loop(0, _BLOCK, [a.constant(False, BOOLEAN.storage())], compare)
            count = arith.select(some, index_constant(_BLOCK), index_constant(0))
            steps = Index.runtime(count, 0, _BLOCK)
            return body.loop(0, steps, lines, lambda i, lines: take(first + i, lines))

        blocks = (size - k) // _BLOCK
        lines = body.loop(0, k, slices, fill)
        lines = body.loop(0, k // 2, lines, arrange)
        lines = body.loop(0, blocks, lines, look)
        lines = body.loop(blocks * _BLOCK + k, size, lines, take)
        return body.loop(0, k - 1, lines, sort)

    extents = [n for d, n in enumerate(shape) if d != axis]
    inits = [kernel.empty(shape, x.element), kernel.empty(shape, index_element)]
    values, indices = kernel.rows(extents, inits, [[axis], [axis]], find)
    return [kernel.memory(values, x.element), kernel.memory(indices, index_element)]


def _last_bit(number: Number) -> Index:
    """The number of the highest bit of a size that is set."""
    if isinstance(number, int):
        return Index.of(number.bit_length() - 1)
    wide = arith.index_cast(I64.storage(), index_constant(number))
    left = arith.subi(arith.constant(wide.type, 63), math_ops.ctlz(wide))
    return Index.runtime(arith.index_cast(ir.IndexType.get(), left), 0, 63)


# An element as memory holds it, and its index.
_Entry: TypeAlias = "tuple[ir.Value, ir.Value]"


class _Heap:
    """Elements in the first places of two lines, of their values and of their indices: each comes
    after the two at twice its place, and 1 and 2 more. The first one is the last of all."""

    def __init__(self, body: Body, order: _Order, element: Element, index: Element) -> None:
        self.body, self.order, self.element, self.index = body, order, element, index

    def before(self, x: _Entry, y: _Entry) -> ir.Value:
        """Whether x comes before y."""
        a = self.body.arithmetic
        values = [load(a, self.element, value) for value, _ in (x, y)]
        return self.order.before(values[0], x[1], values[1], y[1])

    def chosen(self, condition: ir.Value, x: _Entry, y: _Entry) -> _Entry:
        first, second = (arith.select(condition, *pair) for pair in zip(x, y, strict=True))
        return first, second

    def get(self, lines: Sequence[Any], place: ir.Value) -> _Entry:
        values, indices = lines
        index = arith.index_cast(ir.IndexType.get(), self.body.extract(indices, [place]))
        return self.body.extract(values, [place]), index

    def put(self, x: _Entry, lines: Sequence[Any], place: ir.Value) -> list[Any]:
        index = arith.index_cast(self.index.storage(), x[1])
        new = (x[0], index)
        return [self.body.insert(n, line, [place]) for n, line in zip(new, lines, strict=True)]

    def sift(
        self,
        x: _Entry,
        lines: Sequence[Any],
        place: ir.Value,
        end: ir.Value,
        steps: Index,
    ) -> list[Any]:
        """Puts x at `place` or below, in at most so many steps: what comes after it goes up.

        end: the number of elements, at least 1.
        """
        one = index_constant(1)
        last = arith.subi(end, one)

        def step(_: Index, carried: Sequence[Any]) -> list[Any]:
            hole, *lines = carried
            left = arith.addi(arith.addi(hole, hole), one)
            places = [arith.minsi(p, last) for p in (left, arith.addi(left, one))]
            found = [self.get(lines, p) for p in places]
            swap = self.before(found[0], found[1])
            child = self.chosen(swap, found[1], found[0])
            inside = arith.cmpi(arith.CmpIPredicate.slt, left, end)
            up = arith.andi(inside, self.before(x, child))
            lines = self.put(self.chosen(up, child, self.get(lines, hole)), lines, hole)
            below = arith.select(swap, places[1], places[0])
            return [arith.select(up, below, hole), *lines]

        hole, *lines = self.body.loop(0, steps, [place, *lines], step)
        return self.put(x, lines, hole)


class _Order:
    """The order of two elements in a sorted row."""

    def __init__(self, a: Arithmetic, element: Element, largest: bool) -> None:
        self.a, self.element, self.largest = a, element, largest

    def before(self, x: ir.Value, i: ir.Value, y: ir.Value, j: ir.Value) -> ir.Value:
        """Whether element x at i comes before element y at j."""
        earlier = arith.cmpi(arith.CmpIPredicate.slt, i, j)
        same = arith.andi(self.a.negate(self.above(y, x)), earlier)
        return arith.ori(self.above(x, y), same)

    def above(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """Whether x comes before y wherever they stand."""
        return self._less(y, x) if self.largest else self._less(x, y)

    def _less(self, x: ir.Value, y: ir.Value) -> ir.Value:
        less = self.a.less(self.element, x, y)
        if not self.element.is_float:
            return less
        nan = self.a.compare("uno", y, y)
        return arith.ori(less, arith.andi(nan, self.a.compare("ord", x, x)))


Combine: TypeAlias = "Callable[[Arithmetic, Element, ir.Value, ir.Value], ir.Value] | None"
# Combines an element's old value with an update; None where the update replaces it.
_SCATTERS: dict[type[ir.OpView], Combine] = {
    mgx.ScatterAddOp: Arithmetic.sum,
    mgx.ScatterMaxOp: Arithmetic.maximum,
    mgx.ScatterMinOp: Arithmetic.minimum,
    mgx.ScatterMulOp: Arithmetic.product,
    mgx.ScatterNoneOp: None,
}
Scatter: TypeAlias = (
    mgx.ScatterAddOp | mgx.ScatterMaxOp | mgx.ScatterMinOp | mgx.ScatterMulOp | mgx.ScatterNoneOp
)
_SCATTERNDS: dict[type[ir.OpView], Combine] = {
    mgx.ScatterndAddOp: Arithmetic.sum,
    mgx.ScatterndMaxOp: Arithmetic.maximum,
    mgx.ScatterndMinOp: Arithmetic.minimum,
    mgx.ScatterndMulOp: Arithmetic.product,
    mgx.ScatterndNoneOp: None,
}


def _updated(
    body: Body,
    element: Element,
    combine: Combine,
    row: Any,
    place: list[ir.Value],
    new: ir.Value,
) -> ir.Value:
    """The row with the stored value at a place combined with a new one."""
    a = body.arithmetic
    if combine is not None:
        old = body.extract(row, place)
        total = combine(a, element.computed(), load(a, element, old), load(a, element, new))
        new = store(a, element, total)
    return body.insert(new, row, place)


@lowers(*_SCATTERS)
def scatter(kernel: Kernel, op: Scatter, operands: Sequence[Lazy]) -> Lazy:
    """Runs the rows along the axis in parallel: they are independent."""
    x, chosen, updates = operands[0], kernel.settled(operands[1]), kernel.settled(operands[2])
    combine, axis = _SCATTERS[type(op)], op.axis.value

    def apply(body: Body, row: Indices, slices: Sequence[Any]) -> list[ir.Value]:
        def step(i: Index, carried: Sequence[Any]) -> list[ir.Value]:
            where = (*row[:axis], i, *row[axis:])
            index = runtime_index(body, body.at(chosen, where), x.shape[axis])
            place = [body.scalar(index)]
            new = body.at(updates, where)
            return [_updated(body, x.element, combine, carried[0], place, new)]

        return body.loop(0, chosen.shape[axis], slices, step)

    extents = [n for d, n in enumerate(chosen.shape) if d != axis]
    result = kernel.rows(extents, [kernel.copied(x)], [[axis]], apply)[0]
    return kernel.memory(result, x.element)


@lowers(*_SCATTERNDS)
def scatternd(kernel: Kernel, op: ir.OpView, operands: Sequence[Lazy]) -> Lazy:
    """Runs the dimensions beyond the index tuples in parallel: they are independent."""
    x, chosen, updates = operands[0], kernel.settled(operands[1]), kernel.settled(operands[2])
    combine, depth = _SCATTERNDS[type(op)], fixed(chosen.shape[-1])
    outer, shape = chosen.shape[:-1], x.shape
    count = math.prod(outer)
    if 1 in shape[:depth] and 1 in shape[depth:]:
        # MLIR takes one dimension of 1 for another when it folds slices: none is left in front.
        kept = [d for d in range(depth) if shape[d] != 1]
        x = reshape(x, [*(shape[d] for d in kept), *shape[depth:]])
    else:
        kept = [*range(depth)]

    def apply(body: Body, row: Indices, slices: Sequence[Any]) -> list[ir.Value]:
        def step(i: Index, carried: Sequence[Any]) -> list[ir.Value]:
            which = delinear(i, outer)
            place = [
                body.scalar(runtime_index(body, body.at(chosen, (*which, Index.of(d))), shape[d]))
                for d in kept
            ]
            new = body.at(updates, (*which, *row))
            return [_updated(body, x.element, combine, carried[0], place, new)]

        return body.loop(0, count, slices, step)

    inits = [kernel.copied(x)]
    result = kernel.rows(shape[depth:], inits, [[*range(len(kept))]], apply)[0]
    return reshape(kernel.memory(result, x.element), shape)


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

        def step(i: Index, carried: Sequence[Any]) -> list[ir.Value]:
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
        return kernel.memory(kernel.empty((rank, 0), element), element)
    init = kernel.filled((rank, columns), element, 0)
    return kernel.memory(kernel.rows([], [init], [[0, 1]], collect)[0], element)


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

        def step(i: Index, carried: Sequence[Any]) -> list[ir.Value]:
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
    return kernel.memory(kernel.rows(rows, inits, axes, row_of)[0], candidates.element)
