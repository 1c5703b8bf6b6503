"""One gpu.func for a kernel of rows: one work-group works on each row.

    tensor<?x?xf16, #mgx.dims<[rows, columns]>>

Of rows of symbolic sizes, pointers advance to those of a work-group in 64 bits. Raw buffers end
with the last row: rows beyond read 0, or what follows, and are not stored. Where vectors divide the
lengths of rows and the strides of a run, functions for such sizes have them; others have an element
at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.function import MAX_THREADS, block_number, thread_number
from mgx_mlir.codegen.gpu.builders.launches import Launches, numbered
from mgx_mlir.codegen.gpu.builders.operands import Divided, MemoryOperand
from mgx_mlir.codegen.gpu.builders.pointers import Move, one_part, reach
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled, inputs_in_front
from mgx_mlir.codegen.gpu.families.rows.body import RowsBody
from mgx_mlir.codegen.gpu.families.rows.cost import Usual, choose
from mgx_mlir.codegen.gpu.families.rows.evaluate import Reduction
from mgx_mlir.codegen.gpu.families.rows.layouts import Across, Along, lds_arrays
from mgx_mlir.codegen.gpu.families.rows.match import Rows, match_rows
from mgx_mlir.codegen.gpu.families.rows.space import RowSchedule, is_across, lanes_of
from mgx_mlir.codegen.gpu.families.rows.split import Split
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.codegen.regimes import Regime, counted, scheduled
from mgx_mlir.sizes.arithmetic import Number, ceil_div

# Ends of the lengths of rows that vectors divide, and of others; the elements of many rows.
_ENDS, _ODD, _MANY = (256, 1024, 4096, 16384, math.inf), (1024, 8192, math.inf), 1 << 22
# Ends of the numbers of rows of a given length, and numbers of which no block is whole.
_OF_LENGTH = ((1024, 509), (math.inf, 16381))
# Ends of the lengths of rows that lie across memory; those of their numbers, and usual ones.
_HIGH, _ACROSS = (32, 128, math.inf), ((2048, 1016), (math.inf, 4088))
# One schedule for few rows and many takes at most so many times the best one's clocks.
_APART = 1.25
# A length of which no thread keeps its part.
_LONG = 1 << 16


def regimes(rows: Rows, target: Target) -> list[tuple[Number, RowSchedule]] | Refusal:
    """The schedules of rows with symbolic sizes, each with its launches in a run."""
    every = [x for x in rows.sources.values() if isinstance(x, MemoryOperand)]
    every += [result.operand for result in rows.results]
    if not all(operand.forwards for operand in every):
        return Refusal("rows that are read backwards")
    across = is_across(rows)
    divided, own = divided_by(rows, across)
    odd = divided.odd
    found: list[tuple[Number, RowSchedule]] = []
    for problem, share, ends in ((rows, odd, _ODD), (own, 1 - odd, _ENDS)):
        if share == 0:
            continue
        made = _of_length(problem, target, _HIGH if across else ends, across)
        if isinstance(made, Refusal):
            return made
        found += [(share * part, schedule) for part, schedule in made]
    return found


def _of_length(
    rows: Rows, target: Target, ends: Sequence[float], across: bool
) -> list[tuple[Number, RowSchedule]] | Refusal:
    """The schedules of rows by their length, and by their number where that matters."""
    given = isinstance(rows.columns, int)
    found, usual = list[Regime](), list[Usual]()
    for length in counted(rows.columns, [(end, int(min(end, _LONG))) for end in ends]):
        numbers = _ACROSS if across else _OF_LENGTH
        if not (across or given):
            few = 4 * target.gpu.simds * target.compute_units
            numbers = (few, few // 8), (math.inf, max(few, _MANY // max(1024, length.usual)))
        some = list(counted(rows.rows, numbers))
        each = [replace(rows, rows=n.usual, columns=length.usual) for n in some]
        how = target, across, lanes_of(rows, across)
        together = Usual(tuple(each[::-1]) if given else (*each, *each[-1:] * 3), *how)
        ways = [(n.share, Usual((one,), *how)) for n, one in zip(some, each, strict=True)]
        if given or ends == _ODD or together.worst <= _APART:
            ways = [(1, together)]
        found += [Regime(length.share * share, len(usual) + n) for n, (share, _) in enumerate(ways)]
        usual += [own for _, own in ways]

    def best(number: int) -> RowSchedule | Refusal:
        found = usual[number].best
        if found is None:
            return Refusal(f"no schedule fits {target.name}")
        return found if across or _in_turn(rows) else replace(found, together=1)

    made = scheduled(found, best, lambda one, number: usual[number].clocks(one), 6, beyond=True)
    return made if isinstance(made, Refusal) else [(way.share, one) for one, way in made]


def _in_turn(rows: Rows) -> bool:
    """Whether each result ends with its last row, and rows are evenly apart in memory."""
    return all(
        step is not None and step * rows.rows == _size(result.operand)
        for result in rows.results
        for step in [result.operand.outer.stride]
    )


def _size(x: MemoryOperand) -> Number:
    """The elements of an operand."""
    return math.prod((n for axis in (x.outer, x.inner) for n, _ in axis.factors), start=1)


def divided_by(rows: Rows, across: bool) -> tuple[Divided, Rows]:
    """The rows whose vectors, along or across them, divide lengths and strides, and the condition
    for it."""
    every = [x.transposed for x in rows.operands] if across else rows.operands
    divided = Divided.of(every)

    def own(x: MemoryOperand) -> MemoryOperand:
        return divided.operand(x.transposed).transposed if across else divided.operand(x)

    sources = {
        value: own(x) if isinstance(x, MemoryOperand) and rows.is_whole(value) else x
        for value, x in rows.sources.items()
    }
    results = tuple(replace(x, operand=own(x.operand)) if x.whole else x for x in rows.results)
    if across:
        return divided, replace(
            rows, sources=sources, results=results, rows=divided.number(rows.rows)
        )
    columns = divided.number(rows.columns)
    return divided, replace(rows, sources=sources, results=results, columns=columns)


def _build_along(rows: Rows, launches: Launches, schedule: RowSchedule, target: Target) -> None:
    """Adds the function of rows with symbolic sizes to those of `launches`."""
    if schedule.lanes > lanes_of(rows, False):
        _, rows = divided_by(rows, False)
    count = schedule.together
    parts = _Parts(launches, ceil_div(rows.rows, count), count)
    sources = {
        value: parts.read(x) if isinstance(x, MemoryOperand) else x
        for value, x in rows.sources.items()
    }
    read = len(parts.moves)
    results = tuple(replace(x, operand=parts.written(x.operand)) for x in rows.results)
    own = replace(rows, rows=count, sources=sources, results=results)
    # The number of a column beyond the row's end has 31 bits too.
    launches.limit(MAX_BYTES // 2 - rows.columns)
    if parts.is_whole:
        launches.limit(MAX_BYTES - rows.rows)
    reductions = [Reduction(op) for op in own.reductions]
    lds, grid = lds_arrays(schedule, reductions, target), (parts.groups, 1, 1)
    with launches.moved(parts.moves, schedule.block, grid, lds) as (frame, _):
        layout = Along(own, schedule, target, numbered(frame.buffers, read), frame.lds)
        layout.begin(thread_number(schedule.block), 0)
        RowsBody(own, schedule, layout, reductions, bounded=False).emit()


@dataclass(frozen=True)
class _Whole(MemoryOperand):
    """An operand whose rows are not evenly apart: offsets are from its start.

    first: rows of a work-group.
    """

    first: int = 0

    def start(self, outer: Index) -> Index:
        before = emit.mul(block_number("x", MAX_THREADS), self.first)
        return super().start(emit.add(before, outer))


class _Parts:
    """The tensors of `groups` work-groups, each of `count` rows."""

    def __init__(self, launches: Launches, groups: Number, count: int) -> None:
        self.launches, self.groups, self.count = launches, groups, count
        self.moves: list[Move] = []
        self.is_whole = False

    def read(self, x: MemoryOperand) -> MemoryOperand:
        made, number = self._moved(x, Argument("input", x.argument)), len(self.moves) - 1
        return replace(made, argument=number)

    def written(self, x: MemoryOperand) -> MemoryOperand:
        return self._moved(x, Argument("output", x.argument))

    def _moved(self, x: MemoryOperand, argument: Argument) -> MemoryOperand:
        whole, step, count = self.launches.whole_tensor(argument), x.outer.stride, self.count
        if count == 1:
            parts, span = x.outer, reach(x.inner)
            self.moves.append(replace(whole, offset=x.offset, parts=parts, reach=span))
            return replace(x, offset=0, outer=one_part(x.offset, x.outer))
        if step is None:
            self.is_whole = True
            self.moves.append(replace(whole, reach=x.offset + reach(x.outer, x.inner)))
            return _Whole(x.argument, x.element, x.offset, x.outer, x.inner, count)
        parts = Axis(((self.groups, step * count),) if step else ())  # type: ignore[arg-type]
        span = x.offset + reach(x.inner) + step * count
        self.moves.append(replace(whole, parts=parts, reach=span))
        return replace(x, outer=Axis(((count, step),)) if step else Axis(()))


def build(rows: Rows, launches: Launches, schedule: RowSchedule, target: Target) -> None:
    """Adds the functions of rows that `constraints` do not refuse to those of `launches`."""
    if launches.is_symbolic and not schedule.across:
        _build_along(rows, launches, schedule, target)
        return
    if schedule.across and schedule.lanes > lanes_of(rows, True):
        _, rows = divided_by(rows, True)
    if schedule.parts > 1:
        Split(rows, launches, schedule, target).build()
        return
    vectors = rows.rows // schedule.lanes if schedule.across else rows.rows
    count = ceil_div(vectors, schedule.together)
    reductions = [Reduction(op) for op in rows.reductions]
    read, lds = launches.inputs(rows.used), lds_arrays(schedule, reductions, target)
    with launches.groups(read, launches.results, schedule.block, count, lds) as group:
        kind = Across if schedule.across else Along
        layout = kind(rows, schedule, target, group.buffers, group.lds)
        layout.begin(thread_number(schedule.block), group.number)
        bounded = vectors % schedule.together != 0 or bool(group.inside)
        RowsBody(rows, schedule, layout, reductions, bounded).emit()


rows_program = Scheduled(match_rows, choose, build, regimes, inputs_in_front)
FAMILY = Family("rows", 50, rows_program, symbolic=True)
