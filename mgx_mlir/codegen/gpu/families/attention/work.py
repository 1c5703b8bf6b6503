"""The work of a wave on a block of keys: instruction streams of products and of the softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mlir import ir
from mlir.dialects import arith, vector
from mlir.dialects import math as mlir_math

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory, multiply, precision
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.attention import layout, softmax, streams
from mgx_mlir.codegen.gpu.families.attention.body import ScoreBody, plain_scale
from mgx_mlir.codegen.gpu.families.attention.softmax import Total
from mgx_mlir.codegen.gpu.families.attention.space import AttentionSchedule
from mgx_mlir.codegen.gpu.families.attention.state import State
from mgx_mlir.codegen.gpu.families.attention.streams import Products, Stream
from mgx_mlir.codegen.gpu.families.attention.tile import Reader
from mgx_mlir.codegen.gpu.families.contraction.epilogue import seen
from mgx_mlir.codegen.problem.attention import Attention
from mgx_mlir.sizes.arithmetic import ceil_div

# A lane's vectors by tile of queries.
Tiles: TypeAlias = "list[list[ir.Value]]"
# A lane's first operands of a product. `Queries` gives those of one step, by tile of queries and
# instruction; `Shares` lists them by tile of queries, step and instruction.
Queries: TypeAlias = "Callable[[int], Tiles]"
Shares: TypeAlias = "list[list[list[ir.Value]]]"


@dataclass(frozen=True)
class LaneOffsets:
    """Indices of a lane: its matrix of the batch, its query in each tile, its group of lanes
    along the keys, and the first key of its wave in a block."""

    batch: Index
    queries: Sequence[Index]
    group: Index
    first_key: Index
    lanes: softmax.Lanes


class Work:
    """Builds a wave's work, for all its tiles of queries at once.

    rows: the readers of the lane's rows in LDS, of a block of keys and of a block of values.
    """

    def __init__(
        self,
        attention: Attention,
        schedule: AttentionSchedule,
        unit: Unit,
        target: Target,
        offsets: LaneOffsets,
        rows: tuple[Reader, Reader],
        body: ScoreBody,
    ) -> None:
        self.attention, self.schedule, self.unit, self.target = attention, schedule, unit, target
        self.offsets, self.body = offsets, body
        self.key_rows, self.value_rows = rows
        self.query_tiles = range(schedule.tiles)
        self.key_tiles = schedule.wave_keys // unit.columns
        self.key_steps = schedule.wave_keys // layout.step_keys(unit)
        self.depth_steps = ceil_div(attention.D, layout.step_depth(unit))
        self.read_columns = layout.read_columns(unit, schedule.tiles)
        # Neighbouring keys whose scores a lane holds.
        self.run_keys = layout.run_keys(unit)
        self.factor = plain_scale(attention)
        self.scale = softmax.LOG2_E * (self.factor or 1.0)

    @property
    def columns(self) -> int:
        """Vectors of a lane's sums of values, for each tile of queries."""
        return ceil_div(self.attention.E, self.unit.columns)

    def initial(self) -> State:
        lowest = emit.constant(softmax.LOWEST, "f32")
        nothing = emit.constant(0, "f32", 2)
        count = self.schedule.tiles
        limits = [emit.constant(-math.inf, "f32")] * count
        return State([lowest] * count, [nothing] * count, self.zeros(self.columns), limits)

    def zeros(self, count: int) -> Tiles:
        """Zero accumulators of `count` tiles, for each tile of queries."""
        return [[multiply.zero(self.unit)] * count for _ in self.query_tiles]

    def raise_row_maxima(
        self, scores: Tiles, state: State, owed: list[ir.Value] | None = None
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """Raises a row maximum where a score reaches the limit that `state` has for it.

        Few blocks need it: a wave-wide branch skips the rest. A factor for each query rescales
        the sums of exponentials. It rescales the values too where `owed` is None; otherwise the
        factor `owed` by the block before rescales them. Returns this block's factors, and the
        origin of each query's scores: its row maximum. The product of a large one with the scale
        would round by more than exponents may: all blocks take the branch then, `scores` become
        distances from the row maximum, and the origin is 0.
        """
        lanes, tiles = self.offsets.lanes, self.query_tiles
        headroom, most = (
            emit.constant(x / self.scale, "f32") for x in (softmax.HEADROOM, softmax.LARGE)
        )
        one, zero, never = (emit.constant(x, "f32") for x in (1, 0, -math.inf))
        highest = [softmax.largest(row) for row in scores]
        kept = [softmax.below(*pair) for pair in zip(highest, state.limits, strict=True)]
        if owed is not None:
            kept += [softmax.equal(x, one) for x in owed]

        def grown() -> list[ir.Value]:
            now = state.like(state.flat())
            factors, exact = [], []
            for tile in tiles:
                old, limit = state.row_maxima[tile], state.limits[tile]
                found = lanes.over_keys(highest[tile], "max")
                raised = softmax.maximum(found, old)
                row_maximum = arith.select(softmax.below(found, limit), old, raised)
                factor = precision.exp2(self.exponent(old, row_maximum))
                factors.append(factor)
                exact.append(softmax.below(mlir_math.absf(row_maximum), most))
                limit = softmax.add(row_maximum, headroom)
                now.row_maxima[tile] = row_maximum
                now.limits[tile] = arith.select(exact[tile], limit, never)
                now.sums[tile] = softmax.multiply(now.sums[tile], emit.splat(factor, 2))
            self.rescale(now, factors if owed is None else owed)

            def distances() -> list[ir.Value]:
                large = [arith.select(exact[tile], zero, now.row_maxima[tile]) for tile in tiles]
                spread = [emit.splat(x, self.run_keys) for x in large]
                found = [
                    softmax.subtract(x, y)
                    for row, y in zip(scores, spread, strict=True)
                    for x in row
                ]
                return [*map(softmax.subtract, now.row_maxima, large), *found]

            plain = [*now.row_maxima, *(x for row in scores for x in row)]
            types = [x.type for x in plain]
            chosen = emit.choose(lanes.everywhere(exact), lambda: plain, distances, types)
            return [*now.flat(), *factors, *chosen]

        flat = [*state.flat(), *[one] * len(tiles), *state.row_maxima]
        flat += [x for row in scores for x in row]
        types = [x.type for x in flat]
        found = emit.choose(lanes.everywhere(kept), lambda: flat, grown, types)
        rest = iter(found[len(state.flat()) :])
        state.take(found)
        factors, origins = ([next(rest) for _ in tiles] for _ in range(2))
        scores[:] = [[next(rest) for _ in row] for row in scores]
        return factors, origins

    def softmax(
        self, scores: Tiles, origins: list[ir.Value], state: State, shares: Shares
    ) -> Stream:
        """Adds the exponentials of `scores`, relative to `origins`, to the sums of `state`; appends
        the lane's first operands of the second product to `shares`."""
        for tile, row in enumerate(scores):
            below = softmax.multiply(origins[tile], emit.constant(-self.scale, "f32"))
            total = Total(state.sums[tile], self.target)
            pairs: list[ir.Value] = []
            narrow: list[ir.Value] = []
            parts = [memory.part(x, i, 2) for x in row for i in range(0, self.run_keys, 2)]
            next_exponents = self._exponents(parts[0], below)
            yield 4
            for following in [*parts[1:], None]:
                # The next exponents are computed one pair early: results of exponentials and of
                # packed pairs take some time.
                exponents = next_exponents
                if following is not None:
                    next_exponents = self._exponents(following, below)
                    yield 4
                pair = []
                for j in range(2):
                    pair.append(precision.exp2(memory.element(exponents, j)))
                    yield softmax.POWER_CLOCKS
                pairs.append(memory.joined(pair))
                yield from self._narrowed(pairs[:-1], narrow, total)
            yield from self._narrowed(pairs, narrow, total)
            each = self.run_keys // 2
            shares.append(
                [self._operands(narrow[i : i + each]) for i in range(0, len(narrow), each)]
            )
            state.sums[tile] = total.value

    def _narrowed(self, pairs: list[ir.Value], narrow: list[ir.Value], total: Total) -> Stream:
        """Converts the pairs of shares that `narrow` lacks to the type of an operand. Appends
        them to `narrow` and adds them to `total`."""
        for pair in pairs[len(narrow) :]:
            share, clocks = softmax.narrowed(pair, self.unit.element, self.target)
            narrow.append(share)
            yield clocks
            total.add(pair, share)
            yield 4

    def rescale(self, state: State, factors: list[ir.Value]) -> None:
        """Scales the sums of values, for each query, from the old row maximum to the new one."""
        for tile, factor in enumerate(factors):
            scaled = emit.splat(factor, self.unit.values)
            state.values[tile] = [softmax.multiply(x, scaled) for x in state.values[tile]]

    def products(self, queries: Queries, sums: Tiles) -> Products:
        """Adds the products with each tile of keys, for each tile of queries."""

        def read(step: int, tile: int) -> list[ir.Value]:
            return self.key_rows.read(layout.tile_key(self.unit, tile), step)

        return self._multiplied(queries, self.depth_steps, read, sums)

    def add_values(self, shares: Shares, sums: Tiles, distance: int = 1) -> Products:
        """Adds the products of shares and values, for each tile of queries.

        distance: the prefetch distance of operands from LDS, in groups of columns.
        """

        def read(step: int, column: int) -> list[ir.Value]:
            return self.value_rows.read(column * self.unit.columns, step)

        def rows(step: int) -> Tiles:
            return [steps[step] for steps in shares]

        return self._multiplied(rows, self.key_steps, read, sums, distance)

    def _multiplied(
        self,
        rows: Queries,
        steps: int,
        read: Callable[[int, int], list[ir.Value]],
        sums: Tiles,
        distance: int = 1,
    ) -> Products:
        """sums[tile][column] += rows(step)[tile] * read(step, column), for all steps.

        Columns go in small groups: operands of the next `distance` groups, the prefetch distance,
        wait in registers while one group multiplies.
        """
        unit, count = self.unit, len(sums[0])
        clocks = layout.product_clocks(unit)
        items = [
            (step, range(first, min(first + self.read_columns, count)))
            for step in range(steps)
            for first in range(0, count, self.read_columns)
        ]

        def load(number: int) -> Tiles:
            step, columns = items[number]
            return [read(step, column) for column in columns]

        waiting, left = [load(number) for number in range(min(distance, len(items)))], rows(0)
        slots = streams.SLOT_CLOCKS * len(waiting[0]) * len(waiting[0][0])
        yield slots, streams.READ_CLOCKS
        for number, (step, columns) in enumerate(items):
            operands, row = [multiply.pieces(unit, x) for x in waiting.pop(0)], left
            issue = streams.SLOT_CLOCKS
            if number + 1 < len(items) and items[number + 1][0] != step:
                left = rows(step + 1)
            if number + distance < len(items):
                waiting.append(load(number + distance))
                issue += 2 * slots  # reads and their waits are instructions too
            # Instructions that add to the same sums are far apart.
            for part in range(len(operands[0])):
                for column, pieces in zip(columns, operands, strict=True):
                    for tile in self.query_tiles:
                        sums[tile][column] = multiply.multiply(
                            unit,
                            row[tile][part],
                            [pieces[part]],
                            sums[tile][column],
                            (unit.element, unit.element),
                        )
                        yield issue, clocks
                        issue = streams.SLOT_CLOCKS

    def no_shares(self) -> Shares:
        pairs = [emit.constant(0, self.unit.element, 2)] * (self.run_keys // 2)
        return [[self._operands(pairs) for _ in range(self.key_steps)] for _ in self.query_tiles]

    def _first_key(self, key: Index) -> Index:
        """The lane's first key in the block from `key` on."""
        first = emit.add(key, self.offsets.first_key)
        return emit.add(first, emit.mul(self.offsets.group, self.run_keys))

    def _keys_from(self, first: Index) -> list[Index]:
        """The lane's first key of each step of the second product, from the first step's on."""
        each = layout.step_keys(self.unit)
        return [emit.add(first, step * each) for step in range(self.key_steps)]

    def extras(self, key: Index) -> list[ir.Value]:
        """The elements of other inputs that the body needs for a block."""
        # LLVM would count blocks from one that lies before the first, and add the rest as a
        # constant to offsets below 0.
        offsets, keys = self.offsets, self._keys_from(memory.opaque(self._first_key(key)))
        return self.body.load(offsets.batch, offsets.queries, keys, self.run_keys)

    def scores(
        self,
        products: Tiles,
        key: Index,
        whole: tuple[Index, Index],
        extras: Sequence[ir.Value],
    ) -> Tiles:
        """The operands of the softmax, for the keys of each step of the second product.

        whole: the keys from the first number to below the second are seen by all queries.
        Blocks that begin outside hold keys beyond the end, or masked ones.
        """
        result = [layout.runs(self.unit, products[tile]) for tile in self.query_tiles]
        if self.factor is None:
            result = [
                [self.body(x, tile, step, extras) for step, x in enumerate(row)]
                for tile, row in enumerate(result)
            ]
        inside = emit.compare("slt", key, whole[1])
        if self.attention.earliest is not None:
            inside = arith.andi(inside, emit.compare("sge", key, whole[0]))
        return self._masked(result, self._keys_from(self._first_key(key)), inside)

    def _masked(self, scores: Tiles, keys: list[Index], inside: ir.Value) -> Tiles:
        """The scores, with -inf for keys beyond the end and for masked keys.

        inside: a condition under which the block has no such key.
        """
        attention = self.attention
        bounds = (attention.causal, attention.earliest)
        if bounds == (None, None) and attention.N % self.schedule.keys == 0:
            return scores

        def masked() -> list[ir.Value]:
            result = []
            for tile, query in enumerate(self.offsets.queries):
                limit: Index = attention.N
                if attention.causal is not None:
                    last = emit.add(query, attention.causal + 1)
                    limit = emit.minimum(last, attention.N)
                least = None
                if attention.earliest is not None:
                    least = emit.add(query, attention.earliest)
                result += [
                    seen(x, first, limit, least, attention.score)
                    for x, first in zip(scores[tile], keys, strict=True)
                ]
            return result

        flat = [x for row in scores for x in row]
        chosen = emit.choose(inside, lambda: flat, masked, [x.type for x in flat])
        return [chosen[i * len(keys) :][: len(keys)] for i in self.query_tiles]

    def exponent(self, x: ir.Value, row_maximum: ir.Value) -> ir.Value:
        """log2(exp(x) / exp(row_maximum)), scaled as the body asks."""
        distance = softmax.subtract(x, row_maximum)
        return softmax.multiply(distance, emit.constant(self.scale, "f32"))

    def _exponents(self, x: ir.Value, below: ir.Value) -> ir.Value:
        """One multiply-add for each score of a pair; `below`: the origin's product, one scalar."""
        scaled = softmax.multiply(x, emit.constant(self.scale, "f32", 2))
        return softmax.add(scaled, emit.splat(below, 2))

    def _operands(self, pairs: list[ir.Value]) -> list[ir.Value]:
        """The lane's first operands of the second product for the keys of one step, from pairs
        of shares."""
        unit = self.unit
        share = memory.concatenated(pairs)
        if unit.groups > 1:
            return multiply.pieces(unit, [share])
        # RDNA 3: a lane supplies all keys of the step; the lane 16 away holds half of them.
        words = ir.VectorType.get([unit.values // 2], ir.IntegerType.get_signless(32))
        other = vector.bitcast(
            share.type, self.offsets.lanes.exchanged(vector.bitcast(words, share), 16)
        )
        upper = emit.compare("eq", self.offsets.group, 1)
        halves: list[ir.Value] = [
            arith.select(upper, other, share),
            arith.select(upper, share, other),
        ]
        return multiply.pieces(unit, halves)
