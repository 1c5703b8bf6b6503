"""A nest of loops: what it computes, which of its loops are one, and where it touches memory.

A nest is built once aside (`Facts.of`), where every index that its code needs is seen. Loops whose
indices count as one in all of them are one loop:

    for c in 0 .. C:                           for i in 0 .. C*H*W:
      for h in 0 .. H:                           y[i] = x[i] + 1
        for w in 0 .. W:
          y[(c*H + h)*W + w] = x[(c*H + h)*W + w] + 1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.loops.body import Body, Function, Held, Indices
from mgx_mlir.codegen.loops.place import Place, Start, Table
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.index import (
    Atom,
    Dim,
    Index,
    Quotient,
    Remainder,
    linear,
    symbol_values,
)
from mgx_mlir.sizes.arithmetic import Number

# The results of a reduction with one more term of each, or with those of other terms.
Combine = Callable[[Arithmetic, Sequence[ir.Value], Sequence[ir.Value]], Sequence[ir.Value]]
# Gives the values of an element, or the terms of a reduction; or, where a nest has no results, does
# the element's work.
Emit = Callable[[Body, Indices], Sequence[ir.Value]]


@dataclass(frozen=True, eq=False)
class Nest:
    """Work on each element of a space; the elements are independent.

    The space is the first `parallel` of `extents`; the others are those of reductions, whose
    results start from `starts`, and to which `combine` adds terms. Without results, `emit` puts
    what it finds.
    neighbours: whether neighbours along the last dimension of the space read neighbouring elements.
    """

    extents: tuple[Number, ...]
    parallel: int
    emit: Emit
    results: tuple[Held, ...] = ()
    starts: tuple[Start, ...] = ()
    combine: Combine | None = None
    neighbours: bool = False

    @staticmethod
    def of(extents: Sequence[Number], emit: Emit, neighbours: bool = False) -> Nest:
        """A nest whose code puts what it finds."""
        return Nest(tuple(extents), len(extents), emit, neighbours=neighbours)

    @property
    def space(self) -> tuple[Number, ...]:
        return self.extents[: self.parallel]

    @property
    def reduced(self) -> tuple[Number, ...]:
        """The extents of the reductions."""
        return self.extents[self.parallel :]

    @property
    def is_empty(self) -> bool:
        return math.prod(self.space) == 0

    def build(
        self,
        body: Body,
        elements: Sequence[Indices],
        groups: Sequence[Group] | None = None,
    ) -> None:
        """Builds the work on some elements; `groups`: the loops of the reductions."""
        if self.combine is None:
            for dims in elements:
                self.put(body, dims, self.emit(body, dims))
            return
        rest = range(self.parallel, len(self.extents))
        if groups is None:
            groups = [Group((d,), self.extents[d]) for d in rest if self.extents[d] != 1]
        for d in rest:
            body.bind(d, body.scalar(Index(())))
        loops = [(group.dims, group.size) for group in groups]
        starts = [[constant_of(start) for start in self.starts] for _ in elements]
        inner = self.dims()[self.parallel :]

        def step(number: int, total: Sequence[ir.Value]) -> Sequence[ir.Value]:
            return self.next(body, (*elements[number], *inner), total)

        found = body.reduce(loops, starts, step)
        for place, own in zip(elements, found, strict=True):
            self.put(body, place, own)

    def next(self, body: Body, dims: Indices, total: Sequence[ir.Value]) -> Sequence[ir.Value]:
        """The results of a reduction so far, with the terms at some indices."""
        assert self.combine is not None
        return self.combine(body.arithmetic, total, self.emit(body, dims))

    def put(self, body: Body, dims: Indices, values: Sequence[ir.Value]) -> None:
        for value, result in zip(values, self.results, strict=True):
            body.put(value, result.place, linear(dims[: self.parallel], result.shape))

    def dims(self) -> Indices:
        """The indices of an element, and of a term."""
        return tuple(Index(((Dim(d, n), 1),)) for d, n in enumerate(self.extents))


def constant_of(start: Start) -> ir.Value:
    """The number that a result's elements start from."""
    assert start.value is not None
    return Arithmetic().constant(start.value, start.type)


