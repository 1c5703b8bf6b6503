"""The reads of a resize's results along one dimension: from tables, or computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.families.resize.match import Formula, Taps
from mgx_mlir.codegen.loops.body import Body, Function
from mgx_mlir.codegen.loops.ops.movement import word
from mgx_mlir.codegen.loops.ops.resize import nearest_place, taps_of
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.index import Index as Result

# Up to this number of taps the code is unrolled; more are a loop.
_UNROLLED = 4


def index_of(x: ir.Value) -> ir.Value:
    return arith.index_cast(ir.IndexType.get(), x)


class Reads(ABC):
    """The reads of results along a dimension."""

    count: int

    @abstractmethod
    def tap(self, tap: Index, index: Index) -> tuple[Index, ir.Value | None]:
        """The offset in x of a tap of a result index, and its weight as f32."""

    def inside(self, _index: Index) -> ir.Value | None:
        """Whether a result index lies in x; None where all do."""
        return None

    def each(
        self,
        index: Index,
        zero: ir.Value,
        term: Callable[[Index, ir.Value | None], ir.Value],
        a: Arithmetic,
    ) -> ir.Value:
        """The sum of a term for each tap; for a nearest resize, the only term."""

        def step(tap: Index, total: ir.Value | None) -> list[ir.Value]:
            x = term(*self.tap(tap, index))
            return [x if total is None else a.add(total, x)]

        if self.count > _UNROLLED:
            return emit.loop(0, self.count, 1, step, [zero])[0]
        found: ir.Value | None = None
        for tap in range(self.count):
            (found,) = step(tap, found)
        assert found is not None
        return found


class Tables(Reads):
    """The tables of a dimension's taps, read at run time."""

    def __init__(self, taps: Taps, launches: Launches) -> None:
        self.taps, self.count = taps, taps.count
        self.places = launches.table(taps.places(taps.indices))
        self.weights = launches.table(taps.weights) if taps.weights is not None else None
        self._inside = launches.table(taps.inside) if taps.inside is not None else None

    def tap(self, tap: Index, index: Index) -> tuple[Index, ir.Value | None]:
        at = emit.add(emit.mul(tap, self.taps.indices.shape[1]), index)
        return index_of(read_table(self.places, at)), read_table(
            self.weights, at
        ) if self.weights is not None else None

    def inside(self, index: Index) -> ir.Value | None:
        if self._inside is None:
            return None
        zero = emit.constant(0, "i32")
        return arith.cmpi(arith.CmpIPredicate.ne, read_table(self._inside, index), zero)


class Computed(Reads):
    """A dimension's taps, computed for each index."""

    def __init__(self, formula: Formula) -> None:
        self.formula, self.count = formula, formula.count
        self._known: dict[Index, list[tuple[Index, ir.Value | None]]] = {}

    def tap(self, tap: Index, index: Index) -> tuple[Index, ir.Value | None]:
        assert isinstance(tap, int)  # few taps are unrolled
        if index not in self._known:
            own, block = self.formula, ir.InsertionPoint.current.block
            body = Body(block, [], Function(block))
            at = Result.runtime(emit.value(index), 0, own.axis.wanted - 1)
            if word(own.op.mode) == "nearest":
                taps: list[Any] = [(nearest_place(own.op, own.axis)(body, at), None)]
            else:
                taps = list(taps_of(body, own.op, own.axis, at))
            self._known[index] = [(own.stride.offset(body.scalar(x)), w) for x, w in taps]
        return self._known[index][tap]


def read_table(table: Callable[[], ir.Value], at: Index) -> ir.Value:
    return memory.element(memory.load(table(), at, 1), 0)
