"""What a wave does with a block of keys: streams of products and of softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mlir import ir
from mlir.dialects import arith, scf, vector

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.attention import Attention
from mgx_mlir.codegen.contraction.emit import Index
from mgx_mlir.codegen.gpu.attention import layout, softmax, streams
from mgx_mlir.codegen.gpu.attention.body import Body, plain_scale
from mgx_mlir.codegen.gpu.attention.space import Schedule
from mgx_mlir.codegen.gpu.attention.state import State
from mgx_mlir.codegen.gpu.attention.streams import Stream
from mgx_mlir.codegen.gpu.attention.tile import Reader
from mgx_mlir.codegen.gpu.contraction import memory, multiply
from mgx_mlir.codegen.gpu.contraction.epilogue import seen
from mgx_mlir.codegen.gpu.contraction.specs import Unit
from mgx_mlir.target import Target

# What a lane gives to a product, for each tile of queries, step and instruction.
Queries: TypeAlias = "list[list[list[ir.Value]]]"
Shares: TypeAlias = "list[list[list[ir.Value]]]"


@dataclass(frozen=True)
class Place:
    """Where a lane stands: its matrix, its query in each tile, its group of lanes along the
    keys, and where its wave's keys begin in a block."""

    batch: Index
    queries: Sequence[Index]
    group: Index
    first_key: Index
    lanes: softmax.Lanes


