"""Scalar code under construction, and the linalg.generic that holds it.

A `Body` reads elements of values, remembering them, and builds loops and branches. A
`GenericBody` makes the reads that are affine in its loops operands of the linalg.generic; all
others are `tensor.extract`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from mlir import ir
from mlir.dialects import arith, scf, tensor

from mgx_mlir.codegen.generic.lowering.arithmetic import Arithmetic, scalar_type
from mgx_mlir.codegen.generic.lowering.element import Element, shape_of
from mgx_mlir.codegen.generic.lowering.index import (
    Dim,
    Index,
    affine,
    bare_dim,
    index_constant,
    materialize,
)
from mgx_mlir.errors import CompilerError
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

    def load(self, source: ir.Value, indices: tuple[Index, ...]) -> ir.Value:
        """An element of a tensor; the indices are in bounds."""
        return tensor.extract(source, [self.scalar(i) for i in indices])

    # The slices of rows under sequential work: here tensors, whose changed copies are passed on

    def insert(self, value: ir.Value, line: Any, where: Sequence[ir.Value]) -> Any:
        """The slice with an element replaced."""
        return tensor.insert(value, line, list(where))

    def extract(self, line: Any, where: Sequence[ir.Value]) -> ir.Value:
        """An element of a slice."""
        return tensor.extract(line, list(where))

    def scalar(self, index: Index) -> ir.Value:
        """The value of an index expression, of type index."""
        return self.once(index, lambda: materialize(index, self.dims(index)))

    def dims(self, index: Index) -> Sequence[ir.Value]:
        return self._dims

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


class GenericBody(Body):
    """The body of a linalg.generic whose operands are found as the body reads them."""

    def __init__(
        self,
        block: ir.Block,
        extents: Sequence[int],
        inits: Sequence[tuple[ir.Value, Sequence[int]]],
    ) -> None:
        super().__init__(block, ())
        self.extents = tuple(extents)
        self.inputs: list[ir.Value] = []
        self.maps: list[ir.AffineMap] = []
        self._block = block
        self._inits = [init for init, _ in inits]
        self._bare = {dim for _, dims in inits for dim in dims}
        self._accumulators: list[ir.Value] | None = None
        self._loop_indices: dict[int, ir.Value] = {}

    def dims(self, index: Index) -> Sequence[ir.Value]:
        return _LoopIndices(self)

    def loop_index(self, dim: int) -> ir.Value:
        """The value of a loop dimension; linalg.index stands in the outermost block only."""
        from mlir.dialects import linalg  # takes long to import: where it is used

        if dim not in self._loop_indices:
            with ir.InsertionPoint.at_block_begin(self._block):
                self._loop_indices[dim] = linalg.IndexOp(dim).result
        return self._loop_indices[dim]

    def load(self, source: ir.Value, indices: tuple[Index, ...]) -> ir.Value:
        indices = tuple(self._without_unit_loops(source, indices))
        expressions = [e for i in indices if (e := affine(i)) is not None]
        if self._is_operand(source, indices) and len(expressions) == len(indices):
            return self._operand(source, indices, expressions)
        return super().load(source, indices)

    def accumulators(self) -> list[ir.Value]:
        """The values of the results so far. Reads after this one cannot become operands."""
        if self._accumulators is None:
            self._state_extents()
            self._accumulators = [
                self._block.add_argument(scalar_type(init), ir.Location.current)
                for init in self._inits
            ]
        return self._accumulators

    def _without_unit_loops(self, source: ir.Value, indices: Sequence[Index]) -> list[Index]:
        """Replaces a loop of one iteration that indexes a longer dimension by the constant 0: as
        a bare dimension, it would have to cover that dimension."""
        plain = []
        for index, size in zip(indices, shape_of(source.type), strict=True):
            dim = bare_dim(index)
            unit = dim is not None and self.extents[dim] == 1 and size != 1
            plain.append(Index(()) if unit else index)
        return plain

    def _is_operand(self, source: ir.Value, indices: Sequence[Index]) -> bool:
        # linalg derives loop bounds from the dimensions that a map holds alone, so such a
        # dimension must cover the operand's.
        if self._accumulators is not None:
            return False
        for index, size in zip(indices, shape_of(source.type), strict=True):
            dim = bare_dim(index)
            if not index.is_within(size) or (dim is not None and self.extents[dim] != size):
                return False
        return True

    def _operand(
        self, source: ir.Value, indices: Sequence[Index], expressions: Sequence[ir.AffineExpr]
    ) -> ir.Value:
        self._bare |= {d for d in map(bare_dim, indices) if d is not None}
        return self._add_operand(source, ir.AffineMap.get(len(self.extents), 0, list(expressions)))

    def _add_operand(self, source: ir.Value, map_: ir.AffineMap) -> ir.Value:
        for position, (known, known_map) in enumerate(zip(self.inputs, self.maps, strict=True)):
            if known == source and known_map == map_:
                return self._block.arguments[position]
        self.inputs.append(source)
        self.maps.append(map_)
        return self._block.add_argument(scalar_type(source), ir.Location.current)

    def _state_extents(self) -> None:
        """Adds an operand that is never read, for loops whose extent no other operand gives."""
        unknown = [d for d in range(len(self.extents)) if d not in self._bare]
        if not unknown:
            return
        with ir.InsertionPoint(self._block.owner):
            shape = tensor.empty([self.extents[d] for d in unknown], scalar_type(self._inits[0]))
        expressions = [ir.AffineExpr.get_dim(d) for d in unknown]
        self._add_operand(shape, ir.AffineMap.get(len(self.extents), 0, expressions))


class _LoopIndices(Sequence[ir.Value]):
    """The loop dimensions of a linalg.generic as values, built when they are asked for."""

    def __init__(self, body: GenericBody) -> None:
        self._body = body

    def __len__(self) -> int:
        return len(self._body.extents)

    def __getitem__(self, dim: Any) -> Any:
        return self._body.loop_index(dim)


def generic(
    extents: Sequence[int],
    parallel: int,
    inits: Sequence[tuple[ir.Value, Sequence[int]]],
    emit: Callable[[GenericBody, tuple[Index, ...]], Sequence[ir.Value]],
) -> list[ir.Value]:
    """A linalg.generic at the current insertion point, its first `parallel` loops parallel and
    the others reductions.

    inits: for each result, the tensor it starts from and the loop dimensions that index it.
    emit: builds the body and gives the elements of the results.
    """
    from mlir.dialects import linalg  # takes long to import: where it is used

    holder = ir.Operation.create("scf.execute_region", regions=1)
    block = holder.regions[0].blocks.append()
    tensors = [init for init, _ in inits]
    body = GenericBody(block, extents, inits)
    dims = tuple(Index(((Dim(d, n), 1),)) for d, n in enumerate(extents))
    with ir.InsertionPoint(block):
        results = list(emit(body, dims))
        body.accumulators()
        linalg.YieldOp(results)
    result_maps = [
        ir.AffineMap.get(len(extents), 0, [ir.AffineExpr.get_dim(d) for d in ds]) for _, ds in inits
    ]
    maps = [ir.AffineMapAttr.get(m) for m in (*body.maps, *result_maps)]
    kinds = ["parallel"] * parallel + ["reduction"] * (len(extents) - parallel)
    iterators = [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
    op = linalg.GenericOp(
        [t.type for t in tensors],
        body.inputs,
        tensors,
        ir.ArrayAttr.get(maps),
        ir.ArrayAttr.get(iterators),
    )
    if len(op.operands) != len(block.arguments):
        raise CompilerError(f"{ir.Location.current}: a body and its operands do not match")
    block.append_to(op.regions[0])
    holder.erase()
    return list(op.results)
