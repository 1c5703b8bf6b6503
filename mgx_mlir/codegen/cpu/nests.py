"""Loop nests of linalg ops on the host: which iterations are work items, and in what order.

The fastest dimension of the result is the innermost loop, which LLVM vectorises. A sum
along contiguous memory is kept in registers; one across it is kept in the result's memory,
so that its innermost loop is contiguous too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.transposes import build_copy, copy_items, crossed_group
from mgx_mlir.codegen.generic.buffers import emission, loops
from mgx_mlir.codegen.generic.buffers.body import BufferBody
from mgx_mlir.codegen.generic.buffers.loops import Group, Nest, NestOperand
from mgx_mlir.codegen.generic.buffers.memory import Piece
from mgx_mlir.rewriting.queries import ops_inside
from mgx_mlir.sizes.arithmetic import ceil_div

# Elements of work that are worth an item of their own.
ITEM_WORK = 8192
# Columns that a reduction across memory accumulates at a time: a few cache lines.
COLUMN_BLOCK = 256
# LLVM unrolls reductions of at most this many iterations, and vectorises the loop outside.
UNROLLED = 32
MAX_ITEMS = 4096
# Places at which the innermost loop is cut.
MOST_TURNS = 8


@dataclass(frozen=True)
class Stage:
    """One op of a bufferized function: a nest with its known initial values, or another op.

    `loaded`: the members of `pieces` that its body reads at indices that it computes.
    """

    op: ir.Operation
    nest: Nest | None
    initial: dict[int, ir.Value]
    pieces: frozenset[Piece]
    loaded: frozenset[Piece]


def item_count(group: Sequence[Stage], rows: int) -> int:
    """The number of work items of a function: of its shared rows, or of its only stage."""
    if rows:
        return ceil_div(rows, _rows_per_item(group, rows))
    stage = group[0]
    if stage.nest is not None:
        crossed = crossed_group(stage.nest)
        if crossed is not None:
            return copy_items(stage.nest, crossed)
        return _Split.of(stage.nest).items
    if stage.op.name in ("scf.forall", "scf.parallel"):
        return max(1, prod(loops.parallel_space(stage.op).sizes))
    return 1


# One nest ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Split:
    """Parallel groups of a nest: the first `outer` are items, the next is cut in `parts`."""

    outer: int
    parts: int
    part: int
    items: int

    @staticmethod
    def of(nest: Nest) -> _Split:
        groups = nest.parallel
        reduction = prod(group.size for group in nest.reduction)
        work = nest.iterations * reduction
        wanted = min(max(1, work // ITEM_WORK), MAX_ITEMS)
        outer, items = 0, 1
        while outer < len(groups) - 1 and items < wanted:
            items *= groups[outer].size
            outer += 1
        if items >= wanted or outer >= len(groups):
            return _Split(outer, 1, groups[outer].size if outer < len(groups) else 1, items)
        size = groups[outer].size
        part = ceil_div(size, ceil_div(wanted, items))
        # Whole cache lines, so that threads do not write to one line.
        part = ceil_div(part, 64) * 64 if part < size else size
        parts = ceil_div(size, part)
        return _Split(outer, parts, part, items * parts)


def build_single(body: BufferBody, stage: Stage, begin: ir.Value, end: ir.Value) -> None:
    """The work items begin .. end of a function with one nest."""
    nest = stage.nest
    assert nest is not None
    crossed = crossed_group(nest)
    if crossed is not None:
        build_copy(body, nest, crossed, begin, end)
        return
    split = _Split.of(nest)

    def item(number: Index) -> None:
        part = emit.rem(number, split.parts)
        rest = emit.div(number, split.parts)
        counts: list[Index] = []
        for group in reversed(nest.parallel[1 : split.outer]):
            counts.insert(0, emit.rem(rest, group.size))
            rest = emit.div(rest, group.size)
        if split.outer:
            counts.insert(0, rest)
        code = _Code.of(body, stage)
        offsets = emission.start(body, nest)
        for group, count in zip(nest.parallel, counts, strict=False):
            offsets = code.bind(group, count, offsets)
        if split.outer >= len(nest.parallel):
            code.emit(offsets)
            return
        size = nest.parallel[split.outer].size
        low: Index = 0
        high: Index = size
        if split.parts > 1:
            low = emit.mul(part, split.part)
            high = emit.add(low, split.part)
            if size % split.part:
                high = emit.minimum(high, size)
        code.inner(split.outer, low, high, offsets)

    if len(nest.parallel) == 1 and split.parts > 1 and not nest.reduction:
        # Items are neighbouring parts of one loop: one loop covers them all.
        size = nest.parallel[0].size
        low = emit.mul(begin, split.part)
        high = emit.minimum(emit.mul(end, split.part), size)
        _Code.of(body, stage).inner(0, low, high, emission.start(body, nest))
        return
    emit.loop(begin, end, 1, item)


@dataclass(frozen=True)
class _Code:
    """The code of a nest inside of loops, which bind dimensions and move the operands' offsets."""

    body: BufferBody
    stage: Stage
    nest: Nest
    dims: list[Index]

    @staticmethod
    def of(body: BufferBody, stage: Stage) -> _Code:
        assert stage.nest is not None
        return _Code(body, stage, stage.nest, [0] * len(stage.nest.sizes))

    def bind(self, group: Group, count: Index, offsets: list[Index]) -> list[Index]:
        """The operands' offsets with `group` at iteration `count`."""
        return emission.bind(self.body, self.nest, group, count, offsets, self.dims)

    def emit(self, offsets: list[Index]) -> None:
        """The nest's work with all parallel dimensions bound."""
        emission.emit(self.body, self.nest, offsets, self.stage.initial, self.dims)

    def inner(self, position: int, low: Index, high: Index, offsets: list[Index]) -> None:
        """Parallel groups from `position` on as loops, the first from low to high."""
        groups = self.nest.parallel
        if position == len(groups):
            self.emit(offsets)
            return
        if position == len(groups) - 1 and _across(self.nest):
            self._accumulate_in_memory(groups[position], low, high, offsets)
            return

        def iteration(count: Index) -> None:
            inner = self.bind(groups[position], count, offsets)
            size = groups[position + 1].size if position + 1 < len(groups) else 1
            self.inner(position + 1, 0, size, inner)

        # LLVM's vectors have no branches: the innermost loop is cut where one turns.
        turns = _turns(self.nest) if position == len(groups) - 1 else []
        for turn in turns:
            end = emit.minimum(emit.maximum(turn, low), high)
            emit.loop(low, end, 1, iteration)
            low = end
        emit.loop(low, high, 1, iteration)

    def _accumulate_in_memory(
        self, group: Group, low: Index, high: Index, offsets: list[Index]
    ) -> None:
        """Reduces a block of columns at a time, the sums in the result's memory."""
        body, nest, initial = self.body, self.nest, self.stage.initial
        assert all(nest.operands[number].is_output for number in initial)

        def clear(count: Index) -> None:
            inner = self.bind(group, count, offsets)
            for number, value in initial.items():
                view = nest.operands[number].view
                assert view is not None
                body.store_at(body.value(value), view.piece, inner[number])

        def block(start: Index) -> None:
            stop = emit.minimum(emit.add(start, COLUMN_BLOCK), high)
            if initial:
                emit.loop(start, stop, 1, clear)

            def reduce(position: int, offsets: list[Index]) -> None:
                if position == len(nest.reduction):

                    def column(count: Index) -> None:
                        inner = self.bind(group, count, offsets)
                        flat = replace(nest, reduction=())
                        emission.emit(body, flat, inner, {}, self.dims)

                    emit.loop(start, stop, 1, column)
                    return
                axis = nest.reduction[position]

                def step(count: Index) -> None:
                    reduce(position + 1, self.bind(axis, count, offsets))

                emit.loop(0, axis.size, 1, step)

            reduce(0, offsets)

        emit.loop(low, high, COLUMN_BLOCK, block)


