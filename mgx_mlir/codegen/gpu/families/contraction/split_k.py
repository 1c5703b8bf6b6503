"""Split-K: the parts of k of the work-groups that share a tile of C, given or a run's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.function import MAX_THREADS, block_number
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule
from mgx_mlir.codegen.meaning.index import symbol_values
from mgx_mlir.sizes.arithmetic import Number, Size, Symbol, ceil_div

# Symbols of the code: the number of parts, their iterations, and those of a work-group's part.
_PARTS, _TURNS, _OWN = "#parts", "#turns", "#own turns"


class Loop(Protocol):
    """A loop along k."""

    def run(
        self, steps: Number, start: Index, before: Sequence[ir.Value] | None = None
    ) -> list[ir.Value]: ...


@dataclass(frozen=True)
class SplitK:
    """`count` parts of k, `most` at the most. Where a run decides, each has `turns` iterations, and
    the first ones one more: both are symbols of the code, whose values in a run are `named`."""

    count: Number
    most: Number
    turns: Number | None = None
    named: Mapping[str, Number] | None = None

    @staticmethod
    def of(schedule: ProductSchedule, steps: Number, tiles: Number) -> SplitK:
        """The parts of so many steps along k, for so many tiles of C."""
        if not schedule.fill:
            return SplitK(schedule.splits, schedule.splits)
        most, count = schedule.most(steps), schedule.cut(steps, tiles)
        named = {_PARTS: count, _TURNS: steps // schedule.turn // count}
        return SplitK(Size.of(Symbol(_PARTS, 1, most)), most, Size.of(Symbol(_TURNS)), named)

    @property
    def in_run(self) -> Number:
        """How many parts a run has."""
        return self.named[_PARTS] if self.named else self.count

    def place(self, matrices: Index) -> tuple[Index, Index]:
        """A work-group's matrix, of so many, and its part of k."""
        count = emit.mul(matrices, self.count)
        z = block_number("z", count if isinstance(count, int) else MAX_THREADS)
        return (emit.rem(z, matrices), emit.div(z, matrices)) if self.count != 1 else (z, 0)

    def sums(
        self,
        loop: Loop,
        schedule: ProductSchedule,
        unit: Unit,
        k: tuple[Number, Index],
        before: Sequence[ir.Value] | None,
    ) -> list[ir.Value]:
        """The sums of a loop over one part. k: all of it, and the number of the part."""
        (K, part), depth = k, schedule.depth(unit)
        steps = ceil_div(K, depth)
        if self.turns is None:
            own = steps // schedule.splits
            return loop.run(own, emit.mul(part, own * depth), before)
        more = steps // schedule.turn - self.turns * self.count
        turns = emit.select(emit.compare("slt", part, more), self.turns + 1, self.turns)
        first = emit.linear(emit.minimum(part, more), (part, self.turns))
        symbol = Symbol(_OWN, schedule.least)
        with symbol_values({symbol.name: turns}):
            own = Size.of(symbol) * schedule.turn
            return loop.run(own, emit.mul(first, schedule.turn * depth), before)
