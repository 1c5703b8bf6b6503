"""The first elements of sorted rows.

The k first elements so far are a heap, whose root is the last of them. An element that comes before
the root takes its place; most blocks of elements have none. Then the heap is sorted: the root goes
to the end.

An element of at most 32 bits and its index are one number, by which entries compare: the
element's place in the order above, the index's complement below. NaN is above every number, as
numpy sorts it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from mlir import ir
from mlir.dialects import arith
from mlir.dialects import math as math_ops

from mgx_mlir.codegen.loops.body import Body, Indices, Lazy
from mgx_mlir.codegen.loops.kernel import Kernel, lowers
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import load
from mgx_mlir.codegen.meaning.element import I64, SIGNED, Element, element_of, sizes_of
from mgx_mlir.codegen.meaning.index import Index, index_constant
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number

_BLOCK = 32  # elements of a row that are looked at together

# An entry of the heap: a number, or an element as memory holds it and its index.
_Entry: TypeAlias = "tuple[ir.Value, ...]"


@lowers(mgx.TopkOp)
def topk(kernel: Kernel, op: mgx.TopkOp, operands: Sequence[Lazy]) -> list[Lazy]:
    x, axis = kernel.settled(operands[0], 0), op.axis.value
    element, index_element = x.element.computed(), element_of(op.results[1].type)
    size, shape = x.shape[axis], sizes_of(op.results[0].type)
    k = shape[axis]
    # A row of 2^32 elements would take 4 GiB or more.
    is_one = (
        (not isinstance(size, int) or size < 1 << 32)
        and index_element.bits == 64
        and element.bits <= 32
    )

    def find(body: Body, row: Indices, slices: Sequence[Any]) -> Sequence[Any]:
        if k == 0:
            return slices
        order = _Order(body.arithmetic, element, op.largest.value)
        entries = (_Numbers if is_one else _Pairs)(order, x.element)
        heap = _Heap(body, entries.before)
        values, indices = slices
        start = [indices] if is_one else [values, indices]
        levels, top = body.scalar(_last_bit(k)), index_constant(0)
        depth = Index.runtime(levels, 0, 63)

        def stored(i: Index) -> ir.Value:
            return body.at(x, (*row[:axis], i, *row[axis:]))

        def read(i: Index) -> _Entry:
            index = arith.index_cast(index_element.storage(), body.scalar(i))
            return entries.of(stored(i), index)

        def fill(i: Index, lines: Sequence[Any]) -> list[Any]:
            return heap.put(read(i), lines, body.scalar(i))

        def arrange(i: Index, lines: Sequence[Any]) -> list[Any]:
            place = body.scalar(i * -1 + (k // 2 - 1))
            return heap.sift(heap.get(lines, place), lines, place, index_constant(k), depth)

        def take(i: Index, lines: Sequence[Any]) -> list[Any]:
            new, root = read(i), heap.get(lines, top)
            comes = entries.before(new, root)
            new = heap.chosen(comes, new, root)
            steps = Index.runtime(arith.select(comes, levels, top), 0, 63)
            return heap.sift(new, lines, top, index_constant(k), steps)

        def sort(i: Index, lines: Sequence[Any]) -> list[Any]:
            end = body.scalar(i * -1 + (k - 1))
            last, root = heap.get(lines, end), heap.get(lines, top)
            return heap.sift(last, heap.put(root, lines, end), top, end, depth)

        def place_of(index: ir.Value) -> Index:
            return Index.runtime(arith.index_cast(ir.IndexType.get(), index), 0, size - 1)

        def look(number: Index, lines: Sequence[Any]) -> list[Any]:
            first, a = number * _BLOCK + k, body.arithmetic
            root = stored(place_of(entries.index(heap.get(lines, top))))
            root = load(a, x.element, root)

            def compare(i: Index, found: Sequence[Any]) -> list[ir.Value]:
                above = order.above(load(a, x.element, stored(first + i)), root)
                place = arith.index_cast(found[0].type, body.scalar(i))
                return [arith.ori(found[0], arith.shli(arith.extui(found[0].type, above), place))]

            none = arith.constant(ir.IntegerType.get_signless(_BLOCK), 0)
            (bits,) = body.loop(0, _BLOCK, [none], compare)
            count = arith.index_castui(ir.IndexType.get(), math_ops.ctpop(bits))

            def next_(_: Index, carried: Sequence[Any]) -> list[Any]:
                left, *lines = carried
                low = arith.index_castui(ir.IndexType.get(), math_ops.cttz(left))
                lines = take(first + Index.runtime(low, 0, _BLOCK - 1), lines)
                one = arith.constant(left.type, 1)
                return [arith.andi(left, arith.subi(left, one)), *lines]

            return body.loop(0, Index.runtime(count, 0, _BLOCK), [bits, *lines], next_)[1:]

        def apart(i: Index, lines: Sequence[Any]) -> list[Any]:
            place = body.scalar(i)
            index = entries.index(heap.get(lines[1:], place))
            values = body.insert(stored(place_of(index)), lines[0], [place])
            return [values, body.insert(index, lines[1], [place])]

        blocks = (size - k) // _BLOCK
        lines = body.loop(0, k, start, fill)
        lines = body.loop(0, k // 2, lines, arrange)
        lines = body.loop(0, blocks, lines, look)
        lines = body.loop(blocks * _BLOCK + k, size, lines, take)
        lines = body.loop(0, k - 1, lines, sort)
        return body.loop(0, k, [values, *lines], apart) if is_one else lines

    extents = [n for d, n in enumerate(shape) if d != axis]
    inits = [kernel.empty(shape, x.element), kernel.empty(shape, index_element)]
    return [*kernel.rows(extents, inits, [[axis], [axis]], find)]


def _last_bit(number: Number) -> Index:
    """The number of the highest bit of a size that is set."""
    if isinstance(number, int):
        return Index.of(number.bit_length() - 1)
    wide = arith.index_cast(I64.storage(), index_constant(number))
    left = arith.subi(arith.constant(wide.type, 63), math_ops.ctlz(wide))
    return Index.runtime(arith.index_cast(ir.IndexType.get(), left), 0, 63)


class _Heap:
    """Entries in the first places of lines, a line for each of an entry's values: each comes after
    the two at twice its place, and 1 and 2 more. The first one is the last of all."""

    def __init__(self, body: Body, before: Callable[[_Entry, _Entry], ir.Value]) -> None:
        self.body, self.before = body, before

    def chosen(self, condition: ir.Value, x: _Entry, y: _Entry) -> _Entry:
        return tuple(arith.select(condition, *pair) for pair in zip(x, y, strict=True))

    def get(self, lines: Sequence[Any], place: ir.Value) -> _Entry:
        return tuple(self.body.extract(line, [place]) for line in lines)

    def put(self, x: _Entry, lines: Sequence[Any], place: ir.Value) -> list[Any]:
        return [self.body.insert(n, line, [place]) for n, line in zip(x, lines, strict=True)]

    def sift(
        self,
        x: _Entry,
        lines: Sequence[Any],
        place: ir.Value,
        end: ir.Value,
        steps: Index,
    ) -> list[Any]:
        """Puts x at `place` or below, in at most so many steps: what comes after it goes up.

        end: the number of entries, at least 1.
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
            lines = self.put(self.chosen(up, child, x), lines, hole)
            below = arith.select(swap, places[1], places[0])
            return [arith.select(up, below, hole), *lines]

        hole, *lines = self.body.loop(0, steps, [place, *lines], step)
        return self.put(x, lines, hole)


