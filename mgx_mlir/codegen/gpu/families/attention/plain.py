"""The products of attention on chips without matrix instructions for its type.

A lane has one query of each tile, and a chunk of neighbouring keys of each step. For the
second product the lanes of a query exchange their shares: each then has all keys of the step,
and sums its own part of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mlir import ir
from mlir.dialects import vector

from mgx_mlir.codegen.gpu.builders import memory, multiply
from mgx_mlir.codegen.gpu.builders.ordering import fence
from mgx_mlir.codegen.gpu.families.attention import layout, softmax, streams
from mgx_mlir.codegen.gpu.families.attention.streams import Products
from mgx_mlir.codegen.gpu.families.attention.work import Queries, Shares, Work


class PlainWork(Work):
    """A wave's work by plain or two-element multiply-adds."""

    def products(self, queries: Queries, sums: list[list[ir.Value]]) -> Products:
        unit = self.unit
        scalars = [_elements(row) for row in sums]

        def key(number: int) -> int:
            key_tile, i = divmod(number, unit.values)
            return key_tile * unit.columns + i

        left: dict[int, list[list[ir.Value]]] = {}
        for step, number, keys in self._prefetched(
            self.depth_steps, len(scalars[0]), lambda step, n: self.key_rows.read(key(n), step)
        ):
            left = left if step in left else {step: queries(step)}
            self._add(left[step], keys, scalars, number)
            yield streams.SLOT_CLOCKS, 0
        for tile in self.query_tiles:
            sums[tile] = _vectors(scalars[tile], unit.values)

    def add_values(self, shares: Shares, sums: list[list[ir.Value]], distance: int = 1) -> Products:
        unit = self.unit
        scalars = [_elements(row) for row in sums]
        each = unit.chunk // unit.per_lane

        def read(part: int, column: int) -> list[ir.Value]:
            block, i = divmod(column, unit.values)
            return self.value_rows.read(block * unit.columns + i, part)

        for part, column, values in self._prefetched(
            self.key_steps * unit.groups, len(scalars[0]), read
        ):
            # Chunk `other` of a lane's shares belongs to keys of group `other ^ group`.
            step, other = divmod(part, unit.groups)
            left = [steps[step][other * each :][:each] for steps in shares]
            self._add(left, values, scalars, column)
            yield streams.SLOT_CLOCKS, 0
        for tile in self.query_tiles:
            sums[tile] = _vectors(scalars[tile], unit.values)

    def _prefetched(
        self, steps: int, count: int, read: Callable[[int, int], list[ir.Value]]
    ) -> Iterator[tuple[int, int, list[ir.Value]]]:
        """Each step and number below `count`, with the result of `read` for them.

        A small group is prefetched while the group before is multiplied: registers do not hold
        all of them.
        """
        each = layout.reads_in_flight(self.schedule.tiles)
        items = [(step, number) for step in range(steps) for number in range(count)]
        following = [read(*item) for item in items[:each]]
        for first in range(0, len(items), each):
            now = following
            following = [read(*item) for item in items[first + each :][:each]]
            for item, x in zip(items[first:][:each], now, strict=True):
                yield *item, x
            fence()

    def _add(
        self,
        left: list[list[ir.Value]],
        chunk: list[ir.Value],
        scalars: list[list[ir.Value]],
        number: int,
    ) -> None:
        """scalars[tile][number] += left[tile] * chunk."""
        right = multiply.pieces(self.unit, chunk)
        for tile, row in enumerate(scalars):
            row[number] = self._added(left[tile], right, row[number])

    def _operands(self, pairs: list[ir.Value]) -> list[ir.Value]:
        """The shares of all keys of a step; the lane's own group comes first."""
        lanes, words = self.offsets.lanes, ir.VectorType.get([4], ir.IntegerType.get_signless(32))
        own = memory.concatenated(pairs)
        found: list[ir.Value] = [vector.bitcast(words, own)]
        for distance in lanes.distances():
            found += [lanes.exchanged(x, distance) for x in found]
        return multiply.pieces(self.unit, [vector.bitcast(own.type, x) for x in found])

    def _added(
        self, left: Sequence[ir.Value], right: Sequence[ir.Value], total: ir.Value
    ) -> ir.Value:
        """total + the sum of left[i] * right[i]."""
        for a, b in zip(left, right, strict=True):
            if self.unit.kind == "dot":
                total = multiply.dot_product("f16", a, b, total)
            else:
                total = softmax.add(softmax.multiply(a, b), total)
        return total


def _elements(vectors: Sequence[ir.Value]) -> list[ir.Value]:
    return [memory.element(x, i) for x in vectors for i in range(softmax.lane_count(x))]


def _vectors(scalars: Sequence[ir.Value], each: int) -> list[ir.Value]:
    return [memory.joined(scalars[i : i + each]) for i in range(0, len(scalars), each)]


def work_of(unit_kind: str) -> type[Work]:
    """The class that builds a wave's work with instructions of a kind."""
    return PlainWork if unit_kind in layout.PLAIN else Work
