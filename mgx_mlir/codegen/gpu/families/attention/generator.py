"""One gpu.func that computes attention: keys and values through LDS, all else in registers.

A wave owns some queries for the whole time. It multiplies each block of keys with its queries,
computes shares from the scores relative to the row maximum so far, and adds the products of
shares and values. Scores are never in memory. Meanwhile the next block is prefetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import block_number, thread_number
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.builders.ordering import acquire, barrier, last_group
from mgx_mlir.codegen.gpu.families.attention import layout, queries, softmax
from mgx_mlir.codegen.gpu.families.attention.body import ScoreBody
from mgx_mlir.codegen.gpu.families.attention.combine import (
    Partial,
    combine,
    store_partial,
)
from mgx_mlir.codegen.gpu.families.attention.constraints import Plan
from mgx_mlir.codegen.gpu.families.attention.key_loop import KeyLoop
from mgx_mlir.codegen.gpu.families.attention.plain import work_of
from mgx_mlir.codegen.gpu.families.attention.state import Merge, State, part
from mgx_mlir.codegen.gpu.families.attention.tile import AttentionTile, Reader
from mgx_mlir.codegen.gpu.families.attention.work import LaneOffsets, Queries
from mgx_mlir.codegen.gpu.families.contraction.convolution import place_of_results
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.meaning.element import F32
from mgx_mlir.codegen.problem.problem import Matrix
from mgx_mlir.sizes.arithmetic import ceil_div


class Generator:
    """Builds the function of an attention.

    `constraints` have not refused the attention and the schedule.
    """

    def __init__(self, plan: Plan) -> None:
        attention, schedule = plan.attention, plan.schedule
        self.attention, self.schedule, self.plan = attention, schedule, plan
        self.unit, self.target, self.threads = plan.unit, plan.target, plan.threads
        blocks = ceil_div(attention.M, schedule.queries)
        self.grid = (blocks, attention.batch, schedule.parts)
        self.partial = Partial.of(attention, schedule)

    def run(self, launches: Launches) -> None:
        """Adds the functions to those of `launches`, which take inputs in front."""
        used = [number for number, _ in self.attention.used_arguments()]
        read, results = launches.inputs(used), launches.results
        if self.schedule.is_cut:
            parts = [launches.scratch(size, F32) for size in self.partial.sizes]
            results = [*parts, launches.counting(self.grid[0] * self.grid[1]), *results]
        with launches.function(read, results, self.threads, self.grid, self.local()) as (_, frame):
            self.inputs = dict(zip(used, frame.buffers, strict=False))
            self.pointers = dict(zip(used, frame.pointers, strict=False))
            self._body(frame.lds[0], frame.buffers[len(used) :])
            if self.schedule.is_cut:
                counters = frame.pointers[len(used) + len(parts)]
                self._combine(counters, frame.lds[0], frame.buffers[len(used) :])

    def _combine(self, counters: ir.Value, flag: ir.Value, buffers: Sequence[ir.Value]) -> None:
        """The last work-group of some queries combines the parts of all."""
        attention, schedule, wave_size = self.attention, self.schedule, self.target.wave_size
        values, ends, _, *outputs = buffers
        thread = thread_number(self.threads)
        tile = emit.linear(block_number("x", self.grid[0]), (self.batch, self.grid[0]))
        is_last = last_group((counters, tile), schedule.parts, thread, wave_size, flag)
        place = place_of_results(attention.result)
        epilogue = Epilogue(attention.result, place, self.inputs, outputs)
        before = emit.mul(self.batch, attention.M)
        beyond = emit.minimum(emit.add(self.first, schedule.queries), attention.M)
        a_row = attention.E // self.partial.width
        start, end = (emit.mul(emit.add(before, x), a_row) for x in (self.first, beyond))
        turns = ceil_div(min(schedule.queries, attention.M) * a_row, self.threads)

        def turn(number: Index) -> None:
            own = emit.add(emit.add(start, thread), emit.mul(number, self.threads))
            scale = self.work.factor or 1.0
            combine((values, ends), epilogue, attention, self.partial, scale, (own, end))

        def last() -> None:
            acquire()
            emit.loop(0, turns, 1, turn, rolled=True)

        emit.when(is_last, last)

    def local(self) -> list[tuple[int, ir.Type]]:
        """The array in LDS that holds the tiles of a work-group."""
        element = self.unit.element
        size = self.plan.lds_bytes // emit.element_bytes(element)
        return [(size, emit.element_type(element))]

    def _body(self, lds: ir.Value, outputs: Sequence[ir.Value]) -> None:
        shapes = self.plan.shapes
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
        self.first = emit.mul(block, schedule.queries)
        side_by_side = schedule.waves // schedule.splits
        split: Index = emit.div(wave, side_by_side) if schedule.splits > 1 else 0
        self.number = number = emit.rem(wave, side_by_side)
        mine = emit.add(self.first, emit.mul(number, schedule.wave_queries))
        self.queries = [
            emit.add(emit.add(mine, self.lane_row), tile * unit.rows)
            for tile in range(schedule.tiles)
        ]
        N = attention.N
        k = AttentionTile(shapes[0], attention.D, N, self._sources(attention.k), lds, 0)
        start = 0 if schedule.lean else shapes[0].elements()
        v = AttentionTile(shapes[1], N, N, self._sources(attention.v), lds, start)
        self.kept: AttentionTile | None = None
        if schedule.lean:
            q, M, start = attention.q, attention.M, max(s.elements() for s in shapes[:2])
            self.kept = AttentionTile(shapes[2], attention.D, M, self._sources(q), lds, start)
            self.kept.begin(thread, self.batch)
        k.begin(thread, self.batch)
        v.begin(thread, self.batch)
        first_key = emit.mul(split, schedule.wave_keys)
        lanes = softmax.Lanes(self.target, unit, lane)
        offsets = LaneOffsets(self.batch, self.queries, self.group, first_key, lanes)
        rows = self._readers(k, v, first_key)
        steps = schedule.wave_keys // layout.step_keys(unit)
        body = ScoreBody(attention, self.inputs, schedule.tiles, steps)
        kind = work_of(unit.kind)
        self.work = kind(attention, schedule, unit, self.target, offsets, rows, body)
        loop = KeyLoop(attention, schedule, self.work, (k, v), self._queries)
        state = loop.run(self.first)
        state.sums = [
            lanes.over_keys(softmax.add(memory.element(x, 0), memory.element(x, 1)), "sum")
            for x in state.sums
        ]
        if schedule.splits == 1:
            self._store(state, outputs)
            return
        merge = Merge(lds, unit, self.target, schedule, number, lane)
        barrier()
        owned = [emit.compare("eq", split, i) for i in range(schedule.splits)]
        for i, here in enumerate(owned):
            emit.when(here, partial(merge.store, i, state))
        barrier()
        for i, here in enumerate(owned):
            emit.when(here, partial(self._store_part, merge, i, state, outputs))

    def _store_part(
        self, merge: Merge, split: int, state: State, outputs: Sequence[ir.Value]
    ) -> None:
        """Merges and stores the columns of results of the wave with part `split` of the keys."""
        columns = part(split, self.schedule.splits, len(state.values[0]))
        if len(columns):
            whole = merge.merged(split, state, self.work.exponent)
            self._store(whole, outputs, columns.start)

    def _input(self, matrix: Matrix) -> ir.Value:
        return self.inputs[matrix.argument]

    def _sources(self, matrix: Matrix) -> tuple[ir.Value, ir.Value]:
        return self.inputs[matrix.argument], self.pointers[matrix.argument]

    def _readers(
        self, k: AttentionTile, v: AttentionTile, first_key: Index
    ) -> tuple[Reader, Reader]:
        """The lane's readers of keys and of values: its results are neighbouring columns."""
        unit = self.unit
        if unit.kind in layout.PLAIN:
            first = emit.mul(self.group, unit.values)
            keys = Reader(k, emit.add(first, first_key), 0, step_chunks=1)
            return keys, Reader(v, first, self.group, first_key, step_chunks=1)
        key, column = (f(unit, self.lane_row) for f in (layout.lane_key, layout.lane_column))
        group: Index = self.group if unit.groups > 1 else 0
        return Reader(k, emit.add(key, first_key), group), Reader(v, column, group, first_key)

    def _queries(self) -> Queries:
        """The wave's queries: in registers, or in LDS for a lean schedule."""
        attention, unit = self.attention, self.unit
        if self.kept is None:
            steps = self.work.depth_steps
            buffer = self._input(attention.q)
            return queries.in_registers(
                attention.q, attention.D, steps, unit, self.work.offsets, buffer
            )
        self.kept.move(self.first)
        row = emit.add(emit.mul(self.number, self.schedule.wave_queries), self.lane_row)
        return queries.in_lds(self.kept, self.schedule, row, self.group)

    def _store(self, state: State, outputs: Sequence[ir.Value], first: int = 0) -> None:
        """Stores results; vector 0 of the state's columns is vector `first` of the result."""
        attention, unit = self.attention, self.unit
        M, bounded = attention.M, attention.E % unit.columns != 0
        place = place_of_results(attention.result)
        epilogue = Epilogue(attention.result, place, self.inputs, outputs)
        for tile, query in enumerate(self.queries):
            inside = [emit.compare("slt", query, M)] if M % self.schedule.queries else []
            columns = layout.columns(unit, self.group, state.values[tile], first)
            if self.schedule.is_cut:
                row = emit.add(emit.mul(self.batch, M), query)
                number = block_number("z", self.schedule.most_parts)
                ends = (state.row_maxima[tile], state.sums[tile])
                store_partial(self.partial, outputs, number, row, inside, columns, ends)
                continue
            total = state.sums[tile]
            for e, x in columns:
                y = softmax.divided(x, total, attention)
                epilogue(y, self.batch, query, e, inside, bounded)


def _reversed(number: Index, count: int) -> Index:
    """count - 1 - number, the same for all threads.

    LLVM knows nothing about the result, like that of `memory.opaque`.
    """
    if isinstance(number, int):
        return count - 1 - number
    i32 = ir.IntegerType.get_signless(32)
    difference = arith.index_cast(i32, arith.subi(emit.value(count - 1), number))
    return arith.index_cast(ir.IndexType.get(), memory.opaque_word(difference, "s"))
