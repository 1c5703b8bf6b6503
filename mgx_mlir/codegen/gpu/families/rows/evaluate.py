"""Values of the body of a kernel of rows, computed on demand.

Whole values are vectors, one for each chunk. A value of a row is computed once, and repeated
along the chunk where an op combines it with a whole value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.rows.match import ARGS, RowBody
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import load
from mgx_mlir.codegen.meaning.element import I32, Element
from mgx_mlir.codegen.meaning.pointwise import emit_pointwise
from mgx_mlir.codegen.meaning.reducers import ArgReducer, Reducer, reducer_of
from mgx_mlir.dialects import mgx

_BROADCASTS = (*mgx.BROADCASTS, mgx.IdentityOp)
_EXTREMA = {mgx.ReduceMaxOp: arith.maxnumf, mgx.ReduceMinOp: arith.minnumf}
Partial = tuple[ir.Value, ...]


@dataclass(eq=False)
class Chunk:
    """Elements from `first + more` on. `inside`: whether they are in the row; None if always."""

    first: Index
    inside: ir.Value | None = None
    more: int = 0
    known: dict[ir.Value, ir.Value] = field(default_factory=dict)

    @property
    def column(self) -> Index:
        """The first element."""
        return emit.add(self.first, self.more)


class Layout:
    """The layout of a thread's chunks, by default of vectors of `lanes` neighbours.

    buffers: raw buffers of tensors, by their arguments.
    """

    lanes: int
    buffers: Mapping[Argument, ir.Value]

    def source(self, operand: MemoryOperand) -> ir.Value:
        """The buffer of an operand that is read."""
        return self.buffers[Argument("input", operand.argument)]

    def load(self, source: MemoryOperand, chunk: Chunk) -> ir.Value:
        raise NotImplementedError

    def load_row(self, source: MemoryOperand) -> ir.Value:
        return source.load_one(self.source(source), source.start(0))

    def of_row(self, value: ir.Value) -> ir.Value:
        return value

    def repeated(self, value: ir.Value) -> ir.Value:
        return emit.splat(value, self.lanes)

    def columns_of(self, chunk: Chunk) -> ir.Value:
        raise AssertionError("only reductions ask for indices")


class Evaluator:
    """Computes values at the insertion point; values of a row are kept for later use."""

    def __init__(self, rows: RowBody, layout: Layout) -> None:
        self.rows, self.layout = rows, layout
        self._known: dict[ir.Value, ir.Value] = {}
        self._producer: dict[ir.Value, ir.OpView] = {
            result: op for op in rows.ops for result in op.results
        }

    def whole(self, value: ir.Value, chunk: Chunk) -> ir.Value:
        """A value's elements of a chunk, in the type that memory holds."""
        if not self.rows.is_whole(value):
            return self.layout.repeated(self.row(value))
        if value not in chunk.known:
            if value in self.rows.sources:
                source = self.rows.sources[value]
                assert isinstance(source, MemoryOperand)
                chunk.known[value] = self.layout.load(source, chunk)
            else:
                op = self._producer[value]
                operands = [self.whole(x, chunk) for x in op.operands]
                chunk.known.update(self._compute(op, operands))
        return chunk.known[value]

    def read(self, value: ir.Value, chunk: Chunk) -> None:
        """Reads the elements of a chunk that a value depends on."""
        if value in self.rows.sources:
            self.whole(value, chunk)
        elif value not in chunk.known:
            for operand in self._producer[value].operands:
                if self.rows.is_whole(operand):
                    self.read(operand, chunk)

    def row(self, value: ir.Value) -> ir.Value:
        """A value that is the same for a whole row. Its reductions have to be defined."""
        if value not in self._known:
            source = self.rows.sources.get(value)
            if isinstance(source, MemoryOperand):
                self._known[value] = self.layout.load_row(source)
            elif source is not None:
                self._known[value] = memory.element(emit.attribute_constant(source, 1), 0)
            else:
                op = self._producer[value]
                operands = [self.layout.of_row(self.row(x)) for x in op.operands]
                self._known.update(self._compute(op, operands))
        return self._known[value]

    def is_zero_outside(self, value: ir.Value) -> bool:
        """Whether a whole value's elements outside of a row, which are read as 0, are 0."""
        if value in self.rows.sources:
            return self.rows.is_whole(value)
        op = self._producer[value]
        return isinstance(op, mgx.ConvertOp) and self.is_zero_outside(op.operands[0])

    def prepare(self, values: Sequence[ir.Value]) -> None:
        """Computes the values of a row that `values` depend on, at this insertion point."""
        for value in values:
            if not self.rows.is_whole(value):
                self.row(value)
            elif value in self._producer:
                self.prepare(list(self._producer[value].operands))

    def define(self, value: ir.Value, result: ir.Value) -> None:
        """Defines the result of a reduction."""
        self._known[value] = result

    def _compute(self, op: ir.OpView, operands: Sequence[ir.Value]) -> dict[ir.Value, ir.Value]:
        results = op.results
        if isinstance(op, _BROADCASTS):
            return {results[0]: operands[0]}
        with op.location:
            return dict(zip(results, emit_pointwise(op, operands), strict=True))


