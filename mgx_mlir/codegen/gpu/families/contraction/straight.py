"""The loop along k without LDS: waves that share k read fragments from memory to registers.

    step t of wave w: k = (t * waves + w) * depth .. + depth, of all rows and columns of the tile

The fragments of the next steps, as many as the prefetch distance, are on their way while a wave
multiplies. Waves wait for one another once, when their sums are added in LDS, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory, multiply
from mgx_mlir.codegen.gpu.builders.ordering import barrier, fence
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.contraction.beginning import WaveRows
from mgx_mlir.codegen.gpu.families.contraction.sources import Source
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule


@dataclass(frozen=True)
class Straight:
    """The sums of a wave's tiles, row by row of tiles, from sources that have begun: `a` with a
    lane's row of each tile, `b` with its column of each."""

    unit: Unit
    schedule: ProductSchedule
    a: Source
    b: Source
    normal: WaveRows | None = None

    def run(
        self, steps: int, start: Index, before: Sequence[ir.Value] | None = None
    ) -> list[ir.Value]:
        """Emits `steps` steps of a wave from offset `start` along k; gives the sums.

        before: those of another product, to which these are added.
        """
        schedule, depth = self.schedule, self.schedule.step(self.unit)
        count = schedule.tiles_m * schedule.tiles_n
        sums = list(before or [multiply.zero(self.unit)] * count)
        distance = min(schedule.prefetch, steps)

        def step(k: Index, carried: list[ir.Value], following: bool) -> list[ir.Value]:
            sums, values = carried[:count], carried[count:]
            self._multiply(sums, values[:each])
            if following:
                fence()
                values += self._load(emit.add(k, distance * depth), self.a, self.b)
            return [*sums, *values[each:]]

        def turn(k: Index, *carried: ir.Value) -> list[ir.Value]:
            values = list(carried)
            for t in range(distance):
                values = step(emit.add(k, t * depth), values, True)
            return values

        first = self._first([emit.add(start, t * depth) for t in range(distance)])
        each, carried = len(first[0]), [*sums, *(x for values in first for x in values)]
        fence()
        # The last ones read nothing: each step before them reads for the one `distance` after it.
        reading = steps - distance
        turns = reading // distance if reading > self._unrolled else 0
        end = emit.add(start, turns * distance * depth)
        if turns:
            carried = emit.loop(start, end, distance * depth, turn, carried)
        for t in range(turns * distance, steps):
            carried = step(emit.add(start, t * depth), carried, t < reading)
        return carried[:count]

    @property
    def _unrolled(self) -> int:
        """Steps that are repeated, at most."""
        products = self.schedule.tiles_m * self.schedule.tiles_n * self.unit.chunk_parts
        return _MOST_PRODUCTS // products

    @property
    def _parts(self) -> list[int]:
        """The distances of a lane's chunks of a step from the first one."""
        unit = self.unit
        return [i * unit.chunk for i in range(0, unit.step_chunks, unit.groups)]

    def _load(self, k0: Index, *sources: Source) -> list[ir.Value]:
        """The chunks of a step: of each row of tiles, of each column. They come before those of the
        steps after it, which LLVM would read among them."""
        loads = [load for x in sources for load in x.loads(k0, self._parts, self.unit.chunk)]
        values = [load() for load in loads]
        fence()
        return values

    def _first(self, steps: Sequence[Index]) -> list[list[ir.Value]]:
        """The chunks of the first steps."""
        if self.normal is None:
            return [self._load(k0, self.a, self.b) for k0 in steps]
        # Rows come first: they are waited for while columns are on their way.
        rows = [self._load(k0, self.a) for k0 in steps]
        self.normal.read(steps, self._parts)
        fence()
        columns = [self._load(k0, self.b) for k0 in steps]
        rows = self.normal.normalised(rows)
        return [[*row, *column] for row, column in zip(rows, columns, strict=True)]

    def _multiply(self, sums: list[ir.Value], values: Sequence[ir.Value]) -> None:
        """Adds the products of a step's fragments to the sums."""
        unit, schedule = self.unit, self.schedule
        each = unit.lane_chunks
        fragments = [
            multiply.pieces(unit, list(values[i : i + each])) for i in range(0, len(values), each)
        ]
        rows, columns = fragments[: schedule.tiles_m], fragments[schedule.tiles_m :]
        elements = self.a.element, self.b.element
        for part in range(len(rows[0])):
            for i, row in enumerate(rows):
                for j, column in enumerate(columns):
                    at = i * schedule.tiles_n + j
                    sums[at] = multiply.multiply(
                        unit, row[part], [column[part]], sums[at], elements
                    )


# Instructions that multiply, in steps that are repeated instead of a loop.
_MOST_PRODUCTS = 128


def shared(
    sums: Sequence[ir.Value], lds: ir.Value, waves: int, wave: Index, lane: tuple[Index, int]
) -> Callable[[Index, Sequence[int]], list[ir.Value]]:
    """Exchanges the sums of `waves` waves. The result adds up those of all: of the vectors at
    some distances from one.

    lds: room for the sums of all. lane: its number, and how many there are.
    """
    type_ = ir.VectorType(sums[0].type)
    width, (number, lanes) = type_.shape[0], lane
    each, own = lanes * width, emit.mul(number, width)
    for i, x in enumerate(sums):
        memory.store(x, lds, emit.linear(emit.add(own, i * each), (wave, len(sums) * each)))
    barrier()
    add = arith.addf if emit.is_float(str(type_.element_type)) else arith.addi

    def total(at: Index) -> ir.Value:
        found = memory.load(lds, at, width)
        for other in range(1, waves):
            place = emit.add(at, other * len(sums) * each)
            found = add(found, memory.load(lds, place, width))
        return found

    def share(first: Index, distances: Sequence[int]) -> list[ir.Value]:
        at = emit.linear(own, (first, each))
        return [total(emit.add(at, i * each)) for i in distances]

    return share
