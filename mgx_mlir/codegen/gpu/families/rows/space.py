"""The schedules of a kernel of rows, how threads share them, and why one is illegal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.operands import vector_lanes
from mgx_mlir.codegen.gpu.families.rows.match import Rows
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import ceil_div

MAX_THREADS = 1024
_POWERS = tuple(1 << n for n in range(11))
_RESIDENT = 32  # the most elements of a row that a thread keeps in registers
SPLIT_BLOCK = 256  # threads of a work-group where several work-groups share a row
UNROLL = 4  # chunks that a thread reads at a time where a row does not fit the registers
# The most registers of a thread for the elements of a row that it keeps.
_KEPT = 128


@dataclass(frozen=True)
class RowSchedule:
    """`threads` threads share a row; a work-group has `together` rows (or vectors of rows).

    A thread works on chunks of `lanes` neighbours: elements of a row, or, `across`, the same
    element of neighbouring rows. It keeps its part of a row in registers where `resident`;
    else it reads it once for each level of dependent reductions, and once for the results.
    `parts` work-groups share a row; where they are several, each of these passes is a function.
    """

    threads: int
    together: int
    lanes: int
    chunks: int
    across: bool
    resident: bool
    parts: int = 1

    @property
    def block(self) -> int:
        return self.threads * self.together

    def inside(self, wave: int) -> int:
        """Threads of one wave that share a row; across, they lie `together` apart."""
        return max(1, min(self.threads, wave // self.together if self.across else wave))

    def describe(self) -> str:
        """The schedule in words."""
        lanes = f"{self.lanes} {'rows' if self.across else 'elements'} at a time"
        passes = "read once" if self.resident else "read for each reduction"
        if self.parts > 1:
            passes = f"{self.parts} blocks a row, a launch for each reduction and for results"
        return (
            f"{self.threads} threads a row, {self.together} together, {lanes}, "
            f"{self.chunks} times, {passes}"
        )


def schedules(columns: int, lanes: int, wave: int, across: bool) -> Iterator[RowSchedule]:
    """All schedules for rows of `columns` columns, in a fixed order."""
    step = 1 if across else lanes
    for threads in _POWERS[: 8 if across else None]:
        if threads > 1 and threads // 2 * step >= columns:
            break
        chunks = ceil_div(columns, threads * step)
        for block in sorted({max(threads, wave), max(threads, 256)}, reverse=True):
            for resident in (True, False):
                if resident and chunks * lanes > _RESIDENT:
                    continue
                if not resident and chunks <= UNROLL:
                    continue
                yield RowSchedule(threads, block // threads, lanes, chunks, across, resident)


def split(columns: int, lanes: int, parts: int, together: int = 0) -> RowSchedule:
    """A schedule whose rows `parts` work-groups share.

    together: vectors of rows of a work-group, for a schedule across the rows; 0 for one along.
    """
    threads = SPLIT_BLOCK // max(1, together)
    chunks = ceil_div(columns, threads * parts * (1 if together else lanes))
    resident = chunks * lanes <= _RESIDENT
    return RowSchedule(threads, max(1, together), lanes, chunks, together > 0, resident, parts)


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
        votes += operand.inner.contiguous(1) - operand.outer.contiguous(1)
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
