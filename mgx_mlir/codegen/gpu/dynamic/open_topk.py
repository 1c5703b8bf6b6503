"""Top-k of any number of rows, and of rows of any length: the family's functions.

Rows of static length have the family's schedule. Of rows of any length, work-groups select the k
first of each piece, and one work-group a row the k first of these; where k is large, or a size,
pieces are sorted and merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.launches import OpenLaunches
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.gpu.families.topk.generator import Functions, Round, TopKSchedule
from mgx_mlir.codegen.gpu.families.topk.match import MOST, Topk, match_topk
from mgx_mlir.codegen.gpu.families.topk.merge import merge_pairs
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, ceil_div, is_more

_SHORT = 1 << 14  # elements of a row that work-groups of fewer threads select from
_HELD = 4  # numbers that a thread holds
_LARGEST = 1024  # k that is selected
_MERGES = 12  # of sorted pieces of a row


def _program(
    kernel: mgx.KernelOp, topk: Topk, target: Target
) -> Generated[DynamicProgram] | Refusal:
    schedules = _schedules(topk, target)
    if not schedules:
        return Refusal("a number of elements that is a size, of rows of static length")
    launches = OpenLaunches(kernel, [(1 << _MERGES) - x.runs for _, x in schedules])
    for share, schedule in schedules:
        if share != 0:
            with launches.when(share):
                _Functions(topk, launches, schedule, target).build()
    return launches.generated(_words(topk, schedules[0][1]))


class _Functions(Functions):
    """Rows of any number of pieces: each merge is launched where there are so many."""

    launches: OpenLaunches

    def _sorted(self, pieces: Argument) -> Sequence[Argument]:
        runs = self.schedule.runs
        if isinstance(runs, int):
            return super()._sorted(pieces)
        length, spare = runs * self.size, self._parts(self.size, runs)
        places = [pieces, spare]
        for merges in range(_MERGES):
            sizes = (length, self.size << merges)
            with self.launches.when(is_more(runs, 1 << merges)):
                count = self.topk.rows * length
                merge_pairs(self.launches, *places, self.number, count, sizes)
            places.reverse()
        return [pieces, spare]

    def _one_of(self, found: Sequence[ir.Value]) -> ir.Value:
        if len(found) == 1:
            return found[0]
        is_odd: ir.Value = emit.constant(0, "i1")
        for merges in range(_MERGES):
            more = emit.compare("sgt", self.schedule.runs, 1 << merges)
            is_odd = arith.xori(is_odd, more)
        return arith.select(is_odd, found[1], found[0])


def _words(topk: Topk, schedule: TopKSchedule) -> str:
    if isinstance(topk.columns, int):
        return f"any number of rows, {schedule.describe()}"
    if schedule.rounds:
        return "any sizes, the first of pieces of a row, then of these"
    return f"any sizes, {MOST} elements sorted at a time, merged"


def _schedules(topk: Topk, target: Target) -> list[tuple[Number, TopKSchedule]]:
    """The schedules, each with its number of launches: 1 or 0 when the sizes are met."""
    if isinstance(topk.columns, int):
        known = isinstance(topk.k, int)
        return [(1, TopKSchedule.of(replace(topk, rows=1), target))] if known else []
    if not isinstance(topk.k, int) or topk.k > _LARGEST:
        return [(1, TopKSchedule(MOST // 2, 1, ceil_div(topk.columns, MOST), ()))]
    is_long = is_more(topk.columns, _SHORT)
    found = []
    for share, threads in ((1 - is_long, 512), (is_long, 1024)):
        pieces = Round(ceil_div(topk.columns, threads * _HELD), threads, _HELD)
        last = Round(1, threads, _HELD, is_loop=True)
        found.append((share, TopKSchedule(MOST // 2, 1, 1, (pieces, last))))
    return found


FAMILY = Family("open_topk", 90, Matched(match_topk, _program))