class _Order:
    """The order of two elements in a sorted row."""

    def __init__(self, a: Arithmetic, element: Element, largest: bool) -> None:
        self.a, self.element, self.largest = a, element, largest

    def above(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """Whether x comes before y wherever they stand."""
        return self._less(y, x) if self.largest else self._less(x, y)

    def _less(self, x: ir.Value, y: ir.Value) -> ir.Value:
        less = self.a.less(self.element, x, y)
        if not self.element.is_float:
            return less
        nan = self.a.compare("uno", y, y)
        return arith.ori(less, arith.andi(nan, self.a.compare("ord", x, x)))

    def number(self, x: ir.Value) -> ir.Value:
        """An element as a signed number of 64 bits, of which 32 say something; the first most."""
        a, wide = self.a, I64.storage()
        if self.element.is_float:
            x = self._bits(x)
        extend = (
            arith.extsi if self.element.is_float or self.element.kind == SIGNED else arith.extui
        )
        found = x if x.type == wide else extend(wide, x)
        if extend is arith.extui:
            found = arith.subi(found, a.constant(1 << 31, wide))
        return found if self.largest else arith.xori(found, a.constant(-1, wide))

    def _bits(self, x: ir.Value) -> ir.Value:
        """A float as an integer of the same order, NaN above all; zeros are equal."""
        a, word = self.a, ir.IntegerType.get_signless(32)
        bits = arith.bitcast(word, arith.addf(x, a.float(0.0, x)))
        sign = arith.shrsi(bits, a.constant(31, word))
        found = arith.xori(bits, arith.andi(sign, a.constant(0x7FFFFFFF, word)))
        return a.select(a.compare("uno", x, x), a.constant(0x7FFFFFFF, word), found)


class _Numbers:
    """Entries that are one number: the order of the element above the index's complement."""

    def __init__(self, order: _Order, element: Element) -> None:
        self.order, self.element = order, element

    def of(self, value: ir.Value, index: ir.Value) -> _Entry:
        a = self.order.a
        high = self.order.number(load(a, self.element, value))
        high = arith.shli(high, a.constant(32, index.type))
        return (arith.ori(high, arith.xori(index, a.constant(_LOW, index.type))),)

    def index(self, entry: _Entry) -> ir.Value:
        low = self.order.a.constant(_LOW, entry[0].type)
        return arith.xori(arith.andi(entry[0], low), low)

    def before(self, x: _Entry, y: _Entry) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.sgt, x[0], y[0])


_LOW = (1 << 32) - 1


class _Pairs:
    """Entries of an element and its index."""

    def __init__(self, order: _Order, element: Element) -> None:
        self.order, self.element = order, element

    def of(self, value: ir.Value, index: ir.Value) -> _Entry:
        return value, index

    def index(self, entry: _Entry) -> ir.Value:
        return entry[1]

    def before(self, x: _Entry, y: _Entry) -> ir.Value:
        a, above = self.order.a, self.order.above
        first, second = (load(a, self.element, entry[0]) for entry in (x, y))
        earlier = arith.cmpi(arith.CmpIPredicate.slt, x[1], y[1])
        return arith.ori(above(first, second), arith.andi(a.negate(above(second, first)), earlier))