class Work:
    """Builds a wave's work, for all its tiles of queries at once.

    rows: what the lane reads of a block of keys, and of one of values.
    """

    def __init__(
        self,
        attention: Attention,
        schedule: Schedule,
        unit: Unit,
        target: Target,
        place: Place,
        rows: tuple[Reader, Reader],
        body: Body,
    ) -> None:
        self.attention, self.schedule, self.unit, self.target = attention, schedule, unit, target
        self.place, self.body = place, body
        self.key_rows, self.value_rows = rows
        self.query_tiles = range(schedule.tiles)
        self.key_tiles = schedule.wave_keys // unit.columns
        self.columns = math.ceil(attention.E / unit.columns)
        self.key_steps = schedule.wave_keys // layout.step_keys(unit)
        self.depth_steps = math.ceil(attention.D / layout.step_keys(unit))
        # Neighbouring keys whose scores a lane holds.
        self.run_keys = layout.step_tiles(unit) * unit.values
        self.factor = plain_scale(attention)

    def initial(self) -> State:
        lowest = emit.constant(softmax.LOWEST if self.factor is None else softmax.LOW, "f32")
        nothing = emit.constant(0, "f32", 2)
        count = self.schedule.tiles
        return State([lowest] * count, [nothing] * count, self.zeros(self.columns))

    def zeros(self, count: int) -> list[list[ir.Value]]:
        """Sums of `count` tiles at the start, for each tile of queries."""
        return [[multiply.zero(self.unit)] * count for _ in self.query_tiles]

    def softmax(
        self, scores: list[list[ir.Value]], state: State, shares: Shares, factors: list[ir.Value]
    ) -> Stream:
        """Brings the peaks and sums of `state` up to date; what the lane gives to the second
        product goes to `shares`, what the values before have to be scaled with to `factors`."""
        lanes = self.place.lanes
        peaks = []
        for tile, row in enumerate(scores):
            peak = state.peaks[tile]
            for x in row:
                peak = softmax.maximum(peak, softmax.largest([x]))
                yield 2 * softmax.lane_count(x)
            peaks.append(peak)
        for distance in lanes.distances():
            others = [lanes.exchange(x, distance) for x in peaks]
            # Not before they have arrived.
            yield streams.EXCHANGE_CLOCKS
            peaks = [softmax.maximum(*pair) for pair in zip(peaks, others, strict=True)]
        for tile, row in enumerate(scores):
            peak, old = peaks[tile], state.peaks[tile]
            factor = softmax.power(self.exponent(old, peak))
            factors.append(factor)
            total = softmax.multiply(state.sums[tile], softmax.splat(factor, 2))
            state.peaks[tile] = peak
            yield 32
            steps = []
            for x in row:
                exponents = self.exponent(x, peak)
                count = softmax.lane_count(x)
                yield 2 * count
                powers = []
                for i in range(0, count, 2):
                    pair = []
                    for exponent in (memory.element(exponents, i + j) for j in range(2)):
                        pair.append(softmax.power(exponent))
                        yield softmax.POWER_CLOCKS
                    powers.append(memory.joined(pair))
                total = softmax.add(total, softmax.pair_sum(powers))
                yield 2 * count
                steps.append((yield from self._operands(powers)))
            state.sums[tile] = total
            shares.append(steps)

    def rescale(self, state: State, factors: list[ir.Value]) -> Stream:
        """Values summed so far relative to the new peaks."""
        for tile, factor in enumerate(factors):
            scaled = softmax.splat(factor, self.unit.values)
            state.values[tile] = [softmax.multiply(x, scaled) for x in state.values[tile]]
            yield 2 * self.unit.values * self.columns

    def products(self, queries: Queries, sums: list[list[ir.Value]]) -> Stream:
        """Adds the products with each tile of keys, for each tile of queries."""

        def read(step: int, tile: int) -> list[ir.Value]:
            return self.key_rows.read(layout.tile_key(self.unit, tile), step)

        rows = [[steps[step] for steps in queries] for step in range(self.depth_steps)]
        return self._multiplied(rows, read, sums)

    def add_values(self, shares: Shares, sums: list[list[ir.Value]]) -> Stream:
        """Adds shares of the values, for each tile of queries."""

        def read(step: int, column: int) -> list[ir.Value]:
            return self.value_rows.read(column * self.unit.columns, step)

        rows = [[steps[step] for steps in shares] for step in range(self.key_steps)]
        return self._multiplied(rows, read, sums)

    def _multiplied(
        self,
        rows: list[list[list[ir.Value]]],
        read: Callable[[int, int], list[ir.Value]],
        sums: list[list[ir.Value]],
    ) -> Stream:
        """sums[tile][column] += rows[step][tile] * read(step, column), for all steps.

        What a step reads is read while the one before multiplies.
        """
        unit, columns = self.unit, range(len(sums[0]))
        clocks = 2 * unit.rows * unit.columns * unit.depth * 4 // unit.flops
        following = [read(0, column) for column in columns]
        yield streams.READ_CLOCKS
        for step, row in enumerate(rows):
            operands = [multiply.pieces(unit, x) for x in following]
            if step + 1 < len(rows):
                following = [read(step + 1, column) for column in columns]
            # Instructions that add to the same sums are far apart.
            for part in range(len(operands[0])):
                for column in columns:
                    for tile in self.query_tiles:
                        piece = [operands[column][part]]
                        sums[tile][column] = multiply.multiply(
                            unit, row[tile][part], piece, sums[tile][column], (False, False)
                        )
                        yield clocks

    def no_shares(self) -> Shares:
        pairs = [emit.constant(0, "f32", 2)] * (self.run_keys // 2)
        return [
            [streams.result(self._operands(pairs)) for _ in range(self.key_steps)]
            for _ in self.query_tiles
        ]

    def matrix_share(self) -> float:
        """Clocks of the softmax of a block for one of its products."""
        scores = self.schedule.tiles * self.key_steps * self.run_keys
        vector = scores * 28 + 2 * streams.EXCHANGE_CLOCKS + 32 * self.schedule.tiles
        unit = self.unit
        each = 2 * unit.rows * unit.columns * unit.depth * 4 // unit.flops
        parts = unit.chunk * (1 if unit.groups > 1 else unit.step_chunks) // unit.per_lane
        count = self.depth_steps * self.key_tiles + self.key_steps * self.columns
        return vector / (each * parts * count * self.schedule.tiles)

    def _first_keys(self, key: Index) -> list[Index]:
        """Where the lane's keys of each step of the second product begin, in a block."""
        first = emit.add(key, self.place.first_key)
        first = emit.add(first, emit.mul(self.place.group, self.run_keys))
        each = layout.step_keys(self.unit)
        return [emit.add(first, step * each) for step in range(self.key_steps)]

    def extras(self, key: Index) -> list[ir.Value]:
        """What the body needs of other inputs for a block."""
        place, keys = self.place, self._first_keys(key)
        return self.body.load(place.batch, place.queries, keys, self.run_keys)

    def scores(
        self,
        products: list[list[ir.Value]],
        key: Index,
        whole: Index,
        extras: Sequence[ir.Value],
    ) -> list[list[ir.Value]]:
        """What enters the softmax, for the keys of each step of the second product.

        Blocks from key `whole` on hold keys that are not there, or not seen.
        """
        tiles = layout.step_tiles(self.unit)
        result = []
        for tile in self.query_tiles:
            row = []
            for step in range(self.key_steps):
                x = softmax.joined(products[tile][step * tiles :][:tiles])
                if self.factor is None:
                    x = self.body(x, tile, step, extras)
                row.append(x)
            result.append(row)
        inside = emit.compare("slt", key, whole)
        return self._masked(result, self._first_keys(key), inside)

    def _masked(
        self, scores: list[list[ir.Value]], keys: list[Index], inside: ir.Value
    ) -> list[list[ir.Value]]:
        """Scores without those of keys that are not there or not seen."""
        attention = self.attention
        if attention.causal is None and attention.N % self.schedule.keys == 0:
            return scores

        def masked() -> list[ir.Value]:
            result = []
            for tile, query in enumerate(self.place.queries):
                limit: Index = attention.N
                if attention.causal is not None:
                    last = emit.add(query, attention.causal + 1)
                    limit = emit.minimum(last, attention.N)
                result += [
                    seen(x, first, limit, attention.score)
                    for x, first in zip(scores[tile], keys, strict=True)
                ]
            return result

        flat = [x for row in scores for x in row]
        chosen = _choose(inside, lambda: flat, masked)
        return [chosen[i * len(keys) :][: len(keys)] for i in self.query_tiles]

    def exponent(self, x: ir.Value, peak: ir.Value) -> ir.Value:
        """log2 of the exponential of x relative to that of the peak, a scalar."""
        lanes = ir.VectorType(x.type).shape[0] if isinstance(x.type, ir.VectorType) else 0

        def spread(y: ir.Value) -> ir.Value:
            return softmax.splat(y, lanes) if lanes else y

        if self.factor is None:
            factor = emit.constant(softmax.LOG2_E, "f32", lanes)
            return softmax.multiply(softmax.subtract(x, spread(peak)), factor)
        scale = self.factor * softmax.LOG2_E
        # One multiply-add for each score; the product with the peak is of one scalar.
        below = spread(softmax.multiply(peak, emit.constant(-scale, "f32")))
        return softmax.add(softmax.multiply(x, emit.constant(scale, "f32", lanes)), below)

    def _operands(self, powers: list[ir.Value]) -> Generator[int, None, list[ir.Value]]:
        """What the lane gives to the second product, for the keys of one step, from pairs."""
        unit = self.unit
        parts = []
        for pair in powers:
            parts.append(softmax.narrowed(pair, unit.element, self.target))
            yield softmax.NARROW_CLOCKS
        share = softmax.joined(parts)
        if unit.groups > 1:
            return multiply.pieces(unit, [share])
        # RDNA 3: a lane gives all keys of the step, half of which lie 16 lanes away.
        words = ir.VectorType.get([unit.values // 2], ir.IntegerType.get_signless(32))
        other = vector.bitcast(share.type, self.place.lanes.exchanged(vector.bitcast(words, share)))
        upper = emit.compare("eq", self.place.group, 1)
        halves = [arith.select(upper, other, share), arith.select(upper, share, other)]
        return multiply.pieces(unit, halves)


def _choose(
    condition: ir.Value,
    yes: Callable[[], list[ir.Value]],
    no: Callable[[], list[ir.Value]],
) -> list[ir.Value]:
    """`yes() if condition else no()`, of vectors whose types are those of `yes`."""
    values = yes()
    op = scf.IfOp(condition, [x.type for x in values], has_else=True)
    with ir.InsertionPoint(op.then_block):
        scf.YieldOp(values)
    with ir.InsertionPoint(op.else_block):
        scf.YieldOp(no())
    return list(op.results)
