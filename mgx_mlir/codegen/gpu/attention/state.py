"""What a wave keeps from block to block of keys, and how waves with the same queries merge it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import vector

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.emit import Index
from mgx_mlir.codegen.gpu.attention import softmax
from mgx_mlir.codegen.gpu.attention.space import Schedule
from mgx_mlir.codegen.gpu.contraction import memory
from mgx_mlir.codegen.gpu.contraction.specs import CHUNK_BYTES, Unit
from mgx_mlir.target import Target

# Numbers in one access of LDS.
_WORDS = CHUNK_BYTES // 4


@dataclass
class State:
    """For each tile of queries: the largest score so far, the sum of the exponentials, the
    sums of values by tiles of columns."""

    peaks: list[ir.Value]
    sums: list[ir.Value]
    values: list[list[ir.Value]]

    def take(self, flat: Sequence[ir.Value]) -> None:
        """Other values, the first of `flat`."""
        other = self.like(flat)
        self.peaks, self.sums, self.values = other.peaks, other.sums, other.values

    def flat(self) -> list[ir.Value]:
        return [*self.peaks, *self.sums, *(x for row in self.values for x in row)]

    def like(self, flat: Sequence[ir.Value]) -> State:
        """The same structure of other values, the first of `flat`."""
        tiles = len(self.peaks)
        rest, columns = flat[2 * tiles :], len(self.values[0])
        rows = [list(rest[i * columns :][:columns]) for i in range(tiles)]
        return State(list(flat[:tiles]), list(flat[tiles : 2 * tiles]), rows)


def _vectors(schedule: Schedule, columns: int, unit: Unit) -> int:
    """Vectors of a lane's state in LDS: values, peaks and sums."""
    return schedule.tiles * (columns * unit.values // _WORDS + 1)


def merge_bytes(schedule: Schedule, columns: int, unit: Unit, target: Target) -> int:
    """Bytes of LDS for the states of all waves but the first of each set."""
    waves = schedule.waves - schedule.waves // schedule.splits
    return waves * _vectors(schedule, columns, unit) * target.wave_size * CHUNK_BYTES


class Merge:
    """States of waves that went through different keys, through LDS.

    `place` is the wave's number among those with other queries, `lane` the thread's in its
    wave. The sums of the states are scalars.
    """

    def __init__(
        self,
        lds: ir.Value,
        unit: Unit,
        target: Target,
        schedule: Schedule,
        place: Index,
        lane: Index,
    ) -> None:
        self._lds, self._unit, self._target = lds, unit, target
        self._schedule, self._place, self._lane = schedule, place, lane

    def store(self, split: Index, state: State) -> None:
        """Puts the state of part `split` of the keys, not the first, into LDS."""
        columns = len(state.values[0])
        numbers = [
            memory.part(x, i, _WORDS)
            for row in state.values
            for x in row
            for i in range(0, self._unit.values, _WORDS)
        ]
        numbers += [
            memory.joined([peak, total, peak, total])
            for peak, total in zip(state.peaks, state.sums, strict=True)
        ]
        stored = ir.VectorType.get([self._unit.chunk], emit.element_type(self._unit.element))
        for i, x in enumerate(numbers):
            memory.store(vector.bitcast(stored, x), self._lds, self._address(split, i, columns))

    def merged(self, state: State, exponent: Callable[[ir.Value, ir.Value], ir.Value]) -> State:
        """The state of the first part with those of all others.

        exponent(x, peak): log2 of the exponential of a score relative to that of another.
        """
        for split in range(1, self._schedule.splits):
            other = self._load(split, state)
            peaks, sums, values = [], [], []
            for tile, (mine, its) in enumerate(zip(state.peaks, other.peaks, strict=True)):
                peak = softmax.maximum(mine, its)
                factors = [softmax.power(exponent(x, peak)) for x in (mine, its)]
                peaks.append(peak)
                sums.append(_weighted(factors, state.sums[tile], other.sums[tile]))
                spread = [softmax.splat(x, self._unit.values) for x in factors]
                pairs = zip(state.values[tile], other.values[tile], strict=True)
                values.append([_weighted(spread, *pair) for pair in pairs])
            state = State(peaks, sums, values)
        return state

    def _load(self, split: int, like: State) -> State:
        columns = len(like.values[0])
        wide = ir.VectorType.get([_WORDS], ir.F32Type.get())
        numbers = []
        for i in range(_vectors(self._schedule, columns, self._unit)):
            x = memory.load(self._lds, self._address(split, i, columns), self._unit.chunk)
            numbers.append(vector.bitcast(wide, x))
        each = self._unit.values // _WORDS
        tiles = self._schedule.tiles
        rows = [
            [
                softmax.joined(numbers[(tile * columns + column) * each :][:each])
                for column in range(columns)
            ]
            for tile in range(tiles)
        ]
        ends = numbers[-tiles:]
        return State(
            [memory.element(x, 0) for x in ends], [memory.element(x, 1) for x in ends], rows
        )

    def _address(self, split: Index, number: int, columns: int) -> Index:
        side_by_side = self._schedule.waves // self._schedule.splits
        wave = emit.add(emit.mul(emit.sub(split, 1), side_by_side), self._place)
        first = emit.mul(wave, _vectors(self._schedule, columns, self._unit))
        lane = emit.add(emit.mul(emit.add(first, number), self._target.wave_size), self._lane)
        return emit.mul(lane, self._unit.chunk)


def _weighted(factors: Sequence[ir.Value], a: ir.Value, b: ir.Value) -> ir.Value:
    return softmax.add(softmax.multiply(a, factors[0]), softmax.multiply(b, factors[1]))
