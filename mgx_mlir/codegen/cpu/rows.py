"""Nests that share a function: they go through the same rows, and each touches only its own part of
what the others write. So a row of a softmax stays in the cache from its maximum to its quotient.

    for row in begin .. end:
        max, exp, sum, divide
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.loops import ITEM_WORK, Code, across, build_single, items_of
from mgx_mlir.codegen.loops.body import Function
from mgx_mlir.codegen.loops.nest import Access, Facts
from mgx_mlir.codegen.loops.place import Place, Table
from mgx_mlir.sizes.arithmetic import Number, Size, bounds, ceil_div, exact


@dataclass(frozen=True)
class Shared:
    """Nests that one function does, and the rows that they have in common; 0: a nest alone."""

    nests: tuple[Facts, ...]
    rows: Number

    @staticmethod
    def all(nests: Sequence[Facts]) -> list[Shared]:
        """The nests of a kernel by function."""
        groups: list[Shared] = []
        for facts in nests:
            before = groups[-1].nests if groups else ()
            rows = common_rows([*before, facts]) if before else 0
            if rows:
                groups.pop()
            groups.append(Shared((*(before if rows else ()), facts), rows))
        return groups

    @property
    def items(self) -> Number:
        if not self.rows:
            return items_of(self.nests[0])
        return ceil_div(self.rows, rows_per_item(self.nests, self.rows))

    def build(self, function: Function, lanes: int, begin: ir.Value, end: ir.Value) -> None:
        """Builds the work items begin .. end."""
        if self.rows:
            _build_rows(function, self, lanes, begin, end)
        else:
            build_single(function, self.nests[0], lanes, begin, end)


def take_over(nests: Sequence[Facts]) -> None:
    """Lets scratch memory that is last read for a result, element by element, be the result's.

    So a softmax writes its powers where their quotients will be, and less memory goes through the
    caches.
    """
    first: dict[Place, int] = {}
    last: dict[Place, int] = {}
    written = {x.place for facts in nests for x in facts.accesses if x.stores}
    for number, facts in enumerate(nests):
        for place in facts.places:
            first.setdefault(place, number)
            last[place] = number
    for number, facts in enumerate(nests):
        if facts.nest.combine is not None or facts.is_sequential or facts.nest.neighbours:
            continue
        for made in [access for access in facts.accesses if access.stores]:
            read = _read_alike(facts, made)
            fresh = first[made.place] == number
            if read is None or read not in written:
                continue
            if fresh and first[read] < number == last[read]:
                read.shared = made.place
                break


def _read_alike(facts: Facts, made: Access) -> Place | None:
    """Scratch memory that a nest reads only where it stores to a place, of the same size."""
    for access in facts.accesses:
        place = access.place
        if access.stores or place.argument is not None or isinstance(place, Table):
            continue
        alike = all(x.where == made.where for x in facts.accesses if x.place in (place, made.place))
        if alike and place.size == made.place.size and place.type == made.place.type:
            return place
    return None


def common_rows(nests: Sequence[Facts]) -> Number:
    """The number of rows into which all nests split so that no row needs another; 0 if none.

    Each nest's first parallel loops are cut into this number of rows. Memory that one nest writes
    and another touches is cut into parts of equal size, one for each row.
    """
    if any(facts.is_sequential or facts.nest.neighbours for facts in nests):
        return 0
    candidates: set[Number] = set()
    for facts in nests:
        rows: Number = 1
        for group in facts.parallel:
            rows = rows * group.size
            candidates.add(rows)
        # Parts of the fastest loop, of some cache lines.
        parts = (exact(rows, part) for part in (64, 256, 1024))
        candidates |= {part for part in parts if part is not None}
    for rows in sorted(candidates, key=_order, reverse=True):
        if rows != 1 and _rows_fit(nests, rows):
            return rows
    # A small kernel is not worth a barrier between its nests.
    most = sum(bounds(x.iterations)[1] for x in nests) * max(bounds(x.depth)[1] for x in nests)
    return 1 if most <= ITEM_WORK else 0


def _order(size: Number) -> tuple[int, float, str]:
    """Larger sizes come after smaller ones, as far as that is known."""
    degree = max(len(atoms) for atoms, _ in size.terms) if isinstance(size, Size) else 0
    return degree, bounds(size)[0], str(size)


def _rows_fit(nests: Sequence[Facts], rows: Number) -> bool:
    written = frozenset[Place]().union(*(facts.written for facts in nests))
    strides: dict[Place, Number] = {}
    for facts in nests:
        split = _row_groups(facts, rows)
        if split is None or (split[0] == len(facts.parallel) and across(facts)):
            return False
        for access in facts.accesses:
            if access.place not in written:
                continue
            stride = _row_stride(facts, access, split)
            if stride is None or strides.setdefault(access.place, stride) != stride:
                return False
    return True


def _row_groups(facts: Facts, rows: Number) -> tuple[int, Number] | None:
    """(n, inner): rows are the first n loops and the first part of the next, `inner` long.

    None where the loops do not divide into rows.
    """
    done: Number = 1
    for number, group in enumerate(facts.parallel):
        if done == rows:
            return number, 0
        left = exact(rows, done)
        assert left is not None
        if exact(left, group.size) is not None:
            done = done * group.size
            continue
        inner = exact(group.size, left)
        return None if inner is None else (number, inner)
    return (len(facts.parallel), 0) if done == rows else None


def _row_stride(facts: Facts, access: Access, split: tuple[int, Number]) -> Number | None:
    """The stride of rows: row r of what is accessed lies in the stride elements from r * stride on.

    None where the steps do not show that.
    """
    if not access.is_strided or access.where.constant != 0:
        return None
    count, inner = split
    stride: Number | None = None
    expected: Number = 0
    # The first dimensions must step evenly: each step is the next one's size times its step.
    parts = [(g.size, access.step(g.dims[-1])) for g in facts.parallel[:count]]
    if inner:
        group = facts.parallel[count]
        size = exact(group.size, inner)
        assert size is not None
        parts.append((size, access.step(group.dims[-1]) * inner))
    for size, step in reversed(parts):
        if stride is None:
            stride = step
        elif step != expected:
            return None
        expected = step * size
    if not stride:
        return None
    extent: Number = 0
    for group in (*facts.parallel[count:], *facts.reduction):
        size = inner if inner and group is facts.parallel[count] else group.size
        extent = extent + (size - 1) * access.step(group.dims[-1])
    return stride if extent >= 0 and extent < stride else None


def rows_per_item(nests: Sequence[Facts], rows: Number) -> int:
    """Rows that are a work item."""
    work = sum((facts.work for facts in nests), start=0)
    each = exact(work, rows)
    if isinstance(rows, int) and isinstance(work, int):
        return max(1, min(rows, ceil_div(ITEM_WORK * rows, max(work, 1))))
    return ceil_div(ITEM_WORK, max(each, 1)) if isinstance(each, int) else 1


def _build_rows(
    function: Function, shared: Shared, lanes: int, begin: ir.Value, end: ir.Value
) -> None:
    nests, rows = shared.nests, shared.rows
    each = rows_per_item(nests, rows)

    def row(number: Index) -> None:
        for facts in nests:
            _row_of(Code.of(function, facts, lanes, in_rows=True), rows, number)

    low, high = emit.mul(begin, each), emit.mul(end, each)
    if not isinstance(rows, int) or rows % each:
        high = emit.minimum(high, rows)
    emit.loop(low, high, 1, row)


def _row_of(code: Code, rows: Number, number: Index) -> None:
    groups = code.facts.parallel
    split = _row_groups(code.facts, rows) if rows != 1 else (0, 0)
    assert split is not None
    count, inner = split
    low: Index = 0
    if inner:
        part = exact(groups[count].size, inner)
        assert part is not None
        low = emit.mul(emit.rem(number, part) if count else number, inner)
        number = emit.div(number, part)
    code.bind(groups[:count], number)
    if inner:
        code.inner(groups[count:], low, emit.add(low, inner))
    else:
        code.inner(groups[count:])