def _turns(nest: Nest) -> list[int]:
    """The iterations of the last parallel loop at which its index reaches what a branch of the
    body compares it with, as the parts of a concatenation do."""
    if nest.body is None or not nest.parallel or len(nest.parallel[-1].dims) > 1:
        return []
    (last,) = nest.parallel[-1].dims
    found = set()
    for op in ops_inside(nest.op, arith.CmpIOp):
        index, bound = op.lhs.owner, op.rhs.owner
        is_last = _loop_number(index) == last
        below = ir.IntegerAttr(op.predicate).value == arith.CmpIPredicate.slt
        if is_last and below and isinstance(bound, arith.ConstantOp):
            found.add(ir.IntegerAttr(bound.value).value)
    turns = sorted(turn for turn in found if 0 < turn < nest.parallel[-1].size)
    return turns if len(turns) <= MOST_TURNS else []


def _loop_number(op: Any) -> int | None:
    """The loop whose index an op gives; None for another op."""
    if not isinstance(op, ir.Operation | ir.OpView) or op.operation.name != "linalg.index":
        return None
    return ir.IntegerAttr(op.attributes["dim"]).value


def _across(nest: Nest) -> bool:
    """Whether the reduction strides through memory where the last parallel loop does not."""
    if not nest.reduction or not nest.parallel:
        return False
    if prod(group.size for group in nest.reduction) <= UNROLLED:
        return False
    if any(operand.form.rest for operand in nest.operands):
        return False
    along, across = nest.reduction[-1].dims[-1], nest.parallel[-1].dims[-1]
    # A row reads an operand without the reduced dimensions once.
    reduced = [dim for group in nest.reduction for dim in group.dims]
    inputs = [
        o
        for o in nest.operands
        if o.view is not None and not o.is_output and any(map(o.form.coefficient, reduced))
    ]
    unit = sum(abs(o.form.coefficient(across)) == 1 for o in inputs)
    return unit > sum(abs(o.form.coefficient(along)) == 1 for o in inputs) and all(
        nest.accumulates(o) and abs(o.form.coefficient(across)) == 1 for o in nest.outputs
    )


