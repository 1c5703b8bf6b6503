"""The state of a wave between blocks of keys, and its merge over waves with the same queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import vector

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory, precision
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.attention import softmax
from mgx_mlir.codegen.gpu.families.attention.space import AttentionSchedule

# Numbers in one access of LDS.
_WORDS = CHUNK_BYTES // 4


@dataclass
class State:
    """For each tile of queries: the row maximum so far, the sum of the exponentials, the sums of
    values by tile of columns, and in the loop the score from which on the maximum is raised."""

    row_maxima: list[ir.Value]
    sums: list[ir.Value]
    values: list[list[ir.Value]]
    limits: list[ir.Value] = field(default_factory=list)

    def take(self, flat: Sequence[ir.Value]) -> None:
        """Replaces the values by the first ones of `flat`."""
        self.__dict__.update(self.like(flat).__dict__)

    def flat(self) -> list[ir.Value]:
        values = (x for row in self.values for x in row)
        return [*self.row_maxima, *self.sums, *values, *self.limits]

    def like(self, flat: Sequence[ir.Value]) -> State:
        """The same structure of other values, the first of `flat`."""
        rest = iter(flat)

        def taken(values: Sequence[ir.Value]) -> list[ir.Value]:
            return [next(rest) for _ in values]

        ends = taken(self.row_maxima), taken(self.sums)
        return State(*ends, [taken(row) for row in self.values], taken(self.limits))


def part(split: int, splits: int, columns: int) -> range:
    """The vectors of columns, of `columns` in all, that wave `split` of `splits` merges."""
    return range(split * columns // splits, (split + 1) * columns // splits)


def _vectors(schedule: AttentionSchedule, columns: int, unit: Unit) -> int:
    """Vectors that a lane stores to LDS: values of other waves' columns, row maxima and sums."""
    others = columns - columns // schedule.splits
    return schedule.tiles * (others * unit.values // _WORDS + 1)


def merge_bytes(schedule: AttentionSchedule, columns: int, unit: Unit, target: Target) -> int:
    """Bytes of LDS for the states that the waves exchange."""
    if schedule.splits == 1:
        return 0
    return schedule.waves * _vectors(schedule, columns, unit) * target.wave_size * CHUNK_BYTES


class Merge:
    """Merges, through LDS, the states of waves with different keys: each merges its columns.

    `wave`: the wave's number among those of one split, which have other queries. `lane`: the
    thread's number in its wave. The sums of the states are scalars.
    """

    def __init__(
        self,
        lds: ir.Value,
        unit: Unit,
        target: Target,
        schedule: AttentionSchedule,
        wave: Index,
        lane: Index,
    ) -> None:
        self._lds, self._unit, self._target = lds, unit, target
        self._schedule, self._wave, self._lane = schedule, wave, lane

    def store(self, split: int, state: State) -> None:
        """Stores the other waves' columns, and the row maxima and sums, of split `split` in LDS."""
        numbers = [
            memory.joined([row_maximum, total, row_maximum, total])
            for row_maximum, total in zip(state.row_maxima, state.sums, strict=True)
        ]
        count = len(state.values[0])
        numbers += [
            memory.part(row[column], i, _WORDS)
            for column in self._others(split, count)
            for row in state.values
            for i in range(0, self._unit.values, _WORDS)
        ]
        stored = ir.VectorType.get([self._unit.chunk], emit.element_type(self._unit.element))
        for i, x in enumerate(numbers):
            memory.store(vector.bitcast(stored, x), self._lds, self._address(split, i, count))

    def merged(
        self, split: int, state: State, exponent: Callable[[ir.Value, ir.Value], ir.Value]
    ) -> State:
        """The state of split `split` merged with those of all others, for its columns only.

        exponent(x, row_maximum): log2(exp(x) / exp(row_maximum)), see `Work.exponent`.
        """
        columns = part(split, self._schedule.splits, len(state.values[0]))
        count = len(state.values[0])
        state = State(
            state.row_maxima, state.sums, [[row[i] for i in columns] for row in state.values]
        )
        for other_split in range(self._schedule.splits):
            if other_split == split:
                continue
            other = self._load(other_split, columns, count)
            row_maxima, sums, values = [], [], []
            for tile, (mine, its) in enumerate(
                zip(state.row_maxima, other.row_maxima, strict=True)
            ):
                row_maximum = softmax.maximum(mine, its)
                factors = [precision.exp2(exponent(x, row_maximum)) for x in (mine, its)]
                row_maxima.append(row_maximum)
                sums.append(_weighted(factors, state.sums[tile], other.sums[tile]))
                spread = [emit.splat(x, self._unit.values) for x in factors]
                pairs = zip(state.values[tile], other.values[tile], strict=True)
                values.append([_weighted(spread, *pair) for pair in pairs])
            state = State(row_maxima, sums, values)
        return state

    def _others(self, split: int, count: int) -> list[int]:
        """The columns, out of `count`, that other waves merge."""
        mine = part(split, self._schedule.splits, count)
        return [i for i in range(count) if i not in mine]

    def _load(self, split: int, columns: Sequence[int], count: int) -> State:
        """The state that the wave of a split stored, for some columns."""
        wide = ir.VectorType.get([_WORDS], ir.F32Type.get())

        def read(number: int) -> ir.Value:
            at = self._address(split, number, count)
            return vector.bitcast(wide, memory.load(self._lds, at, self._unit.chunk))

        tiles, each = self._schedule.tiles, self._unit.values // _WORDS
        stored = self._others(split, count)
        ends = [read(tile) for tile in range(tiles)]
        rows = []
        for tile in range(tiles):
            firsts = [tiles + (stored.index(i) * tiles + tile) * each for i in columns]
            rows.append([memory.concatenated([read(n + i) for i in range(each)]) for n in firsts])
        return State(
            [memory.element(x, 0) for x in ends], [memory.element(x, 1) for x in ends], rows
        )

    def _address(self, split: int, number: int, count: int) -> Index:
        side_by_side = self._schedule.waves // self._schedule.splits
        wave = emit.add(split * side_by_side, self._wave)
        first = emit.mul(wave, _vectors(self._schedule, count, self._unit))
        lane = emit.add(emit.mul(emit.add(first, number), self._target.wave_size), self._lane)
        return emit.mul(lane, self._unit.chunk)


def _weighted(factors: Sequence[ir.Value], a: ir.Value, b: ir.Value) -> ir.Value:
    return softmax.add(softmax.multiply(a, factors[0]), softmax.multiply(b, factors[1]))
