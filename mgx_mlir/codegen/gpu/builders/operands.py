"""Operands of memory-bound kernels: their strides, and how a thread reads and writes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import element_bytes
from mgx_mlir.codegen.gpu.builders.pointers import forwards
from mgx_mlir.codegen.meaning.element import BOOL, Element
from mgx_mlir.codegen.problem.problem import Axis, vector_width
from mgx_mlir.codegen.problem.views import View
from mgx_mlir.sizes.arithmetic import Number, common_factor, is_more


@dataclass(frozen=True)
class MemoryOperand:
    """A tensor [outer, inner] in argument `argument` of a function.

    Vectors run along `inner`.
    """

    argument: int
    element: Element
    offset: int
    outer: Axis
    inner: Axis

    @staticmethod
    def flat(argument: int, element: Element, size: int) -> MemoryOperand:
        """A tensor of so many elements as one row."""
        return MemoryOperand(argument, element, 0, Axis(()), Axis.of((size, 1)))

    @staticmethod
    def row(view: View, element: Element, outer: int = 0) -> MemoryOperand:
        """A view as rows, in row-major order, which its first `outer` dimensions count: one."""
        axes = view.axis(0, outer), view.axis(outer, len(view.dims))
        return MemoryOperand(view.argument, element, view.offset, *axes)

    @property
    def repeated(self) -> bool:
        """Whether all elements along `inner` are one element in memory."""
        return all(stride == 0 for _, stride in self.inner.factors)

    @property
    def forwards(self) -> bool:
        """Whether it is read forwards along both axes: no index is before that of the first."""
        return forwards(self.outer, self.inner)

    @property
    def strides(self) -> list[int]:
        """The offset, and all strides but that of neighbours along `inner`."""
        inner = self.inner.factors
        inner = inner[:-1] if inner and inner[-1][1] in (0, 1) else ()
        return [self.offset, *(stride for _, stride in (*self.outer.factors, *inner))]

    @property
    def transposed(self) -> MemoryOperand:
        """The transposed operand: vectors run along `outer`."""
        return replace(self, outer=self.inner, inner=self.outer)

    def width(self, lanes: int) -> int:
        """The elements of one access, for a vector of `lanes` that starts at a multiple of it."""
        limit = min(lanes, CHUNK_BYTES // element_bytes(self.element))
        return vector_width(self.inner, self.outer, offset=self.offset, limit=limit)

    def start(self, outer: Index) -> Index:
        """The offset of an outer index."""
        start = emit.add(self.offset, self.outer.offset(outer))
        # A formula of sizes may be a difference, which LLVM would split.
        return start if isinstance(self.offset, int) else memory.opaque(start)

    def offset_of(self, start: Index, inner: Index) -> Index:
        """The offset of element `inner`, given `start`, the offset of its outer index."""
        offset = emit.add(start, self.inner.offset(inner))
        return memory.unsplit(offset, self.outer if self.inner.grows else self.inner)

    def _place(
        self, start: Index, inner: Index, more: int | None, first: int, inside: Sequence[ir.Value]
    ) -> Index:
        """The offset of element inner + more + first, or outside of every buffer without `inside`.

        With `more`, start and inner are not negative, and neighbours share the condition's offset
        where it grows: what is added is an instruction's constant.
        """
        grows = self.inner.grows and self.outer.grows and len(self.inner.factors) == 1
        grows, more = grows and more is not None, (more or 0) + first
        if not (inside and grows and isinstance(self.offset, int)):
            inner, more, grows = emit.add(inner, more), 0, False
        offset = memory.guarded(
            self.offset_of(start, inner), inside, element_bytes(self.element), grows
        )
        # LLVM would add to both offsets of the choice.
        offset = memory.opaque(offset) if more else offset
        return emit.add(offset, self.inner.offset(more))

    def load(
        self,
        buffer: ir.Value,
        start: Index,
        inner: Index,
        lanes: int,
        inside: Sequence[ir.Value],
        more: int | None = None,
    ) -> ir.Value:
        """Elements from inner + more on, `lanes`, as a vector; `start`: the offset of the outer
        index.

        Zeros where one of `inside` fails.
        """
        last = self.inner.factors[-1] if self.inner.factors else (1, 0)
        if not self.inner.factors or (last[1] == 0 and last[0] % lanes == 0):
            x = memory.load(buffer, self._place(start, inner, more, 0, inside), 1)
            return self._loaded(emit.splat(memory.element(x, 0), lanes))
        width = self.width(lanes)
        parts = [
            memory.load(buffer, self._place(start, inner, more, first, inside), width)
            for first in range(0, lanes, width)
        ]
        if len(parts) > 1:
            parts = [memory.joined([memory.element(x, i) for x in parts for i in range(width)])]
        return self._loaded(parts[0])

    def load_one(self, buffer: ir.Value, offset: Index) -> ir.Value:
        """The element at `offset`, as a scalar."""
        return self._loaded(memory.element(memory.load(buffer, offset, 1), 0))

    def store(
        self,
        x: ir.Value,
        buffer: ir.Value,
        start: Index,
        inner: Index,
        inside: Sequence[ir.Value],
        more: int | None = None,
    ) -> None:
        """Stores a vector from element `inner + more` on; nothing where one of `inside` fails."""
        lanes = ir.VectorType(x.type).shape[0]
        if self.element.kind == BOOL:
            i8 = ir.VectorType.get([lanes], ir.IntegerType.get_signless(8))
            x = arith.extui(i8, x)
        width = self.width(lanes)
        for first in range(0, lanes, width):
            part = memory.part(x, first, width)
            memory.store(part, buffer, self._place(start, inner, more, first, inside))

    def _loaded(self, x: ir.Value) -> ir.Value:
        return emit.from_memory(x, "i1" if self.element.kind == BOOL else "")


@dataclass
class Divided:
    """Symbolic sizes that vectors of `lanes` elements divide, where `odd` is 0 in a run, 1 else.

    Numbers that the vectors do not divide for sure become ones that they do.
    """

    lanes: int
    rests: dict[Number, None] = field(default_factory=dict)

    @staticmethod
    def of(operands: Sequence[MemoryOperand]) -> Divided:
        """The longest vectors that given strides allow."""
        numbers = {n for x in operands for n in x.strides if isinstance(n, int)}
        return Divided(math.gcd(vector_lanes(0, operands), *numbers))

    def number(self, number: int) -> int:
        """A size or stride, divided by vectors."""
        if isinstance(number, int) or common_factor(number) % self.lanes == 0:
            return number
        self.rests[number - number // self.lanes * self.lanes] = None
        return number // self.lanes * self.lanes

    def operand(self, x: MemoryOperand) -> MemoryOperand:
        """An operand whose vectors, along `inner`, are each one access."""

        def axis(own: Axis, along: bool) -> Axis:
            last = len(own.factors) - 1
            found = []
            for position, (size, stride) in enumerate(own.factors):
                if along and position == last and stride in (0, 1):
                    found.append((self.number(size), stride))
                else:
                    found.append((size, self.number(stride)))
            return Axis(tuple(found))

        offset = self.number(x.offset)
        return replace(x, offset=offset, outer=axis(x.outer, False), inner=axis(x.inner, True))

    @property
    def odd(self) -> Number:
        """1 in runs whose sizes vectors do not divide, or where there are none; else 0."""
        return is_more(sum(self.rests, start=0), 0) if self.lanes > 1 else 1


def vector_lanes(size: int, operands: Sequence[MemoryOperand]) -> int:
    """How many neighbours, out of `size` in a row, a thread should take at a time.

    A power of two that divides `size`: at most 16 bytes of the narrowest operand.
    """
    narrowest = min((element_bytes(o.element) for o in operands if not o.repeated), default=4)
    return math.gcd(common_factor(size), min(CHUNK_BYTES // narrowest, 8))
