"""The epilogue of a contraction: from sums to results in memory, on a lane's vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.meaning.pointwise import emit_pointwise
from mgx_mlir.codegen.problem.match import Match, parts_of
from mgx_mlir.codegen.problem.problem import Matrix, vector_width


class Epilogue:
    """Converts sums to the result's type, inlines the kernel's `mgx.pointwise`, stores.

    `inputs` (by number) and `outputs` are raw buffers: reads past their end give 0.
    `result`: the offset of an element of the product in each output.
    """

    def __init__(
        self,
        match: Match,
        result: Matrix,
        inputs: Mapping[int, ir.Value],
        outputs: Sequence[ir.Value],
    ) -> None:
        self._match, self._result, self._inputs, self._outputs = match, result, inputs, outputs
        self._loaded: dict[tuple[int, Index, Index], ir.Value] = {}
        self._halved: dict[Index, Index] = {}

    def prepare(self, batch: Index, n: Index, lanes: int, m: Index | None = None) -> None:
        """Reads the operands of row m, or those that do not differ between rows, early."""
        n, lanes = self._columns(n, lanes)
        for number, source in enumerate(self._match.sources):
            if isinstance(source, Matrix) and (m is not None or source.row.stride == 0):
                self._load(number, source, batch, 0 if m is None else m, n, lanes)

    def __call__(
        self,
        sums: ir.Value,
        batch: Index,
        m: Index,
        n: Index,
        inside: Sequence[ir.Value],
        bounded: bool,
    ) -> None:
        """Stores results [batch, m, n ..] of a vector of sums.

        `inside`: conditions that m has to meet. `bounded`: columns may lie past the last one.
        """
        match, problem = self._match, self._match.problem
        lanes = ir.VectorType(sums.type).shape[0]
        x = emit.convert(sums, problem.accumulator, match.result_element)
        values, made = [x], parts_of(match, x)
        n, lanes = self._columns(n, lanes)
        if match.epilogue is not None:
            operands = [
                self._load(number, source, batch, m, n, lanes)
                if isinstance(source, Matrix | ir.Attribute)
                else made[source]
                for number, source in enumerate(match.sources)
            ]
            with match.epilogue.location:
                values = emit_pointwise(match.epilogue, operands)
        if match.causal is not None or match.earliest is not None:
            limit = None if match.causal is None else emit.add(m, match.causal + 1)
            least = None if match.earliest is None else emit.add(m, match.earliest)
            values = [seen(value, n, limit, least, match.result_element) for value in values]
        result = self._result
        place = emit.add(result.start(batch), result.row.offset(m))
        for buffer, number, element in zip(
            self._outputs, match.results, match.result_elements, strict=True
        ):
            value = emit.to_memory(values[number], element)
            size = emit.element_bytes(element)
            width = vector_width(
                result.column, result.row, result.batch, offset=result.offset,
                limit=math.gcd(lanes, 16 // size),
            )  # fmt: skip
            for start in range(0, lanes, width):
                conditions = list(inside)
                column = emit.add(n, start)
                if bounded:
                    conditions.append(emit.compare("slt", column, match.columns))
                at = memory.unsplit(emit.add(place, result.column.offset(column)), result)
                at = memory.guarded(at, conditions, size)
                memory.store(memory.part(value, start, width), buffer, at)

    def _columns(self, n: Index, lanes: int) -> tuple[Index, int]:
        """The first column of the results, and their number, of a vector of sums."""
        if not self._match.pairs:
            return n, lanes
        if n not in self._halved:
            self._halved[n] = emit.div(n, 2)
        return self._halved[n], lanes // 2

    def _load(
        self,
        number: int,
        source: Matrix | ir.Attribute,
        batch: Index,
        m: Index,
        n: Index,
        lanes: int,
    ) -> ir.Value:
        if isinstance(source, ir.Attribute):
            return emit.attribute_constant(source, lanes)
        row: Index = 0 if source.row.stride == 0 else m
        column: Index = 0 if source.column.stride == 0 else n
        key = (number, row, column)
        if key not in self._loaded:
            buffer = self._inputs[source.argument]
            self._loaded[key] = operand_vector(buffer, source, batch, row, column, lanes)
        return self._loaded[key]


def seen(
    x: ir.Value, first: Index, limit: Index | None, least: Index | None, element: str
) -> ir.Value:
    """A vector of columns from `first` on. Columns from `limit` on, and columns before `least`,
    become -inf where these are given."""
    lowest = emit.constant(float("-inf"), element)
    elements = [memory.element(x, i) for i in range(ir.VectorType(x.type).shape[0])]
    for bound, holds in ((limit, "slt"), (least, "sge")):
        if bound is not None:
            place = arith.subi(emit.value(bound), emit.value(first))
            elements = [
                arith.select(emit.compare(holds, i, place), e, lowest)
                for i, e in enumerate(elements)
            ]
    return memory.joined(elements)


def operand_vector(
    buffer: ir.Value, source: Matrix, batch: Index, m: Index, n: Index, lanes: int
) -> ir.Value:
    """Elements [batch, m, n ..] of an input of the epilogue, from its raw buffer."""
    return emit.from_memory(stored_vector(buffer, source, batch, m, n, lanes), source.element)


def stored_vector(
    buffer: ir.Value, source: Matrix, batch: Index, m: Index, n: Index, lanes: int
) -> ir.Value:
    """The elements of `operand_vector` as memory holds them: a bool is a byte."""
    place = source.at(batch, m, 0)
    if source.column.stride == 0:
        place = memory.unsplit(place, source)
        return emit.splat(memory.element(memory.load(buffer, place, 1), 0), lanes)
    limit = min(lanes, 16 // emit.element_bytes(source.element))
    width = vector_width(source.column, source.row, source.batch, offset=source.offset, limit=limit)
    elements = []
    for start in range(0, lanes, width):
        at = emit.add(place, source.column.offset(emit.add(n, start)))
        x = memory.load(buffer, memory.unsplit(at, source), width)
        elements += [memory.element(x, i) for i in range(width)]
    return memory.joined(elements)
