"""A kernel of a loop: all its trips in one function, whose threads wait for each other.

The lowering of kernels whose sizes are arguments gives the work of a trip: functions over the
elements of tensors. Here these are nests in one function, one after another, with a barrier
after each.

    %h, %all = mgx.loop %n, %true init(%h0) ... {     for i in 0 .. n:
    ^bb0(%i: ..., %go: ..., %h: tensor<2x1x8xf32>):     for all elements: s = sums of h * r
      %s = mgx.dot %h, %r                               barrier
      %t = mgx.tanh %s                                  for all elements: h = all[i] = tanh(s)
      mgx.yield %go, %t, %t                             barrier
    }

Where every nest has the leading sizes of what the loop carries, and reads what another nest made
at its own leading indices only, the parts do not meet: each is another work-group's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.loops.body import Body, Function, Held, Indices, Lazy
from mgx_mlir.codegen.loops.kernel import Kernel, Work
from mgx_mlir.codegen.loops.nest import Nest, constant_of
from mgx_mlir.codegen.loops.place import Place, Start
from mgx_mlir.codegen.loops.value import Computed
from mgx_mlir.codegen.meaning.element import Element, element_of, sizes_of
from mgx_mlir.codegen.meaning.index import Dim, Index, index_constant
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import splat
from mgx_mlir.sizes.arithmetic import Number

# Terms of a sum that are read together.
TERMS = 16
_MOST_TRIPS = 1 << 40


class PartsMeetError(Exception):
    """The leading indices of a loop's tensors do not cut its work into independent parts."""


class Result(Place):
    """Memory that is a result of the kernel."""


class Stack(Held):
    """A result: the rows of all trips, or a copy of another tensor."""

    @staticmethod
    def of(shape: Sequence[Number], element: Element) -> Stack:
        return Stack(Result(element.storage(), math.prod(shape)), shape, element)


@dataclass
class PartFunction(Function):
    """A function whose work-groups, or items, have a part each, by leading indices.

    `parts`: the sizes of the leading dimensions; `part`: their indices.
    """

    parts: tuple[Number, ...] = ()
    part: list[ir.Value] = field(default_factory=list)

    def body(
        self, block: ir.Block, dims: Sequence[ir.Value], extents: Sequence[Number]
    ) -> PartBody:
        return PartBody(block, dims, self, extents)


