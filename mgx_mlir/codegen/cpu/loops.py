"""Nests on the host: which iterations are work items, and in what order loops run.

The last dimension of the result is the innermost loop, which LLVM vectorises. A sum along
contiguous memory is kept in registers; one across it is kept in the result's memory, so that its
innermost loop is contiguous too. A copy between two orders goes by squares (`squares`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.squares import Crossed
from mgx_mlir.codegen.cpu.vectors import FEW_TERMS, Elements, RowReduction
from mgx_mlir.codegen.loops.body import Body, Function
from mgx_mlir.codegen.loops.nest import Facts, Group, bind, body_at, build_elements, constant_of
from mgx_mlir.codegen.meaning.index import Index as Formula
from mgx_mlir.codegen.meaning.index import bare_dim
from mgx_mlir.sizes.arithmetic import Number, ceil_div

# Terms of work that are worth an item of their own.
ITEM_WORK = 8192
# Columns that a reduction across memory accumulates at a time: a few cache lines.
COLUMN_BLOCK = 256
# LLVM unrolls reductions of at most this many iterations, and vectorises the loop outside.
UNROLLED = 32
MAX_ITEMS = 4096
# Places at which the innermost loop is cut.
MOST_TURNS = 8
# A tile of sums whose neighbours read neighbours: rows, and columns (two vectors of f32) of each.
ROWS, COLUMNS = 4, 16


@dataclass(frozen=True)
class Split:
    """Parallel loops of a nest: the first `outer` are items, the next is cut into parts."""

    outer: tuple[Group, ...]
    inner: tuple[Group, ...]
    part: Number  # iterations of the first inner loop in an item
    parts: Number

    @staticmethod
    def of(facts: Facts) -> Split:
        groups = facts.parallel
        columns = along_columns(facts)
        if facts.is_sequential and not columns:
            return Split.at(facts, len(groups))
        if facts.nest.neighbours or columns:
            if len(groups) > 1 or not groups:
                return Split.at(facts, len(groups) - 1)
            part = 4 * COLUMNS
            return Split((), groups, part, ceil_div(groups[0].size, part))
        if not isinstance(facts.work, int):
            return _symbolic_split(facts)
        wanted = min(max(1, facts.work // ITEM_WORK), MAX_ITEMS)
        outer, items = 0, 1
        while outer < len(groups) - 1 and items < wanted:
            size = groups[outer].size
            assert isinstance(size, int)
            items *= size
            outer += 1
        if items >= wanted or outer >= len(groups):
            return Split.at(facts, outer)
        return Split.at(facts, outer, ceil_div(wanted, items))

    @staticmethod
    def at(facts: Facts, outer: int, parts: int = 1) -> Split:
        """The split after some loops, the next of which is cut into about so many parts."""
        groups = facts.parallel
        outer = max(outer, 0)
        inner = groups[outer:]
        size = inner[0].size if inner else 1
        if parts == 1 or not isinstance(size, int):
            return Split(groups[:outer], inner, size, 1)
        part = ceil_div(size, parts)
        # Whole cache lines, so that threads do not write to one line.
        part = ceil_div(part, 64) * 64 if part < size else size
        return Split(groups[:outer], inner, part, ceil_div(size, part))

    @property
    def items(self) -> Number:
        return prod(group.size for group in self.outer) * self.parts


def _symbolic_split(facts: Facts) -> Split:
    """Items as small as they are worth it, for sizes that a run knows."""
    groups, depth = facts.parallel, facts.depth
    worth = max(1, ITEM_WORK // depth) if isinstance(depth, int) else 1
    if across(facts):
        if len(groups) > 1:
            return Split.at(facts, len(groups) - 1)
        return Split((), groups, COLUMN_BLOCK, ceil_div(groups[0].size, COLUMN_BLOCK))
    outer, inside = len(groups), 1
    while outer and inside < min(worth, ITEM_WORK // 8):
        size = groups[outer - 1].size
        outer -= 1
        if not isinstance(size, int):
            break
        inside *= size
    if outer or not groups or isinstance(groups[0].size, int):
        return Split.at(facts, outer)
    part = ceil_div(worth, 64) * 64
    return Split((), groups, part, ceil_div(groups[0].size, part))


def items_of(facts: Facts) -> Number:
    """The work items of a nest that has a function of its own."""
    crossed = Crossed.of(facts)
    return crossed.items if crossed else Split.of(facts).items


def build_single(
    function: Function, facts: Facts, lanes: int, begin: ir.Value, end: ir.Value
) -> None:
    """The work items begin .. end of a function with one nest."""
    crossed = Crossed.of(facts)
    if crossed is not None:
        crossed.build(function, begin, end)
        return
    cut, code = Split.of(facts), Code.of(function, facts, lanes)
    if facts.nest.neighbours:
        _build_tiles(code, cut, begin, end)
        return
    if not cut.outer and cut.parts != 1 and len(cut.inner) == 1:
        # Items are neighbouring parts of one loop: one loop covers them all.
        size = cut.inner[0].size
        high = emit.minimum(emit.mul(end, cut.part), size)
        code.inner(cut.inner, emit.mul(begin, cut.part), high)
        return

    def item(number: Index) -> None:
        low: Index = 0
        high: Index = cut.inner[0].size if cut.inner else 1
        if cut.parts != 1:
            low = emit.mul(emit.rem(number, cut.parts), cut.part)
            high = emit.minimum(emit.add(low, cut.part), high)
            number = emit.div(number, cut.parts)
        code.bind(cut.outer, number)
        code.inner(cut.inner, low, high)

    emit.loop(begin, end, 1, item)


def _build_tiles(code: Code, cut: Split, begin: ir.Value, end: ir.Value) -> None:
    """Sums of a row, those of some neighbours of some rows together: LLVM makes vectors of them."""
    (columns,) = cut.inner or (Group((), 1),)

    def rows(item: Index, count: int) -> None:
        bound = []
        for n in range(count if cut.outer else 1):
            code.bind(cut.outer, emit.add(item, n))
            bound.append(list(code.dims))
        low: Index = 0
        high: Index = columns.size
        if not cut.outer:
            low = emit.mul(item, cut.part)
            high = emit.minimum(emit.add(low, cut.part), high)

        def tile(first: Index, width: int, own: Sequence[list[Index]]) -> None:
            places = []
            for row in own:
                for n in range(width):
                    dims = list(row)
                    if cut.inner:
                        columns.bind(dims, emit.add(first, n))
                    places.append(dims)
            code.leaf(places)

        if cut.inner:
            tiles = emit.div(emit.sub(high, low), COLUMNS)
            whole = emit.add(low, emit.mul(tiles, COLUMNS))
            emit.loop(low, whole, COLUMNS, lambda n: tile(n, COLUMNS, bound))
            low = whole
        for row in bound:
            emit.loop(low, high, 1, lambda n, row=row: tile(n, 1, [row]))

    if cut.inner and cut.outer:
        blocks = emit.div(emit.sub(end, begin), ROWS)
        tiled = emit.value(emit.add(begin, emit.mul(blocks, ROWS)))
        emit.loop(begin, tiled, ROWS, lambda item: rows(item, ROWS))
        begin = tiled
    emit.loop(begin, end, 1, lambda item: rows(item, 1))


@dataclass(frozen=True)
class Code:
    """The code of a nest inside of loops, which set the indices of its dimensions."""

    function: Function
    facts: Facts
    dims: list[Index]
    lanes: int  # of a vector of f32
    in_rows: bool = False  # whether other nests go through the same rows
    # Bounds that the innermost loop's index has reached, and those that it is below.
    reached: list[Number] = field(default_factory=list)
    ahead: list[Number] = field(default_factory=list)

    @staticmethod
    def of(function: Function, facts: Facts, lanes: int, in_rows: bool = False) -> Code:
        return Code(function, facts, [0] * len(facts.nest.extents), lanes, in_rows)

    def bind(self, groups: Sequence[Group], number: Index) -> None:
        """Sets the indices of loops from the row-major number of an iteration."""
        bind(groups, self.dims, number)

    def leaf(self, places: Sequence[Sequence[Index]] = ()) -> None:
        """The work on the element at the indices, or on those at some."""
        if not places and (values := self._by_lanes()):
            self.facts.nest.put(self._body(), self.facts.nest.dims(), values)
            return
        build_elements(self.function, self.facts, places or [self.dims], self._known())

    def _by_lanes(self) -> list[ir.Value] | None:
        """The results of a reduction that LLVM makes no vectors of, by vectors."""
        facts = self.facts
        few = isinstance(facts.depth, int) and facts.depth < FEW_TERMS
        starts = facts.nest.starts
        wanted = len(starts) > 1 or any(isinstance(x.type, ir.FloatType) for x in starts)
        if not wanted or not facts.reduction or few:
            return None
        return RowReduction(self.function, facts, self.dims, self.lanes).build()

    def _body(self) -> Body:
        return body_at(self.function, self.facts, self.dims, self._known())

    def _known(self) -> dict[tuple[Formula, Number], bool]:
        """Of the innermost loop's index, whether it is below some bounds."""
        if not self.reached and not self.ahead:
            return {}
        last = self.facts.nest.dims()[self.facts.parallel[-1].dims[-1]]
        found = {(last, bound): False for bound in self.reached}
        return found | {(last, bound): True for bound in self.ahead}

    def inner(self, groups: Sequence[Group], low: Index = 0, high: Index | None = None) -> None:
        """Parallel loops, the first from low to high."""
        if not groups:
            self.leaf()
            return
        (first, *rest), last = groups, len(groups) == 1
        high = first.size if high is None else high
        if last and across(self.facts):
            self._accumulate(first, low, high)
            return

        def iteration(count: Index) -> None:
            first.bind(self.dims, count)
            self.inner(rest)

        # LLVM's vectors have no branches: the innermost loop is cut where one turns.
        turns = _turns(self.facts) if last else []
        for n, turn in enumerate(turns):
            end = emit.minimum(emit.maximum(emit.value(turn), low), high)
            self.reached[:], self.ahead[:] = turns[:n], turns[n:]
            self._elements(low, end, iteration) if last else emit.loop(low, end, 1, iteration)
            low = end
        self.reached[:], self.ahead[:] = turns, []
        self._elements(low, high, iteration) if last else emit.loop(low, high, 1, iteration)

    def _elements(self, low: Index, high: Index, iteration: Callable[[Index], None]) -> None:
        """Some iterations of the innermost loop: by vectors, where LLVM's are worse."""
        vectors = Elements(self.function, self.facts, self.dims, self.lanes, self._known())
        wanted = (self.in_rows or self.facts.functions) and vectors.is_suited
        if along_columns(self.facts):
            wanted, vectors = True, replace(vectors, wide=8 * self.lanes)
        if not (wanted and vectors.build(low, high)):
            emit.loop(low, high, 1, iteration)

    def _accumulate(self, group: Group, low: Index, high: Index) -> None:
        """Reduces a block of columns at a time, the sums in the result's memory."""
        nest, reduction = self.facts.nest, self.facts.reduction
        element = nest.dims()

        def clear(count: Index) -> None:
            group.bind(self.dims, count)
            nest.put(self._body(), element, [constant_of(x) for x in nest.starts])

        def column(count: Index) -> None:
            group.bind(self.dims, count)
            body = self._body()
            held = [body.element(x, element[: nest.parallel]) for x in nest.results]
            nest.put(body, element, nest.next(body, element, held))

        def block(start: Index) -> None:
            stop = emit.minimum(emit.add(start, COLUMN_BLOCK), high)
            emit.loop(start, stop, 1, clear)

            def reduce(groups: Sequence[Group]) -> None:
                if not groups:
                    emit.loop(start, stop, 1, column)
                    return

                def step(count: Index) -> None:
                    groups[0].bind(self.dims, count)
                    reduce(groups[1:])

                emit.loop(0, groups[0].size, 1, step)

            reduce(reduction)

        emit.loop(low, high, COLUMN_BLOCK, block)


