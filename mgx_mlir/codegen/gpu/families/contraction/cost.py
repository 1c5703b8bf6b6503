"""Estimates the clocks of a matrix product on a chip, from sizes alone.

A compute unit is bound by the slowest of its matrix cores, its LDS and its path to the caches,
or by latency where it holds too few work-groups. LDS gives 128 bytes a clock; the rate of the L2
cache, which all units share, is a fact of the architecture (`artifact.architecture`). Latencies are
orders of magnitude. Only the order of the estimates matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cache

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.families.choice import least, terms
from mgx_mlir.codegen.gpu.families.contraction.constraints import (
    besides,
    registers,
    schedule_refusal,
)
from mgx_mlir.codegen.gpu.families.contraction.expanding import source_of
from mgx_mlir.codegen.gpu.families.contraction.function import WorkGroups
from mgx_mlir.codegen.gpu.families.contraction.halfway import is_halfway
from mgx_mlir.codegen.gpu.families.contraction.scaling import Scaled
from mgx_mlir.codegen.gpu.families.contraction.sources import Source
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule, schedules, splits
from mgx_mlir.codegen.gpu.families.contraction.specs import BUFFERS, Unit
from mgx_mlir.codegen.gpu.families.contraction.tile import transposed_block
from mgx_mlir.codegen.problem.problem import Computed, Contraction, Image, Matrix
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import ceil_div

GLOBAL_LATENCY = 600
# Clocks of a tile's barrier, and of waves that are not in step.
TILE_LATENCY = 100
# Clocks to start a work-group and fill its pipeline, where nothing else runs beside it.
BLOCK_LATENCY = 1500
# Clocks of the start's own instructions, which other work-groups cannot hide.
BLOCK_CLOCKS = 300
# Clocks between two functions, the second's first reads included.
LAUNCH_CLOCKS = 3500
# So many times as long takes a product that transposes few elements at a time: writes are narrow.
NARROW = 3
# Elements that a compute unit's vector units process in a clock.
LANES_A_CLOCK = 64
LDS_BYTES_A_CLOCK = 128
# A line of the cache: a compute unit loads or stores so many bytes in a clock.
LINE_BYTES = 64
# Waves that a SIMD holds at a time, of those that need few registers.
WAVES_A_SIMD = 8


@dataclass(frozen=True)
class Share:
    """Clocks of a compute unit's parts for one work-group, or for one step of it."""

    matrix: float = 0
    lds: float = 0
    memory: float = 0
    vector: float = 0

    @property
    def busy(self) -> float:
        """The clocks of all together: they overlap, but imperfectly."""
        total: float = sum(x**3 for x in astuple(self)) ** (1 / 3)
        return total


