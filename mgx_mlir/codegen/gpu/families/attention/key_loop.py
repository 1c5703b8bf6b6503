"""The loop of a wave over blocks of keys: scores, softmax, products with values, and prefetches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.function import block_number
from mgx_mlir.codegen.gpu.builders.ordering import barrier, fence
from mgx_mlir.codegen.gpu.families.attention import streams
from mgx_mlir.codegen.gpu.families.attention.space import AttentionSchedule
from mgx_mlir.codegen.gpu.families.attention.state import State
from mgx_mlir.codegen.gpu.families.attention.tile import AttentionTile
from mgx_mlir.codegen.gpu.families.attention.work import Queries, Shares, Work
from mgx_mlir.codegen.problem.attention import Attention

# The largest fraction of a wave's clocks that moves to LDS take; the softmax takes the rest.
MOVES_SHARE = 0.3
# The prefetch distance of operands of the last products: no softmax hides their latency.
LAST_DISTANCE = 3


@dataclass(frozen=True)
class KeyRange:
    """The keys that a work-group reads: from `begin` to `end`.

    All its queries see all keys of the blocks within `unmasked`: these need no mask.
    """

    begin: Index
    end: Index
    unmasked: tuple[Index, Index]

    @staticmethod
    def of(attention: Attention, schedule: AttentionSchedule, query: Index) -> KeyRange:
        """The keys of the queries from `query` on, for a work-group's part of split keys."""
        keys, end = schedule.keys, attention.N
        begin: Index = 0
        least: Index = 0
        last: Index = attention.N
        whole: Index = attention.N // keys * keys
        if attention.causal is not None:
            last = emit.add(query, attention.causal + schedule.queries)
            last = emit.minimum(last, end)
            first = emit.minimum(emit.add(query, attention.causal + 1), end)
            whole = emit.mul(emit.div(first, keys), keys)
        if attention.earliest is not None:
            first = emit.maximum(emit.add(query, attention.earliest), 0)
            begin = emit.mul(emit.div(first, keys), keys)
            least = emit.add(query, attention.earliest + schedule.queries - 1)
        if schedule.is_cut:
            each = schedule.block_keys(attention.N)
            begin = emit.mul(block_number("z", schedule.most_parts), each)
            last = emit.minimum(emit.add(begin, each), end)
        return KeyRange(begin, last, (least, whole))


@dataclass
class _Carried:
    """The values between two trips of the overlapped loop.

    Products of queries with the block's keys, shares of the block before, the factors of the
    row maxima that are owed to its values, and vectors that were read for later blocks.
    """

    state: State
    products: list[list[ir.Value]]
    shares: Shares
    owed: list[ir.Value]
    prefetched: list[ir.Value]

    def flat(self) -> list[ir.Value]:
        products = [x for row in self.products for x in row]
        shares = [x for tile in self.shares for step in tile for x in step]
        return [*self.state.flat(), *products, *shares, *self.owed, *self.prefetched]

    def like(self, flat: Sequence[ir.Value]) -> _Carried:
        """The same structure of other values."""
        state = self.state.like(flat)
        rest = iter(flat[len(state.flat()) :])
        products = [[next(rest) for _ in row] for row in self.products]
        shares = [[[next(rest) for _ in step] for step in tile] for tile in self.shares]
        return _Carried(state, products, shares, [next(rest) for _ in self.owed], list(rest))


