"""An estimate of the time of a kernel of rows on a chip, from sizes alone, in clocks.

A SIMD issues an instruction of a wave in 4 clocks (CDNA, 64 lanes) or one (RDNA, 32). It is
bound by instruction issue, by the path to memory, or, at low occupancy, by latency.
Latencies are orders of magnitude. Only the order of the estimates matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.choice import least, terms
from mgx_mlir.codegen.gpu.builders.function import element_bytes
from mgx_mlir.codegen.gpu.families.rows.match import Rows
from mgx_mlir.codegen.gpu.families.rows.space import (
    SPLIT_BLOCK,
    UNROLL,
    RowSchedule,
    is_across,
    lanes_of,
    schedule_refusal,
    schedules,
    split,
)
from mgx_mlir.sizes.arithmetic import ceil_div

START = 600  # the first instructions of a wave: its arguments
GLOBAL_LATENCY = 600
BEGIN = 2000  # a launch
LAUNCH = 8000  # a function that waits for the one before
BARRIER = 250  # LDS, and waiting for the slowest wave
GLOBAL_BYTES_A_CLOCK = 32
SEGMENT = 64  # bytes of the smallest memory transaction
WAVES_A_SIMD = 8


def choose(rows: Rows, target: Target) -> RowSchedule | None:
    """The legal schedule with the least estimate; the first one among equals."""
    legal = [s for way in (False, True) for s in _legal(rows, target, way, lanes_of(rows, way))]
    # One or two work-groups for each compute unit, with work for each thread.
    lanes = lanes_of(rows, False)
    for times in (1, 2):
        parts = min(times * target.compute_units // rows.rows, rows.columns // (256 * lanes))
        if parts > 1:
            legal.append(split(rows.columns, lanes, parts))
    legal += _split_across(rows, target)
    return least(legal, lambda s: clocks(rows, s, target), RowSchedule.describe)


def _legal(
    rows: Rows, target: Target, across: bool, widest: int, narrow: bool = False
) -> list[RowSchedule]:
    """The legal schedules, of up to `widest` neighbours, whose work-groups have whole rows; narrow:
    of fewer neighbours too where that occupies more threads across few rows."""
    few, every = rows.rows <= 4 * target.compute_units, [widest]
    if few and across and narrow:
        every = [widest >> n for n in range(widest.bit_length())]
    elif few and not across and widest == 8 and rows.columns >= SPLIT_BLOCK:
        every.append(widest // 2)
    return [
        schedule
        for lanes in every
        for schedule in schedules(rows.columns, lanes, target.wave_size, across)
        if not schedule_refusal(rows, schedule, target)
    ]


@dataclass(frozen=True)
class Usual:
    """Problems of which a run has one, for one schedule: one that is legal for the last of them;
    those that weigh more stand twice. lanes: the longest vectors of all runs."""

    problems: tuple[Rows, ...]
    target: Target
    across: bool
    lanes: int

    def _legal(self, one: Rows) -> list[RowSchedule]:
        return _legal(one, self.target, self.across, self.lanes, True)

    @cached_property
    def _least(self) -> list[float]:
        """The least estimate for each problem."""
        pairs = [(one, self._legal(one)) for one in self.problems]
        return [min((self._estimate(one, s) for s in own), default=1.0) for one, own in pairs]

    def _estimate(self, one: Rows, schedule: RowSchedule) -> float:
        """The clocks of a run, with those of its launch; sums alone take no pass for results.
        Infinite where threads do not keep a row; the number of a loop's trips is the run's."""
        step = schedule.threads * (1 if schedule.across else schedule.lanes)
        if schedule.resident and step * schedule.chunks < one.columns:
            return math.inf
        if not schedule.resident:
            trips = ceil_div(one.columns, step * UNROLL)
            schedule = replace(schedule, chunks=trips * UNROLL)
        passes = max(one.levels.values()) + any(result.whole for result in one.results)
        return BEGIN + clocks(one, schedule, self.target, passes)

    def _ratios(self, schedule: RowSchedule) -> list[float]:
        """A schedule's estimates over the least ones."""
        pairs = zip(self.problems, self._least, strict=True)
        return [self._estimate(one, schedule) / best for one, best in pairs]

    def clocks(self, schedule: RowSchedule) -> float:
        """The geometric mean of a schedule's estimates over the least ones."""
        return math.prod(self._ratios(schedule)) ** (1 / len(self.problems))

    @cached_property
    def best(self) -> RowSchedule | None:
        """The legal schedule, of whole rows, that comes nearest to the best for each problem."""
        return least(self._legal(self.problems[-1]), self.clocks, RowSchedule.describe)

    @property
    def worst(self) -> float:
        """The greatest ratio of the best schedule's estimate over the least one of a problem."""
        return max(self._ratios(self.best)) if self.best else 1


