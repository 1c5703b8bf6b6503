"""The products of attention on chips without matrix instructions for its type.

A lane has one query of each tile, and a chunk of neighbouring keys of each step. For the
second product the lanes of a query pass their shares around; each then has all keys of the
step, and sums its own part of the columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import vector

from mgx_mlir.codegen.gpu.attention import layout, softmax, streams
from mgx_mlir.codegen.gpu.attention.streams import Products
from mgx_mlir.codegen.gpu.attention.work import Queries, Shares, Work
from mgx_mlir.codegen.gpu.contraction import memory, multiply


class PlainWork(Work):
    """A wave's work by plain or two-element multiply-adds."""

    def products(self, queries: Queries, sums: list[list[ir.Value]]) -> Products:
        unit = self.unit
        scalars = [_elements(row) for row in sums]
        for step in range(self.depth_steps):
            for number in range(self.key_tiles * unit.values):
                key_tile, i = divmod(number, unit.values)
                keys = self.key_rows.read(key_tile * unit.columns + i, step)
                right = multiply.pieces(unit, keys)
                for tile in self.query_tiles:
                    row = scalars[tile]
                    row[number] = self._added(queries[tile][step], right, row[number])
                yield streams.SLOT_CLOCKS, 0
        for tile in self.query_tiles:
            sums[tile] = _vectors(scalars[tile], unit.values)

    def add_values(self, shares: Shares, sums: list[list[ir.Value]]) -> Products:
        unit = self.unit
        scalars = [_elements(row) for row in sums]
        # Chunk `turn` of a lane's shares is of keys of group `turn ^ group`.
        for number in range(self.key_steps * unit.groups):
            step, turn = divmod(number, unit.groups)
            each = unit.chunk // unit.per_lane
            left = [steps[step][turn * each :][:each] for steps in shares]
            for column in range(len(scalars[0])):
                block, i = divmod(column, unit.values)
                values = self.value_rows.read(block * unit.columns + i, number)
                right = multiply.pieces(unit, values)
                for tile in self.query_tiles:
                    row = scalars[tile]
                    row[column] = self._added(left[tile], right, row[column])
                yield streams.SLOT_CLOCKS, 0
        for tile in self.query_tiles:
            sums[tile] = _vectors(scalars[tile], unit.values)

    def _operands(self, pairs: list[ir.Value]) -> list[ir.Value]:
        """The shares of all keys of a step, those of the lane's own group first."""
        lanes, words = self.place.lanes, ir.VectorType.get([4], ir.IntegerType.get_signless(32))
        own = softmax.joined(pairs)
        found = [vector.bitcast(words, own)]
        for distance in lanes.distances():
            found += [lanes.exchanged(x, distance) for x in found]
        return multiply.pieces(self.unit, [vector.bitcast(own.type, x) for x in found])

    def _added(
        self, left: Sequence[ir.Value], right: Sequence[ir.Value], total: ir.Value
    ) -> ir.Value:
        """total + the sum of left[i] * right[i]."""
        for a, b in zip(left, right, strict=True):
            if self.unit.kind == "dot":
                total = softmax.dot(a, b, total)
            else:
                total = softmax.add(softmax.multiply(a, b), total)
        return total


def _elements(vectors: Sequence[ir.Value]) -> list[ir.Value]:
    return [memory.element(x, i) for x in vectors for i in range(softmax.lane_count(x))]


def _vectors(scalars: Sequence[ir.Value], each: int) -> list[ir.Value]:
    return [memory.joined(scalars[i : i + each]) for i in range(0, len(scalars), each)]


def work_of(unit_kind: str) -> type[Work]:
    """What builds a wave's work with instructions of a kind."""
    return PlainWork if unit_kind in layout.PLAIN else Work