@dataclass(frozen=True)
class Stream:
    """The steps of a work-group that reads the next one's operands while it does each.

    A thread in a step reads `own` bytes that no other work-group reads and others that several
    read, and takes so many instructions of the vector units.
    """

    steps: int
    own: float
    shared: float
    work: float

    def clocks(self, groups: WorkGroups, target: Target) -> float:
        """The estimate."""
        blocks, units, gpu = math.prod(groups.grid), target.compute_units, target.gpu
        a_unit = ceil_div(blocks, units)
        waves = groups.threads // target.wave_size
        rounds = ceil_div(a_unit, max(1, WAVES_A_SIMD * gpu.simds // waves))
        # Few work-groups have more of the L2 cache's rate than all units' share.
        rate = min(LINE_BYTES, gpu.l2_bytes_a_clock * units / min(blocks, units))
        memory = groups.threads * max(self.own / rate, (self.own + self.shared) / LINE_BYTES)
        vector = groups.threads * self.work / LANES_A_CLOCK
        step = max(a_unit * Share(memory=memory, vector=vector).busy, rounds * GLOBAL_LATENCY)
        start = max(rounds * BLOCK_LATENCY, a_unit * BLOCK_CLOCKS)
        return self.steps * step + start


def packing_clocks(packed: int, target: Target) -> float:
    """The estimate for a function that writes `packed` bytes of operands, and reads as many.

    It turns them, and takes twice as long as a copy.
    """
    rate = target.gpu.l2_bytes_a_clock * target.compute_units
    return LAUNCH_CLOCKS + 2 * 2 * packed / rate if packed else 0


def choose(
    terms: Sequence[Contraction],
    unit: Unit,
    target: Target,
    fits: Callable[[ProductSchedule], bool] | None = None,
) -> ProductSchedule | None:
    """The legal schedule with the least estimate; the first of several equal ones.

    The sums of all terms are added; their sizes are equal but for K. With `fits`, the choice is
    among schedules without split-K for which `fits` holds.
    """
    size, depth = emit.element_bytes(terms[0].a.element), unit.tile_depth
    parts = [ceil_div(term.K, depth) for term in terms]
    problem = replace(terms[0], K=sum(parts) * depth) if len(terms) > 1 else terms[0]
    operands = [_sources(term, depth) for term in terms]
    first, second = (
        min(source.width(CHUNK_BYTES // size) for source in sources)
        for sources in zip(*operands, strict=True)
    )

    def estimate(schedule: ProductSchedule) -> float:
        extents = schedule.rows(unit), schedule.columns(unit)
        threads = schedule.waves * target.wave_size
        narrow = any(
            not source.along_k
            and transposed_block(unit.chunk, wide, extent * depth // threads, size)[0] * size < 8
            for sources in operands
            for source, extent, wide in zip(sources, extents, (first, second), strict=True)
        )
        return clocks(problem, schedule, unit, target) * (NARROW if narrow else 1)

    def words(schedule: ProductSchedule) -> str:
        return schedule.describe(unit)

    transposed = max(sum(not source.along_k for source in sources) for sources in operands)
    more = besides(unit, [source.element for sources in operands for source in sources], transposed)
    legal: dict[tuple[int, ...], ProductSchedule] = {}
    for s in _legal(unit, target, (first, second), more):
        # Schedules of one shape differ only in prefetch distance; the first has the longest.
        shape = (s.waves_m, s.waves_n, s.tiles_m, s.tiles_n)
        if shape not in legal and (fits is None or fits(s)):
            legal[shape] = s
    best = least(legal.values(), estimate, words)
    if best is None or fits is not None:
        return best
    tiles = math.gcd(*parts)
    candidates = [best]
    for s in legal.values():
        blocks = ceil_div(problem.M, s.rows(unit)) * ceil_div(problem.N, s.columns(unit))
        room = 2 * target.compute_units // (blocks * problem.batch)
        candidates += [replace(s, splits=n) for n in splits(tiles) if room // 4 < n <= room]
    return least(candidates, estimate, words) if len(candidates) > 1 else best


@cache  # one enumeration for the many products of a model
def _legal(
    unit: Unit, target: Target, widths: tuple[int, int], more: int
) -> tuple[ProductSchedule, ...]:
    """The legal schedules without split-K, in a fixed order (see constraints.schedule_refusal)."""
    return tuple(s for s in schedules() if not schedule_refusal(s, unit, target, widths, more))


def _sources(problem: Contraction, depth: int) -> tuple[Source, Source]:
    """The sources of A and B."""
    assert isinstance(problem.b, Matrix)
    return (
        source_of(problem.a, False, problem.K, depth),
        source_of(problem.b, True, problem.K, depth),
    )


def clocks(problem: Contraction, schedule: ProductSchedule, unit: Unit, target: Target) -> float:
    """The estimate for a legal schedule, in clocks."""
    rows, columns = schedule.rows(unit), schedule.columns(unit)
    blocks = ceil_div(problem.M, rows) * ceil_div(problem.N, columns) * problem.batch
    blocks *= schedule.splits
    a_unit = ceil_div(blocks, target.compute_units)
    tiles = ceil_div(problem.K, unit.tile_depth) // schedule.splits

    matrix = 2 * rows * columns * unit.tile_depth / unit.flops
    # One wave keeps one of a compute unit's SIMDs busy, and five take as long as eight.
    together = resident(schedule, unit, target, a_unit)
    waves, simds = schedule.waves * together, target.gpu.simds
    uneven = max(4 / waves, simds * ceil_div(waves, simds) / waves)
    matrix *= uneven
    read = schedule.waves * (schedule.tiles_m * unit.rows + schedule.tiles_n * unit.columns)
    # 64 banks read twice as much in a clock as 32, and write no more.
    lds = (read * 32 / unit.banks + rows + columns) * unit.row_bytes / LDS_BYTES_A_CLOCK
    memory = (rows + columns) * unit.row_bytes / target.gpu.l2_bytes_a_clock
    if unit.scaled:
        # Each wave reads one byte for every row and every column: a cache line each.
        memory += read
    vector = sum(
        extent * unit.tile_depth * operations(operand) / LANES_A_CLOCK
        for extent, operand in ((rows, problem.a), (columns, problem.b))
    )
    vector *= uneven
    busy = Share(matrix, lds, memory, vector).busy
    # A wave does not multiply while it reads fragments or waits for a tile.
    fragments = 1 / schedule.tiles_m + 1 / schedule.tiles_n
    if unit.groups > 1:
        fragments *= unit.per_lane / unit.chunk
    busy *= 1 + fragments / 10 + 0.02 / schedule.prefetch

    if not schedule.roomy(unit) and schedule.waves * together <= 4:
        # Each wave has its SIMD for itself, and waits for fragments.
        busy *= 1.1
    alone = max(GLOBAL_LATENCY / schedule.prefetch, TILE_LATENCY + busy)
    rounds = a_unit / together
    loop = tiles * max(a_unit * busy, math.ceil(rounds) * alone)
    start = max(rounds * BLOCK_LATENCY, a_unit * BLOCK_CLOCKS)
    total = loop + start
    if schedule.splits > 1:
        # With split-K, partial sums are written, and read by another function.
        size = 2 * schedule.splits * problem.batch * problem.M * problem.N
        size *= emit.element_bytes(problem.accumulator)
        rate = target.gpu.l2_bytes_a_clock * target.compute_units
        total += LAUNCH_CLOCKS + size / rate
    each = a_unit * tiles
    of_loop = {"matrix": each * matrix, "lds": each * lds, "memory": each * memory, "loop": loop}
    if vector:
        of_loop["vector"] = each * vector
    terms(**of_loop, start=start, adding=total - loop - start)
    return total


def operations(operand: Matrix | Image) -> float:
    """Vector instructions that an element of a computed operand takes on its way to LDS."""
    if not isinstance(operand, Computed) or isinstance(operand, Scaled):
        return 0
    free = (mgx.ConstantOp, mgx.ConvertOp, mgx.YieldOp)
    body = operand.op.regions[0].blocks[0].operations
    work = sum(not isinstance(op, free) for op in body)
    if is_halfway(operand, 8):
        return (work + 3) / 2  # two numbers an instruction; bytes, bits and the number itself
    return work + 1 + (2 if any(read.per_byte > 1 for read in operand.tensors) else 0)


def resident(schedule: ProductSchedule, unit: Unit, target: Target, wanted: int) -> int:
    """Work-groups that a compute unit holds at a time (its occupancy), of the `wanted` it gets."""
    extents = schedule.rows(unit) + schedule.columns(unit)
    lds = target.lds_bytes // (BUFFERS * extents * unit.row_bytes)
    waves = target.gpu.lane_vgprs // registers(schedule, unit, target) * target.gpu.simds
    return max(1, min(lds, waves // schedule.waves, wanted))
