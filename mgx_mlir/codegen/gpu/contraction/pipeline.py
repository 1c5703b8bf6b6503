"""The loop along k: what a block does at what time, so that nothing waits.

LDS has two sides. While the matrix cores multiply tile t out of one, tile t + 1 lies in the
other, tile t + 2 waits in registers and tile t + 3 is on its way from memory. One barrier a
tile: after it tile t + 1 may be read and tile t overwritten.

A wave reads fragments out of LDS just after it used the ones before them, so that they share
registers: in a step, the rows of A are used in two halves, and the columns of B one after
another in each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from mlir import ir
from mlir.dialects import amdgpu, rocdl

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.emit import Index
from mgx_mlir.codegen.gpu.contraction import multiply
from mgx_mlir.codegen.gpu.contraction.multiply import Fragment, Operand
from mgx_mlir.codegen.gpu.contraction.space import Schedule
from mgx_mlir.codegen.gpu.contraction.specs import ROW_CHUNKS, Unit
from mgx_mlir.codegen.gpu.contraction.tile import Tile

Action = Callable[[], None]

# s_waitcnt of gfx9: lgkmcnt(0) and nothing else.
_LDS_DONE = 0xC07F


class Pipeline:
    """The sums of a wave's tiles, row by row of tiles, over `tiles` tiles along k.

    `rows` reads A, `columns` B: one operand, or one for each column of a lane ('fma').
    """

    def __init__(
        self,
        unit: Unit,
        schedule: Schedule,
        a: Tile,
        b: Tile,
        rows: Operand,
        columns: Sequence[Operand],
        unsigned: tuple[bool, bool],
    ) -> None:
        self.unit, self.schedule, self.a, self.b = unit, schedule, a, b
        self.rows, self.columns, self.unsigned = rows, columns, unsigned
        self.steps = ROW_CHUNKS // unit.step_chunks
        # Elements of one side of LDS.
        self.side = (a.rows + b.rows) * unit.tile_depth

    def run(self, tiles: int) -> list[ir.Value]:
        """Emits the loop; gives the sums."""
        sums = [multiply.zero(self.unit)] * (self.schedule.tiles_m * self.schedule.tiles_n)
        depth = self.unit.tile_depth
        first = self._load(0)
        if tiles == 1:
            self._store(first, 0)
            amdgpu.LDSBarrierOp()
            return self._alone(sums)
        second = self._load(depth)
        self._store(first, 0)
        third = self._load(2 * depth) if tiles > 2 else second
        self._store(second, self.side)
        amdgpu.LDSBarrierOp()
        if self.unit.kind == "fma":
            return self._plain(tiles, sums, third)
        return self._matrix(tiles, sums, third)

    def _load(self, k0: Index) -> list[ir.Value]:
        return [load() for load in (*self.a.loads(k0), *self.b.loads(k0))]

    def _store(self, values: Sequence[ir.Value], side: Index) -> None:
        for action in self._stores(values, side):
            action()

    def _stores(self, values: Sequence[ir.Value], side: Index) -> Iterator[Action]:
        """Each write of a tile to LDS, as an action."""
        reads = len(self.a.parts) * self.a.moves
        for tile, mine in ((self.a, values[:reads]), (self.b, values[reads:])):
            yield from (partial(store, side) for store in tile.stores(mine))

    # Matrix cores ------------------------------------------------------------------------

    def _read_row(self, number: int, step: int, side: Index) -> Fragment:
        return self.rows.read(number * self.unit.rows, step, side)

    def _read_column(self, number: int, step: int, side: Index) -> list[Fragment]:
        first = number * self.unit.columns
        return [operand.read(first, step, side) for operand in self.columns]

    def _alone(self, sums: list[ir.Value]) -> list[ir.Value]:
        """The sums of one tile, in side 0."""
        if self.unit.kind == "fma":
            return self._rolled(sums, 0)
        schedule = self.schedule
        for step in range(self.steps):
            rows = {i: self._read_row(i, step, 0) for i in range(schedule.tiles_m)}
            for j in range(schedule.tiles_n):
                column = self._read_column(j, step, 0)
                for _ in self._multiply(sums, rows, range(schedule.tiles_m), j, column):
                    pass
        return sums

    def _multiply(
        self,
        sums: list[ir.Value],
        rows: dict[int, Fragment],
        numbers: Sequence[int],
        j: int,
        column: list[Fragment],
    ) -> Iterator[None]:
        """Adds the products of some rows of tiles and column j of tiles to `sums`.

        Stops after each instruction.
        """
        unit = self.unit
        right = [multiply.pieces(unit, fragment) for fragment in column]
        left = {i: multiply.pieces(unit, rows[i]) for i in numbers}
        # Instructions that add to the same sums are far apart: the second waits for the first.
        for part in range(len(right[0])):
            for i in numbers:
                at = i * self.schedule.tiles_n + j
                sums[at] = multiply.multiply(
                    unit, left[i][part], [x[part] for x in right], sums[at], self.unsigned
                )
                yield

    def _matrix(self, tiles: int, sums: list[ir.Value], ahead: list[ir.Value]) -> list[ir.Value]:
        schedule, depth = self.schedule, self.unit.tile_depth
        half = math.ceil(schedule.tiles_m / 2)
        halves = [range(half), range(half, schedule.tiles_m)]
        last = schedule.tiles_n - 1
        kept_rows, kept_columns = list(halves[0]), list(range(last))

        def tile(k: Index, side: Index, carried: Sequence[ir.Value]) -> list[ir.Value]:
            values = list(carried)
            other = emit.sub(self.side, side)
            sums = _take(values, count)
            rows = {i: _take(values, reads) for i in kept_rows}
            columns = {j: [_take(values, reads)] for j in kept_columns}
            loaded: list[ir.Value] = []

            def read_row(i: int, step: int, side: Index) -> None:
                rows[i] = self._read_row(i, step, side)

            def read_column(j: int, step: int, side: Index) -> None:
                columns[j] = self._read_column(j, step, side)

            def load(action: Callable[[], ir.Value]) -> None:
                loaded.append(action())

            if self.unit.kind == "mfma":
                # One wait for what was read long ago, instead of one for each fragment.
                rocdl.s_waitcnt(_LDS_DONE)
            for step in range(self.steps):
                read_column(last, step, side)
                actions: list[Action] = [partial(read_row, i, step, side) for i in halves[1]]
                self._half(sums, rows, halves[0], columns, actions, {})
                following, where = step + 1, side
                actions = []
                if following == self.steps:
                    following, where = 0, other
                    _fence()
                    amdgpu.LDSBarrierOp()
                    actions += self._stores(values, side)
                    beyond = emit.add(k, 3 * depth)
                    for operand in (self.a, self.b):
                        actions += [partial(load, action) for action in operand.loads(beyond)]
                ahead = [partial(read_row, i, following, where) for i in halves[0]]
                after = {j: partial(read_column, j, following, where) for j in kept_columns}
                self._half(sums, rows, halves[1], columns, [*ahead, *actions], after)
            fragments = [x for i in kept_rows for x in rows[i]]
            fragments += [x for j in kept_columns for f in columns[j] for x in f]
            return [*sums, *fragments, *loaded]

        def two(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            return tile(emit.add(k, depth), self.side, tile(k, 0, carried))

        def one(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            *values, side = carried
            return [*tile(k, side, values), emit.value(emit.sub(self.side, side))]

        rows = [self._read_row(i, 0, 0) for i in kept_rows]
        columns = [self._read_column(j, 0, 0)[0] for j in kept_columns]
        count, reads = len(sums), len(rows[0])
        carried = [*sums, *(x for f in (*rows, *columns) for x in f), *ahead]
        if tiles % 2 == 0:
            return emit.loop(0, tiles * depth, 2 * depth, two, carried)[:count]
        return emit.loop(0, tiles * depth, depth, one, [*carried, emit.value(0)])[:count]

    def _half(
        self,
        sums: list[ir.Value],
        rows: dict[int, Fragment],
        numbers: Sequence[int],
        columns: dict[int, list[Fragment]],
        actions: list[Action],
        after: Mapping[int, Action],
    ) -> None:
        """Multiplies some rows with all columns, with `actions` evenly in between.

        `after`: what follows a column.
        """
        parts = self.unit.chunk // self.unit.per_lane if self.unit.groups > 1 else 1
        count = len(numbers) * self.schedule.tiles_n * max(parts, 1)
        done = at = 0
        for j in range(self.schedule.tiles_n):
            for _ in self._multiply(sums, rows, numbers, j, columns[j]) if numbers else ():
                at += 1
                while done < len(actions) and done * count < at * len(actions):
                    _fence()
                    actions[done]()
                    done += 1
                _fence()
            if j in after:
                after[j]()
                _fence()
        for action in actions[done:]:
            action()
        _fence()

    # Plain multiply-adds -----------------------------------------------------------------

    def _plain(self, tiles: int, sums: list[ir.Value], ahead: list[ir.Value]) -> list[ir.Value]:
        depth = self.unit.tile_depth

        def body(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            *values, side = carried
            sums, ahead = values[: len(first_sums)], values[len(first_sums) :]
            loaded = self._load(emit.add(k, 3 * depth))
            sums = self._rolled(sums, side)
            amdgpu.LDSBarrierOp()  # nobody reads this side any more
            self._store(ahead, side)
            amdgpu.LDSBarrierOp()
            return [*sums, *loaded, emit.value(emit.sub(self.side, side))]

        first_sums = sums
        carried = [*sums, *ahead, emit.value(0)]
        return emit.loop(0, tiles * depth, depth, body, carried)[: len(sums)]

    def _rolled(self, sums: list[ir.Value], side: Index) -> list[ir.Value]:
        """A tile's steps as a loop that LLVM does not unroll: each has hundreds of
        instructions, and repeating them only takes registers."""
        unit, schedule = self.unit, self.schedule

        def step(number: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            sums = list(carried)
            rows = {i: self.rows.read(i * unit.rows, number, side) for i in range(schedule.tiles_m)}
            for j in range(schedule.tiles_n):
                column = [x.read(j * unit.columns, number, side) for x in self.columns]
                for _ in self._multiply(sums, rows, range(schedule.tiles_m), j, column):
                    pass
            return sums

        sums = emit.loop(0, self.steps, 1, step, sums)
        loop = sums[0].owner
        loop.attributes["llvm.loop_annotation"] = ir.Attribute.parse(
            "#llvm.loop_annotation<unroll = <disable = true>>"
        )
        return sums


def _take(values: list[ir.Value], count: int) -> list[ir.Value]:
    taken = values[:count]
    del values[:count]
    return taken


def _fence() -> None:
    """Nothing moves across when LLVM schedules instructions."""
    rocdl.sched_barrier(0)
