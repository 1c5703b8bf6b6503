"""Thread layouts of a running sum or product: a wave along a row, or a thread for some rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import lanes as wave
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.scan.space import UNROLL, NonZero, Scan, ScanSchedule
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import Element
from mgx_mlir.codegen.problem.problem import Axis

# The column where a vector starts, and the conditions under which it is inside its row.
Offset: TypeAlias = "tuple[Index, list[ir.Value]]"


@dataclass
class Layout(ABC):
    """The part of a row, or of some rows, that a thread works on.

    element: the element that is summed, or multiplied. number: the thread's number in the grid.
    """

    work: Scan | NonZero
    element: Element
    schedule: ScanSchedule
    target: Target
    number: Index
    guards: list[ir.Value] = field(default_factory=list)
    part: Index = 0
    along: Index = 0  # the lane's number in its group

    def __post_init__(self) -> None:
        self.arithmetic = Arithmetic([self.schedule.lanes] if self.schedule.across else None)
        self.begin()

    @staticmethod
    @abstractmethod
    def threads(rows: int, schedule: ScanSchedule) -> int:
        """The number of threads of all work-groups together."""

    @abstractmethod
    def begin(self) -> None:
        """Computes the thread's rows and part."""

    @abstractmethod
    def placed(self, operand: MemoryOperand, column: Index) -> tuple[MemoryOperand, Index, Index]:
        """The operand with vectors along its inner axis, and where a column's vector starts."""

    @abstractmethod
    def sums(self, x: ir.Value, carried: ir.Value, exclusive: bool) -> tuple[ir.Value, ir.Value]:
        """The running sums of a vector, and what is carried on."""

    @abstractmethod
    def total(self, x: ir.Value, carried: ir.Value) -> ir.Value:
        """The thread's sum, with one more vector."""

    @property
    @abstractmethod
    def totals(self) -> MemoryOperand:
        """The scratch operand with the sums of all parts."""

    @abstractmethod
    def keep(self, total: ir.Value, buffer: ir.Value) -> None:
        """Stores the sum of the part; `total` is the thread's share of it."""

    @abstractmethod
    def carry(self, buffer: ir.Value) -> ir.Value:
        """The sum of the parts before this one."""

    def load(self, operand: MemoryOperand, buffer: ir.Value, offset: Offset) -> ir.Value:
        """A vector in the type that memory holds; zeros beyond the end."""
        own, start, inner = self.placed(operand, offset[0])
        return own.load(buffer, start, inner, self.schedule.lanes, offset[1])

    def store(self, operand: MemoryOperand, x: ir.Value, buffer: ir.Value, offset: Offset) -> None:
        """Stores a vector, where it is not beyond the end."""
        own, start, inner = self.placed(operand, offset[0])
        own.store(x, buffer, start, inner, offset[1])

    def offset(self, number: Index) -> Offset:
        """The offset where chunk `number` of the part starts."""
        schedule, width = self.schedule, 1 if self.schedule.across else self.schedule.lanes
        size = schedule.group * width
        chunk = emit.add(emit.mul(self.part, schedule.chunks), number)
        column = emit.add(emit.mul(chunk, size), emit.mul(self.along, width))
        inside = list(self.guards)
        if schedule.parts * schedule.chunks * size != self.work.columns:
            inside.append(emit.compare("slt", column, self.work.columns))
        if self.work.reverse:
            column = memory.opaque(emit.sub(self.work.columns - width, column))
        return column, inside

    def add(self, x: ir.Value, y: ir.Value) -> ir.Value:
        a = Arithmetic.like([x])
        return (a.product if self.work.product else a.sum)(self.element, x, y)

    @property
    def nothing(self) -> ir.Value:
        """The neutral element of the sum, or of the product."""
        return self.arithmetic.constant(int(self.work.product), self.element.storage())

    def only(self, condition: ir.Value, x: ir.Value) -> ir.Value:
        """x, which was read as zeros where the condition fails: neutral elements replace them."""
        return arith.select(condition, x, self.nothing) if self.work.product else x

    def chunks(
        self,
        step: Callable[[Sequence[Offset], ir.Value], ir.Value],
        first: ir.Value,
    ) -> ir.Value:
        """Steps over the part, `UNROLL` vectors at a time; returns the last carry."""
        count = self.schedule.chunks
        whole = count // UNROLL * UNROLL

        def body(number: Index, carried: ir.Value) -> list[ir.Value]:
            return [step([self.offset(emit.add(number, i)) for i in range(UNROLL)], carried)]

        (carried,) = emit.loop(0, whole, UNROLL, body, [first])
        left = [self.offset(number) for number in range(whole, count)] if count != whole else []
        return step(left, carried)