def _split_across(rows: Rows, target: Target) -> list[RowSchedule]:
    """Schedules across the rows whose rows several work-groups share.

    Neighbouring vectors of rows make coalesced accesses; the parts occupy all compute units.
    """
    lanes = lanes_of(rows, True)
    vectors = rows.rows // lanes
    found = []
    for together in (4, 16, 64):
        together = min(together, 1 << (vectors - 1).bit_length())
        blocks = ceil_div(vectors, together)
        threads = SPLIT_BLOCK // together
        for times in (1, 2, 4):
            parts = min(times * target.compute_units // blocks, rows.columns // (threads * UNROLL))
            if parts <= 1:
                continue
            schedule = split(rows.columns, lanes, parts, together)
            if not schedule_refusal(rows, schedule, target):
                found.append(schedule)
    return found


def clocks(rows: Rows, schedule: RowSchedule, target: Target, passes: int = 0) -> float:
    """The estimate for a legal schedule. passes: how often all elements are read where no thread
    keeps them; by default for each level of reductions, and for results."""
    issue, simds = target.gpu.issue_clocks, target.gpu.simds
    vectors = rows.rows // schedule.lanes if schedule.across else rows.rows
    blocks = ceil_div(vectors, schedule.together) * schedule.parts
    waves = blocks * schedule.block / target.wave_size
    a_simd = waves / (simds * min(target.compute_units, blocks))
    elements, threads = schedule.chunks * schedule.lanes, schedule.threads
    inside = schedule.inside(target.wave_size)
    passes = 1 if schedule.resident else passes or max(rows.levels.values()) + 1
    work = instructions(rows, schedule, target, passes)

    sizes = sum(element_bytes(o.element) for o in rows.operands) or 1
    run = threads * schedule.lanes if not schedule.across else schedule.together * schedule.lanes
    waste = max(1.0, SEGMENT / (run * sizes / max(1, len(rows.operands))))
    if schedule.across != is_across(rows):
        # Neighbouring lanes read elements that lie apart. Across rows that lie along memory, the
        # threads of a wave that share a row read neighbours nevertheless.
        run = inside if schedule.across else 1
        waste = max(1.0, SEGMENT * max(1, len(rows.operands)) / (run * sizes))
        work += elements * len(rows.operands) * 4
    busy = max(1.0, a_simd) * work * issue
    moved = waste * passes * elements * sizes * target.wave_size
    memory = max(1.0, a_simd * simds) * moved / GLOBAL_BYTES_A_CLOCK

    barriers = len(rows.reductions) * BARRIER * (threads > inside)
    reads = passes * (1 if schedule.resident else ceil_div(schedule.chunks, UNROLL))
    latency = START + GLOBAL_LATENCY * reads + barriers + work * issue
    rounds = max(1.0, a_simd / WAVES_A_SIMD)
    more = 0.0
    if schedule.parts > 1:
        restored = ceil_div(schedule.parts, schedule.threads * UNROLL) * GLOBAL_LATENCY
        more = (LAUNCH + restored) * max(rows.levels.values())
    terms(issue=busy, memory=memory, latency=rounds * latency, launches=more)
    # Issue and memory overlap only in part.
    return max(busy, memory, rounds * latency) + (busy + memory) / 8 + more


def instructions(rows: Rows, schedule: RowSchedule, target: Target, passes: int = 0) -> float:
    """About how many instructions a wave takes for its rows. passes: as above."""
    passes = 1 if schedule.resident else passes or max(rows.levels.values()) + 1
    inside = schedule.inside(target.wave_size)
    work = rows.work + len(rows.operands)
    steps = 2 * math.log2(inside)
    if schedule.across:
        steps = schedule.lanes * (steps + schedule.threads // inside)
    else:
        steps += schedule.lanes + (12 if schedule.threads > inside else 0)
    elements = schedule.chunks * schedule.lanes
    return 40 + elements * work * (1 + passes) / 2 + len(rows.reductions) * steps