# Several nests by rows -----------------------------------------------------------------------


def common_rows(stages: Sequence[Stage]) -> int:
    """The number of rows into which all nests split so that no row needs another; 0 if none.

    Each nest's slowest parallel iterations are cut into this number of rows. Memory that one
    stage writes and another touches is cut into parts of equal size, one for each row.
    """
    nests = [stage.nest for stage in stages]
    if any(nest is None for nest in nests):
        return 0
    written = {o.view.piece for nest in nests if nest for o in nest.outputs if o.view}
    anywhere = any(stage.loaded & written for stage in stages)
    candidates: set[int] = set()
    for nest in nests:
        assert nest is not None
        rows = 1
        for group in nest.parallel:
            rows *= group.size
            candidates.add(rows)
        # Parts of the fastest loop, of some cache lines.
        candidates |= {rows // part for part in (64, 256, 1024) if rows % part == 0}
    for rows in sorted(candidates, reverse=True):
        if rows > 1 and not anywhere and _rows_fit([n for n in nests if n is not None], rows):
            return rows
    total = sum(nest.iterations for nest in nests if nest is not None)
    small = total * max(prod(g.size for g in n.reduction) for n in nests if n is not None)
    # A small kernel is not worth a barrier between its stages.
    return 1 if small <= ITEM_WORK else 0


def _rows_fit(nests: Sequence[Nest], rows: int) -> bool:
    written = {o.view.piece for nest in nests for o in nest.outputs if o.view}
    strides: dict[Piece, tuple[int, int]] = {}
    for nest in nests:
        split = _row_groups(nest, rows)
        if split is None or (split[0] == len(nest.parallel) and _across(nest)):
            return False
        for operand in nest.operands:
            if operand.view is None or operand.view.piece not in written:
                continue
            place = _row_place(nest, operand, rows)
            if place is None or strides.setdefault(operand.view.piece, place) != place:
                return False
    return True


def _row_groups(nest: Nest, rows: int) -> tuple[int, int] | None:
    """(n, inner): rows are the first n groups and the first part of the next, `inner` long.

    None where the groups do not divide into rows.
    """
    done = 1
    for number, group in enumerate(nest.parallel):
        if done == rows:
            return number, 0
        if rows % (done * group.size) == 0:
            done *= group.size
            continue
        if (done * group.size) % rows == 0 and rows % done == 0:
            return number, group.size // (rows // done)
        return None
    return (len(nest.parallel), 0) if done == rows else None


def _row_place(nest: Nest, operand: NestOperand, rows: int) -> tuple[int, int] | None:
    """(start, stride): row r of the operand lies within stride elements of start + r * stride.

    None where the strides do not show that.
    """
    view, form = operand.view, operand.form
    assert view is not None
    if not isinstance(view.offset, int) or form.rest or form.wraps:
        return None
    split = _row_groups(nest, rows)
    assert split is not None
    count, inner = split
    stride: int | None = None
    # The slowest dimensions must step evenly: each step is the next one's size times its step.
    parts = [(g.size, form.coefficient(g.dims[-1])) for g in nest.parallel[:count]]
    if inner:
        group = nest.parallel[count]
        parts.append((group.size // inner, form.coefficient(group.dims[-1]) * inner))
    for size, step in reversed(parts):
        if stride is None:
            stride, expected = step, step * size
        elif step != expected:
            return None
        else:
            expected = step * size
    if not stride:
        return None
    extent = 0
    for group in (*nest.parallel[count:], *nest.reduction):
        size = inner if inner and group is nest.parallel[count] else group.size
        extent += (size - 1) * form.coefficient(group.dims[-1])
    first = view.offset + form.constant
    within = first % stride
    return (first - within, stride) if within + extent < stride else None


def _rows_per_item(stages: Sequence[Stage], rows: int) -> int:
    work = sum(s.nest.iterations * prod(g.size for g in s.nest.reduction) for s in stages if s.nest)
    return max(1, min(rows, ceil_div(ITEM_WORK * rows, max(work, 1))))


def build_rows(
    body: BufferBody, stages: Sequence[Stage], rows: int, begin: ir.Value, end: ir.Value
) -> None:
    """The work items begin .. end of a function whose stages share rows."""
    per_item = _rows_per_item(stages, rows)

    def row(number: Index) -> None:
        for stage in stages:
            _row_of(_Code.of(body, stage), rows, number)

    low = emit.mul(begin, per_item)
    high = emit.mul(end, per_item)
    if rows % per_item:
        high = emit.minimum(high, rows)
    emit.loop(low, high, 1, row)


def _row_of(code: _Code, rows: int, number: Index) -> None:
    nest = code.nest
    split = _row_groups(nest, rows) if rows > 1 else (0, 0)
    assert split is not None
    count, inner = split
    groups = nest.parallel[:count]
    first = number
    offsets = emission.start(code.body, nest)
    counts: list[Index] = []
    if inner:
        part = nest.parallel[count].size // inner
        counts.append(emit.rem(first, part) if groups else first)
        first = emit.div(first, part)
    for group in reversed(groups[1:]):
        counts.insert(0, emit.rem(first, group.size))
        first = emit.div(first, group.size)
    if groups:
        counts.insert(0, first)
    for group, index in zip(groups, counts, strict=False):
        offsets = code.bind(group, index, offsets)
    if inner:
        low = emit.mul(counts[-1], inner)
        code.inner(count, low, emit.add(low, inner), offsets)
    elif count < len(nest.parallel):
        code.inner(count, 0, nest.parallel[count].size, offsets)
    else:
        code.emit(offsets)