@dataclass(frozen=True)
class Group:
    """Neighbouring dimensions that are one loop: the last one's index counts all of it."""

    dims: tuple[int, ...]
    size: Number

    def bind(self, dims: list[emit.Index], count: emit.Index) -> None:
        """Sets the dimensions' indices for a count of the loop."""
        for d in self.dims[:-1]:
            dims[d] = 0
        dims[self.dims[-1]] = count


@dataclass(frozen=True)
class Access:
    """An element of memory that a nest loads or stores, by the indices of the nest."""

    place: Place
    where: Index
    stores: bool

    def step(self, dim: int) -> Number:
        """How far apart elements are that differ by one in a dimension."""
        return coefficient(self.where, dim)

    @property
    def is_strided(self) -> bool:
        """Whether the steps are all that tells its place."""
        return all(isinstance(atom, Dim) for atom, _ in self.where.terms)


def bind(groups: Sequence[Group], dims: list[emit.Index], number: emit.Index) -> None:
    """Sets the indices of loops from the row-major number of an iteration."""
    for group in reversed(groups[1:]):
        group.bind(dims, emit.rem(number, group.size))
        number = emit.div(number, group.size)
    for group in groups[:1]:
        group.bind(dims, number)


def coefficient(index: Index, dim: int) -> Number:
    for atom, factor in index.terms:
        if isinstance(atom, Dim) and atom.position == dim:
            return factor
    return 0


@dataclass(frozen=True, eq=False)
class Facts:
    """A nest with what is known of its loops and of the memory that it touches.

    parallel, reduction: its loops of more than one iteration, the last one innermost.
    turns: indices, and the bounds that the code compares them with.
    copies: whether it stores just what it loads. is_plain: whether its code has no loop or branch.
    functions: whether it computes functions such as exp.
    """

    nest: Nest
    parallel: tuple[Group, ...]
    reduction: tuple[Group, ...]
    accesses: tuple[Access, ...]
    turns: tuple[tuple[Index, Number], ...]
    copies: bool
    is_plain: bool
    functions: bool

    @staticmethod
    def of(nest: Nest, symbols: Sequence[str]) -> Facts:
        """Builds a nest's code aside, with sizes of these symbols."""
        holder = ir.Operation.create("scf.execute_region", regions=1)
        block = holder.regions[0].blocks.append()
        index, unknown = ir.IndexType.get(), ir.Location.unknown()
        values = [block.add_argument(index, unknown) for _ in symbols]
        dims = [block.add_argument(index, unknown) for _ in nest.extents]
        try:
            with ir.InsertionPoint(block), symbol_values(dict(zip(symbols, values, strict=True))):
                seen = _Seen(block, dims)
                found = nest.emit(seen, nest.dims())
                copies = nest.combine is None and [*found] == [*seen.loaded] and len(found) == 1
                nest.put(seen, nest.dims(), found)
            is_plain = not any(op.operation.regions for op in block.operations)
            functions = any(op.operation.name in _FUNCTIONS for op in block.operations)
        finally:
            holder.erase()
        # Work without results may go through memory in an order of its own.
        fixed = not nest.results or nest.neighbours
        parallel = _groups(nest, range(nest.parallel), () if fixed else seen.indices, fixed)
        rest = range(nest.parallel, len(nest.extents))
        reduction = _groups(nest, rest, seen.indices)
        accesses = tuple(dict.fromkeys(seen.accesses))
        turns = tuple(seen.turns)
        return Facts(nest, parallel, reduction, accesses, turns, copies, is_plain, functions)

    @property
    def is_sequential(self) -> bool:
        """Whether an element's work may touch any memory, in an order of its own."""
        return not self.nest.results

    @property
    def places(self) -> frozenset[Place]:
        return frozenset(access.place for access in self.accesses)

    @property
    def written(self) -> frozenset[Place]:
        return frozenset(access.place for access in self.accesses if access.stores)

    @property
    def iterations(self) -> Number:
        return math.prod(group.size for group in self.parallel)

    @property
    def depth(self) -> Number:
        """The terms of an element."""
        return math.prod(group.size for group in self.reduction)

    @property
    def work(self) -> Number:
        return self.iterations * self.depth


