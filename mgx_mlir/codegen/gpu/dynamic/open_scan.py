"""Running sums or products of any sizes, and searches for non-zeros: the family's functions.

Where all is one row, as in a search, it is cut into parts, and so are rows that are neighbours.
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
from mgx_mlir.sizes.arithmetic import ceil_div

_PARTS = 256  # of one row
_PARTS_ACROSS = 32  # of each of neighbouring rows


def _program(
    kernel: mgx.KernelOp, scan: Scan | NonZero, target: Target
) -> Generated[DynamicProgram] | Refusal:
    schedule = _schedule(scan, target)
    launches = OpenLaunches(kernel)
    build(scan, launches, schedule, target)
    ways = "neighbouring rows" if schedule.across else "a row"
    words = f"any sizes, {schedule.group} threads for {ways}, {schedule.parts} parts a row"
    return launches.generated(words)


def _schedule(scan: Scan | NonZero, target: Target) -> ScanSchedule:
    if isinstance(scan, Scan) and is_across(scan):
        lanes = vector_lanes(scan.rows, [x.transposed for x in (scan.source, scan.target)])
        return _cut(1, lanes, scan.columns, _PARTS_ACROSS, True)
    rows, columns = (scan.rows, scan.columns) if isinstance(scan, Scan) else (1, scan.size)
    operands = [scan.source, scan.target] if isinstance(scan, Scan) else [scan.source]
    lanes = vector_lanes(columns, operands)
    vectors = columns // lanes
    group = target.wave_size
    if isinstance(vectors, int):
        group = min(group, 1 << (vectors - 1).bit_length())
    return _cut(group, lanes, ceil_div(vectors, group), _PARTS if rows == 1 else 1, False)


def _cut(group: int, lanes: int, steps: int, parts: int, across: bool) -> ScanSchedule:
    """A schedule of `parts` of a row, out of the steps of a group of threads over it."""
    chunks = ceil_div(steps, parts * UNROLL) * UNROLL
    return ScanSchedule(group, lanes, chunks, parts, across)


FAMILY = Family("open_scan", 110, Matched[Scan | NonZero](match, _program))
