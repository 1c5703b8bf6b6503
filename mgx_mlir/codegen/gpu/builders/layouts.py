"""Index arithmetic from layouts: the number that a map of bits gives for indices of a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import overload

from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.layout.map import Map


@dataclass(frozen=True)
class _Run:
    """`count` bits of an index, from `start` on, that move as one: times `factor`."""

    name: str
    start: int
    count: int
    factor: int

    @property
    def mask(self) -> int:
        """The bits that the run may set."""
        return self.factor * ((1 << self.count) - 1)


def index_of(layout: Map, **indices: Index) -> Index:
    """The output of a map with one output group. Each index is below 2 to its group's bits.

    Runs of bits are shifted and masked as one. They are added where no two set the same bit,
    and combined by XOR elsewhere.
    """
    total: Index = 0
    taken = 0
    for run in sorted(_runs(layout), key=lambda run: -run.factor):
        index = emit.div(indices.get(run.name, 0), 1 << run.start)
        if run.start + run.count < layout.bits(run.name):
            index = emit.rem(index, 1 << run.count)
        index = emit.mul(index, run.factor)
        total = exclusive_or(total, index) if taken & run.mask else emit.add(total, index)
        taken |= run.mask
    return total


@overload
def swizzled(swizzle: Map, row: int) -> int: ...
@overload
def swizzled(swizzle: Map, row: Index) -> Index: ...
def swizzled(swizzle: Map, row: Index) -> Index:
    """The number that is XORed with the chunks of a row: `swizzle` maps its lowest bits.

    Each bit stands alone: LLVM shares them between rows at a constant distance.
    """
    if isinstance(row, int):
        return swizzle.flat(row % (1 << swizzle.bits("row")))
    result: Index = 0
    for bit, value in enumerate(swizzle.columns):
        if value:
            flag = emit.rem(emit.div(row, 1 << bit), 2)
            result = exclusive_or(result, emit.mul(flag, value))
    return result


def exclusive_or(a: Index, b: Index) -> Index:
    """a ^ b."""
    if isinstance(a, int) and isinstance(b, int):
        return a ^ b
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, int) and b == 0:
        return a
    return arith.xori(emit.value(a), emit.value(b))


def _runs(layout: Map) -> Iterator[_Run]:
    """The bits of the indices that move something, as few runs."""
    columns = iter(layout.columns)
    for name, size in layout.inputs:
        run: _Run | None = None
        for bit in range(size):
            column = next(columns)
            if run and run.factor & (run.factor - 1) == 0 and column == run.factor << run.count:
                run = _Run(name, run.start, run.count + 1, run.factor)
                continue
            if run:
                yield run
            run = _Run(name, bit, 1, column) if column else None
        if run:
            yield run
