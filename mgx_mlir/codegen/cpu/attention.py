"""Attention on the host: blocks of queries, each over blocks of keys, in the caches of a core.

    %y = mgx.attention(%q, %k, %v) : tensor<8x?x64xf32, #mgx.dims<[_, seq, _]>>, ... {...}

A work item owns some queries of one head. It packs a block of keys and one of values, multiplies,
and takes the softmax as far as it knows it: a row keeps the largest score and the sum of powers
that it has seen, and its sums of values shrink when a larger score comes. Scores never leave the
caches, and blocks that no query of the item sees are not read. All sizes but those of a head may
be symbols. Few queries read keys and values where they lie. Scores have the type in which they are
computed, so nothing is rounded in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TypeAlias

from mlir import ir
from mlir.dialects import arith, math, vector

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu import pack
from mgx_mlir.codegen.cpu.attention_cut import FEW, AttentionCut, Tile
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.frame import Memory
from mgx_mlir.codegen.cpu.pack import Copy, Packed
from mgx_mlir.codegen.cpu.schedule import SUM_DEPTH
from mgx_mlir.codegen.problem.attention import Attention
from mgx_mlir.codegen.problem.problem import Matrix
from mgx_mlir.sizes.arithmetic import ceil_div

# Vectors of a row's scores that take no loop.
STRAIGHT = 4


def emit_attention(
    attention: Attention,
    cut: AttentionCut,
    inputs: Memory,
    _others: Sequence[ir.Value],
    store: Epilogue,
    begin: ir.Value,
    end: ir.Value,
) -> None:
    """Builds the work of items begin .. end at the insertion point, by the inputs' memory."""
    _Emitter(attention, cut, inputs, store).emit(begin, end)


@dataclass(frozen=True)
class _Item:
    """Queries first .. first + rows of head `batch`."""

    batch: Index
    first: Index
    rows: Index


@dataclass(frozen=True)
class _Block:
    """Keys first .. first + count."""

    first: Index
    count: Index


# right(k, j): vector j of row k of the right operand of a tile.
_Right: TypeAlias = "Callable[[Index, int], ir.Value]"