def _turns(facts: Facts) -> list[Number]:
    """The iterations of the last parallel loop at which its index reaches what the code compares it
    with: the parts of a concatenation, the edges of padding."""
    if not facts.parallel or len(facts.parallel[-1].dims) > 1:
        return []
    (last,) = facts.parallel[-1].dims
    found = dict.fromkeys(bound for index, bound in facts.turns if bare_dim(index) == last)
    if len(found) > MOST_TURNS:
        return []
    known = sorted(bound for bound in found if isinstance(bound, int))
    return [*known] if len(known) == len(found) else _in_order(list(found))


def _in_order(bounds: list[Number]) -> list[Number]:
    """Bounds of which each is known to be more than the one before; none where that is unknown."""
    left, found = list(bounds), list[Number]()
    while left:
        first = next((a for a in left if all(a <= b for b in left)), None)
        if first is None:
            return []
        found.append(first)
        left.remove(first)
    return found


def along_columns(facts: Facts) -> bool:
    """Whether sequential work writes to neighbours where the last parallel loop goes."""
    last = facts.parallel[-1].dims[-1] if facts.is_sequential and facts.parallel else None
    return last is not None and all(x.step(last) == 1 for x in facts.accesses if x.stores)


def across(facts: Facts) -> bool:
    """Whether the reduction strides through memory where the last parallel loop does not."""
    if not facts.reduction or not facts.parallel or facts.is_sequential:
        return False
    if isinstance(facts.depth, int) and facts.depth <= UNROLLED and len(facts.nest.starts) == 1:
        return False
    if not all(access.is_strided for access in facts.accesses):
        return False
    along, columns = facts.reduction[-1].dims[-1], facts.parallel[-1].dims[-1]
    # A row reads an operand without the reduced dimensions once.
    reduced = [dim for group in facts.reduction for dim in group.dims]
    inputs = [x for x in facts.accesses if not x.stores and any(map(x.step, reduced))]
    unit = sum(x.step(columns) in (1, -1) for x in inputs)
    return unit > sum(x.step(along) in (1, -1) for x in inputs) and all(
        x.step(columns) == 1 for x in facts.accesses if x.stores
    )