class Along(Layout):
    """`group` lanes along a part of a row, with a vector each; the parts of a row are
    neighbours."""

    @staticmethod
    def threads(rows: int, schedule: ScanSchedule) -> int:
        return rows * schedule.parts * schedule.group

    def begin(self) -> None:
        schedule = self.schedule
        self.lane = emit.rem(self.number, self.target.wave_size)
        self.along = emit.rem(self.number, schedule.group)
        self.piece = emit.div(self.number, schedule.group)
        self.row = emit.div(self.piece, schedule.parts)
        self.part = emit.rem(self.piece, schedule.parts)

    def placed(self, operand: MemoryOperand, column: Index) -> tuple[MemoryOperand, Index, Index]:
        return operand, operand.start(self.row), column

    def ordered(self, x: ir.Value) -> list[ir.Value]:
        """A vector's elements in the order of the sum."""
        found = [memory.element(x, i) for i in range(self.schedule.lanes)]
        return found[::-1] if self.work.reverse else found

    def sums(self, x: ir.Value, carried: ir.Value, exclusive: bool) -> tuple[ir.Value, ir.Value]:
        inner: list[ir.Value] = []
        for value in self.ordered(x):
            inner.append(self.add(inner[-1], value) if inner else value)
        before, total = wave.prefix(
            inner[-1], self.nothing, self.schedule.group, self.lane, self.add, self.target
        )
        base = self.add(carried, before)
        found = [self.add(base, value) for value in inner]
        if exclusive:
            found = [base, *found[:-1]]
        return memory.joined(found[::-1] if self.work.reverse else found), self.add(carried, total)

    def total(self, x: ir.Value, carried: ir.Value) -> ir.Value:
        for value in self.ordered(x):
            carried = self.add(carried, value)
        return carried

    @property
    def totals(self) -> MemoryOperand:
        size = self.work.rows * self.schedule.parts
        return MemoryOperand.flat(0, self.element, size)

    def keep(self, total: ir.Value, buffer: ir.Value) -> None:
        first = [emit.compare("eq", self.along, 0), *self.guards]
        self.totals.store(emit.splat(self._shared(total), 1), buffer, 0, self.piece, first)

    def carry(self, buffer: ir.Value) -> ir.Value:
        schedule = self.schedule
        start = emit.sub(self.piece, self.part)
        found = self.nothing
        for first in range(0, schedule.parts, schedule.group):
            at = emit.add(self.along, first)
            inside = emit.compare("slt", at, self.part)
            x = self.totals.load(buffer, 0, emit.add(start, at), 1, [inside])
            found = self.add(found, self.only(inside, memory.element(x, 0)))
        return self._shared(found)

    def _shared(self, x: ir.Value) -> ir.Value:
        """The sum of x over the lanes of a group."""
        group = self.schedule.group
        (found,) = wave.reduce(
            [x], group, self.lane, lambda a, b: [self.add(a[0], b[0])], self.target
        )
        return found


class Across(Layout):
    """A thread for `lanes` neighbouring rows; neighbouring threads have neighbouring rows, and
    the parts follow each other."""

    @staticmethod
    def threads(rows: int, schedule: ScanSchedule) -> int:
        return rows // schedule.lanes * schedule.parts

    def begin(self) -> None:
        vectors = self.work.rows // self.schedule.lanes
        self.row = emit.mul(emit.rem(self.number, vectors), self.schedule.lanes)
        self.part = emit.div(self.number, vectors)

    def placed(self, operand: MemoryOperand, column: Index) -> tuple[MemoryOperand, Index, Index]:
        return operand.transposed, operand.transposed.start(column), self.row

    def sums(self, x: ir.Value, carried: ir.Value, exclusive: bool) -> tuple[ir.Value, ir.Value]:
        after = self.add(carried, x)
        return carried if exclusive else after, after

    def total(self, x: ir.Value, carried: ir.Value) -> ir.Value:
        return self.add(carried, x)

    @property
    def totals(self) -> MemoryOperand:
        parts = Axis.of((self.schedule.parts, self.work.rows))
        return MemoryOperand(0, self.element, 0, parts, Axis.of((self.work.rows, 1)))

    def keep(self, total: ir.Value, buffer: ir.Value) -> None:
        self.totals.store(total, buffer, self.totals.start(self.part), self.row, self.guards)

    def carry(self, buffer: ir.Value) -> ir.Value:
        totals = self.totals

        def step(first: Index, carried: ir.Value) -> list[ir.Value]:
            found = []
            for i in range(UNROLL):
                part = emit.add(first, i)
                inside = emit.compare("slt", part, self.part)
                start, lanes = totals.start(part), self.schedule.lanes
                x = totals.load(buffer, start, self.row, lanes, [inside])
                found.append(self.only(inside, x))
            for x in found:
                carried = self.add(carried, x)
            return [carried]

        return emit.loop(0, emit.value(self.part), UNROLL, step, [self.nothing])[0]
