"""Copies between two orders of memory, as squares of vectors transposed in registers.

A loop over elements would read or write with a stride: one element from each cache line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.pack import turn_square
from mgx_mlir.codegen.loops.body import Function
from mgx_mlir.codegen.loops.nest import Access, Facts, Group, bind
from mgx_mlir.codegen.loops.place import element_bytes
from mgx_mlir.codegen.meaning.index import Index as Formula
from mgx_mlir.codegen.meaning.index import materialize
from mgx_mlir.sizes.arithmetic import Number, ceil_div

# The size of a square: a cache line of 32-bit elements.
SIDE = 16


@dataclass(frozen=True)
class Crossed:
    """A copy that reads along one loop, `across`, and writes along another, `along`.

    A work item is a stripe of `SIDE` iterations of `across`.
    """

    facts: Facts
    source: Access
    target: Access
    across: Group
    along: Group

    @staticmethod
    def of(facts: Facts) -> Crossed | None:
        """A nest as such a copy of 32-bit elements; None for others."""
        if not facts.copies or len(facts.parallel) < 2 or len(facts.accesses) != 2:
            return None
        source, target = facts.accesses
        if not (source.is_strided and target.is_strided and target.stores):
            return None
        *slower, along = facts.parallel
        if element_bytes(source.place.type) != 4 or target.step(along.dims[-1]) != 1:
            return None
        for across in slower:
            if source.step(across.dims[-1]) == 1 and not (_small(across) or _small(along)):
                return Crossed(facts, source, target, across, along)
        return None

    @property
    def others(self) -> list[Group]:
        return [group for group in self.facts.parallel[:-1] if group != self.across]

    @property
    def items(self) -> Number:
        """Work items: stripes of `SIDE` elements of the crossed loop."""
        return prod(group.size for group in self.others) * ceil_div(self.across.size, SIDE)

    def build(self, function: Function, begin: ir.Value, end: ir.Value) -> None:
        """Builds the work items begin .. end. The last square of a row overlaps the previous."""
        have, want = function.pointer(self.source.place), function.pointer(self.target.place)
        stripes = ceil_div(self.across.size, SIDE)
        across, along = self.across.size, self.along.size
        read, write = self.source.step(self.along.dims[-1]), self.target.step(self.across.dims[-1])

        def item(number: Index) -> None:
            dims: list[Index] = [0] * len(self.facts.nest.extents)
            bind(self.others, dims, emit.div(number, stripes))
            first = emit.mul(emit.rem(number, stripes), SIDE)
            start = [self._start(access, dims) for access in (self.source, self.target)]

            def squares() -> None:
                i = emit.minimum(first, across - SIDE)

                def square(j: Index) -> None:
                    j = emit.minimum(j, along - SIDE)
                    here = emit.linear(emit.add(start[0], i), (j, read))
                    there = emit.linear(emit.add(start[1], j), (i, write))
                    turn_square(SIDE, (have, here, read), (want, there, write))

                emit.loop(0, along, SIDE, square)

            def one(i: Index, j: Index) -> None:
                x = emit.load(have, emit.linear(emit.add(start[0], i), (j, read)))
                emit.store(x, want, emit.linear(emit.add(start[1], j), (i, write)))

            def elements() -> None:
                last = emit.minimum(emit.add(first, SIDE), across)
                emit.loop(first, last, 1, lambda i: emit.loop(0, along, 1, lambda j: one(i, j)))

            emit.when(_enough(across, along), squares, elements)

        emit.loop(begin, end, 1, item)

    def _start(self, access: Access, dims: Sequence[Index]) -> Index:
        """The place of an item's first element, with the two loops at 0."""
        free = (self.across.dims[-1], self.along.dims[-1])
        values = [emit.value(0 if d in free else index) for d, index in enumerate(dims)]
        return materialize(Formula.of(access.where), values)


def _small(group: Group) -> bool:
    return isinstance(group.size, int) and group.size < SIDE


def _enough(*sizes: Number) -> bool | ir.Value:
    """Whether squares fit into all sizes."""
    unknown: list[Index] = [size for size in sizes if not isinstance(size, int)]
    return emit.compare("sge", reduce(emit.minimum, unknown), SIDE) if unknown else True
