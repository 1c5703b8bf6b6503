"""Code for neighbours along a dimension as vectors: elements of rows, and reductions of rows.

LLVM leaves the largest of a row of floats, and its place, to a loop over single elements, since NaN
wins. It computes functions on half a vector of AVX-512, and the last elements of a row one by one.
Here each lane of some vectors has results of its own, which are combined in the end; lanes past the
row's end are masked:

    for k in 0 .. K:                 for k in 0 .. K step 16:
      m = max(m, x[k])                 v = max(v, x[k .. k + 16])
                                     m = max of the lanes of v
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from mlir import ir
from mlir.dialects import arith, vector

from mgx_mlir._native import _mgx
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.loops.body import Body, Function
from mgx_mlir.codegen.loops.nest import Facts, Nest, constant_of
from mgx_mlir.codegen.loops.place import Place, memory_type
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import Element
from mgx_mlir.codegen.meaning.index import Atom, Dim, Index, Quotient, Remainder
from mgx_mlir.sizes.arithmetic import Number

T = TypeVar("T")
# Vectors of terms that are combined side by side, at most, and terms that are worth vectors.
VECTORS, FEW_TERMS = 4, 8


class NoVectorsError(Exception):
    """Neighbours are no neighbours in what the code reads."""


class Lanes(Body):
    """Code for neighbours along one dimension, as many as a vector has lanes."""

    _lane = -1
    _mask: ir.Value | None = None

    def over(self, dim: int, lanes: int, mask: ir.Value | None = None) -> None:
        """Sets the dimension, whose index is that of the first lane; `mask`: the lanes that are."""
        self._lane, self.arithmetic, self._mask = dim, Arithmetic([lanes]), mask

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
        (lanes,) = self.arithmetic.vector or (1,)
        return emit.load_vector(memory, index, lanes, self._mask)

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
            emit.store_vector(self.wide(value), memory, index, self._mask)

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


class _Row(Lanes):
    """Elements or terms that are neighbours along one of a nest's loops."""

    def __init__(
        self, function: Function, dims: Sequence[emit.Index], dim: int, lanes: int,
        mask: ir.Value | None,
    ) -> None:  # fmt: skip
        block = ir.InsertionPoint.current.block
        super().__init__(block, [emit.value(index) for index in dims], function)
        self.over(dim, lanes, mask)


def _tried(build: Callable[[], T]) -> T | None:
    """What `build` gives; None where what it built is not meant for vectors, and is removed."""
    block = ir.InsertionPoint.current.block
    before = len(block.operations)
    try:
        found = build()
        for op in [*block.operations][before:]:
            op.operation.verify()  # a number for all lanes may stand where they differ
            if _divides(op.operation):
                raise NoVectorsError
    except (NoVectorsError, ir.MLIRError):
        for op in [*block.operations][before:][::-1]:
            op.operation.erase()
        return None
    return found


# A masked lane divides 0 by 0.
_DIVISIONS = [
    f"arith.{name}i" for name in ("divs", "divu", "rems", "remu", "floordivs", "ceildivs")
]


def _divides(op: ir.Operation) -> bool:
    """Whether vectors of integers are divided in an op."""
    found = _mgx.ops_inside(op, _DIVISIONS)
    return any(isinstance(inner.results[0].type, ir.VectorType) for inner in found)