class PartBody(Body):
    """The scalar code of a nest: it reads what the function made in its own part only."""

    def __init__(
        self,
        block: ir.Block,
        dims: Sequence[ir.Value],
        function: PartFunction,
        extents: Sequence[Number],
    ) -> None:
        super().__init__(block, dims, function)
        self.own = tuple(Index(((Dim(d, n), 1),)) for d, n in enumerate(extents))
        self._cut = len(function.parts)
        # Places of which other elements were read than the one that the code is for.
        self.elsewhere: set[Place] = set()

    def element(self, held: Held, indices: Indices) -> ir.Value:
        pairs = list(zip(self.own, indices, held.shape, strict=False))
        same = [own == index or size == 1 for own, index, size in pairs]
        if held.place.argument is None and not all(same[: self._cut]):
            raise PartsMeetError
        if len(self.own) != len(held.shape) or not all(same):
            self.elsewhere.add(held.place)
        return super().element(held, indices)

    def sums(
        self,
        start: ir.Value,
        length: int,
        emit: Callable[[Index, Sequence[ir.Value]], Sequence[ir.Value]],
    ) -> ir.Value:
        """A sum of `length` terms, of which some are read together."""
        step = math.gcd(length, TERMS)

        def block(number: Index, carried: Sequence[ir.Value]) -> Sequence[ir.Value]:
            for term in range(step):
                carried = emit(number * step + term, carried)
            return carried

        return self.loop(0, length // step, [start], block)[0]


@dataclass
class Group:
    """The one function of a loop's kernel, under construction at the insertion point.

    rolled: whether LLVM leaves loops over trips as they are.
    """

    function: PartFunction
    rolled: ClassVar[bool] = False

    def cuts(self, _shape: Sequence[Number], _depth: int) -> int:
        """Into how many parts, of one thread each, sums of `depth` terms are cut; 0: left as
        they are."""
        return 0

    def scalar(self, build: Callable[[Body], ir.Value]) -> ir.Value:
        """A value that every thread computes."""
        return build(self.function.body(ir.InsertionPoint.current.block, [], []))

    def loop(self, trips: ir.Value, trip: Callable[[ir.Value], None]) -> None:
        """Does what `trip` builds so many times, given the trip's number."""
        emit.loop(0, trips, 1, lambda number: trip(emit.value(number)), rolled=self.rolled)

    def end(self) -> None:
        """Nothing: each nest is built as it comes."""

    def add(self, nest: Nest) -> None:
        """Builds a nest over all elements of a part, which ends before what follows begins."""
        count = len(self.function.parts)
        if tuple(nest.space[:count]) != self.function.parts:
            raise PartsMeetError
        self.build(nest, nest.space[count:])

    def build(self, nest: Nest, inner: Sequence[Number]) -> None:
        """Builds a nest, whose part has the sizes `inner`."""
        raise NotImplementedError


class RepeatKernel(Kernel):
    """Lowers a kernel's block into one function."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._group = group
        self._parts = len(group.function.parts)

    def added(self, nest: Nest) -> list[Any]:
        """As the kernel's; threads that a sum would leave idle add up parts of it."""
        depth, cuts = nest.extents[-1] if nest.extents else 0, 0
        if nest.neighbours and len(nest.reduced) == 1 and isinstance(depth, int):
            cuts = self._group.cuts(nest.space, depth)
        if not cuts or not isinstance(depth, int) or nest.combine is None:
            return super().added(nest)
        *outer, last = nest.space
        start = nest.starts[0]
        shape, length = (*outer, cuts, last), depth // cuts
        held = Held(Place(start.type, math.prod(shape)), shape, start.element)

        def part(body: Body, dims: Indices) -> Sequence[ir.Value]:
            assert isinstance(body, PartBody)
            *mine, cut, column = dims

            def term(k: Index, total: Sequence[ir.Value]) -> Sequence[ir.Value]:
                return nest.next(body, (*mine, column, cut * length + k), total)

            body.put(body.sums(constant_of(start), length, term), held.place, held.position(dims))
            return ()

        self._group.add(Nest.of(shape, part))

        def whole(body: Body, indices: Indices) -> ir.Value:
            *mine, column = indices
            total: ir.Value | None = None
            for cut in range(cuts):
                part = body.at(held, (*mine, Index((), cut), column))
                total = part if total is None else body.arithmetic.sum(held.element, total, part)
            assert total is not None
            return total

        return [Computed(nest.space, held.element, whole, cuts)]

    def rows(
        self,
        extents: Sequence[Number],
        results: Sequence[Held | Start],
        axes: Sequence[Sequence[int]],
        work: Work,
    ) -> list[Held]:
        if self._parts:  # a row may read anything
            raise PartsMeetError
        return super().rows(extents, results, axes, work)

    def results(self, values: Sequence[Lazy]) -> list[Place]:
        """Memory of its own for each value; that of a loop's rows is a result's."""
        places: list[Place] = []
        for value in values:
            if not isinstance(value, Stack) or value.place in places:
                value = self._copy(value, Stack.of(value.shape, value.element))
            places.append(value.place)
        return places

    def repeat(self, op: mgx.LoopOp, operands: Sequence[Lazy]) -> list[Lazy]:
        """The results of a loop whose condition is always true."""
        trips, _, *init = operands
        rows = [result.type for result in list(op.results)[len(init) :]]
        stacks = [Stack.of(sizes_of(type_), element_of(type_)) for type_ in rows]
        kept = [self._kept(value) for value in init]
        count = self._group.scalar(lambda body: _count(body, trips, stacks))
        before = dict(self._stored)
        counter, condition, *carried = op.body.blocks[0].arguments
        self.values[condition] = self._number(element_of(condition.type), True, ())

        def trip(number: ir.Value) -> None:
            at = Index.runtime(number, 0, _MOST_TRIPS)
            i64 = element_of(counter.type)
            self.values[counter] = Computed(
                (), i64, lambda *_: arith.index_cast(i64.storage(), number), 0
            )
            self.values.update(zip(carried, kept, strict=True))
            _, *following = self.lower_block(op.body.blocks[0])
            self._end_trip(following, kept, stacks, at)

        self._group.loop(count, trip)
        self._stored = before  # a trip's tensors are those of the last trip
        if stacks and splat(op.max_trip_count) != (most := stacks[0].shape[0]):
            zeros = [self._number(s.element, 0, s.shape[1:]) for s in stacks]

            def clear(number: ir.Value) -> None:
                at = Index.runtime(arith.addi(count, number), 0, _MOST_TRIPS)
                self._end_trip(zeros, [], stacks, at)

            self._group.loop(arith.subi(index_constant(most), count), clear)
        return [*kept, *stacks]

    def _number(self, element: Element, value: int, shape: Sequence[Number]) -> Computed:
        return Computed(shape, element, lambda *_: self.scalar(element, value), 0)

    def _kept(self, value: Lazy) -> Held:
        """Memory of its own that starts as a value."""
        place = Place(value.element.storage(), math.prod(value.shape))
        return self._copy(value, Held(place, value.shape, value.element, owned=False))

    def _end_trip(
        self, values: Sequence[Lazy], kept: Sequence[Held], stacks: Sequence[Stack], at: Index
    ) -> None:
        """Writes a trip's values over what is carried, and into the rows.

        What is carried is written aside first where other elements may be computed of it.
        """
        shapes = dict.fromkeys(value.shape for value in values)
        aside: dict[Held, Held] = {}

        def put(body: Body, dims: Indices, value: ir.Value, number: int) -> None:
            if number >= len(kept):
                stack = stacks[number - len(kept)]
                body.put(value, stack.place, stack.position((at, *dims)))
                return
            held = kept[number]
            assert isinstance(body, PartBody)
            if len(shapes) > 1 or not body.elsewhere.isdisjoint(h.place for h in kept):
                place = Place(held.place.type, held.place.size)
                aside.setdefault(held, Held(place, held.shape, held.element))
            target = aside.get(held, held)
            body.put(value, target.place, target.position(dims))

        for shape in shapes:
            self._write(shape, [(n, v) for n, v in enumerate(values) if v.shape == shape], put)
        for held, made in aside.items():
            self._copy(made, held)

    def _write(
        self,
        shape: Sequence[Number],
        values: Sequence[tuple[int, Lazy]],
        put: Callable[[Body, Indices, ir.Value, int], None],
    ) -> None:
        """Computes numbered values of one shape, all before it puts the first."""

        def each(body: Body, dims: Indices) -> Sequence[ir.Value]:
            found = [(number, body.at(value, dims)) for number, value in values]
            for number, element in found:
                put(body, dims, element, number)
            return ()

        self._group.add(Nest.of(shape, each))

    def _copy(self, value: Lazy, held: Held) -> Held:
        """Computes a value into memory."""

        def put(body: Body, dims: Indices, element: ir.Value, _: int) -> None:
            body.put(element, held.place, held.position(dims))

        self._write(value.shape, [(0, value)], put)
        return held


def _count(body: Body, trips: Lazy, stacks: Sequence[Stack]) -> ir.Value:
    """The number of trips, at most the rows that there are."""
    count = arith.index_cast(ir.IndexType.get(), body.at(trips, ()))
    count = arith.maxsi(count, index_constant(0))
    for stack in stacks[:1]:
        count = arith.minsi(count, index_constant(stack.shape[0]))
    return count