class _Emitter:
    def __init__(
        self, attention: Attention, cut: AttentionCut, inputs: Memory, store: Epilogue
    ) -> None:
        self.attention, self.cut, self.inputs = attention, cut, inputs
        self.element, self.lanes = attention.score, cut.lanes
        self.scored = Epilogue(attention.scores(), inputs, [])
        self.stored = store
        # Whether there is one block of keys, after which a row's softmax is known.
        self.once = isinstance(attention.N, int) and cut.keys >= attention.N
        self.wide, self.deep = (
            ceil_div(size, self.lanes) * self.lanes for size in (attention.E, attention.D)
        )
        rows = cut.padded_rows
        self.q = Packed(self._stack(rows * self.deep), self.deep, 1)
        self.scores, self.sums = self._stack(rows * cut.keys), self._stack(rows * self.wide)
        # A row has a vector of each: its largest score, its sums of powers, and the factor by which
        # a larger score scales these sums.
        self.largest, self.total, self.shrink = (self._stack(rows * self.lanes) for _ in range(3))
        if cut.many:
            self.k = self._packed(self.deep, cut.keys // self.lanes)
            self.v = self._packed(cut.keys, self.wide // self.lanes)

    def _stack(self, size: int) -> ir.Value:
        return emit.stack(size, self.element)

    def _packed(self, rows: int, vectors: int) -> Packed:
        """Memory for a right operand: vectors of columns, a row of slack after each."""
        step = (rows + 1) * self.lanes
        return Packed(self._stack(vectors * step), 1, self.lanes, vector_step=step)

    def emit(self, begin: ir.Value, end: ir.Value) -> None:
        """Orders items [batch, rows]."""
        attention, cut = self.attention, self.cut
        self._fill(self.q.memory, cut.padded_rows * self.deep, 0)
        blocks = ceil_div(attention.M, cut.rows)

        def item(number: Index) -> None:
            first = emit.mul(emit.rem(number, blocks), cut.rows)
            rows: Index = cut.rows
            if attention.M % cut.rows:
                rows = emit.minimum(rows, emit.sub(attention.M, first))
            own = _Item(emit.div(number, blocks), first, rows)
            if not cut.many or not cut.few:
                self._item(own, cut.few)
                return
            few = emit.compare("sle", rows, FEW)
            emit.when(few, lambda: self._item(own, True), lambda: self._item(own, False))

        emit.loop(begin, end, 1, item)

    def _fill(self, memory: ir.Value, size: Index, number: float) -> None:
        x = emit.constant(number, self.element, self.lanes)
        emit.loop(0, size, self.lanes, lambda at: emit.store_vector(x, memory, at))

    def _item(self, item: _Item, few: bool) -> None:
        attention, cut, lanes, q = self.attention, self.cut, self.lanes, self.attention.q

        def query(r: Index) -> None:
            target = replace(self.q, start=emit.mul(r, self.deep))
            copy = self._copy(q, target, item, 0, attention.D)
            pack.pack_a(copy, q, [emit.add(item.first, r)])

        emit.loop(0, item.rows, 1, query)

        def block(first: Index) -> None:
            count: Index = cut.keys
            if attention.N % cut.keys:
                count = emit.minimum(count, emit.sub(attention.N, first))
            self._block(item, _Block(first, count), few)

        if self.once:
            block(0)
        else:
            self._fill(self.sums, cut.padded_rows * self.wide, 0)
            self._fill(self.total, cut.padded_rows * lanes, 0)
            self._fill(self.largest, cut.padded_rows * lanes, float("-inf"))
            begin, end = self._seen(item)
            emit.loop(begin, end, cut.keys, block)
        emit.loop(0, item.rows, 1, partial(self._store_row, item))

    def _seen(self, item: _Item) -> tuple[Index, Index]:
        """The first block that a query of an item sees, and the end of the keys that they see."""
        attention, keys = self.attention, self.cut.keys
        begin: Index = 0
        end: Index = attention.N
        if attention.causal is not None:
            last = emit.add(item.first, emit.add(item.rows, attention.causal))
            end = emit.minimum(end, emit.maximum(last, 0))
        if attention.earliest is not None:
            first = emit.maximum(emit.add(item.first, attention.earliest), 0)
            begin = emit.mul(emit.div(first, keys), keys)
        return begin, end

    def _block(self, item: _Item, block: _Block, few: bool) -> None:
        """Scores of a block's keys, their powers, and the sums of its values."""
        attention, lanes, cut = self.attention, self.lanes, self.cut
        k, v = attention.k, attention.v
        vectors = emit.div(emit.add(block.count, lanes - 1), lanes)
        if few:
            emit.loop(0, item.rows, 1, partial(self._dots, item, block, vectors))
            emit.loop(0, item.rows, 1, partial(self._powers, item, block, vectors))
            self._sums_in_place(item, block)
            return
        copy = self._copy(k, self.k, item, 0, attention.D)
        pack.pack_b(copy, k.transposed(), block.first, vectors)

        def score(row: Index, at: Index, wide: int) -> None:
            tile = Tile(cut.scores.rows, wide)
            left = self.q.memory, emit.mul(row, self.deep), self.deep
            found = self._product(left, self._right(self.k, at), attention.D, tile)
            place = emit.linear(emit.mul(at, lanes), (row, cut.keys))
            for n, x in enumerate(found):
                r, j = divmod(n, wide)
                emit.store_vector(x, self.scores, emit.add(place, r * cut.keys + j * lanes))

        wide = cut.scores.vectors
        whole = emit.mul(emit.div(vectors, wide), wide)

        def scores(row: Index) -> None:
            emit.loop(0, whole, wide, lambda at: score(row, at, wide))
            emit.loop(whole, vectors, 1, lambda at: score(row, at, 1))

        emit.loop(0, item.rows, cut.scores.rows, scores)
        emit.loop(0, item.rows, 1, partial(self._powers, item, block, vectors))
        copy = self._copy(v, self.v, item, block.first, block.count)
        pack.pack_b(copy, v, 0, self.wide // lanes)

        def values(row: Index) -> None:
            def some(at: Index) -> None:
                self._add_values(row, at, block, self._right(self.v, at), cut.values)

            emit.loop(0, self.wide // lanes, cut.values.vectors, some)

        emit.loop(0, item.rows, cut.values.rows, values)

    def _copy(self, x: Matrix, to: Packed, item: _Item, k: Index, depth: Index) -> Copy:
        source = self.inputs[x.argument]
        return Copy(source, to, self.element, self.lanes, item.batch, k, depth)

    def _right(self, packed: Packed, first: Index) -> _Right:
        start = packed.vector(first, self.lanes)

        def load(k: Index, j: int) -> ir.Value:
            place = emit.linear(emit.add(start, j * packed.vector_step), (k, packed.k_step))
            return emit.load_vector(packed.memory, place, self.lanes)

        return load

    def _product(
        self, left: tuple[ir.Value, Index, int], right: _Right, depth: Index, tile: Tile
    ) -> list[ir.Value]:
        """The sums of a tile over a depth. left: memory, the first row's start, from row to row."""
        memory, start, step = left
        zero = emit.constant(0, self.element, self.lanes)

        def products(k: Index, *sums: ir.Value) -> list[ir.Value]:
            columns = [right(k, j) for j in range(tile.vectors)]
            base, found = emit.add(start, k), []
            for r in range(tile.rows):
                x = emit.splat(emit.load(memory, emit.add(base, r * step)), self.lanes)
                for j, y in enumerate(columns):
                    c = sums[r * tile.vectors + j]
                    found.append(emit.multiply_add(x, y, c, self.element))
            return found

        def part(first: Index, end: Index) -> list[ir.Value]:
            return emit.loop(first, end, 1, products, [zero] * (tile.rows * tile.vectors))

        if not isinstance(depth, int) or depth <= SUM_DEPTH:
            return part(0, depth)
        parts = [part(k, min(k + SUM_DEPTH, depth)) for k in range(0, depth, SUM_DEPTH)]
        return [
            reduce(lambda a, b: emit.plus(a, b, self.element), own)
            for own in zip(*parts, strict=True)
        ]

    def _add_values(self, row: Index, at: Index, block: _Block, right: _Right, tile: Tile) -> None:
        """Adds the values of a block, times their powers, to the sums of a tile."""
        lanes, keys = self.lanes, self.cut.keys
        left = self.scores, emit.mul(row, keys), keys
        found = self._product(left, right, block.count, tile)
        place = emit.linear(emit.mul(at, lanes), (row, self.wide))
        for r in range(tile.rows):
            for j in range(tile.vectors):
                here, x = emit.add(place, r * self.wide + j * lanes), found[r * tile.vectors + j]
                if not self.once:
                    own = emit.mul(emit.add(row, r), lanes)
                    factor = emit.load_vector(self.shrink, own, lanes)
                    before = emit.load_vector(self.sums, here, lanes)
                    x = emit.multiply_add(before, factor, x, self.element)
                emit.store_vector(x, self.sums, here)

    def _dots(self, item: _Item, block: _Block, vectors: Index, r: Index) -> None:
        """Raw scores of a query, of keys where they lie: a vector of keys at a time."""
        attention, lanes, k = self.attention, self.lanes, self.attention.k
        start, query = k.start(item.batch), emit.mul(r, self.deep)
        zero = emit.constant(0, self.element, lanes)

        def some(at: Index) -> None:
            first, places = emit.add(block.first, emit.mul(at, lanes)), []
            for n in range(lanes):
                key = emit.minimum(emit.add(first, n), emit.sub(attention.N, 1))
                places.append(emit.add(start, k.row.offset(key)))

            def step(d: Index, *sums: ir.Value) -> list[ir.Value]:
                mask = self._mask(attention.D, attention.D, d)
                x = emit.load_vector(self.q.memory, emit.add(query, d), lanes)
                far = k.column.offset(d)
                return [
                    emit.multiply_add(x, self._load(k, emit.add(place, far), mask), c, self.element)
                    for place, c in zip(places, sums, strict=True)
                ]

            whole = attention.D // lanes * lanes
            sums = emit.loop(0, whole, lanes, step, [zero] * lanes)
            if whole < attention.D:
                sums = step(whole, *sums)
            x = _tree(pack.transpose(sums), self.element)
            place = emit.linear(emit.mul(at, lanes), (r, self.cut.keys))
            emit.store_vector(x, self.scores, place)

        emit.loop(0, vectors, 1, some)

    def _mask(self, size: int, end: Index, at: Index) -> ir.Value | None:
        """The lanes of a vector from `at` on that are before `end`; None where vectors of `size`
        elements are whole."""
        return emit.lane_mask(emit.sub(end, at), self.lanes) if size % self.lanes else None

    def _load(self, matrix: Matrix, place: Index, mask: ir.Value | None) -> ir.Value:
        x = emit.load_vector(self.inputs[matrix.argument], place, self.lanes, mask)
        return emit.convert(x, matrix.element, self.element)

    def _sums_in_place(self, item: _Item, block: _Block) -> None:
        """Adds the values of a block, which are read where they lie."""
        attention, lanes, v = self.attention, self.lanes, self.attention.v
        start, vectors = v.start(item.batch), self.wide // lanes

        def rows(count: int) -> None:
            # One row's products take their right operand from memory.
            most = self.cut.registers - 2
            if count > 1:
                most = (self.cut.registers - 1) // (count + 1)
            wide = max(n for n in range(1, most + 1) if vectors % n == 0)

            def some(at: Index) -> None:
                def load(k: Index, j: int) -> ir.Value:
                    column = emit.mul(emit.add(at, j), lanes)
                    mask = self._mask(attention.E, attention.E, column)
                    row = emit.add(start, v.row.offset(emit.add(block.first, k)))
                    return self._load(v, emit.add(row, v.column.offset(column)), mask)

                self._add_values(0, at, block, load, Tile(count, wide))

            emit.loop(0, vectors, wide, some)

        if isinstance(item.rows, int):
            rows(item.rows)
            return
        one = emit.compare("eq", item.rows, 1)
        emit.when(one, lambda: rows(1), lambda: rows(FEW))

    def _powers(self, item: _Item, block: _Block, vectors: Index, r: Index) -> None:
        """From raw scores of a row to powers: less the largest score that the row has seen."""
        attention, lanes, element = self.attention, self.lanes, self.element
        lowest = emit.constant(float("-inf"), element, lanes)
        zero = emit.constant(0, element, lanes)
        m, start, own = emit.add(item.first, r), emit.mul(r, self.cut.keys), emit.mul(r, lanes)

        def score(at: Index, largest: ir.Value) -> list[ir.Value]:
            column = emit.mul(at, lanes)
            place, n = emit.add(start, column), emit.add(block.first, column)
            mask = self._mask(attention.N, block.count, column)
            x = emit.load_vector(self.scores, place, lanes)
            (x,) = self.scored.results(x, item.batch, m, n, mask)
            for seen in (mask, *self._sees(m, n)):
                x = x if seen is None else arith.select(seen, x, lowest)
            emit.store_vector(x, self.scores, place)
            return [arith.maximumf(largest, x)]

        found = _over(vectors, score, lowest)
        kind, type_ = vector.CombiningKind.MAXIMUMF, emit.element_type(element)
        largest, total = emit.splat(vector.reduction(type_, kind, found), lanes), zero
        if not self.once:
            before = emit.load_vector(self.largest, own, lanes)
            largest = arith.maximumf(before, largest)
            emit.store_vector(largest, self.largest, own)
        # Where no score is above -infinity, powers are 0 and not NaN.
        none = arith.cmpf(arith.CmpFPredicate.OEQ, largest, lowest)
        base = arith.select(none, zero, largest)
        if not self.once:
            shrink = math.exp(arith.subf(before, base))
            emit.store_vector(shrink, self.shrink, own)
            total = arith.mulf(emit.load_vector(self.total, own, lanes), shrink)

        def power(at: Index, total: ir.Value) -> list[ir.Value]:
            place = emit.add(start, emit.mul(at, lanes))
            x = math.exp(arith.subf(emit.load_vector(self.scores, place, lanes), base))
            emit.store_vector(x, self.scores, place)
            return [arith.addf(total, x)]

        total = _over(vectors, power, total)
        emit.store_vector(total, self.total, own)

    def _sees(self, m: Index, n: Index) -> list[ir.Value]:
        """Masks of the keys from n on that query m sees."""
        attention, lanes, found = self.attention, self.lanes, []
        if attention.causal is not None:
            count = emit.sub(emit.add(m, attention.causal + 1), n)
            found.append(emit.lane_mask(emit.value(count), lanes))
        if attention.earliest is not None:
            count = emit.sub(emit.add(m, attention.earliest), n)
            before = emit.lane_mask(emit.value(count), lanes)
            assert before is not None
            found.append(arith.xori(before, emit.constant(1, "i1", lanes)))
        return [mask for mask in found if mask is not None]

    def _store_row(self, item: _Item, r: Index) -> None:
        """Divides a row's sums by the sum of its powers, and stores the results."""
        attention, lanes, element = self.attention, self.lanes, self.element
        total = emit.load_vector(self.total, emit.mul(r, lanes), lanes)
        total = emit.splat(emit.reduce_add(total, element), lanes)
        zero, gone = emit.constant(0, element, lanes), None
        if attention.nan_as_zero or attention.empty_as_zero:
            # The sum of a row with a score above -infinity is 1 or more.
            predicate = "UEQ" if attention.nan_as_zero else "OEQ"
            gone = arith.cmpf(getattr(arith.CmpFPredicate, predicate), total, zero)

        def some(column: Index) -> None:
            mask = self._mask(attention.E, attention.E, column)
            x = emit.load_vector(self.sums, emit.linear(column, (r, self.wide)), lanes)
            x = arith.divf(x, total)
            if gone is not None:
                x = arith.select(gone, zero, x)
            self.stored(x, item.batch, emit.add(item.first, r), column, mask)

        emit.loop(0, self.wide, lanes, some)


def _over(
    count: Index, step: Callable[[Index, ir.Value], list[ir.Value]], first: ir.Value
) -> ir.Value:
    """The last of `count` steps, from the number and the one before; a few are straight code."""
    if isinstance(count, int) and count <= STRAIGHT:
        for number in range(count):
            (first,) = step(number, first)
        return first
    return emit.loop(0, count, 1, step, [first])[0]


def _tree(vectors: Sequence[ir.Value], element: str) -> ir.Value:
    """The sum of vectors, in pairs."""
    if len(vectors) == 1:
        return vectors[0]
    half = len(vectors) // 2
    return emit.plus(_tree(vectors[:half], element), _tree(vectors[half:], element), element)