@dataclass(frozen=True)
class Elements:
    """The elements of a nest along the last of its parallel loops, by vectors.

    wide: lanes of the vectors that most of them are in, where those are more than `lanes`.
    """

    function: Function
    facts: Facts
    dims: list[emit.Index]
    lanes: int
    known: Mapping[tuple[Index, Number], bool]
    wide: int = 0

    @property
    def is_suited(self) -> bool:
        """Whether neighbours touch neighbouring elements, and no reduction is between."""
        facts = self.facts
        if facts.is_sequential or facts.nest.combine or facts.nest.neighbours or not facts.is_plain:
            return False
        dim = facts.parallel[-1].dims[-1]
        steps = [access.step(dim) for access in facts.accesses]
        return all(access.is_strided for access in facts.accesses) and all(
            step == 1 or (step == 0 and not access.stores)
            for step, access in zip(steps, facts.accesses, strict=True)
        )

    def build(self, low: emit.Index, high: emit.Index) -> bool:
        """Builds the elements low .. high of the loop; False where vectors cannot be had."""
        return _tried(lambda: self._loops(low, high)) is not None

    def _loops(self, low: emit.Index, high: emit.Index) -> bool:
        left = emit.sub(high, low)
        for lanes in (self.wide, self.lanes) if self.wide else (self.lanes,):
            whole = emit.add(low, emit.mul(emit.div(left, lanes), lanes))
            emit.loop(low, whole, lanes, partial(self._vector, lanes))
            low, left = whole, emit.sub(high, whole)
        if left != 0:
            mask = emit.lane_mask(left, self.lanes)
            some = isinstance(left, int) or emit.compare("slt", low, high)
            emit.when(some, lambda: self._vector(self.lanes, low, mask))
        return True

    def _vector(self, lanes: int, first: emit.Index, mask: ir.Value | None = None) -> None:
        group, nest = self.facts.parallel[-1], self.facts.nest
        group.bind(self.dims, first)
        body = _Row(self.function, self.dims, group.dims[-1], lanes, mask)
        body.known.update(self.known)
        nest.put(body, nest.dims(), nest.emit(body, nest.dims()))


def is_extreme(nest: Nest) -> bool:
    """Whether the result is the largest or the least of floats."""
    return len(nest.starts) == 1 and nest.starts[0].value in (math.inf, -math.inf)


