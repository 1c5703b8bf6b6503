"""How long attention takes on a chip: an estimate from sizes alone, in clocks.

A compute unit is bound by its matrix cores, by what the softmax does to each score on the
vector units, or by LDS; or by latency where it holds too few waves. Only the order of the
estimates matters.
"""

from __future__ import annotations

import math
from dataclasses import replace

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.attention import Attention
from mgx_mlir.codegen.gpu.attention.constraints import lds_bytes, registers, schedule_refusal
from mgx_mlir.codegen.gpu.attention.generator import tile_shapes
from mgx_mlir.codegen.gpu.attention.space import Schedule, schedules
from mgx_mlir.codegen.gpu.attention.tile import Shape
from mgx_mlir.codegen.gpu.contraction.specs import Unit
from mgx_mlir.target import Target

# Clocks of a SIMD for a score of each lane: an exponential, and some six operations.
SCORE_CLOCKS = {64: 34, 32: 14}
# A block of keys whose loads, barriers and exchanges nothing hides.
BLOCK_LATENCY = 450
# Reading queries and the first keys, and storing the result.
START_CLOCKS = 3000
# Of LDS, what its users wait for.
LDS_SHARE = 0.6
LDS_BYTES_A_CLOCK = 128
# The second function, where blocks have parts of the keys.
COMBINE_CLOCKS = 5000
PARTS = (1, 2, 4, 8, 16)


def choose(attention: Attention, unit: Unit, target: Target) -> Schedule | None:
    """The legal schedule with the least estimate; the first of several equal ones."""
    legal = []
    for schedule in schedules(unit):
        shapes = tile_shapes(attention, schedule, unit, schedule.waves * target.wave_size)
        if not schedule_refusal(attention, schedule, shapes, unit, target):
            for parts in PARTS:
                cut = replace(schedule, parts=parts)
                if parts == 1 or _is_worth_cutting(attention, cut, unit, target):
                    legal.append((clocks(attention, cut, shapes, unit, target), cut))
    return min(legal, key=lambda found: found[0], default=(0, None))[1]


def _is_worth_cutting(attention: Attention, schedule: Schedule, unit: Unit, target: Target) -> bool:
    """Whether there are compute units without work, and keys enough for all parts."""
    blocks = math.ceil(attention.M / schedule.queries(unit)) * attention.batch
    idle = blocks * schedule.parts < 2 * target.compute_units
    return idle and attention.causal is None and schedule.parts * schedule.keys <= attention.N


def clocks(
    attention: Attention, schedule: Schedule, shapes: list[Shape], unit: Unit, target: Target
) -> float:
    """The estimate for a legal schedule."""
    simds = 4 if target.wave_size == 64 else 2
    blocks = math.ceil(attention.M / schedule.queries(unit)) * attention.batch * schedule.parts
    a_unit = math.ceil(blocks / target.compute_units)
    used = registers(attention, schedule, shapes, unit, target)
    file = 512 if target.wave_size == 64 else 1536
    lds = lds_bytes(attention, schedule, shapes, unit, target)
    resident = max(1, min(file // used * simds // schedule.waves, target.lds_bytes // lds))
    together = min(resident, a_unit)

    # Of one wave and block of keys.
    depth, columns = shapes[0].length, shapes[1].rows
    work = schedule.wave_queries(unit) * schedule.wave_keys
    matrix = 2 * work * (depth + columns) / (unit.flops / simds)
    softmax = work / target.wave_size * SCORE_CLOCKS[target.wave_size]
    size = emit.element_bytes(unit.element)
    read = schedule.wave_keys * (depth + columns) * size / LDS_BYTES_A_CLOCK

    waves_a_simd = math.ceil(schedule.waves * together / simds)
    # Products keep the port of the vector units for a quarter of their time.
    busy = waves_a_simd * (softmax + matrix / 4)
    steps = math.ceil(_keys(attention) / schedule.parts / schedule.keys)
    if schedule.overlap:
        busy, steps = max(busy, waves_a_simd * matrix), steps + 1
    else:
        busy += waves_a_simd * matrix
    shared = (schedule.waves + schedule.splits) * read * together
    block = busy + LDS_SHARE * shared + BLOCK_LATENCY
    merge = (schedule.splits - 1) * schedule.tiles * 300
    if schedule.parts > 1:
        merge += COMBINE_CLOCKS
    return math.ceil(a_unit / together) * (steps * block + START_CLOCKS + merge)


def _keys(attention: Attention) -> float:
    """Keys that a query sees, on average."""
    if attention.causal is None:
        return attention.N
    return min(attention.N, attention.causal + (attention.M + 1) / 2)
