"""An estimate of the time of attention on a chip, from sizes alone, in clocks.

A compute unit is bound by its matrix cores, by the softmax of each score on the vector units,
by LDS, or, at low occupancy, by latency. Only the order of the estimates matters.
"""

from __future__ import annotations

import math
from dataclasses import replace

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.choice import least, terms
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.attention.constraints import Plan
from mgx_mlir.codegen.gpu.families.attention.layout import PLAIN, product_clocks, shaped
from mgx_mlir.codegen.gpu.families.attention.space import PARTS, AttentionSchedule, schedules
from mgx_mlir.codegen.problem.attention import Attention
from mgx_mlir.sizes.arithmetic import ceil_div

# Issue clocks of the vector units that a matrix instruction takes.
ISSUE_CLOCKS = 4
# Latency of barriers, row maxima and waits that nothing hides, for each block of keys.
BLOCK_LATENCY = 350
# Reading queries and the first keys, and storing the result.
START_CLOCKS = 2000
# The fraction of LDS time that waves wait for: less while the softmax of another block runs.
LDS_SHARE, LDS_SHARE_OVERLAPPED = 0.4, 0.25
# Waiting for a block of keys that was not prefetched.
MOVE_LATENCY = 800
# Merging the states of 16 queries of two waves.
MERGE_CLOCKS = 250
LDS_BYTES_A_CLOCK = 128
# Split-K: parts of the keys are stored, counted, and read by the last work-group.
COMBINE_CLOCKS = 3000


def choose(attention: Attention, base: Unit, target: Target) -> AttentionSchedule | None:
    """The legal schedule with the least estimate; the first one among equals.

    base: the matrix instruction for tiles of 16 rows.
    """
    legal = []
    for schedule in schedules(base):
        plan = Plan(attention, schedule, shaped(base, schedule.rows), target)
        if not plan.refusal():
            cuts = (replace(plan, schedule=replace(schedule, parts=parts)) for parts in PARTS[1:])
            legal += [plan, *filter(_is_worth_cutting, cuts)]
    chosen = least(legal, clocks, lambda plan: plan.schedule.describe(plan.unit))
    return chosen.schedule if chosen else None


def _is_worth_cutting(plan: Plan) -> bool:
    """Whether compute units are idle, all queries see all keys, and each part has keys."""
    attention, schedule, target = plan.attention, plan.schedule, plan.target
    blocks = ceil_div(attention.M, schedule.queries) * attention.batch
    idle = blocks * schedule.parts < 2 * target.compute_units
    alike = (attention.causal, attention.earliest) == (None, None)
    return idle and alike and schedule.parts * schedule.keys <= attention.N


def clocks(plan: Plan) -> float:
    """The estimate for a legal schedule."""
    attention, schedule, unit, target = plan.attention, plan.schedule, plan.unit, plan.target
    simds = target.gpu.simds
    blocks = ceil_div(attention.M, schedule.queries) * attention.batch * schedule.parts
    a_unit = ceil_div(blocks, target.compute_units)
    waves = target.gpu.lane_vgprs // plan.registers * simds
    resident = max(1, min(waves // schedule.waves, target.lds_bytes // plan.lds_bytes))
    together = min(resident, a_unit)

    # Clocks of one wave for one block of keys.
    depth, columns = plan.shapes[0].length, plan.shapes[1].rows
    work = schedule.wave_queries * schedule.wave_keys
    matrix = 2 * work * (depth + columns) / (unit.flops / simds)
    softmax = work / target.wave_size * target.gpu.softmax_clocks
    size = emit.element_bytes(unit.element)
    read = schedule.wave_keys * (depth + columns) * size / LDS_BYTES_A_CLOCK
    if unit.kind in PLAIN:
        read *= unit.rows  # each lane reads its own operands

    waves_a_simd = ceil_div(schedule.waves * together, simds)
    busy = waves_a_simd * (softmax + matrix * ISSUE_CLOCKS / product_clocks(unit))
    steps = math.ceil(_keys(attention, schedule) / schedule.parts / schedule.keys)
    if schedule.overlap:
        busy, steps = max(busy, waves_a_simd * matrix), steps + 1
    else:
        busy += waves_a_simd * matrix
    waited = LDS_SHARE_OVERLAPPED if schedule.overlap else LDS_SHARE
    shared = (schedule.waves + schedule.splits) * read * together
    block = busy + waited * shared + BLOCK_LATENCY
    if schedule.lean:
        block += MOVE_LATENCY
    merge = (schedule.splits - 1) * schedule.wave_queries / 16 * MERGE_CLOCKS
    if schedule.parts > 1:
        merge += COMBINE_CLOCKS
    rounds = ceil_div(a_unit, together)
    all_blocks = rounds * steps
    terms(
        matrix=all_blocks * waves_a_simd * matrix,
        softmax=all_blocks * waves_a_simd * softmax,
        lds=all_blocks * waited * shared,
        start=rounds * START_CLOCKS,
        merging=rounds * merge,
    )
    return rounds * (steps * block + START_CLOCKS + merge)


def _keys(attention: Attention, schedule: AttentionSchedule) -> float:
    """Keys that a block of queries sees, on average."""
    middle = (attention.M + 1) / 2
    last: float = attention.N
    if attention.causal is not None:
        last = min(attention.N, attention.causal + middle)
    if attention.earliest is None:
        return last
    first = max(0, attention.earliest + middle)
    return min(attention.N, last - first + schedule.queries)
