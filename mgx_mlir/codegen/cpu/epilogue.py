"""The epilogue of a contraction, on vectors: it converts, combines and stores the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir
from mlir.dialects import vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.meaning.pointwise import emit_pointwise
from mgx_mlir.codegen.problem.match import Match, parts_of
from mgx_mlir.codegen.problem.problem import Matrix


class Epilogue:
    """Converts sums to the result's type, inlines the kernel's `mgx.pointwise`, stores."""

    def __init__(
        self, match: Match, inputs: Mapping[int, ir.Value], outputs: Sequence[ir.Value]
    ) -> None:
        assert match.causal is None
        self._match, self._inputs, self._outputs = match, inputs, outputs

    def __call__(
        self, sums: ir.Value, batch: Index, m: Index, n: Index, mask: ir.Value | None
    ) -> None:
        """Stores results [batch, m, n ..] of a vector of sums; masked lanes are not written."""
        match, problem = self._match, self._match.problem
        if match.pairs:
            n, mask = emit.div(n, 2), mask and emit.halves(mask)[0]
        values = self.results(sums, batch, m, n, mask)
        lanes = ir.VectorType(values[0].type).shape[0]
        stored = [
            (memory, emit.to_memory(x, element))
            for memory, x, element in zip(self._outputs, values, match.result_elements, strict=True)
        ]
        columns = match.columns
        place = emit.linear(n, (batch, problem.M * columns), (m, columns))
        if match.place is not None:
            start = emit.add(match.place.start(batch), match.place.row.offset(m))
            if not match.place.column.contiguous(lanes):
                self._store_lanes(stored, start, n, mask)
                return
            place = emit.add(start, match.place.column.offset(n))
        for memory, x in stored:
            emit.store_vector(x, memory, place, mask)

    def results(
        self, sums: ir.Value, batch: Index, m: Index, n: Index, mask: ir.Value | None
    ) -> list[ir.Value]:
        """The results of a vector of sums, from column n of theirs on.

        Inputs are not read for masked lanes.
        """
        match = self._match
        x = emit.convert(sums, match.problem.accumulator, match.result_element)
        values, made = [x], parts_of(match, x)
        if match.epilogue is not None:
            lanes = ir.VectorType(x.type).shape[0] // (2 if match.pairs else 1)
            operands = [
                self._load(source, batch, m, n, mask, lanes)
                if isinstance(source, Matrix | ir.Attribute)
                else made[source]
                for source in match.sources
            ]
            with match.epilogue.location:
                values = emit_pointwise(match.epilogue, operands)
        return [values[number] for number in match.results]

    def _store_lanes(
        self,
        stored: Sequence[tuple[ir.Value, ir.Value]],
        start: Index,
        n: Index,
        mask: ir.Value | None,
    ) -> None:
        """Stores one lane after another, to results whose columns are not neighbours."""
        place = self._match.place
        assert place is not None
        for lane in range(ir.VectorType(stored[0][1].type).shape[0]):

            def store(lane: int = lane) -> None:
                at = emit.add(start, place.column.offset(emit.add(n, lane)))
                for memory, x in stored:
                    emit.store(vector.extract(x, [], [lane]), memory, at)

            emit.when(True if mask is None else vector.extract(mask, [], [lane]), store)

    def _load(
        self,
        source: Matrix | ir.Attribute,
        batch: Index,
        m: Index,
        n: Index,
        mask: ir.Value | None,
        lanes: int,
    ) -> ir.Value:
        if isinstance(source, ir.Attribute):
            return emit.attribute_constant(source, lanes)
        memory = self._inputs[source.argument]
        place = source.at(batch, m, 0)
        if source.column.stride == 0:
            x = emit.splat(emit.load(memory, place), lanes)
        elif source.column.stride == 1:
            x = emit.load_vector(memory, emit.add(place, n), lanes, mask)
        else:
            x = self._load_lanes(memory, source, place, n, lanes)
        return emit.from_memory(x, source.element)

    def _load_lanes(
        self, memory: ir.Value, source: Matrix, place: Index, n: Index, lanes: int
    ) -> ir.Value:
        """Loads one lane after another; lanes past the last column repeat it."""
        last = self._match.columns - 1
        scalars = []
        for lane in range(lanes):
            column = emit.minimum(emit.add(n, lane), last)
            scalars.append(emit.load(memory, emit.add(place, source.column.offset(column))))
        return vector.from_elements(ir.VectorType.get([lanes], scalars[0].type), scalars)
