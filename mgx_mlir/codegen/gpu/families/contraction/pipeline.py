"""The loop along k: a work-group's reads, writes and products, in an order that hides waits.

LDS holds a double buffer. While the matrix cores multiply tile t from one half, tile t + 1 lies
in the other, and the `prefetch` tiles after it (the prefetch distance) are on their way from memory
to registers. One barrier a tile: after it tile t + 1 may be read and tile t overwritten.

A wave with registers for the fragments of two steps ('roomy') reads fragments from LDS one step
early. Any other wave reads fragments just after the last use of those before them, so that both
share registers: in a step, the rows of A are used in parts, and for each part the columns of B
one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import multiply
from mgx_mlir.codegen.gpu.builders.layouts import LdsReader
from mgx_mlir.codegen.gpu.builders.multiply import Fragment
from mgx_mlir.codegen.gpu.builders.ordering import await_lds, await_loads, barrier, fence
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.contraction.constraints import MAX_READS
from mgx_mlir.codegen.gpu.families.contraction.scaling import Scales
from mgx_mlir.codegen.gpu.families.contraction.sources import Load, Strided
from mgx_mlir.codegen.gpu.families.contraction.space import BUFFERS, ProductSchedule
from mgx_mlir.codegen.gpu.families.contraction.tile import Tile
from mgx_mlir.codegen.meaning.index import index_constant
from mgx_mlir.sizes.arithmetic import Number, ceil_div

Action = Callable[[], None]

# With fewer tiles, reads beyond the last tile would take long.
_FEW = 40

# Emits the work on a tile, given k, the offset of its half of LDS, the values carried from tile
# to tile, and whether further tiles are prefetched. Gives the values carried on.
_TileBody = Callable[[Index, int, Sequence[ir.Value], bool], list[ir.Value]]

# Gives the action that reads a fragment, by the fragment's number.
Reading = Callable[[int], Action]


@dataclass
class _State:
    """A wave's sums, and the fragments that it holds: of rows and of columns of tiles. `scales`:
    those of all rows, then those of all columns, where blocks of elements have scales."""

    sums: list[ir.Value]
    rows: dict[int, Fragment]
    columns: dict[int, list[Fragment]]
    scales: Sequence[ir.Value] = ()


@dataclass
class Pipeline:
    """The sums of a wave's tiles, row by row of tiles, over `tiles` tiles along k.

    `rows` reads A, `columns` B: one operand, or one for each column of a lane ('fma').
    `tile_columns`: the first column of each tile.
    """

    unit: Unit
    schedule: ProductSchedule
    a: Tile
    b: Tile
    rows: LdsReader
    columns: Sequence[LdsReader]
    tile_columns: Sequence[int]
    scales: Sequence[Scales] = ()

    @cached_property
    def steps(self) -> int:
        """Steps of a tile along k."""
        return self.unit.row_chunks // self.unit.step_chunks

    @cached_property
    def half(self) -> int:
        """Elements of one half of LDS."""
        return (self.a.rows + self.b.rows) * self.unit.tile_depth

    def run(
        self, tiles: Number, start: Index, before: Sequence[ir.Value] | None = None
    ) -> list[ir.Value]:
        """Emits the loop over `tiles` tiles from offset `start` along k; gives the sums, added to
        those `before` of a pipeline that ran earlier on the same LDS."""
        self.start, schedule = start, self.schedule
        count, far = schedule.tiles_m * schedule.tiles_n, BUFFERS + schedule.prefetch
        sums = before or [multiply.zero(self.unit)] * count
        if before:
            barrier()  # no thread reads or writes that pipeline's tiles any more
        for reader in (self.rows, *self.columns):
            reader.prepare()
        if isinstance(tiles, int):
            return self._run(sums, tiles, min(tiles, far))
        # Whole turns of the loop: tiles beyond the last one are zeros. Few tiles need no loop.
        whole, run = ceil_div(tiles, schedule.turn) * schedule.turn, partial(self._run, sums)
        many = schedule.prefetch == 1 or tiles > BUFFERS
        few = not many and emit.compare("sle", tiles, BUFFERS)
        ways = partial(run, BUFFERS, BUFFERS), partial(run, whole, far)
        return emit.choose(few, *ways, [x.type for x in sums])

    def _run(self, before: Sequence[ir.Value], tiles: Number, count: int) -> list[ir.Value]:
        """The sums over so many tiles, of which `count` are read before the first is multiplied."""
        depth, distance, sums = self.unit.tile_depth, self.schedule.prefetch, list(before)
        loaded: list[list[ir.Value]] = []
        for t in range(count):
            loaded.append(self._load(t * depth))
            if t < BUFFERS and count * len(loaded[0]) > MAX_READS:
                self._store(loaded[t], t * self.half)
                fence()
        if count * len(loaded[0]) <= MAX_READS:
            # All reads are on their way before any is waited for.
            for t in range(min(count, BUFFERS)):
                self._store(loaded[t], t * self.half)
        barrier()
        if tiles == 1 or (tiles == BUFFERS and self.schedule.roomy(self.unit)):
            for t in range(count):
                sums = self._alone(sums, t * self.half, t * depth)
            return sums
        loaded += [loaded[-1]] * (BUFFERS + distance - len(loaded))
        return self._loop(tiles, sums, loaded[BUFFERS:])

    def _loads(self, k0: Index) -> list[Load]:
        k0 = emit.add(self.start, k0)
        return [*self.a.loads(k0), *self.b.loads(k0)]

    def _load(self, k0: Index) -> list[ir.Value]:
        return [load() for load in self._loads(k0)]

    def _repeat(self, tiles: Number, tile: _TileBody, carried: list[ir.Value]) -> list[ir.Value]:
        """Emits `tile` for every tile, in a loop unrolled so that carried values stay in place.

        Where there are few tiles, the last ones are a loop of their own that reads nothing from
        memory. Not so where operands are computed: LLVM makes one loop of the two, whose counter
        is a vector register.
        """
        depth, turn = self.unit.tile_depth, self.schedule.turn
        distance = BUFFERS + self.schedule.prefetch
        plain = isinstance(self.a.source, Strided) and isinstance(self.b.source, Strided)
        few = tiles > distance and not tiles >= _FEW
        blind = distance // turn * turn if plain and few else 0
        first = (tiles - blind) % turn if isinstance(tiles, int) else 0
        for t in range(first):
            carried = tile(t * depth, t % BUFFERS * self.half, carried, True)

        def body(k: Index, *values: ir.Value, reads: bool) -> list[ir.Value]:
            carried = list(values)
            for t in range(turn):
                half = (first + t) % BUFFERS * self.half
                carried = tile(emit.add(k, t * depth), half, carried, reads)
            return carried

        ends = (first * depth, (tiles - blind) * depth, tiles * depth)
        bounds = [end if isinstance(end, int) else index_constant(end) for end in ends]
        for (start, end), reads in zip(pairwise(bounds), (True, False), strict=True):
            carried = emit.loop(start, end, turn * depth, partial(body, reads=reads), carried)
        return carried

    def _store(self, values: Sequence[ir.Value], half: Index) -> None:
        for action in self._exchanged(values, half, []):
            action()

    def _exchanged(
        self, values: Sequence[ir.Value], half: Index, reading: Sequence[Action]
    ) -> Iterator[Action]:
        """Each write of a tile to LDS, and the `reading` from memory after the writes whose
        registers it takes.

        The reads of A alternate with its writes, so that fewer reads are neighbours: on RDNA 3
        an instruction announces neighbouring reads.
        """
        reads = self.a.reads
        for tile, mine, later in (
            (self.a, values[:reads], reading[:reads]),
            (self.b, values[reads:], reading[reads:]),
        ):
            stores: list[Action] = [partial(store, half) for store in tile.stores(mine)]
            if tile is self.a and len(stores) == len(later):
                for pair in zip(stores, later, strict=True):
                    yield from pair
            else:
                yield from (*stores, *later)

    def _read_row(self, number: int, step: Index, half: Index) -> Fragment:
        return self._fragment(self.rows, number * self.unit.rows, step, half)

    def _read_column(self, number: int, step: Index, half: Index) -> list[Fragment]:
        return [self._fragment(x, self.tile_columns[number], step, half) for x in self.columns]

    def _fragment(self, reader: LdsReader, row: int, step: Index, half: Index) -> Fragment:
        """A lane's chunks of a step, of the tile that begins at `row`."""
        unit, first = self.unit, emit.mul(step, self.unit.step_chunks)
        chunks = [emit.add(first, i) for i in range(0, unit.step_chunks, unit.groups)]
        return [reader.read(row, chunk, half) for chunk in chunks]

    def _alone(self, sums: list[ir.Value], half: Index, k: Index) -> list[ir.Value]:
        """The sums with those of a tile that lies in LDS alone."""
        schedule, scales = self.schedule, self._read_scales(k)
        for step in range(self.steps):
            rows = {i: self._read_row(i, step, half) for i in range(schedule.tiles_m)}
            for j in range(schedule.tiles_n):
                column = self._read_column(j, step, half)
                for _ in self._multiply(sums, rows, range(schedule.tiles_m), j, column, scales):
                    pass
        return sums

    def _read_scales(self, k: Index) -> list[ir.Value]:
        return [x for reader in self.scales for x in reader.read(emit.add(self.start, k))]

    def _multiply(
        self,
        sums: list[ir.Value],
        rows: dict[int, Fragment],
        numbers: Sequence[int],
        j: int,
        column: list[Fragment],
        scales: Sequence[ir.Value] = (),
    ) -> Iterator[None]:
        """Adds the products of some rows of tiles and column j of tiles to `sums`.

        Stops after each instruction.
        """
        unit, elements = self.unit, (self.a.source.element, self.b.source.element)
        right = [multiply.pieces(unit, fragment) for fragment in column]
        left = {i: multiply.pieces(unit, rows[i]) for i in numbers}
        # Instructions that add to the same sums are far apart: the second waits for the first.
        for part in range(len(right[0])):
            for i in numbers:
                at = i * self.schedule.tiles_n + j
                both = (scales[i], scales[self.schedule.tiles_m + j]) if scales else None
                sums[at] = multiply.multiply(
                    unit, left[i][part], [x[part] for x in right], sums[at], elements, both
                )
                yield

    def _loop(
        self, tiles: Number, sums: list[ir.Value], prefetched: list[list[ir.Value]]
    ) -> list[ir.Value]:
        schedule, roomy = self.schedule, self.schedule.roomy(self.unit)
        kept_rows = range(schedule.tiles_m if roomy else schedule.together(self.unit))
        kept_columns = range(schedule.tiles_n if roomy else schedule.tiles_n - 1)

        def tile(
            k: Index, half: int, carried: Sequence[ir.Value], following: bool
        ) -> list[ir.Value]:
            values = list(carried)
            state = _State(
                sums=_take(values, count),
                rows={i: _take(values, reads) for i in kept_rows},
                columns={j: [_take(values, reads)] for j in kept_columns},
                scales=_take(values, len(scales)),
            )
            # Scales read past the last tile may have any value.
            following_scales = self._read_scales(emit.add(k, self.unit.tile_depth))
            oldest = _take(values, len(prefetched[0]))
            loaded: list[ir.Value] = [] if following else oldest
            if roomy or not self._waits_by_step:
                await_lds(self.unit)

            def exchange() -> list[Action]:
                """Emits the barrier; gives the writes to LDS and the reads from memory after it."""
                fence()
                barrier()
                await_loads(self.unit, len(values))
                beyond = emit.add(k, (BUFFERS + schedule.prefetch) * self.unit.tile_depth)
                loads = self._loads(beyond) if following else []
                reading = [partial(_call, load, loaded) for load in loads]
                return [*self._exchanged(oldest, half, reading)]

            (self._roomy if roomy else self._tight)(state, half, exchange)
            found = [x for i in kept_rows for x in state.rows[i]]
            found += [x for j in kept_columns for f in state.columns[j] for x in f]
            return [*state.sums, *found, *following_scales, *values, *loaded]

        rows = [self._read_row(i, 0, 0) for i in kept_rows]
        columns = [self._read_column(j, 0, 0)[0] for j in kept_columns]
        count, reads, scales = len(sums), len(rows[0]), self._read_scales(0)
        carried = [*sums, *(x for f in (*rows, *columns) for x in f), *scales]
        carried += [x for tile_ in prefetched for x in tile_]
        return self._repeat(tiles, tile, carried)[:count]

    @property
    def _waits_by_step(self) -> bool:
        """Whether a tight step waits once for all that it reads from LDS.

        It does where other waves multiply meanwhile, and each wait is one of few instructions.
        """
        return self.unit.kind == "wmma"

    def _reading(self, state: _State, step: int, half: int) -> tuple[Reading, Reading]:
        """The reads of a row's fragment, and of a column's, of a step into `state`."""

        def row(i: int) -> Action:
            return lambda: state.rows.update({i: self._read_row(i, step, half)})

        def column(j: int) -> Action:
            return lambda: state.columns.update({j: self._read_column(j, step, half)})

        return row, column

    def _tight(self, state: _State, half: int, exchange: Callable[[], list[Action]]) -> None:
        """Emits a tile whose fragments take the registers of those before them."""
        tiles_m, last = self.schedule.tiles_m, self.schedule.tiles_n - 1
        each = self.schedule.together(self.unit)
        # At least two parts: while the last is multiplied, the next step's first rows are read.
        ends = range(each, max(tiles_m, each + 1) + each, each)
        parts = [range(end - each, min(end, tiles_m)) for end in ends]
        for step in range(self.steps):
            row, column = self._reading(state, step, half)
            rows = [[row(i) for i in part] for part in parts[1:]]
            if each == 1 and rows[0]:
                # Used after the column, so that one wait is for both.
                rows[0].pop()()
            column(last)()
            if self._waits_by_step:
                fence()
                await_lds(self.unit)
                if step:
                    fence()
            for now, actions in zip(parts, rows, strict=False):
                self._instructions(state, now, actions, [], {})
            end = step + 1 == self.steps
            row, column = self._reading(
                state, 0 if end else step + 1, self.half - half if end else half
            )
            actions = exchange() if end else []
            fragments = [row(i) for i in parts[0]]
            after = {j: column(j) for j in range(last)}
            self._instructions(state, parts[-1], [*fragments, *actions], [], after)

    def _roomy(self, state: _State, half: int, exchange: Callable[[], list[Action]]) -> None:
        """Emits a tile: a step multiplies fragments that were all read during the step before."""
        tiles_m, tiles_n = range(self.schedule.tiles_m), range(self.schedule.tiles_n)
        for step in range(self.steps):
            end = step + 1 == self.steps
            actions = exchange() if end else []
            following = _State(state.sums, {}, {}, state.scales)
            row, column = self._reading(
                following, 0 if end else step + 1, self.half - half if end else half
            )
            reads = [*(row(i) for i in tiles_m), *(column(j) for j in tiles_n)]
            self._instructions(state, tiles_m, actions, reads, {})
            state.rows, state.columns = following.rows, following.columns

    def _instructions(
        self,
        state: _State,
        numbers: Sequence[int],
        actions: list[Action],
        early: list[Action],
        after: Mapping[int, Action],
    ) -> None:
        """Multiplies some rows with all columns.

        Between the instructions come `early`, one action after each, and then `actions`, evenly
        spread. `after`: the action that follows a column, by the column's number.
        """
        products = len(numbers) * self.schedule.tiles_n * self.unit.chunk_parts
        count = max(1, products - len(early))
        waiting, done, at = list(early), 0, 0
        for j in range(self.schedule.tiles_n):
            column = state.columns[j] if numbers else []
            each = self._multiply(state.sums, state.rows, numbers, j, column, state.scales)
            for _ in each if numbers else ():
                if waiting:
                    fence()
                    waiting.pop(0)()
                else:
                    at += 1
                while not waiting and done < len(actions) and done * count < at * len(actions):
                    fence()
                    actions[done]()
                    done += 1
                fence()
            if j in after:
                after[j]()
                fence()
        for action in (*waiting, *actions[done:]):
            action()
        fence()


def _take(values: list[ir.Value], count: int) -> list[ir.Value]:
    taken = values[:count]
    del values[:count]
    return taken


def _call(read: Callable[[], ir.Value], results: list[ir.Value]) -> None:
    results.append(read())