class KeyLoop:
    """Builds the loop for the tiles of keys and values `tiles`.

    `queries` builds the wave's queries, once the first loads are issued.
    """

    def __init__(
        self,
        attention: Attention,
        schedule: AttentionSchedule,
        work: Work,
        tiles: tuple[AttentionTile, AttentionTile],
        queries: Callable[[], Queries],
    ) -> None:
        self.attention, self.schedule, self.work = attention, schedule, work
        self.k, self.v = tiles
        self.queries = queries

    def run(self, query: Index) -> State:
        """The state behind all keys of the work-group, whose first query is `query`."""
        state = self.work.initial()
        self.range = KeyRange.of(self.attention, self.schedule, query)
        return self._overlapped(state) if self.schedule.overlap else self._one_by_one(state)

    def _loop(
        self, block: Callable[..., list[ir.Value]], carried: list[ir.Value]
    ) -> list[ir.Value]:
        """`block` for each block of keys. One block of keys needs no loop and no prefetch."""
        schedule, begin = self.schedule, self.range.begin
        if schedule.is_cut and schedule.block_keys(self.attention.N) == schedule.keys:
            return block(begin, *carried)
        return emit.loop(begin, self.range.end, schedule.keys, block, carried)

    def _one_by_one(self, state: State) -> State:
        """Scores, shares and values of each block one after another."""
        keys, lean, k, v = self.schedule.keys, self.schedule.lean, self.k, self.v
        work, queries = self.work, self.queries()

        def read(key: Index) -> list[ir.Value]:
            return [*k.load(key), *v.load(key), *work.extras(key)]

        def block(key: Index, *carried: ir.Value) -> list[ir.Value]:
            now = state.like(carried)
            prefetched = list(carried[len(state.flat()) :])
            extras = prefetched[k.reads + v.reads :]
            barrier()  # no wave reads the block before any more
            if lean:
                k.move(key)
                extras = work.extras(key)
            else:
                k.store(prefetched[: k.reads])
                v.store(prefetched[k.reads :][: v.reads])
            barrier()
            fresh = [] if lean else read(emit.add(key, keys))
            products = work.zeros(work.key_tiles)
            streams.run(work.products(queries, products), lean)
            scores = work.scores(products, key, self.range.unmasked, extras)
            _, origins = work.raise_row_maxima(scores, now)
            shares: Shares = []
            streams.run(work.softmax(scores, origins, now, shares))
            fence()  # else values would be live together with all scores
            if lean:
                barrier()  # no wave reads keys any more
                v.move(key)
                barrier()
            streams.run(work.add_values(shares, now.values), lean)
            return [*now.flat(), *fresh]

        begin = [*state.flat(), *([] if lean else read(self.range.begin))]
        return state.like(self._loop(block, begin))

    def _overlapped(self, state: State) -> State:
        """While the softmax of one block is computed, the matrix cores multiply for the block
        before it and the one after it.

        Each product runs for one block more: the first shares are zero, the last scores unused.
        Keys are written to LDS while values are read, and the other way round. Sums of values
        are relative to the row maxima of the block whose shares were added last: the factors
        owed to them are carried to the next block.
        """
        queries, carried = self._prologue(state)

        def block(key: Index, *values: ir.Value) -> list[ir.Value]:
            return self._overlapped_block(key, carried.like(values), queries).flat()

        last = carried.like(self._loop(block, carried.flat()))
        self.work.rescale(last.state, last.owed)
        products = self.work.add_values(last.shares, last.state.values, LAST_DISTANCE)
        streams.run(products, ordered=True)
        return last.state

    def _prologue(self, state: State) -> tuple[Queries, _Carried]:
        """The wave's queries, and its values before the first block."""
        keys, work, k, v, begin = self.schedule.keys, self.work, self.k, self.v, self.range.begin
        first = k.load(begin)
        queries = self.queries()
        v.store(v.zeros())
        k.store(first)
        barrier()
        fence()  # loads are issued in the order of their use
        prefetched = [*k.load(emit.add(begin, keys)), *v.load(begin), *work.extras(begin)]
        products, shares = work.zeros(work.key_tiles), work.no_shares()
        streams.run(work.products(queries, products))
        barrier()
        owed = [emit.constant(1, "f32") for _ in work.query_tiles]
        return queries, _Carried(state, products, shares, owed, prefetched)

    def _overlapped_block(self, key: Index, before: _Carried, queries: Queries) -> _Carried:
        keys, work, k, v, state = self.schedule.keys, self.work, self.k, self.v, before.state
        to_keys, rest = before.prefetched[: k.reads], before.prefetched[k.reads :]
        to_values, extras = rest[: v.reads], rest[v.reads :]
        scores = work.scores(before.products, key, self.range.unmasked, extras)
        owed, origins = work.raise_row_maxima(scores, state, before.owed)
        shares: Shares = []
        products = work.zeros(work.key_tiles)
        next_keys: list[ir.Value] = []
        next_values: list[ir.Value] = []
        softmax = work.softmax(scores, origins, state, shares)
        moves = chain(k.storing(to_keys), k.loading(emit.add(key, 2 * keys), next_keys))
        streams.weave(work.add_values(before.shares, state.values), moves, MOVES_SHARE, softmax)
        barrier()
        moves = chain(v.storing(to_values), v.loading(emit.add(key, keys), next_values))
        streams.weave(work.products(queries, products), moves, MOVES_SHARE, softmax)
        streams.run(softmax)
        fresh = [*next_keys, *next_values, *work.extras(emit.add(key, keys))]
        barrier()
        return _Carried(state, products, shares, owed, fresh)