@dataclass(frozen=True)
class RowReduction:
    """A reduction along the last of some loops, by vectors of its terms."""

    function: Function
    facts: Facts
    dims: list[emit.Index]
    lanes: int

    def build(self) -> list[ir.Value] | None:
        """The results; None where the terms of neighbours cannot be had as vectors."""
        return _tried(self._results)

    def _results(self) -> list[ir.Value]:
        starts = [constant_of(start) for start in self.facts.nest.starts]
        each = len(starts)
        wide = [vector.broadcast(ir.VectorType.get([self.lanes], x.type), x) for x in starts]
        nans = [emit.constant(0, "i1", self.lanes)] if is_extreme(self.facts.nest) else []
        found = self._loops(0, [*wide * self._vectors, *nans])
        groups = [found[n * each : (n + 1) * each] for n in range(self._vectors)]
        while len(groups) > 1:
            half = len(groups) // 2
            pairs = zip(groups[:half], groups[half:], strict=True)
            groups = [self._combine(self.lanes, *pair) for pair in pairs]
        (total,) = groups
        return (
            self._extreme(total[0], found[-1])
            if is_extreme(self.facts.nest)
            else self._folded(total)
        )

    @property
    def _vectors(self) -> int:
        """Vectors that are combined side by side."""
        size = self.facts.reduction[-1].size
        return VECTORS if not isinstance(size, int) or size >= VECTORS * self.lanes else 1

    def _extreme(self, x: ir.Value, nans: ir.Value) -> list[ir.Value]:
        """The extreme of the lanes, or NaN where a term was one."""
        for half in self._halvings():
            x = self._more(*half(x))
        start = self.facts.nest.starts[0]
        is_nan = vector.reduction(
            ir.VectorType(nans.type).element_type, vector.CombiningKind.OR, nans
        )
        return [
            arith.select(is_nan, Arithmetic().constant(math.nan, start.type), *self._first([x]))
        ]

    def _more(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """The larger or the smaller one in one instruction: b where one is NaN."""
        lanes = Arithmetic.like([a])
        most = self.facts.nest.starts[0].value == -math.inf
        return lanes.select(lanes.compare("ogt" if most else "olt", a, b), a, b)

    def _folded(self, total: list[ir.Value]) -> list[ir.Value]:
        for half in self._halvings():
            pairs = [half(x) for x in total]
            low, high = [[pair[n] for pair in pairs] for n in range(2)]
            total = self._combine(ir.VectorType(low[0].type).shape[0], low, high)
        return self._first(total)

    def _halvings(self) -> list[Callable[[ir.Value], list[ir.Value]]]:
        """For each half of the lanes that is left, the two halves of a vector."""

        def halves(x: ir.Value, left: int) -> list[ir.Value]:
            return [vector.shuffle(x, x, [*range(n * left, (n + 1) * left)]) for n in range(2)]

        return [partial(halves, left=1 << n) for n in reversed(range(self.lanes.bit_length() - 1))]

    @staticmethod
    def _first(total: Sequence[ir.Value]) -> list[ir.Value]:
        return [vector.extract(x, [], [0]) for x in total]

    def _combine(
        self, lanes: int, total: Sequence[ir.Value], more: Sequence[ir.Value]
    ) -> list[ir.Value]:
        if is_extreme(self.facts.nest):
            return [self._more(*total, *more)]
        combine = self.facts.nest.combine
        assert combine is not None
        return list(combine(Arithmetic([lanes]), total, more))

    def _loops(self, depth: int, values: Sequence[ir.Value]) -> list[ir.Value]:
        """The loops from some on: the results of each vector."""
        groups = self.facts.reduction
        if depth == len(groups) - 1:
            return self._row(values)

        def step(count: emit.Index, *carried: ir.Value) -> list[ir.Value]:
            groups[depth].bind(self.dims, count)
            return self._loops(depth + 1, carried)

        return emit.loop(0, groups[depth].size, 1, step, values)

    def _row(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        size = self.facts.reduction[-1].size
        low: emit.Index = 0
        for vectors in dict.fromkeys((self._vectors, 1)):
            step = vectors * self.lanes
            high = emit.mul(emit.div(size, step), step)
            values = emit.loop(low, high, step, partial(self._block, vectors), values)
            low = high
        left = emit.rem(size, self.lanes)
        if left == 0:
            return list(values)
        mask = emit.lane_mask(left, self.lanes)
        if isinstance(left, int):
            return self._block(1, low, *values, mask=mask)
        rest = partial(self._block, 1, mask=mask)
        return emit.loop(low, size, self.lanes, rest, values)

    def _block(
        self, vectors: int, first: emit.Index, *carried: ir.Value, mask: ir.Value | None = None
    ) -> list[ir.Value]:
        """The results of each vector, with so many vectors of terms."""
        group, nest = self.facts.reduction[-1], self.facts.nest
        each, found, seen = len(nest.starts), list[ir.Value](), list[ir.Value]()
        for n in range(vectors):
            group.bind(self.dims, emit.add(first, n * self.lanes))
            body = self._body(group.dims[-1], mask)
            terms = [body.wide(x) for x in nest.emit(body, nest.dims())]
            own = carried[n * each : (n + 1) * each]
            more = self._combine(self.lanes, own, terms)
            if mask is not None:
                more = [arith.select(mask, x, y) for x, y in zip(more, own, strict=True)]
                terms = [arith.select(mask, x, y) for x, y in zip(terms, own, strict=True)]
            found, seen = [*found, *more], [*seen, *terms]
        rest = carried[vectors * each :]
        return [*found, *(self._nans(seen, rest) if is_extreme(self.facts.nest) else rest)]

    def _body(self, dim: int, mask: ir.Value | None) -> Lanes:
        """The body of a vector of terms along a dimension."""
        return _Row(self.function, self.dims, dim, self.lanes, mask)

    def _nans(self, terms: Sequence[ir.Value], carried: Sequence[ir.Value]) -> list[ir.Value]:
        """What is carried, the last of which are the lanes that had a term that is NaN."""
        a, found = Arithmetic([self.lanes]), carried[-1]
        for n in range(0, len(terms), 2):
            found = arith.ori(found, a.compare("uno", terms[n], terms[min(n + 1, len(terms) - 1)]))
        return [*carried[:-1], found]
