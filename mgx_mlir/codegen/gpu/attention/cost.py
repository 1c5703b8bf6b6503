"""How long attention takes on a chip: an estimate from sizes alone, in clocks.

A compute unit is bound by its matrix cores, by what the softmax does to each score on the
vector units, or by LDS; or by latency where it holds too few waves. Only the order of the
estimates matters.
"""

from __future__ import annotations

import math

from mgx_mlir.codegen.contraction import emit
from mgx_mlir.codegen.contraction.attention import Attention
from mgx_mlir.codegen.gpu.attention.constraints import registers, schedule_refusal
from mgx_mlir.codegen.gpu.attention.generator import tile_shapes
from mgx_mlir.codegen.gpu.attention.space import Schedule, schedules
from mgx_mlir.codegen.gpu.attention.tile import Shape
from mgx_mlir.codegen.gpu.contraction.specs import Unit
from mgx_mlir.target import Target

# Clocks of a SIMD for one score of each lane of 16: an exponential of 16 clocks for a wave of
# 64, and some six operations of 4.
CDNA_SCORE_CLOCKS = 40
RDNA_SCORE_CLOCKS = 12
BLOCK_LATENCY = 900
START_CLOCKS = 2000


def choose(attention: Attention, unit: Unit, target: Target) -> Schedule | None:
    """The legal schedule with the least estimate; the first of several equal ones."""
    legal = []
    for schedule in schedules(unit):
        shapes = tile_shapes(attention, schedule, unit, schedule.waves * target.wave_size)
        if not schedule_refusal(attention, schedule, shapes, unit, target):
            legal.append((clocks(attention, schedule, shapes, unit, target), schedule))
    return min(legal, key=lambda found: found[0], default=(0, None))[1]


def clocks(
    attention: Attention, schedule: Schedule, shapes: list[Shape], unit: Unit, target: Target
) -> float:
    """The estimate for a legal schedule."""
    simds = 4 if target.wave_size == 64 else 2
    blocks = math.ceil(attention.M / schedule.queries(unit)) * attention.batch
    a_unit = math.ceil(blocks / target.compute_units)
    used = registers(attention, schedule, shapes, unit, target)
    file = 512 if target.wave_size == 64 else 1536
    lds = sum(shape.elements(unit) for shape in shapes) * emit.element_bytes(unit.element)
    resident = max(1, min(file // used * simds // schedule.waves, target.lds_bytes // lds))
    together = min(resident, a_unit)

    depth, columns = shapes[0].length, shapes[1].rows
    wave_queries = schedule.wave_queries(unit)
    matrix = 2 * wave_queries * schedule.keys * (depth + columns) / (unit.flops / simds)
    score = CDNA_SCORE_CLOCKS if target.wave_size == 64 else RDNA_SCORE_CLOCKS
    vector = wave_queries * schedule.keys / target.wave_size * score
    read = schedule.keys * (depth + columns) * emit.element_bytes(unit.element) / 128
    waves_a_simd = schedule.waves * together / simds
    # With one wave a SIMD nothing overlaps; with more, what is busiest bounds.
    serial = matrix + vector + 2 * read
    lds_clocks = read * (schedule.waves + 1) * together
    busy = max(max(matrix, vector) * waves_a_simd + serial / 4, serial, lds_clocks)
    rounds = math.ceil(a_unit / together)
    steps = math.ceil(attention.N / schedule.keys)
    return rounds * (steps * max(busy, BLOCK_LATENCY) + START_CLOCKS)