def build_elements(
    function: Function,
    facts: Facts,
    places: Sequence[Sequence[emit.Index]],
    known: Mapping[tuple[Index, Number], bool] = MappingProxyType({}),
) -> None:
    """Builds a nest's work on some elements, by their indices; `known` is a body's."""
    nest, first = facts.nest, places[0]
    body = body_at(function, facts, first, known)
    own = nest.dims()[: nest.parallel]
    elements = [own]
    for dims in places[1:]:
        element = []
        for d, size in enumerate(nest.space):
            same = dims[d] is first[d]
            element.append(own[d] if same else Index.runtime(emit.value(dims[d]), 0, size - 1))
        elements.append(tuple(element))
    nest.build(body, elements, facts.reduction)


def body_at(
    function: Function,
    facts: Facts,
    dims: Sequence[emit.Index],
    known: Mapping[tuple[Index, Number], bool] = MappingProxyType({}),
) -> Body:
    """The body of an element's code at the insertion point."""
    values = [emit.value(index) for index in dims]
    body = function.body(ir.InsertionPoint.current.block, values, facts.nest.space)
    body.known.update(known)
    return body


# Functions that take a dozen instructions or more.
_FUNCTIONS = frozenset(
    f"math.{name}"
    for name in (
        "cos",
        "erf",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "log2",
        "powf",
        "sin",
        "tanh",
    )
)


class _Seen(Body):
    """A body that notes which elements of memory its code touches, and by which indices."""

    def __init__(self, block: ir.Block, dims: Sequence[ir.Value]) -> None:
        super().__init__(block, dims, _Aside(block))
        self.indices: dict[Index, None] = {}
        self.accesses: list[Access] = []
        self.turns: dict[tuple[Index, Number], None] = {}
        self.loaded: list[ir.Value] = []

    def scalar(self, index: Index) -> ir.Value:
        self.indices[index] = None
        return super().scalar(index)

    def decided(self, index: Index, bound: Number) -> bool | None:
        known = super().decided(index, bound)
        if known is None:
            self.turns[index - index.constant, bound - index.constant] = None
        return known

    def _loaded(self, place: Place, where: Index) -> ir.Value:
        self.accesses.append(Access(place, where, False))
        value = super()._loaded(place, where)
        self.loaded.append(value)
        return value

    def put(self, value: ir.Value, place: Place, where: Index) -> None:
        self.accesses.append(Access(place, where, True))
        super().put(value, place, where)


class _Aside(Function):
    """The function of code that is built to be looked at."""

    def table(self, table: Table) -> ir.Value:
        return self.argument(table)


def _groups(
    nest: Nest,
    dims: Sequence[int],
    indices: Collection[Index],
    fixed: bool = False,
) -> tuple[Group, ...]:
    """The loops of neighbouring dimensions. With `fixed`, each one is a loop of its own."""
    groups: list[Group] = []
    alone = {d for index in indices for atom, _ in index.terms for d in _inside(atom)}
    for d in dims:
        size = nest.extents[d]
        if size == 1:
            continue
        before = groups[-1].dims[-1] if groups else None
        if (
            before is not None
            and not fixed
            and not {before, d} & alone
            and all(coefficient(i, before) == coefficient(i, d) * size for i in indices)
        ):
            last = groups.pop()
            groups.append(Group((*last.dims, d), last.size * size))
        else:
            groups.append(Group((d,), size))
    return tuple(groups)


def _inside(atom: Atom) -> set[int]:
    """The dimensions in a quotient or remainder."""
    if not isinstance(atom, Quotient | Remainder):
        return set()
    terms = atom.value.terms
    return {d for inner, _ in terms for d in (_inside(inner) or _dim(inner))}


def _dim(atom: Atom) -> set[int]:
    return {atom.position} if isinstance(atom, Dim) else set()
