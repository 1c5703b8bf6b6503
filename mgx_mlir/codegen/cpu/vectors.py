"""Code for neighbours along a dimension as vectors; reductions that LLVM makes no vectors of.

LLVM leaves the largest of a row of floats, and its place, to a loop over single elements, since NaN
wins. Here each lane of some vectors has results of its own, which are combined in the end:

    for k in 0 .. K:                 for k in 0 .. K step 16:
      m = max(m, x[k])                 v = max(v, x[k .. k + 16])
                                     m = max of the lanes of v; the rest one by one
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.loops.body import Function, FunctionBody, Place, memory_type
from mgx_mlir.codegen.loops.nest import Facts, constant_of
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import Element
from mgx_mlir.codegen.meaning.index import Atom, Dim, Index, Quotient, Remainder
from mgx_mlir.sizes.arithmetic import Number

# Vectors of terms that are combined side by side, at most, and terms that are worth vectors.
VECTORS, FEW_TERMS = 4, 8


class NoVectorsError(Exception):
    """Neighbours are no neighbours in what the code reads."""


class Lanes(FunctionBody):
    """Code for neighbours along one dimension, as many as a vector has lanes."""

    _lane = -1

    def over(self, dim: int, lanes: int) -> None:
        """Sets the dimension, whose index is that of the first lane."""
        self._lane, self.arithmetic = dim, Arithmetic([lanes])

    def together(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        if any(isinstance(value.type, ir.VectorType) for value in values):
            return [*map(self.wide, values)]
        return list(values)

    def wide(self, value: ir.Value) -> ir.Value:
        """The value in each lane."""
        if isinstance(value.type, ir.VectorType):
            return value
        with self._points[-1]:
            return vector.broadcast(self.arithmetic.type(value.type), value)

    def scalar(self, index: Index) -> ir.Value:
        if self._moving(index):  # one number cannot stand for the lanes'
            raise NoVectorsError
        return super().scalar(index)

    def number(self, index: Index, element: Element) -> ir.Value:
        if not self._moving(index):
            return super().number(index, element)
        if self._steps(index) != 1:
            raise NoVectorsError
        first, (lanes,) = super().scalar(index), self.arithmetic.vector or (1,)
        with self._points[-1]:
            place = self.wide(arith.index_cast(element.storage(), first))
            numbers = [ir.IntegerAttr.get(element.storage(), n) for n in range(lanes)]
            step = ir.DenseElementsAttr.get(numbers, place.type)
            return arith.addi(place, arith.constant(place.type, step))

    def _loaded(self, place: Place, where: Index) -> ir.Value:
        if not self._moving(where):
            return super()._loaded(place, where)
        memory, index = self._row(place, where)
        return vector.load(self.arithmetic.type(place.type), memory, [index])

    def branch(
        self,
        condition: ir.Value,
        then: Callable[[], Sequence[ir.Value]],
        otherwise: Callable[[], Sequence[ir.Value]],
        types: Sequence[ir.Type],
    ) -> list[ir.Value]:
        def wide(values: Callable[[], Sequence[ir.Value]]) -> Callable[[], list[ir.Value]]:
            return lambda: [*map(self.wide, values())]

        lanes = [*map(self.arithmetic.type, types)]
        return super().branch(condition, wide(then), wide(otherwise), lanes)

    def put(self, value: ir.Value, place: Place, where: Index) -> None:
        with self._points[-1]:
            memory, index = self._row(place, where)
            vector.store(self.wide(value), memory, [index])

    def _row(self, place: Place, where: Index) -> tuple[ir.Value, ir.Value]:
        """The memory of the lanes' elements, which are neighbours, and the first one's index."""
        if self._steps(where) != 1 or memory_type(place.type) != place.type:
            raise NoVectorsError
        return self._function.at(place, super().scalar(where))

    def _steps(self, index: Index) -> Number | None:
        """How far apart an index is from lane to lane; None where that differs."""
        moving = self._moving(index)
        return moving[0][1] if len(moving) == 1 and isinstance(moving[0][0], Dim) else None

    def _moving(self, index: Index) -> list[tuple[Atom, Number]]:
        """The terms of an index that differ between the lanes."""
        return [(atom, factor) for atom, factor in index.terms if self._moves(atom)]

    def _moves(self, atom: Atom) -> bool:
        # What the program computes is a scalar, of which `scalar` has seen all indices.
        if isinstance(atom, Quotient | Remainder):
            return bool(self._moving(atom.value))
        return isinstance(atom, Dim) and atom.position == self._lane

    def reduce(
        self,
        loops: Sequence[tuple[Sequence[int], Number]],
        starts: Sequence[Sequence[ir.Value]],
        emit: Callable[[int, Sequence[ir.Value]], Sequence[ir.Value]],
    ) -> list[list[ir.Value]]:
        return super().reduce(loops, [[*map(self.wide, own)] for own in starts], emit)


class _Extremes(Arithmetic):
    """Arithmetic whose extremes take an instruction, and two to keep a NaN. Zeros are equal."""

    def maximum(self, element: Element, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._extreme("ogt", a, b) if element.is_float else super().maximum(element, a, b)

    def minimum(self, element: Element, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._extreme("olt", a, b) if element.is_float else super().minimum(element, a, b)

    def _extreme(self, predicate: str, a: ir.Value, b: ir.Value) -> ir.Value:
        found = self.select(self.compare(predicate, a, b), a, b)  # b where one is NaN
        return self.select(self.compare("uno", a, a), a, found)


class _Row(Lanes):
    """Terms of a reduction that are neighbours."""

    def __init__(
        self, block: ir.Block, dims: Sequence[ir.Value], function: Function, dim: int, lanes: int
    ) -> None:
        super().__init__(block, dims, function)
        self.over(dim, lanes)


@dataclass(frozen=True)
class RowReduction:
    """A reduction along the last of some loops, by vectors of its terms."""

    function: Function
    facts: Facts
    dims: list[emit.Index]
    lanes: int

    def build(self) -> list[ir.Value] | None:
        """The results; None where the terms of neighbours cannot be had as vectors."""
        nest, each = self.facts.nest, len(self.facts.nest.starts)
        starts = [constant_of(start) for start in nest.starts]
        wide = [vector.broadcast(self._vector(x.type), x) for x in starts]
        before = list(ir.InsertionPoint.current.block.operations)
        try:
            found = self._loops(0, [*wide * VECTORS, *starts])
        except NoVectorsError:
            for op in list(ir.InsertionPoint.current.block.operations)[len(before) :][::-1]:
                op.operation.erase()
            return None
        groups = [found[n * each : (n + 1) * each] for n in range(VECTORS)]
        total = groups[0]
        for more in groups[1:]:
            total = self._combine(self.lanes, total, more)
        left = self.lanes
        while left > 1:
            left //= 2
            halves = [
                [vector.shuffle(x, x, [*range(n * left, (n + 1) * left)]) for x in total]
                for n in range(2)
            ]
            total = self._combine(left, *halves)
        ones = [vector.extract(x, [], [0]) for x in total]
        return list(self._combine(0, found[VECTORS * each :], ones))

    def _combine(
        self, lanes: int, total: Sequence[ir.Value], more: Sequence[ir.Value]
    ) -> list[ir.Value]:
        combine = self.facts.nest.combine
        assert combine is not None
        return list(combine(Arithmetic([lanes] if lanes else None), total, more))

    def _vector(self, type_: ir.Type) -> ir.Type:
        return ir.VectorType.get([self.lanes], type_)

    def _loops(self, depth: int, values: Sequence[ir.Value]) -> list[ir.Value]:
        """The loops from some on: the results of each vector, then those of single terms."""
        groups = self.facts.reduction
        if depth == len(groups) - 1:
            return self._row(values)

        def step(count: emit.Index, *carried: ir.Value) -> list[ir.Value]:
            groups[depth].bind(self.dims, count)
            return self._loops(depth + 1, carried)

        return emit.loop(0, groups[depth].size, 1, step, values)

    def _row(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        group, nest = self.facts.reduction[-1], self.facts.nest
        each, low, combine = len(nest.starts), emit.value(0), nest.combine
        assert combine is not None
        for vectors in (VECTORS, 1):
            step = vectors * self.lanes
            high = emit.value(emit.mul(emit.div(group.size, step), step))

            def block(
                first: emit.Index, *carried: ir.Value, vectors: int = vectors
            ) -> list[ir.Value]:
                found: list[ir.Value] = []
                for n in range(vectors):
                    group.bind(self.dims, emit.add(first, n * self.lanes))
                    body = _Row(*self._here(), self.function, group.dims[-1], self.lanes)
                    terms = [body.wide(x) for x in nest.emit(body, nest.dims())]
                    own = carried[n * each : (n + 1) * each]
                    found += combine(_Extremes([self.lanes]), own, terms)
                return [*found, *carried[vectors * each :]]

            values = emit.loop(low, high, step, block, values)
            low = high

        def single(index: emit.Index, *carried: ir.Value) -> list[ir.Value]:
            group.bind(self.dims, index)
            body = self.function.body(*self._here(), nest.space)
            return [*carried[:-each], *nest.next(body, nest.dims(), carried[-each:])]

        return emit.loop(low, emit.value(group.size), 1, single, values)

    def _here(self) -> tuple[ir.Block, list[ir.Value]]:
        return ir.InsertionPoint.current.block, [emit.value(index) for index in self.dims]