class Reduction:
    """A reduction of the body, on a thread's partial results."""

    def __init__(self, op: ir.OpView) -> None:
        self.op = op
        self.value = op.operands[0]
        self.result = op.results[0]
        self._arg: ArgReducer | None = None
        self._plain: Reducer | None = None
        self._extremum: Any = None
        if isinstance(op, ARGS):
            # Indices have 32 bits: a row has fewer elements than 2^32.
            self._arg = ArgReducer.of(op)
            self._index = self._arg.index
            self._arg = replace(self._arg, index=I32)
            self.elements: tuple[Element, ...] = (self._arg.element.computed(), I32)
            self._initial: tuple[float | int, ...] = self._arg.initial
        else:
            self._plain = reducer_of(op)
            if self._plain.accumulator.is_float:
                self._extremum = _EXTREMA.get(type(op))
            self.elements = (self._plain.accumulator,)
            self._initial = (self._plain.initial,)

    def initial(self, lanes: int) -> Partial:
        """The neutral elements: vectors of `lanes` lanes, scalars for 0."""
        a = Arithmetic([lanes] if lanes else None)
        return tuple(
            a.constant(number, element.storage())
            for number, element in zip(self._initial, self.elements, strict=True)
        )

    def terms(self, evaluator: Evaluator, chunk: Chunk) -> Partial:
        """A chunk as partial results; elements outside the row become neutral ones."""
        x = evaluator.whole(self.value, chunk)
        lanes = ir.VectorType(x.type).shape[0]
        a = Arithmetic([lanes])
        found: Partial
        if self._plain is not None:
            found = (self._plain.term(a, x),)
        else:
            assert self._arg is not None
            columns = evaluator.layout.columns_of(chunk)
            found = (load(a, self._arg.element, x), columns)
        is_neutral = self._initial == (0,) and evaluator.is_zero_outside(self.value)
        if chunk.inside is None or is_neutral:
            return found
        return tuple(
            arith.select(chunk.inside, value, nothing)
            for value, nothing in zip(found, self.initial(lanes), strict=True)
        )

    def combine(self, x: Sequence[ir.Value], y: Sequence[ir.Value]) -> Partial:
        a = Arithmetic.like(list(x))
        if self._plain is not None:
            return (self._plain.combine(a, x[0], y[0]),)
        assert self._arg is not None
        return self._arg.combine(a, (x[0], x[1]), (y[0], y[1]))

    def fold(self, parts: Sequence[Partial]) -> Partial:
        """Combines many partial results to one, as a tree."""
        if self._extremum is not None and len(parts) > 1:
            return (self._folded_extremum([part[0] for part in parts]),)
        rest = list(parts)
        while len(rest) > 1:
            half = len(rest) // 2
            pairs = [self.combine(rest[i], rest[i + half]) for i in range(half)]
            rest = [*pairs, *rest[2 * half :]]
        return rest[0]

    def _folded_extremum(self, values: Sequence[ir.Value]) -> ir.Value:
        """The largest or smallest of floats; NaN where any is.

        The maximum and minimum instructions ignore NaN; one comparison finds a NaN in two
        values. A maximum that keeps NaN costs two more operations a value, which is more.
        For a NaN, the instructions' result (poison, by `nnan`) is never selected.
        """
        assert self._extremum is not None
        a = Arithmetic.like(values)
        result, nan = values[0], None
        for x, y in zip(values[::2], [*values[1::2], values[-1]], strict=False):
            for value in dict.fromkeys((x, y)):
                if value != values[0]:
                    result = self._extremum(result, value, fastmath=arith.FastMathFlags.nnan)
            either = a.compare("uno", x, y)
            nan = either if nan is None else arith.ori(nan, either)
        assert nan is not None
        return a.select(nan, a.float(float("nan"), result), result)

    def finish(self, partial: Sequence[ir.Value]) -> ir.Value:
        """The result in the type that memory holds."""
        a = Arithmetic.like(list(partial))
        if self._plain is not None:
            return self._plain.finish(a, partial[0])
        return (
            arith.extsi(a.type(self._index.storage()), partial[1])
            if (self._index.bits > 32)
            else partial[1]
        )


__all__ = ["Chunk", "Evaluator", "Layout", "Partial", "Reduction"]
