"""Scalar code under construction: it reads and writes elements of values, and remembers them; it
builds loops and branches."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mlir import ir
from mlir.dialects import arith, memref, scf

from mgx_mlir.codegen.loops.place import UNBOUNDED, Place, Table, is_bool, memory_type, table_of
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import Element
from mgx_mlir.codegen.meaning.index import Dim, Index, index_constant, linear, materialize
from mgx_mlir.rewriting.queries import ops_inside
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


class Held(Lazy):
    """A tensor in a kernel's memory, row-major. `owned`: the kernel made it, and may return it."""

    def __init__(
        self, place: Place, shape: Sequence[Number], element: Element, owned: bool = True
    ) -> None:
        super().__init__(shape, element, 0)
        self.place, self.owned = place, owned

    def read(self, body: Body, indices: Indices) -> ir.Value:
        return body.element(self, indices)

    def position(self, indices: Indices) -> Index:
        """The place of an element in the tensor's memory."""
        return linear(indices, self.shape)


@dataclass(frozen=True)
class Slice:
    """The elements of a tensor in memory that belong to a row; `inside` are its own dimensions."""

    held: Held
    inside: tuple[int, ...]
    row: Indices

    def position(self, where: Sequence[Index]) -> Index:
        """The place in the tensor's memory of an element, by its indices in the slice."""
        outer, inner = iter(self.row), iter(where)
        rank = len(self.held.shape)
        indices = [next(inner if d in self.inside else outer) for d in range(rank)]
        return linear(indices, self.held.shape)


