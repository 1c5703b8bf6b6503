"""The kernels that the family takes, and their legal schedules. Each refusal says why."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.access import is_contiguous
from mgx_mlir.codegen.gpu.builders.operands import vector_lanes
from mgx_mlir.codegen.gpu.families.rows.match import Rows
from mgx_mlir.codegen.gpu.families.rows.space import RowSchedule
from mgx_mlir.codegen.refusal import Refusal

# The most registers of a thread for the elements of a row that it keeps.
_KEPT = 128


def lanes_of(rows: Rows, across: bool) -> int:
    """Elements of a chunk: neighbours along a row, or, `across`, of neighbouring rows."""
    operands = rows.operands
    if not across:
        return vector_lanes(rows.columns, operands)
    return vector_lanes(rows.rows, operands)


def is_across(rows: Rows) -> bool:
    """Whether neighbours in memory belong to neighbouring rows, in most operands."""
    votes = 0
    for operand in rows.operands:
        votes += is_contiguous(operand.inner) - is_contiguous(operand.outer)
    return votes < 0


def schedule_refusal(rows: Rows, schedule: RowSchedule, target: Target) -> Refusal | None:
    """Why a schedule is illegal; None where it is legal."""
    if schedule.block > 1024:
        return Refusal(f"{schedule.block} threads")
    words = max((o.element.bits for o in rows.operands), default=32) // 32 or 1
    kept = schedule.chunks * schedule.lanes * len(rows.operands) * words
    if schedule.resident and kept > _KEPT * target.register_share:
        return Refusal(f"about {kept} registers for a row")
    if schedule.across and schedule.threads > 1:
        bytes_ = schedule.block * schedule.lanes * 8 * len(rows.reductions)
        if bytes_ > target.lds_bytes:
            return Refusal(f"{bytes_} bytes of LDS")
    return None
