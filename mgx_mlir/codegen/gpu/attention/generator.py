"""One gpu.func that computes attention: keys and values through LDS, all else in registers.

A wave owns some queries for the whole time. For each block of keys it multiplies them with
its queries, turns the scores into shares relative to the largest so far, and adds the shares
of the values; scores are never in memory. While it does so the next block is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from itertools import chain
from typing import TypeAlias

from mlir import ir
from mlir.dialects import amdgpu, arith, scf, vector

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.attention import Attention
from mgx_mlir.codegen.contraction.emit import Index
from mgx_mlir.codegen.contraction.problem import Matrix
from mgx_mlir.codegen.gpu.attention import layout, softmax, streams
from mgx_mlir.codegen.gpu.attention.body import Body, plain_scale
from mgx_mlir.codegen.gpu.attention.constraints import lds_bytes
from mgx_mlir.codegen.gpu.attention.space import Schedule
from mgx_mlir.codegen.gpu.attention.state import Merge, State
from mgx_mlir.codegen.gpu.attention.streams import Stream
from mgx_mlir.codegen.gpu.attention.tile import Reader, Shape, Tile
from mgx_mlir.codegen.gpu.builder import Tensor, block_number, function, gpu_module, thread_number
from mgx_mlir.codegen.gpu.contraction import memory, multiply
from mgx_mlir.codegen.gpu.contraction.constraints import vector_width
from mgx_mlir.codegen.gpu.contraction.epilogue import seen
from mgx_mlir.codegen.gpu.contraction.specs import Unit
from mgx_mlir.codegen.gpu.generic import GpuProgram
from mgx_mlir.codegen.lowering.element import element_of
from mgx_mlir.finalizer.code_object import Argument, Launch
from mgx_mlir.target import Target

# What a lane gives to a product, for each tile of queries, step and instruction.
Queries: TypeAlias = "list[list[list[ir.Value]]]"
Shares: TypeAlias = "list[list[list[ir.Value]]]"


def generate(
    attention: Attention,
    sizes: tuple[Sequence[int], Sequence[int]],
    schedule: Schedule,
    unit: Unit,
    target: Target,
    name: str,
) -> GpuProgram:
    """The function `<name>_0` for what `constraints` do not refuse, and its launch.

    sizes: elements of each input and of each result. Needs an active MLIR context and
    location.
    """
    return _Generator(attention, sizes, schedule, unit, target, f"{name}_0").run()


def tile_shapes(attention: Attention, schedule: Schedule, unit: Unit, threads: int) -> list[Shape]:
    """The tiles of keys and of values that a block moves."""
    keys = Shape.keys(attention.k, schedule.keys, attention.D, unit, threads)
    return [keys, Shape.values(attention.v, schedule.keys, attention.E, unit)]


class _Generator:
    def __init__(
        self,
        attention: Attention,
        sizes: tuple[Sequence[int], Sequence[int]],
        schedule: Schedule,
        unit: Unit,
        target: Target,
        name: str,
    ) -> None:
        self.attention, self.sizes, self.schedule = attention, sizes, schedule
        self.unit, self.target, self.name = unit, target, name
        self.threads = schedule.waves * target.wave_size
        self.grid = (math.ceil(attention.M / schedule.queries(unit)), attention.batch, 1)
        self.query_tiles = range(schedule.tiles)
        self.key_tiles = schedule.wave_keys // unit.columns
        self.columns = math.ceil(attention.E / unit.columns)
        self.key_steps = schedule.wave_keys // layout.step_keys(unit)
        self.depth_steps = math.ceil(attention.D / layout.step_keys(unit))
        # Neighbouring keys whose scores a lane holds.
        self.run_keys = layout.step_tiles(unit) * unit.values
        self.scale = plain_scale(attention)

    def run(self) -> GpuProgram:
        module, block = gpu_module()
        used = self.attention.used_arguments()
        tensors = [_tensor(self.sizes[0][number], element) for number, element in used]
        tensors.append(_tensor(self.sizes[1][0], self.attention.element, True))
        shapes = tile_shapes(self.attention, self.schedule, self.unit, self.threads)
        size = lds_bytes(self.attention, self.schedule, shapes, self.unit, self.target)
        element = self.unit.element
        lds = [(size // emit.element_bytes(element), emit.element_type(element))]
        with function(block, self.name, tensors, self.threads, self.grid, lds) as frame:
            self.inputs = {n: b for (n, _), b in zip(used, frame.buffers, strict=False)}
            self._body(shapes, frame.lds[0], frame.buffers[-1])
        arguments = tuple(Argument("input", number) for number, _ in used)
        launch = Launch(
            self.name, self.grid, (self.threads, 1, 1), (*arguments, Argument("output", 0))
        )
        return GpuProgram(module, (launch,), 0, 32)

    def _body(self, shapes: Sequence[Shape], lds: ir.Value, output: ir.Value) -> None:
        attention, unit, schedule = self.attention, self.unit, self.schedule
        thread = thread_number(self.threads)
        self.batch = block_number("y", self.grid[1])
        block: Index = block_number("x", self.grid[0])
        if attention.causal is not None:
            # The last queries see the most keys: they begin first.
            block = _reversed(block, self.grid[0])
        lane = emit.rem(thread, self.target.wave_size)
        wave = emit.div(thread, self.target.wave_size)
        self.lane_row, self.group = emit.rem(lane, unit.rows), emit.div(lane, unit.rows)
        self.lanes = softmax.Lanes(self.target, unit, lane)
        self.first = emit.mul(block, schedule.queries(unit))
        side_by_side = schedule.waves // schedule.splits
        self.split: Index = emit.div(wave, side_by_side) if schedule.splits > 1 else 0
        self.place: Index = emit.rem(wave, side_by_side)
        self.first_key = emit.mul(self.split, schedule.wave_keys)
        mine = emit.add(self.first, emit.mul(self.place, schedule.wave_queries(unit)))
        self.queries = [
            emit.add(emit.add(mine, self.lane_row), tile * unit.rows) for tile in self.query_tiles
        ]
        k = Tile(shapes[0], attention.D, unit, self.threads, self._input(attention.k), lds, 0)
        start = shapes[0].elements(unit)
        v = Tile(shapes[1], attention.N, unit, self.threads, self._input(attention.v), lds, start)
        k.begin(thread, self.batch)
        v.begin(thread, self.batch)
        operand_group: Index = self.group if unit.groups > 1 else 0
        key_row = emit.add(layout.lane_key(unit, self.lane_row), self.first_key)
        self.key_rows = Reader(k, key_row, operand_group)
        self.value_rows = Reader(v, self._lane_column(), operand_group, self.first_key)
        self.scored = Body(attention, self.inputs)
        state = self._over_keys(k, v)
        for tile in self.query_tiles:
            pair = state.sums[tile]
            total = softmax.add(memory.element(pair, 0), memory.element(pair, 1))
            state.sums[tile] = self.lanes.over_keys(total, "sum")
        if schedule.splits == 1:
            self._store(state, output)
            return
        merge = Merge(lds, unit, self.target, schedule, self.place, lane)
        first = emit.compare("eq", self.split, 0)
        amdgpu.LDSBarrierOp()
        emit.when(emit.compare("ne", self.split, 0), lambda: merge.store(self.split, state))
        amdgpu.LDSBarrierOp()
        emit.when(first, lambda: self._store(merge.merged(state, self._exponent), output))

    def _input(self, matrix: Matrix) -> ir.Value:
        return self.inputs[matrix.argument]

    def _lane_column(self) -> Index:
        """The column of a tile of values that a lane reads: such that its results are
        neighbours."""
        if self.unit.kind == "wmma" and self.unit.groups == 1:
            return layout.lane_key(self.unit, self.lane_row)
        return self.lane_row

    # Blocks of keys ------------------------------------------------------------------------

    def _over_keys(self, k: Tile, v: Tile) -> State:
        attention, keys = self.attention, self.schedule.keys
        queries = self._load_queries()  # they stay in registers
        state = self._initial()
        end: Index = attention.N
        self.whole: Index = attention.N // keys * keys
        if attention.causal is not None:
            last = emit.add(self.first, attention.causal + self.schedule.queries(self.unit))
            end = emit.minimum(last, attention.N)
            first = emit.minimum(emit.add(self.first, attention.causal + 1), attention.N)
            self.whole = emit.mul(emit.div(first, keys), keys)
        over = self._in_turn if self.schedule.overlap else self._one_by_one
        return over(k, v, queries, state, end)

    def _one_by_one(self, k: Tile, v: Tile, queries: Queries, state: State, end: Index) -> State:
        """Scores, shares and values of each block one after another."""
        keys = self.schedule.keys

        def block(key: Index, *carried: ir.Value) -> list[ir.Value]:
            ahead = carried[len(carried) - k.reads - v.reads :]
            now = state.like(carried[: len(carried) - len(ahead)])
            amdgpu.LDSBarrierOp()  # nobody reads the block before any more
            k.store(ahead[: k.reads])
            v.store(ahead[k.reads :])
            amdgpu.LDSBarrierOp()
            following = emit.add(key, keys)
            fresh = [*k.load(following), *v.load(following)]
            products = self._zeros(self.key_tiles)
            streams.run(self._products(queries, products))
            scores = self._scores(products, key)
            shares: Shares = []
            factors: list[ir.Value] = []
            streams.run(self._softmax(scores, now, shares, factors))
            streams.run(self._scale(now, factors))
            streams.run(self._add_values(shares, now.values))
            return [*now.flat(), *fresh]

        ahead = [*k.load(0), *v.load(0)]
        return state.like(emit.loop(0, end, keys, block, [*state.flat(), *ahead]))

    def _in_turn(self, k: Tile, v: Tile, queries: Queries, state: State, end: Index) -> State:
        """While the softmax of one block is computed, the matrix cores multiply for the block
        after it and the one before it.

        They do one block too much of each: the first shares are zero, the last scores unused.
        """
        keys, tiles, count = self.schedule.keys, self.query_tiles, self.key_tiles
        state_size = len(state.flat())
        first = k.load(0)
        ahead = [*k.load(keys), *v.load(0)]
        k.store(first)
        amdgpu.LDSBarrierOp()
        products = self._zeros(count)
        streams.run(self._products(queries, products))
        shares = self._no_shares()
        each = len(shares[0][0])

        def block(key: Index, *carried: ir.Value) -> list[ir.Value]:
            values = iter(carried)
            now = state.like([next(values) for _ in range(state_size)])
            before = [[next(values) for _ in range(count)] for _ in tiles]
            shares = [
                [[next(values) for _ in range(each)] for _ in range(self.key_steps)] for _ in tiles
            ]
            ahead = list(values)
            amdgpu.LDSBarrierOp()  # nobody reads the blocks before any more
            k.store(ahead[: k.reads])
            v.store(ahead[k.reads :])
            amdgpu.LDSBarrierOp()
            fresh = [*k.load(emit.add(key, 2 * keys)), *v.load(key)]
            scores = self._scores(before, key)
            products = self._zeros(count)
            following: Shares = []
            factors: list[ir.Value] = []
            added: list[bool] = []
            matrix = chain(
                self._add_values(shares, now.values),
                streams.mark(added),
                self._products(queries, products),
            )
            softmax = self._softmax(scores, now, following, factors)
            scaled = streams.after(added, self._scale(now, factors))
            streams.interleave(matrix, chain(softmax, scaled), self._matrix_share())
            flat = [x for row in products for x in row]
            flat += [x for tile in following for step in tile for x in step]
            return [*now.flat(), *flat, *fresh]

        flat = [x for row in products for x in row]
        flat += [x for tile in shares for step in tile for x in step]
        carried = emit.loop(0, end, keys, block, [*state.flat(), *flat, *ahead])
        last = state.like(carried[:state_size])
        parts = iter(carried[state_size + len(tiles) * count :])
        shares = [
            [[next(parts) for _ in range(each)] for _ in range(self.key_steps)] for _ in tiles
        ]
        amdgpu.LDSBarrierOp()
        v.store(list(parts)[k.reads :])
        amdgpu.LDSBarrierOp()
        streams.run(self._add_values(shares, last.values))
        return last

    def _load_queries(self) -> Queries:
        """For each tile of queries and each step along d, what the lane gives to the products."""
        q, unit, D = self.attention.q, self.unit, self.attention.D
        buffer, size = self._input(q), emit.element_bytes(q.element)
        width = math.gcd(
            vector_width(q.column, q.row, q.batch, offset=q.offset, limit=unit.chunk), D
        )
        chunks = 1 if unit.groups > 1 else unit.step_chunks
        result = []
        for query in self.queries:
            start = emit.add(q.start(self.batch), q.row.offset(query))
            steps = []
            for step in range(self.depth_steps):
                first: Index = step * unit.step_chunks * unit.chunk
                if unit.groups > 1:
                    first = emit.add(emit.mul(self.group, unit.chunk), first)
                parts = []
                for part in range(0, chunks * unit.chunk, width):
                    d = emit.add(first, part)
                    inside = []
                    if D % layout.step_keys(unit):
                        inside = [emit.compare("slt", d, D)]
                    place = memory.guarded(emit.add(start, q.column.offset(d)), inside, size)
                    parts.append(memory.load(buffer, place, width))
                whole = emit.convert(softmax.joined(parts), q.element, unit.element)
                vectors = [memory.part(whole, i * unit.chunk, unit.chunk) for i in range(chunks)]
                steps.append(multiply.pieces(unit, vectors))
            result.append(steps)
        return result

    def _initial(self) -> State:
        lowest = emit.constant(softmax.LOWEST if self.scale is None else softmax.LOW, "f32")
        nothing = emit.constant(0, "f32", 2)
        count = self.schedule.tiles
        return State([lowest] * count, [nothing] * count, self._zeros(self.columns))

    def _zeros(self, count: int) -> list[list[ir.Value]]:
        """Sums of `count` tiles at the start, for each tile of queries."""
        return [[multiply.zero(self.unit)] * count for _ in self.query_tiles]

    def _softmax(
        self, scores: list[list[ir.Value]], state: State, shares: Shares, factors: list[ir.Value]
    ) -> Stream:
        """Brings the peaks and sums of `state` up to date; what the lane gives to the second
        product goes to `shares`, what the values before have to be scaled with to `factors`."""
        lanes = self.lanes
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
            factor = softmax.power(self._exponent(old, peak))
            factors.append(factor)
            total = softmax.multiply(state.sums[tile], softmax.splat(factor, 2))
            state.peaks[tile] = peak
            yield 32
            steps = []
            for x in row:
                exponents = self._exponent(x, peak)
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

    def _scale(self, state: State, factors: list[ir.Value]) -> Stream:
        """Values summed so far relative to the new peaks."""
        for tile, factor in enumerate(factors):
            scaled = softmax.splat(factor, self.unit.values)
            state.values[tile] = [softmax.multiply(x, scaled) for x in state.values[tile]]
            yield 2 * self.unit.values * self.columns

    def _products(self, queries: Queries, sums: list[list[ir.Value]], side: Index = 0) -> Stream:
        """Adds the products with each tile of keys, for each tile of queries."""

        def read(step: int, tile: int) -> list[ir.Value]:
            return self.key_rows.read(layout.tile_key(self.unit, tile), step)

        rows = [[steps[step] for steps in queries] for step in range(self.depth_steps)]
        return self._multiplied(rows, read, sums)

    def _add_values(self, shares: Shares, sums: list[list[ir.Value]], side: Index = 0) -> Stream:
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

    def _no_shares(self) -> Shares:
        pairs = [emit.constant(0, "f32", 2)] * (self.run_keys // 2)
        return [
            [streams.result(self._operands(pairs)) for _ in range(self.key_steps)]
            for _ in self.query_tiles
        ]

    def _matrix_share(self) -> float:
        """Clocks of the softmax of a block for one of its products."""
        scores = self.schedule.tiles * self.key_steps * self.run_keys
        vector = scores * 28 + 2 * streams.EXCHANGE_CLOCKS + 32 * self.schedule.tiles
        unit = self.unit
        each = 2 * unit.rows * unit.columns * unit.depth * 4 // unit.flops
        parts = unit.chunk * (1 if unit.groups > 1 else unit.step_chunks) // unit.per_lane
        count = self.depth_steps * self.key_tiles + self.key_steps * self.columns
        return vector / (each * parts * count * self.schedule.tiles)

    def _scores(self, products: list[list[ir.Value]], key: Index) -> list[list[ir.Value]]:
        """What enters the softmax, for the keys of each step of the second product."""
        tiles = layout.step_tiles(self.unit)
        self.scored.begin_block()
        result = []
        keys = [
            emit.add(
                emit.add(emit.add(key, self.first_key), emit.mul(self.group, self.run_keys)),
                step * layout.step_keys(self.unit),
            )
            for step in range(self.key_steps)
        ]
        for tile in self.query_tiles:
            row = []
            for step, first in enumerate(keys):
                x = softmax.joined(products[tile][step * tiles :][:tiles])
                if self.scale is None:
                    x = self.scored(x, self.batch, self.queries[tile], first, step)
                row.append(x)
            result.append(row)
        return self._masked(result, keys, key)

    def _masked(
        self, scores: list[list[ir.Value]], keys: list[Index], key: Index
    ) -> list[list[ir.Value]]:
        """Scores without those of keys that are not there or not seen."""
        attention = self.attention
        if attention.causal is None and attention.N % self.schedule.keys == 0:
            return scores

        def masked() -> list[ir.Value]:
            result = []
            for tile, query in enumerate(self.queries):
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
        inside = emit.compare("slt", key, self.whole)
        chosen = _choose(inside, lambda: flat, masked)
        return [chosen[i * len(keys) :][: len(keys)] for i in self.query_tiles]

    def _exponent(self, x: ir.Value, peak: ir.Value) -> ir.Value:
        """log2 of the exponential of x relative to that of the peak, a scalar."""
        lanes = ir.VectorType(x.type).shape[0] if isinstance(x.type, ir.VectorType) else 0

        def spread(y: ir.Value) -> ir.Value:
            return softmax.splat(y, lanes) if lanes else y

        if self.scale is None:
            factor = emit.constant(softmax.LOG2_E, "f32", lanes)
            return softmax.multiply(softmax.subtract(x, spread(peak)), factor)
        scale = self.scale * softmax.LOG2_E
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
        other = vector.bitcast(share.type, self.lanes.exchanged(vector.bitcast(words, share)))
        upper = emit.compare("eq", self.group, 1)
        halves = [arith.select(upper, other, share), arith.select(upper, share, other)]
        return multiply.pieces(unit, halves)

    def _store(self, state: State, output: ir.Value) -> None:
        attention, unit = self.attention, self.unit
        M, E, size = attention.M, attention.E, emit.element_bytes(attention.element)
        width = math.gcd(E, unit.values, 16 // size)
        for tile, query in enumerate(self.queries):
            inverse = arith.divf(emit.constant(1, "f32"), state.sums[tile])
            factor = softmax.splat(inverse, unit.values)
            inside = [emit.compare("slt", query, M)] if M % self.schedule.queries(unit) else []
            start = emit.linear(0, (self.batch, M * E), (query, E))
            for column, x in enumerate(state.values[tile]):
                y = emit.convert(softmax.multiply(x, factor), "f32", attention.element)
                first = emit.add(emit.mul(self.group, unit.values), column * unit.columns)
                for part in range(0, unit.values, width):
                    e = emit.add(first, part)
                    conditions = list(inside)
                    if E % unit.columns:
                        conditions.append(emit.compare("slt", e, E))
                    place = memory.guarded(emit.add(start, e), conditions, size)
                    memory.store(memory.part(y, part, width), output, place)


def _tensor(size: int, element: str, written: bool = False) -> Tensor:
    return Tensor(size, element_of(ir.Type.parse(element)), written)


def _reversed(number: Index, count: int) -> Index:
    """count - 1 - number."""
    if isinstance(number, int):
        return count - 1 - number
    return arith.subi(emit.value(count - 1), number)


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