@dataclass
class Function:
    """A function under construction: its pointers, added as its body asks for them."""

    entry: ir.Block
    space: ir.Attribute | None = None
    pointers: dict[Place, ir.Value] = field(default_factory=dict)
    tables: dict[Table, ir.Value] = field(default_factory=dict)

    def pointer(self, place: Place) -> ir.Value:
        """The function's argument that points to the place, or its table: a flat memref."""
        place = place.home
        if isinstance(place, Table):
            return self.table(place)
        if place not in self.pointers:
            self.pointers[place] = self.argument(place)
        return self.pointers[place]

    def argument(self, place: Place) -> ir.Value:
        """A new argument that points to a place."""
        element = memory_type(place.type)
        type_ = ir.MemRefType.get([UNBOUNDED], element, memory_space=self.space)
        return self.entry.add_argument(type_, ir.Location.unknown())

    def table(self, table: Table) -> ir.Value:
        if table not in self.tables:
            self.tables[table] = table_of(table, self.entry, self.space)
        return self.tables[table]

    def at(self, place: Place, index: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The memory of an element of a place, and its index there."""
        return self.pointer(place), index

    def body(self, block: ir.Block, dims: Sequence[ir.Value], extents: Sequence[Number]) -> Body:
        """Scalar code in a block, inside of loops with the indices `dims`."""
        return Body(block, dims, self)

    def element(self, dims: Sequence[ir.Value], extents: Sequence[Number], build: Build) -> None:
        """Builds the code for an element, at the insertion point."""
        body = self.body(ir.InsertionPoint.current.block, dims, extents)
        build(body, [tuple(Index(((Dim(d, n), 1),)) for d, n in enumerate(extents))])


# Builds code for some elements, given the indices of each, into a body.
Build = Callable[["Body", Sequence[Indices]], None]


class Body:
    """Scalar code in a block, with nested loops and branches, on the memory of a function.

    dims: the values of the loop dimensions around the block.
    """

    def __init__(self, block: ir.Block, dims: Sequence[ir.Value], function: Function) -> None:
        self.arithmetic = Arithmetic()
        self._dims, self._function = list(dims), function
        self._points = [ir.InsertionPoint(block)]
        self._once: list[dict[Hashable, Any]] = [{}]
        # Whether an index, such as a loop's, is below a bound, where the loops around decide it.
        self.known: dict[tuple[Index, Number], bool] = {}

    def at(self, value: Lazy, indices: Sequence[Index]) -> ir.Value:
        """An element of a value, as memory holds it."""
        indices = tuple(indices)
        return self.once((value, indices), lambda: value.read(self, indices))

    def once(self, key: Hashable, build: Callable[[], T]) -> T:
        """The result of `build`, built once for a key in this block and the blocks inside it."""
        for known in self._once:
            if key in known:
                found: T = known[key]
                return found
        with self._points[-1]:
            result = build()
        self._once[-1][key] = result
        return result

    def together(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Elements that are computed with, as values of one shape."""
        return list(values)

    # Memory

    def element(self, held: Held, indices: Indices) -> ir.Value:
        """An element of a tensor in memory; the indices must be in bounds."""
        return self._loaded(held.place, held.position(indices))

    def _loaded(self, place: Place, where: Index) -> ir.Value:
        memory, index = self._function.at(place, self.scalar(where))
        value = memref.load(memory, [index])
        if is_bool(place.type):
            zero = arith.constant(ir.IntegerType.get_signless(8), 0)
            return arith.cmpi(arith.CmpIPredicate.ne, value, zero)
        return value

    def put(self, value: ir.Value, place: Place, where: Index) -> None:
        with self._points[-1]:
            if is_bool(place.type):
                value = arith.extui(ir.IntegerType.get_signless(8), value)
            memory, index = self._function.at(place, self.scalar(where))
            memref.store(value, memory, [index])

    def insert(self, value: ir.Value, line: Slice, where: Sequence[ir.Value]) -> Slice:
        """The slice, which is changed where it is."""
        self.put(value, line.held.place, line.position(self._indices(line, where)))
        return line

    def extract(self, line: Slice, where: Sequence[ir.Value]) -> ir.Value:
        return self._loaded(line.held.place, line.position(self._indices(line, where)))

    def _indices(self, line: Slice, where: Sequence[ir.Value]) -> list[Index]:
        sizes = [line.held.shape[d] for d in line.inside]
        return [Index.runtime(v, 0, n - 1) for v, n in zip(where, sizes, strict=True)]

    # Indices

    def scalar(self, index: Index) -> ir.Value:
        """The value of an index expression, of type index."""
        return self.once(index, lambda: materialize(index, self._dims))

    def number(self, index: Index, element: Element) -> ir.Value:
        """An index as an integer."""
        return arith.index_cast(element.storage(), self.scalar(index))

    def decided(self, index: Index, bound: Number) -> bool | None:
        """Whether an index is below a bound; None where it is for some elements only."""
        low, high = index.bounds
        if high < bound or low >= bound:
            return bool(high < bound)
        return self.known.get((index - index.constant, bound - index.constant))

    def below(self, index: Index, bound: Number) -> ir.Value:
        """Whether an index is less than a bound."""
        known = self.decided(index, bound)
        if known is not None:
            return self._truth(known)
        value = self.scalar(index)
        with self._points[-1]:
            return arith.cmpi(arith.CmpIPredicate.slt, value, index_constant(bound))

    def known_within(self, index: Index, size: Number) -> Index:
        """The index, in code that runs only where it is a valid index into `size` elements."""
        if index.is_within(size):
            return index
        return Index.runtime(self.scalar(index), 0, size - 1)

    def clamp(self, index: Index, size: Number) -> Index:
        """The nearest valid index into `size` elements; 0 where there are none."""
        before, within = self.decided(index, 0), self.decided(index, size)
        if index.is_within(size) or (before is False and within):
            return self.known_within(index, size)
        low, high = index.bounds
        above, below = low >= 0, high < size
        value = self.scalar(index)
        with self._points[-1]:
            if not below:
                value = arith.minsi(value, index_constant(size - 1))
            if not above or not (below or isinstance(size, int)):
                value = arith.maxsi(value, index_constant(0))
        return Index.runtime(value, low if above else 0, high if below else size - 1)

    def inside(self, index: Index, size: Number) -> ir.Value | None:
        """Whether an index is valid; None if it always is."""
        before, within = self.decided(index, 0), self.decided(index, size)
        if before or within is False:
            return self._truth(False)
        if before is False and within:
            return None
        low, high = index.bounds
        value = self.scalar(index)
        # As unsigned numbers, negative indices are beyond any size.
        kind = "slt" if low >= 0 else "sge" if high < size else "ult"
        with self._points[-1]:
            return self.arithmetic.icompare(
                kind, value, index_constant(0 if kind == "sge" else size)
            )

    def _truth(self, value: bool) -> ir.Value:
        with self._points[-1]:
            return arith.constant(ir.IntegerType.get_signless(1), ir.BoolAttr.get(value))

    def guarded(
        self, value: Lazy, indices: Sequence[Index], otherwise: Callable[[], ir.Value]
    ) -> ir.Value:
        """An element of a value, or `otherwise()` where an index is out of bounds."""
        pairs = list(zip(indices, value.shape, strict=True))
        present = [(c, n) for i, n in pairs if (c := self.inside(i, n)) is not None]
        with self._points[-1]:
            condition = functools.reduce(arith.andi, [c for c, _ in present]) if present else None
        if condition is None or all(isinstance(n, int) for _, n in present):
            element = self.at(value, [self.clamp(*pair) for pair in pairs])
            with self._points[-1]:
                return arith.select(condition, element, otherwise()) if condition else element
        # A size that only a run knows may be 0: no element is the nearest one.
        return self.branch(
            condition,
            lambda: [self.at(value, [self.known_within(*pair) for pair in pairs])],
            lambda: [otherwise()],
            [value.element.storage()],
        )[0]

    # Control

    def loop(
        self,
        lower: Index | Number,
        upper: Index | Number,
        carried: Sequence[Any],
        emit: Callable[[Index, Sequence[Any]], Sequence[Any]],
    ) -> list[Any]:
        """A sequential loop; `emit` gives the next carried values. Slices stay what they are."""
        slices = {n: line for n, line in enumerate(carried) if isinstance(line, Slice)}

        def merged(values: Sequence[ir.Value]) -> list[Any]:
            rest = iter(values)
            return [slices[n] if n in slices else next(rest) for n in range(len(carried))]

        def plain(values: Sequence[Any]) -> list[ir.Value]:
            return [value for value in values if not isinstance(value, Slice)]

        low, high = Index.of(lower), Index.of(upper)
        start, stop = self.scalar(low), self.scalar(high)
        with self._points[-1]:
            loop = scf.ForOp(start, stop, index_constant(1), plain(carried))
        index = Index.runtime(loop.induction_variable, low.bounds[0], high.bounds[1] - 1)
        with self._inside(loop.body):
            scf.YieldOp(plain(emit(index, merged(loop.inner_iter_args))))
        return merged(loop.results)

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

    @contextmanager
    def _inside(self, block: ir.Block) -> Iterator[None]:
        """Code that is built inside of the context is in a block of its own."""
        self._points.append(ir.InsertionPoint(block))
        self._once.append({})
        try:
            with self._points[-1]:
                yield
        finally:
            self._once.pop()
            self._points.pop()

    def reduce(
        self,
        loops: Sequence[tuple[Sequence[int], Number]],
        starts: Sequence[Sequence[ir.Value]],
        emit: Callable[[int, Sequence[ir.Value]], Sequence[ir.Value]],
    ) -> list[list[ir.Value]]:
        """Builds loops in which `emit` gives an element's next values from the current ones.

        loops: the dimensions that one counts, by the last of them, and how far.
        """
        each, zero = len(starts[0]), self.scalar(Index(()))

        def level(depth: int, carried: Sequence[ir.Value]) -> Sequence[ir.Value]:
            if depth < len(loops):
                dims, size = loops[depth]

                def trip(index: Index, values: Sequence[ir.Value]) -> Sequence[ir.Value]:
                    for d in dims:
                        self.bind(d, zero)
                    self.bind(dims[-1], self.scalar(index))
                    return level(depth + 1, values)

                return self.loop(0, size, carried, trip)
            following: list[ir.Value] = []
            for number in range(len(starts)):
                following += emit(number, carried[number * each : (number + 1) * each])
            return following

        found = level(0, [value for own in starts for value in own])
        if len(starts) > 1 and found and isinstance(found[0].owner.opview, scf.ForOp):
            _keep_scalar(found[0].owner)
        return [[*found[n * each : (n + 1) * each]] for n in range(len(starts))]

    def bind(self, dim: int, value: ir.Value) -> None:
        """Sets the index of a dimension."""
        while len(self._dims) <= dim:
            self._dims.append(value)
        self._dims[dim] = value


def _keep_scalar(loop: ir.OpView) -> None:
    """Keeps LLVM from vectorising along a reduction, so that it vectorises over the neighbours.

    Sums whose terms may not be reordered are not vectorised.
    """
    flags = ir.Attribute.parse("#arith.fastmath<contract>")
    for add in ops_inside(loop, arith.AddFOp):
        add.fastmath = flags
