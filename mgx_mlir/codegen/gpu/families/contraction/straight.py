"""The loop along k without LDS: waves that share k read fragments from memory to registers.

    step t of wave w: k = (t * waves + w) * depth .. + depth, of all rows and columns of the tile

The fragments of the next steps, as many as the prefetch distance, are on their way while a wave
multiplies. Waves wait for one another once, when their sums are added in LDS, in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory, multiply
from mgx_mlir.codegen.gpu.builders.ordering import barrier, fence
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.contraction.beginning import WaveRows
from mgx_mlir.codegen.gpu.families.contraction.sources import Load, Strided
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule
from mgx_mlir.sizes.arithmetic import Number, Size, minimum


@dataclass(frozen=True)
class Straight:
    """The sums of a wave's tiles, row by row of tiles, from sources that have begun: `a` with a
    lane's row of each tile, `b` with its column of each."""

    unit: Unit
    schedule: ProductSchedule
    a: Strided
    b: Strided
    normal: WaveRows | None = None

    def run(
        self, steps: Number, start: Index, before: Sequence[ir.Value] | None = None
    ) -> list[ir.Value]:
        """Emits `steps` steps of a wave from offset `start` along k; gives the sums.

        before: those of another product, to which these are added.
        """
        schedule, depth = self.schedule, self.schedule.step(self.unit)
        count = schedule.tiles_m * schedule.tiles_n
        sums = list(before or [multiply.zero(self.unit)] * count)
        distance = cast(int, minimum(schedule.prefetch, steps))
        common = distance if isinstance(steps, Size) else math.gcd(distance, steps)
        each, near = self._read_together(common)

        def step(carried: list[ir.Value], loads: Sequence[Load]) -> list[ir.Value]:
            sums, values = carried[:count], carried[count:]
            self._multiply(sums, values[:held])
            if loads:
                fence()
                values += _read(loads)
            return [*sums, *values[held:]]

        def some(k: Index, carried: Sequence[ir.Value], following: bool) -> list[ir.Value]:
            """The steps that are read together."""
            ahead = emit.add(k, distance * depth)
            loads = self._loads(ahead, near, self.a, self.b) if following else [[]] * each
            values = list(carried)
            for own in loads:
                values = step(values, own)
            return values

        def turn(k: Index, *carried: ir.Value) -> list[ir.Value]:
            values = list(carried)
            for t in range(0, distance, each):
                values = some(emit.add(k, t * depth), values, True)
            return values

        starts = [emit.add(start, t * depth) for t in range(0, distance, each)]
        first = self._first(starts, near)
        held, carried = len(first[0]), [*sums, *(x for values in first for x in values)]
        fence()
        # The last ones read nothing: each step before them reads for the one `distance` after it.
        reading = steps - distance
        # Where a run gives the steps, they are whole turns.
        rolled = not isinstance(steps, int) or reading > self._unrolled
        turned = reading // distance * distance if rolled else 0
        if turned != 0:
            end = emit.add(start, turned * depth)
            carried = emit.loop(start, end, distance * depth, turn, carried)
        for t in range(0, cast(int, steps - turned), each):
            at = emit.add(start, (turned + t) * depth)
            carried = some(at, carried, t < reading - turned)
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

    def _read_together(self, steps: int) -> tuple[int, list[int]]:
        """How many of so many steps are read as one, with one address for each row and column; and
        the distances of a lane's chunks in these."""
        depth, sources = self.schedule.step(self.unit), (self.a, self.b)
        fits = (n for n in range(steps, 1, -1) if steps % n == 0)
        each = next((n for n in fits if all(x.is_even(n * depth) for x in sources)), 1)
        for x in sources:
            x.ends, x.tile_depth = True, each * depth
        return each, [t * depth + part for t in range(each) for part in self._parts]

    def _loads(self, k0: Index, near: Sequence[int], *sources: Strided) -> list[list[Load]]:
        """The reads of steps that are read together: of each row of tiles, of each column."""
        own = len(self._parts)
        found: list[list[Load]] = [[] for _ in range(len(near) // own)]
        for x in sources:
            for number, load in enumerate(x.loads(k0, near, self.unit.chunk)):
                found[number // own % len(found)].append(load)
        return found

    def _first(self, starts: Sequence[Index], near: Sequence[int]) -> list[list[ir.Value]]:
        """The chunks of the first steps."""

        def read(*sources: Strided) -> list[list[ir.Value]]:
            return [_read(loads) for k0 in starts for loads in self._loads(k0, near, *sources)]

        if self.normal is None:
            return read(self.a, self.b)
        # Rows come first: they are waited for while columns are on their way.
        rows = read(self.a)
        self.normal.read(starts, near)
        fence()
        columns = read(self.b)
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


def _read(loads: Sequence[Load]) -> list[ir.Value]:
    """The chunks of a step. They come before those of the steps after it, which LLVM would read
    among them."""
    values = [load() for load in loads]
    fence()
    return values


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
