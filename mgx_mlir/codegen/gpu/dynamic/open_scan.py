"""Running sums or products of any sizes, and searches for non-zeros: the family's functions.

Long rows are cut into parts. There are functions for short rows, and for long ones; a run launches
one kind.
"""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.operands import vector_lanes
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.launches import OpenLaunches
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.gpu.families.scan.generator import build, match
from mgx_mlir.codegen.gpu.families.scan.match import NonZero, Scan
from mgx_mlir.codegen.gpu.families.scan.space import UNROLL, ScanSchedule, is_across
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import ceil_div, is_more

_SHORT = 512  # elements of a row of one part
_PARTS, _PARTS_ALONE = 32, 256  # of a long row among others, and of one


def _program(
    kernel: mgx.KernelOp, scan: Scan | NonZero, target: Target
) -> Generated[DynamicProgram] | Refusal:
    rows, columns = (scan.rows, scan.columns) if isinstance(scan, Scan) else (1, scan.size)
    is_long, launches, words = is_more(columns, _SHORT), OpenLaunches(kernel), []
    for share, parts in ((1 - is_long, 1), (is_long, _PARTS_ALONE if rows == 1 else _PARTS)):
        if share != 0:
            schedule = _schedule(scan, columns, parts, target)
            with launches.when(share):
                build(scan, launches, schedule, target)
            words.append(f"{schedule.group} threads a row, {parts} parts a row")
    return launches.generated(f"any sizes, {', or '.join(words)}")


def _schedule(scan: Scan | NonZero, columns: int, parts: int, target: Target) -> ScanSchedule:
    operands = [scan.source, scan.target] if isinstance(scan, Scan) else [scan.source]
    if isinstance(scan, Scan) and is_across(scan):
        lanes = vector_lanes(scan.rows, [operand.transposed for operand in operands])
        return _cut(1, lanes, columns, parts, True)
    lanes = vector_lanes(columns, operands)
    vectors = columns // lanes
    group = target.wave_size
    if isinstance(vectors, int):
        group = min(group, 1 << (vectors - 1).bit_length())
    return _cut(group, lanes, ceil_div(vectors, group), parts, False)


def _cut(group: int, lanes: int, steps: int, parts: int, across: bool) -> ScanSchedule:
    """A schedule of `parts` of a row, out of the steps of a group of threads over it."""
    chunks = ceil_div(steps, parts * UNROLL) * UNROLL
    return ScanSchedule(group, lanes, chunks, parts, across)


FAMILY = Family("open_scan", 110, Matched[Scan | NonZero](match, _program))
