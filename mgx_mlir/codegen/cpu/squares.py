"""Copies between two orders of memory, as squares of vectors transposed in registers.

A loop over elements would read or write with a stride: one element from each cache line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

from mlir import ir
from mlir.dialects import vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.pack import turn_square
from mgx_mlir.codegen.loops.body import Function
from mgx_mlir.codegen.loops.nest import Access, Facts, Group, bind
from mgx_mlir.codegen.loops.place import element_bytes
from mgx_mlir.codegen.meaning.index import Index as Formula
from mgx_mlir.codegen.meaning.index import materialize
from mgx_mlir.sizes.arithmetic import Number, ceil_div

# The largest size of a square.
SIDE = 16
# The iterations of a work item of few lines.
RUN = 4096


@dataclass(frozen=True)
class Crossed:
    """A copy that reads along one loop, `across`, and writes along another, `along`.

    A work item is a stripe of `side` iterations of `across`; where these are `few`, which lie one
    after another, a run of `along`.
    """

    facts: Facts
    source: Access
    target: Access
    across: Group
    along: Group

    @staticmethod
    def of(facts: Facts) -> Crossed | None:
        """A nest as such a copy of elements of 32 bits at most; None for others."""
        if not facts.copies or len(facts.parallel) < 2 or len(facts.accesses) != 2:
            return None
        source, target = facts.accesses
        if not (source.is_strided and target.is_strided and target.stores):
            return None
        *slower, along = facts.parallel
        if element_bytes(source.place.type) > 4 or target.step(along.dims[-1]) != 1:
            return None
        for across in slower:
            found = Crossed(facts, source, target, across, along)
            together = not _small(across) or source.step(along.dims[-1]) == across.size
            if source.step(across.dims[-1]) == 1 and together and not _small(along):
                return found
        return None

    @property
    def others(self) -> list[Group]:
        return [group for group in self.facts.parallel[:-1] if group != self.across]

    @property
    def side(self) -> int:
        """The size of a square: a cache line of 32-bit elements, or half of it for short loops."""
        sizes = (self.across.size, self.along.size)
        return SIDE // 2 if any(isinstance(n, int) and n < SIDE for n in sizes) else SIDE

    @property
    def few(self) -> int:
        """The iterations of `across`, where they are too few for squares; else 0."""
        size = self.across.size
        return size if isinstance(size, int) and size < SIDE // 2 else 0

    @property
    def items(self) -> Number:
        return prod(group.size for group in self.others) * self._stripes

    @property
    def _stripes(self) -> Number:
        if not self.few:
            return ceil_div(self.across.size, self.side)
        # Items of short lines would take longer to count by a size than to copy.
        whole = self.others and not isinstance(self.along.size, int)
        return 1 if whole else ceil_div(self.along.size, RUN)

    def build(self, function: Function, begin: ir.Value, end: ir.Value) -> None:
        """Builds the work items begin .. end. The last square of a row overlaps the previous."""
        have, want = function.pointer(self.source.place), function.pointer(self.target.place)
        across, along, side = self.across.size, self.along.size, self.side
        stripes = self._stripes
        read, write = self.source.step(self.along.dims[-1]), self.target.step(self.across.dims[-1])

        def item(number: Index) -> None:
            dims: list[Index] = [0] * len(self.facts.nest.extents)
            bind(self.others, dims, emit.div(number, stripes))
            first = emit.mul(emit.rem(number, stripes), RUN if self.few else side)
            start = [self._start(access, dims) for access in (self.source, self.target)]

            def squares() -> None:
                i = emit.minimum(first, across - side)

                def square(j: Index) -> None:
                    j = emit.minimum(j, along - side)
                    here = emit.linear(emit.add(start[0], i), (j, read))
                    there = emit.linear(emit.add(start[1], j), (i, write))
                    turn_square(side, (have, here, read), (want, there, write))

                emit.loop(0, along, side, square)

            def one(i: Index, j: Index) -> None:
                x = emit.load(have, emit.linear(emit.add(start[0], i), (j, read)))
                emit.store(x, want, emit.linear(emit.add(start[1], j), (i, write)))

            def lines(j: Index) -> None:
                x = emit.load_vector(have, emit.linear(start[0], (j, read)), side * self.few)
                for i in range(self.few):
                    own = vector.shuffle(x, x, list(range(i, side * self.few, self.few)))
                    emit.store_vector(own, want, emit.linear(emit.add(start[1], j), (i, write)))

            def elements() -> None:
                last = emit.minimum(emit.add(first, side), across)
                emit.loop(first, last, 1, lambda i: emit.loop(0, along, 1, lambda j: one(i, j)))

            if self.few:
                last = along if stripes == 1 else emit.minimum(emit.add(first, RUN), along)
                whole = emit.add(first, emit.mul(emit.div(emit.sub(last, first), side), side))
                emit.loop(first, whole, side, lines)
                emit.loop(whole, last, 1, lambda j: emit.loop(0, across, 1, lambda i: one(i, j)))
                return
            emit.when(_enough(side, across, along), squares, elements)

        emit.loop(begin, end, 1, item)

    def _start(self, access: Access, dims: Sequence[Index]) -> Index:
        """The place of an item's first element, with the two loops at 0."""
        free = (self.across.dims[-1], self.along.dims[-1])
        values = [emit.value(0 if d in free else index) for d, index in enumerate(dims)]
        return materialize(Formula.of(access.where), values)


def _small(group: Group) -> bool:
    return isinstance(group.size, int) and group.size < SIDE // 2


def _enough(side: int, *sizes: Number) -> bool | ir.Value:
    """Whether squares of a side fit into all sizes."""
    unknown: list[Index] = [size for size in sizes if not isinstance(size, int)]
    return emit.compare("sge", reduce(emit.minimum, unknown), side) if unknown else True
