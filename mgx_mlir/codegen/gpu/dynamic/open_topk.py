"""Top-k of any number of rows, and of rows of any length: the family's functions.

Rows of static length have the family's schedule. Of rows of any length, work-groups select the k
first of each piece, and one work-group a row the k first of these; where k is large, or a size,
pieces are sorted and merged.
"""

from __future__ import annotations

from dataclasses import replace

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.launches import OpenLaunches
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.gpu.families.topk.generator import Functions, Round, TopKSchedule
from mgx_mlir.codegen.gpu.families.topk.match import MOST, Topk, match_topk
from mgx_mlir.codegen.gpu.families.topk.merge import MOST_MERGES
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, ceil_div

_THREADS = 1024
_HELD = 4  # numbers that a thread holds
_LARGEST = _THREADS  # k that is selected


def _program(
    kernel: mgx.KernelOp, topk: Topk, target: Target
) -> Generated[DynamicProgram] | Refusal:
    schedule = _schedule(topk, target)
    if schedule is None:
        return Refusal("a number of elements that is a size, of rows of static length")
    launches = OpenLaunches(kernel, [(1 << MOST_MERGES) - schedule.runs])
    Functions(topk, launches, schedule, target).build()
    return launches.generated(_words(topk, schedule))


def _words(topk: Topk, schedule: TopKSchedule) -> str:
    if isinstance(topk.columns, int):
        return f"any number of rows, {schedule.describe()}"
    if schedule.rounds:
        return f"any sizes, the first of pieces of {_THREADS * _HELD} elements"
    return f"any sizes, {MOST} elements sorted at a time, merged"


def _schedule(topk: Topk, target: Target) -> TopKSchedule | None:
    if isinstance(topk.columns, int):
        return TopKSchedule.of(replace(topk, rows=1), target) if isinstance(topk.k, int) else None
    if isinstance(topk.k, int) and topk.k <= _LARGEST:
        pieces: Number = ceil_div(topk.columns, _THREADS * _HELD)
        last = Round(1, _THREADS, _HELD, is_loop=True)
        return TopKSchedule(MOST // 2, 1, 1, (Round(pieces, _THREADS, _HELD), last))
    return TopKSchedule(MOST // 2, 1, ceil_div(topk.columns, MOST), ())


FAMILY = Family("open_topk", 90, Matched(match_topk, _program))
