"""An estimate of the time of a pointwise kernel on a chip, from sizes alone, in clocks.

As for rows (see rows.cost), a SIMD is bound by instruction issue, by the path to memory, or, at
low occupancy, by latency. Only the order of the estimates matters.
"""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.choice import least, terms
from mgx_mlir.codegen.gpu.builders.function import element_bytes
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand, vector_lanes
from mgx_mlir.codegen.gpu.families.pointwise.match import Elements
from mgx_mlir.codegen.gpu.families.pointwise.space import PointwiseSchedule, schedules
from mgx_mlir.codegen.gpu.families.rows.cost import (
    GLOBAL_BYTES_A_CLOCK,
    GLOBAL_LATENCY,
    SEGMENT,
    START,
    WAVES_A_SIMD,
    weight,
)
from mgx_mlir.sizes.arithmetic import ceil_div

# The most elements that a thread has in flight, of all operands together.
_IN_FLIGHT = 128
# Instructions that compute an element's offset where an index has to be divided.
_DIVISION = 6


def choose(elements: Elements, target: Target, most_lanes: int = 0) -> PointwiseSchedule:
    """The schedule with the least estimate; the first one among equals.

    most_lanes: the longest vectors, where they are not those that divide the size.
    """
    operands = elements.operands
    lanes = most_lanes or vector_lanes(elements.size, operands)
    most = max(1, int(_IN_FLIGHT * target.register_share) // len(operands))
    legal = [s for s in schedules(lanes) if s.lanes * s.times <= most]
    chosen = least(legal, lambda s: clocks(elements, s, target), PointwiseSchedule.describe)
    assert chosen is not None  # one element at a time is always legal
    return chosen


def clocks(elements: Elements, schedule: PointwiseSchedule, target: Target) -> float:
    """The estimate for a schedule."""
    issue, simds = target.gpu.issue_clocks, target.gpu.simds
    blocks = ceil_div(elements.size, schedule.elements)
    units = min(target.compute_units, blocks)
    waves = blocks * schedule.block / target.wave_size
    a_simd = waves / (simds * units)

    work = sum(weight(op) for op in elements.ops)
    vectors = sum(_instructions(operand, schedule.lanes) for operand in elements.operands)
    instructions = 30 + schedule.times * (schedule.lanes * work + vectors)
    busy = max(1.0, a_simd) * instructions * issue

    moved = sum(_moved(operand, schedule.lanes) for operand in elements.operands)
    moved *= schedule.times * target.wave_size
    memory = max(1.0, a_simd * simds) * moved / GLOBAL_BYTES_A_CLOCK

    latency = START + GLOBAL_LATENCY + instructions * issue
    rounds = max(1.0, a_simd / WAVES_A_SIMD)
    terms(issue=busy, memory=memory, latency=rounds * latency)
    # Issue and memory overlap only in part.
    return max(busy, memory, rounds * latency) + (busy + memory) / 8


def _instructions(operand: MemoryOperand, lanes: int) -> int:
    """Instructions that access a vector of an operand."""
    if operand.repeated:
        return 0
    parts = lanes // operand.width(lanes)
    return parts * (2 + _DIVISION * (len(operand.inner.factors) - 1))


def _moved(operand: MemoryOperand, lanes: int) -> float:
    """Bytes that memory moves for a lane's vector of an operand."""
    if operand.repeated:
        return 0.0
    size = element_bytes(operand.element)
    last = operand.inner.factors[-1]
    if last[1] == 0:
        return size
    width = operand.width(lanes)
    # The distance in bytes of neighbouring lanes' accesses; each moves one segment at most.
    apart = lanes * size * (abs(last[1]) if isinstance(last[1], int) else SEGMENT)
    each = min(SEGMENT, max(width * size, apart))
    return ceil_div(lanes, width) * each
