"""Scalar code under construction: it reads elements of values, and remembers them; it builds loops
and branches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from mlir import ir
from mlir.dialects import arith, scf

from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import Element
from mgx_mlir.codegen.meaning.index import Index, index_constant, materialize
from mgx_mlir.sizes.arithmetic import Number

Indices = tuple[Index, ...]
T = TypeVar("T")


class Lazy:
    """A tensor whose elements are computed where they are read; its sizes are ints or formulas."""

    def __init__(self, shape: Sequence[Number], element: Element, cost: int) -> None:
        self.shape, self.element, self.cost = tuple(shape), element, cost
        self.location = ir.Location.current

    @property
    def size(self) -> Number:
        return math.prod(self.shape)

    def read(self, body: Body, indices: Indices) -> ir.Value:
        """The element at `indices`, in its storage type. Call it through `Body.at`."""
        raise NotImplementedError


class Body:
    """Scalar code in a block, with nested loops and branches.

    dims: the values of the loop dimensions around the block.
    """

    def __init__(self, block: ir.Block, dims: Sequence[ir.Value]) -> None:
        self.arithmetic = Arithmetic()
        self._dims = list(dims)
        self._points = [ir.InsertionPoint(block)]
        self._known: list[dict[Hashable, Any]] = [{}]

    # Reading

    def at(self, value: Lazy, indices: Sequence[Index]) -> ir.Value:
        """An element of a value, as memory holds it."""
        indices = tuple(indices)
        return self.once((value, indices), lambda: value.read(self, indices))

    def once(self, key: Hashable, build: Callable[[], T]) -> T:
        """The result of `build`, built once for a key in this block and the blocks inside it."""
        for known in self._known:
            if key in known:
                found: T = known[key]
                return found
        with self._points[-1]:
            result = build()
        self._known[-1][key] = result
        return result

    def together(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Elements that are computed with, as values of one shape."""
        return list(values)

    # The slices of rows under sequential work

    def insert(self, value: ir.Value, line: Any, where: Sequence[ir.Value]) -> Any:
        """The slice with an element replaced."""
        raise NotImplementedError

    def extract(self, line: Any, where: Sequence[ir.Value]) -> ir.Value:
        """An element of a slice."""
        raise NotImplementedError

    def scalar(self, index: Index) -> ir.Value:
        """The value of an index expression, of type index."""
        return self.once(index, lambda: materialize(index, self._dims))

    # Indices

    def number(self, index: Index, element: Element) -> ir.Value:
        """An index as an integer."""
        return arith.index_cast(element.storage(), self.scalar(index))

    def below(self, index: Index, bound: Number) -> ir.Value:
        """Whether an index is less than a bound."""
        value = self.scalar(index)
        with self._points[-1]:
            return arith.cmpi(arith.CmpIPredicate.slt, value, index_constant(bound))

    def known_within(self, index: Index, size: Number) -> Index:
        """The index, in code that runs only where it is a valid index into `size` elements."""
        if index.is_within(size):
            return index
        return Index.runtime(self.scalar(index), 0, size - 1)

    def clamp(self, index: Index, size: Number) -> Index:
        """The nearest valid index into `size` elements."""
        low, high = index.bounds
        above, below = low >= 0, high < size
        if above and below:
            return index
        value = self.scalar(index)
        with self._points[-1]:
            if not above:
                value = arith.maxsi(value, index_constant(0))
            if not below:
                value = arith.minsi(value, index_constant(size - 1))
        return Index.runtime(value, low if above else 0, high if below else size - 1)

    def inside(self, index: Index, size: Number) -> ir.Value | None:
        """Whether an index is valid; None if it always is."""
        low, high = index.bounds
        if low >= 0 and high < size:
            return None
        value = self.scalar(index)
        with self._points[-1]:
            if low >= 0:
                return arith.cmpi(arith.CmpIPredicate.slt, value, index_constant(size))
            if high < size:
                return arith.cmpi(arith.CmpIPredicate.sge, value, index_constant(0))
            # As unsigned numbers, negative indices are beyond any size.
            return arith.cmpi(arith.CmpIPredicate.ult, value, index_constant(size))

    def guarded(
        self, value: Lazy, indices: Sequence[Index], otherwise: Callable[[], ir.Value]
    ) -> ir.Value:
        """An element of a value, or `otherwise()` where an index is out of bounds."""
        conditions = [self.inside(i, n) for i, n in zip(indices, value.shape, strict=True)]
        clamped = [self.clamp(i, n) for i, n in zip(indices, value.shape, strict=True)]
        element = self.at(value, clamped)
        present = [c for c in conditions if c is not None]
        if not present:
            return element
        with self._points[-1]:
            condition = present[0]
            for other in present[1:]:
                condition = arith.andi(condition, other)
            return arith.select(condition, element, otherwise())

    # Control

    def loop(
        self,
        lower: Index | Number,
        upper: Index | Number,
        carried: Sequence[ir.Value],
        emit: Callable[[Index, Sequence[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """A sequential loop; `emit` gives the next carried values."""
        low, high = Index.of(lower), Index.of(upper)
        start, stop = self.scalar(low), self.scalar(high)
        with self._points[-1]:
            loop = scf.ForOp(start, stop, index_constant(1), list(carried))
        index = Index.runtime(loop.induction_variable, low.bounds[0], high.bounds[1] - 1)
        with self._inside(loop.body):
            scf.YieldOp(list(emit(index, list(loop.inner_iter_args))))
        return list(loop.results)

    def nest(
        self,
        extents: Sequence[Number],
        carried: Sequence[ir.Value],
        emit: Callable[[tuple[Index, ...], Sequence[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """Nested sequential loops from 0, the last innermost; loops of one iteration vanish."""

        def level(
            axis: int, outer: tuple[Index, ...], values: Sequence[ir.Value]
        ) -> Sequence[ir.Value]:
            if axis == len(extents):
                return emit(outer, values)
            if extents[axis] == 1:
                return level(axis + 1, (*outer, Index(())), values)
            return self.loop(
                0, extents[axis], values, lambda i, inner: level(axis + 1, (*outer, i), inner)
            )

        return list(level(0, (), carried))

    def branch(
        self,
        condition: ir.Value,
        then: Callable[[], Sequence[ir.Value]],
        otherwise: Callable[[], Sequence[ir.Value]],
        types: Sequence[ir.Type],
    ) -> list[ir.Value]:
        """The results of one of two blocks of code."""
        with self._points[-1]:
            op = scf.IfOp(condition, list(types), has_else=True)
        for region, emit in zip(op.regions, (then, otherwise), strict=True):
            with self._inside(region.blocks[0]):
                scf.YieldOp(list(emit()))
        return list(op.results)

    def _inside(self, block: ir.Block) -> _Scope:
        return _Scope(self, ir.InsertionPoint(block))


class _Scope:
    def __init__(self, body: Body, point: ir.InsertionPoint) -> None:
        self._body, self._point = body, point

    def __enter__(self) -> None:
        self._body._points.append(self._point)
        self._body._known.append({})
        self._point.__enter__()

    def __exit__(self, *error: object) -> None:
        self._point.__exit__(*error)
        self._body._known.pop()
        self._body._points.pop()
