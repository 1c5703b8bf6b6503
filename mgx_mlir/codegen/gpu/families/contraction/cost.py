"""Estimates the clocks of a matrix product on a chip, from sizes alone.

A compute unit is bound by the slowest of its matrix cores, its LDS and its path to the caches,
or by latency where it holds too few work-groups. LDS gives 128 bytes a clock; the rate of the L2
cache, which all units share, is a fact of the architecture (`artifact.architecture`). Latencies are
orders of magnitude. Only the order of the estimates matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import cast

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.choice import least, terms
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.contraction import finish
from mgx_mlir.codegen.gpu.families.contraction.blocks import in_halves
from mgx_mlir.codegen.gpu.families.contraction.constraints import (
    besides,
    buffers,
    registers,
    schedule_refusal,
)
from mgx_mlir.codegen.gpu.families.contraction.expanding import source_of
from mgx_mlir.codegen.gpu.families.contraction.function import WorkGroups
from mgx_mlir.codegen.gpu.families.contraction.scaling import Scaled
from mgx_mlir.codegen.gpu.families.contraction.sources import Source, Strided, Windowed
from mgx_mlir.codegen.gpu.families.contraction.space import (
    BUFFERS,
    MOST_TERMS,
    ProductSchedule,
    schedules,
    split,
    splits,
)
from mgx_mlir.codegen.gpu.families.contraction.tile import transposed_block
from mgx_mlir.codegen.problem.problem import Computed, Contraction, Image, Matrix
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.prologues import QUANTIZING
from mgx_mlir.sizes.arithmetic import ceil_div

GLOBAL_LATENCY = 600
# Clocks until a wave has what it reads from LDS: it waits once for each step of a tile.
LDS_LATENCY = 64
# Clocks between two instructions of one wave.
ISSUE_CLOCKS = 4
# Instructions of a wave for a tile besides reads, writes and products: waits, offsets, the barrier.
TILE_WORK = 8
# Clocks to start a work-group and fill its pipeline, where nothing else runs beside it.
BLOCK_LATENCY = 1500
# Clocks of the start's own instructions, which other work-groups cannot hide.
BLOCK_CLOCKS = 300
# Clocks between two functions.
LAUNCH_CLOCKS = 2000
# Clocks until a work-group's first tile is in LDS, beside the way of its bytes.
START_LATENCY = 800
# So many times as long take writes to LDS of less than 8 bytes a lane: they meet in banks.
NARROW = 3
# Clocks that split-K has to gain: where estimates are about the same, no scratch memory is better.
_MARGIN = 60
# Elements that a compute unit's vector units process in a clock.
LANES_A_CLOCK = 64
LDS_BYTES_A_CLOCK = 128
# A line of the cache: a compute unit loads or stores so many bytes in a clock.
LINE_BYTES = 64
# Waves that a SIMD holds at a time, of those that need few registers.
WAVES_A_SIMD = 8


def together(*clocks: float, power: float = 4) -> float:
    """The clocks of parts that overlap, but imperfectly: the better, the higher the power."""
    total: float = sum(x**power for x in clocks) ** (1 / power)
    return total


@dataclass(frozen=True)
class Way:
    """How a work-group's threads bring an operand to LDS.

    turned: whether they transpose it, for which an element takes an instruction. width: of reads
    from memory, in elements.
    """

    turned: bool
    width: int

    def _block(self, unit: Unit, elements: int) -> tuple[int, int]:
        """How many k's and rows a thread transposes at a time, of its `elements` of a tile."""
        return transposed_block(unit.chunk, self.width, elements, emit.element_bytes(unit.element))

    def narrow(self, unit: Unit, elements: int) -> bool:
        """Whether writes have less than 8 bytes, of a thread's `elements` of a tile."""
        run, _ = self._block(unit, elements)
        return self.turned and run * emit.element_bytes(unit.element) < 8

    def lines(self, unit: Unit, extent: int, threads: int, lanes: int) -> float:
        """Cache lines that all reads of `extent` rows of a tile touch; each takes a clock."""
        if not self.turned:
            # Lanes along a row read it together, in parts that are not wider than a chunk.
            return extent * unit.row_bytes / LINE_BYTES * max(1, unit.chunk // self.width)
        elements = extent * unit.tile_depth // threads
        run, across = self._block(unit, elements)
        # So many lanes read from one row of the matrix each; the others continue these rows.
        rows = min(unit.tile_depth // run, lanes)
        together = lanes // rows * across * emit.element_bytes(unit.element)
        reads = extent * unit.tile_depth / (lanes * across)
        return reads * rows * max(1, together / LINE_BYTES)


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
        # A step's reads are on their way while the one before is done.
        waits = rounds * GLOBAL_LATENCY / 2
        step = max(a_unit * together(memory, vector), waits)
        start = max(rounds * START_LATENCY, a_unit * BLOCK_CLOCKS)
        return self.steps * step + start


def packing_clocks(packed: int, target: Target) -> float:
    """The estimate for a function that writes `packed` bytes of operands, and reads as many.

    It turns them, and takes twice as long as a copy.
    """
    rate = target.gpu.l2_bytes_a_clock * target.compute_units
    return LAUNCH_CLOCKS + BLOCK_LATENCY + 2 * 2 * packed / rate if packed else 0


def choose(
    terms: Sequence[Contraction],
    unit: Unit,
    target: Target,
    epilogue: int = 0,
    cut: bool = True,
    ending: Callable[[ProductSchedule], float] = lambda _: 0,
    near: bool = False,
    fills: Sequence[int] = (),
) -> ProductSchedule | None:
    """The legal schedule with the least estimate; the first of several equal ones.

    The sums of all terms are added; their sizes are equal but for K. `epilogue`: instructions for
    an element. cut: with schedules of split-K. ending: the clocks of what follows the product.
    near: with the shortest prefetch distances, whose code is the shortest. fills: with schedules
    whose split-K a run decides, of so many work-groups.
    """
    size, depth = emit.element_bytes(terms[0].a.element), unit.tile_depth
    parts = [ceil_div(term.K, depth) for term in terms]
    problem = replace(terms[0], K=sum(parts) * depth) if len(terms) > 1 else terms[0]
    operands = [_sources(term, depth) for term in terms]
    first, second = (
        min(source.width(CHUNK_BYTES // size) for source in sources)
        for sources in zip(*operands, strict=True)
    )
    ways = [
        Way(any(not source.along_k for source in sources), width)
        for sources, width in zip(zip(*operands, strict=True), (first, second), strict=True)
    ]
    of_product = Estimate(problem, unit, target, tuple(ways), epilogue)

    def estimate(schedule: ProductSchedule) -> float:
        return of_product(schedule) + ending(schedule)

    def words(schedule: ProductSchedule) -> str:
        return schedule.describe(unit)

    transposed = max(sum(not source.along_k for source in sources) for sources in operands)
    more = besides(unit, [source.element for sources in operands for source in sources], transposed)
    legal = _legal(unit, target, (first, second), more, near)
    candidates = list(legal)
    if candidates and cut:
        tiles = math.gcd(*parts)
        counts = list(splits(tiles))
        candidates += _straight(terms, operands, unit, target, fills)
        for s in legal:
            blocks = ceil_div(problem.M, s.rows(unit)) * ceil_div(problem.N, s.columns(unit))
            if fills and len(terms) == 1 and tiles % s.turn == 0:
                of_run = (replace(s, fill=n) for n in fills)
                candidates += [x for x in of_run if x.cut(tiles, blocks * problem.batch) != 1]
                continue
            room = 2 * target.compute_units // (blocks * problem.batch)
            candidates += [split(s, n) for n in counts if room // 4 < n <= room]
    best = least(candidates, estimate, words, of_product.bound)
    if best is None or not cut:
        return best
    most = MOST_TERMS * max(1, best.waves_k)
    if problem.accumulator != "f32" or most * best.splits >= problem.K:
        return best
    # As many parts as a precise sum needs, or as there may be: of the steps of this schedule.
    counts = list(splits(math.gcd(*(ceil_div(term.K, best.depth(unit)) for term in terms))))
    enough = next((n for n in counts if most * n >= problem.K), max(counts, default=1))
    return replace(best, splits=max(best.splits, enough), fill=0)


@cache  # one enumeration for the many products of a model
def _legal(
    unit: Unit, target: Target, widths: tuple[int, int], more: int, near: bool
) -> tuple[ProductSchedule, ...]:
    """The legal schedules without split-K, in a fixed order (see constraints.schedule_refusal).

    Schedules of one shape differ only in prefetch distance: the longest one, or with `near` the
    shortest."""
    found: dict[ProductSchedule, ProductSchedule] = {}
    for s in schedules(unit.kind):
        if not schedule_refusal(s, unit, target, widths, more):
            shape = replace(s, prefetch=1)
            found[shape] = s if near else found.get(shape, s)
    return tuple(found.values())


# Waves that share k, the most first; tiles of a wave along rows, and along columns; distances.
_SHARING = (8, 4)
_FEW_TILES = (1, 2, 3, 4)
_FAR = (8, 6, 4, 3, 2)
# Registers of a wave's sums and fragments, at most: two waves a SIMD.
_STRAIGHT_REGISTERS = 200


def _straight(
    terms: Sequence[Contraction],
    operands: Sequence[tuple[Source, Source]],
    unit: Unit,
    target: Target,
    fills: Sequence[int],
) -> Iterator[ProductSchedule]:
    """The legal schedules whose waves share k and read fragments without LDS."""
    read = [source for sources in operands for source in sources]
    if unit.kind == "fma" or unit.scaled or not all(
        type(x) in (Strided, Windowed) and x.along_k and x.element == unit.element
        and x.width(unit.chunk) == unit.chunk for x in read
    ):  # fmt: skip
        return
    first, most = terms[0], _STRAIGHT_REGISTERS * target.register_share
    for waves_k, tiles_m, tiles_n in product(_SHARING, _FEW_TILES, _FEW_TILES):
        sums, fragments = tiles_m * tiles_n * unit.sums, (tiles_m + tiles_n) * unit.fragment
        distance = next((n for n in _FAR if sums + n * fragments <= most), 0)
        own = ProductSchedule(1, 1, tiles_m, tiles_n, distance, waves_k=waves_k)
        depth = own.step(unit)
        lds = waves_k * own.rows(unit) * own.columns(unit) * emit.element_bytes(unit.accumulator)
        whole = all(isinstance(x.K, int) and x.K % depth == 0 for x in terms)
        windows = any(isinstance(x, Windowed) and x.matrix.run % depth for x in read)
        if not distance or not whole or windows or lds > target.lds_bytes:
            continue
        blocks = ceil_div(first.M, own.rows(unit)) * ceil_div(first.N, own.columns(unit))
        room = 2 * target.compute_units // (blocks * first.batch)
        steps = math.gcd(*(x.K // depth for x in terms))
        yield own
        if fills and len(terms) == 1:
            turns = [n for n in _FAR if n <= distance and steps % n == 0][:2]
            of_run = (replace(own, prefetch=n, fill=fill) for n in turns for fill in fills)
            yield from (x for x in of_run if x.cut(steps, blocks * first.batch) != 1)
            continue
        yield from (split(own, n) for n in splits(steps) if n <= room)


def _sources(problem: Contraction, depth: int) -> tuple[Source, Source]:
    """The sources of A and B."""
    assert isinstance(problem.b, Matrix)
    return (
        source_of(problem.a, False, problem.K, depth),
        source_of(problem.b, True, problem.K, depth),
    )


def clocks(
    problem: Contraction,
    schedule: ProductSchedule,
    unit: Unit,
    target: Target,
    epilogue: int = 0,
    cached: bool = False,
) -> float:
    """The estimate for a legal schedule, in clocks. epilogue: its instructions for an element.
    cached: operands are in the last cache."""
    estimate = Estimate(problem, unit, target, None, epilogue)
    estimate.footprints *= not cached
    return estimate(schedule)


class Estimate:
    """The estimates of a problem's legal schedules; `ways`: those of A and of B, where known."""

    def __init__(
        self,
        problem: Contraction,
        unit: Unit,
        target: Target,
        ways: tuple[Way, ...] | None,
        epilogue: int,
    ) -> None:
        self.problem, self.unit, self.target, self.epilogue = problem, unit, target, epilogue
        self.ways = ways or tuple(
            Way(not x.along_k, x.width(unit.chunk)) for x in _sources(problem, unit.tile_depth)
        )
        self.tile = _tiles(unit, target, self.ways)
        operands = problem.a, problem.b
        decoded = {element for element in emit.BYTE_FLOATS if element != unit.element}
        self.work = [operations(x) + DECODING * (x.element in decoded) for x in operands]
        self.footprints = sum(map(_footprint, operands)) / target.memory_bytes_a_clock
        self.l2_bytes = target.gpu.l2_bytes_a_clock * target.compute_units  # in a clock

    def roof(self, schedule: ProductSchedule, tiles: int) -> float:
        """Clocks in which operands, and the partial sums of split-K, pass the memory, each once, or
        in which the L2 cache, at the rate of all units together, gives the work-groups of so many
        tiles what they read."""
        unit, splits = self.unit, schedule.splits
        partial = self._partial(splits) if splits > 1 else 0
        extents = schedule.rows(unit) + schedule.columns(unit)
        read = tiles * extents * self.problem.K * unit.row_bytes / unit.tile_depth
        return max(self.footprints + partial, read / self.l2_bytes)

    def _partial(self, splits: int) -> float:
        """Clocks in which the partial sums are written, or read: they stay in the last cache if
        they take at most half of it, beside operands."""
        problem, target = self.problem, self.target
        sums = splits * problem.batch * problem.M * problem.N
        moved = sums * emit.element_bytes(problem.accumulator)
        cached = 2 * moved <= target.cache_bytes
        return moved / (target.cache_bytes_a_clock if cached else target.memory_bytes_a_clock)

    def _adding(self, schedule: ProductSchedule, tiles: int) -> float:
        """Clocks of the last waves of `tiles` tiles, which add the partial sums of split-K (see
        finish): they write theirs, count, and read all."""
        target, splits = self.target, schedule.splits
        size = schedule.rows(self.unit) * schedule.columns(self.unit)
        size *= emit.element_bytes(self.problem.accumulator)
        vectors = ceil_div(size, schedule.waves * target.wave_size * CHUNK_BYTES)
        waits = 1 + splits // finish.most_together(splits, vectors)
        path = ceil_div(tiles, target.compute_units) * splits * size / LINE_BYTES
        reading = max(path, tiles * splits * size / self.l2_bytes, self._partial(splits))
        return _MARGIN + waits * GLOBAL_LATENCY + reading

    def __call__(self, schedule: ProductSchedule) -> float:
        schedule = self._of_run(schedule)
        steps = self._steps(schedule)
        if schedule.waves_k:
            return self._straight(schedule, *steps)
        return self._clocks(schedule, self.tile(schedule), *steps)

    def bound(self, schedule: ProductSchedule) -> float:
        """A number that the estimate is not below, which takes a fraction of its time."""
        schedule = self._of_run(schedule)
        unit, splits, (blocks, a_unit, tiles) = self.unit, schedule.splits, self._steps(schedule)
        results = schedule.rows(unit) * schedule.columns(unit)
        if schedule.waves_k:
            matrix = 2 * results * schedule.step(unit) / unit.flops
            work = tiles * max(a_unit * matrix, GLOBAL_LATENCY / schedule.prefetch) + START_LATENCY
        else:
            tile = self.tile(schedule)
            rounds = ceil_div(a_unit, tile.held(tiles, a_unit))
            first = START_LATENCY + min(tiles, schedule.prefetch) * ISSUE_CLOCKS * tile.issued
            work = tiles * max(a_unit * tile.busy, rounds * tile.alone) + rounds * first
        results *= ceil_div(blocks // splits, self.target.compute_units)
        work += self.epilogue * results / LANES_A_CLOCK
        size = emit.element_bytes(self.problem.accumulator)
        adding = GLOBAL_LATENCY + splits * results * size / LINE_BYTES if splits > 1 else 0
        return max(work, self.footprints) + adding

    def _steps(self, schedule: ProductSchedule) -> tuple[int, int, int]:
        """A schedule's work-groups, those of a compute unit, and the tiles along k of each."""
        blocks = self._across(schedule) * schedule.splits
        tiles = ceil_div(ceil_div(self.problem.K, schedule.depth(self.unit)), schedule.splits)
        return blocks, ceil_div(blocks, self.target.compute_units), tiles

    def _across(self, schedule: ProductSchedule) -> int:
        """Tiles of C."""
        problem, unit = self.problem, self.unit
        across = ceil_div(problem.M, schedule.rows(unit)) * problem.batch
        return across * ceil_div(problem.N, schedule.columns(unit))

    def _of_run(self, schedule: ProductSchedule) -> ProductSchedule:
        """The schedule with the factor of split-K that a run of the problem has."""
        if not schedule.fill:
            return schedule
        steps = ceil_div(self.problem.K, schedule.depth(self.unit))
        parts = schedule.cut(steps, self._across(schedule))
        return replace(schedule, splits=cast(int, parts), fill=0)

    def _clocks(
        self, schedule: ProductSchedule, tile: _Tile, blocks: int, a_unit: int, tiles: int
    ) -> float:
        """Of a schedule whose work-groups have so many tiles along k."""
        unit, target = self.unit, self.target
        # One wave keeps one of a compute unit's SIMDs busy.
        held, simds = tile.held(tiles, a_unit), target.gpu.simds
        waves = schedule.waves * held
        uneven = simds * ceil_div(waves, simds) / waves
        matrix, lds, memory = tile.matrix, tile.read + tile.written, tile.lines + tile.scales
        vector = sum(
            extent * unit.tile_depth * work / LANES_A_CLOCK
            for extent, work in zip((tile.rows, tile.columns), self.work, strict=True)
        )
        busy = together(matrix * uneven, lds, memory, vector * uneven, power=_power(unit))
        alone = _alone(tile, schedule, unit, target, vector)
        rounds = ceil_div(a_unit, held)
        # Work-groups that a unit holds at a time overlap nearly.
        whole = a_unit * busy, rounds * alone
        loop = tiles * (max(whole) if held == 1 else together(*whole, power=6))
        # The first tiles are read before any product.
        first = min(tiles, schedule.prefetch + BUFFERS)
        start = rounds * START_LATENCY + first * together(
            rounds * ISSUE_CLOCKS * tile.issued, a_unit * memory / 2
        )
        each = a_unit * tiles
        parts = {"matrix": each * matrix, "lds": each * lds, "memory": each * memory}
        if vector:
            parts["vector"] = each * vector
        uneven = max(uneven, ISSUE_CLOCKS / waves)
        return self._whole(schedule, blocks, uneven, loop, start, parts)

    def _straight(self, schedule: ProductSchedule, blocks: int, a_unit: int, steps: int) -> float:
        """Of a schedule whose waves share k, of so many work-groups with so many steps."""
        unit, target = self.unit, self.target
        waves, simds = schedule.waves_k, target.gpu.simds
        rows, columns, depth = schedule.rows(unit), schedule.columns(unit), schedule.step(unit)
        fragments = schedule.prefetch * (schedule.tiles_m + schedule.tiles_n) * unit.fragment
        registers = schedule.tiles_m * schedule.tiles_n * unit.sums + fragments + 24
        held = target.gpu.lane_vgprs // registers * simds // waves
        lds = waves * rows * columns * emit.element_bytes(unit.accumulator)
        held = max(1, min(held, target.lds_bytes // lds, a_unit))
        rounds = ceil_div(a_unit, held)
        # Each read touches a line of the cache for each of its rows.
        lines = max(unit.lane_chunks, unit.step_chunks * CHUNK_BYTES / LINE_BYTES)
        memory = (rows + columns) * waves * lines
        matrix = 2 * rows * columns * depth / unit.flops
        reads = (schedule.tiles_m + schedule.tiles_n) * unit.lane_chunks
        products = schedule.tiles_m * schedule.tiles_n * depth / waves / unit.depth
        uneven = simds * ceil_div(waves * held, simds) / (waves * held)
        busy = together(matrix * uneven, 0, memory, 0, 0, 0)
        # Where all waves of a work-group wait for what they read, nothing multiplies meanwhile.
        alone = together(
            matrix * ceil_div(waves, simds) * simds / waves, memory,
            ISSUE_CLOCKS * (products + 2 * reads), GLOBAL_LATENCY / schedule.prefetch,
            power=4 if unit.kind == "mfma" and rounds == 1 else 2,
        )  # fmt: skip
        loop = steps * max(a_unit * busy, rounds * alone)
        own, each = schedule.results(), a_unit * steps
        # Few waves add the sums, and have the results: each issues one instruction in 4 clocks.
        fewer = max(1, ISSUE_CLOCKS / own.waves)
        ending = (1 + fewer) * lds / LDS_BYTES_A_CLOCK + 3 * LDS_LATENCY
        start = rounds * START_LATENCY + a_unit * ending
        parts = {"matrix": each * matrix, "lds": a_unit * ending, "memory": each * memory}
        return self._whole(own, blocks, fewer, loop, start, parts)

    def _whole(
        self,
        schedule: ProductSchedule,
        blocks: int,
        uneven: float,
        loop: float,
        start: float,
        parts: dict[str, float],
    ) -> float:
        """The estimate of the loop of all work-groups with what follows it; `parts` are its terms.

        uneven: so many times as long takes the epilogue, which one of the work-groups of a tile
        has.
        """
        unit, target, splits = self.unit, self.target, schedule.splits
        done, size = blocks // splits, schedule.rows(unit) * schedule.columns(unit)
        results = ceil_div(done, target.compute_units) * size
        stored = self.epilogue * results * uneven / LANES_A_CLOCK
        roof = self.roof(schedule, done)
        adding = self._adding(schedule, done) if splits > 1 else 0.0
        if stored:
            parts["epilogue"] = stored
        terms(**parts, loop=loop, start=start, roof=roof, adding=adding)
        work = loop + start + stored
        # The work and the memory overlap, but not quite.
        return max(work, roof) + min(work, roof) / 16 + adding


@dataclass(frozen=True)
class _Tile:
    """What estimates take of a schedule, whatever the sizes: of a work-group's tile.

    Clocks of LDS for the reads and for the writes, of matrix cores, and of lines and scales that
    are read from caches; a wave's instructions; the work-groups that a compute unit has the
    registers for, and the LDS for with one buffer, and with more; and the least clocks of a tile
    along k, of one of many work-groups and of one alone.
    """

    rows: int
    columns: int
    read: float
    written: float
    matrix: float
    lines: float
    scales: int
    issued: float
    roomy: bool
    by_registers: int
    by_lds: tuple[int, ...]
    busy: float
    alone: float

    def held(self, tiles: int, wanted: int) -> int:
        """Work-groups that a compute unit holds at a time (its occupancy), of those it gets."""
        return max(1, min(self.by_lds[buffers(tiles) - 1], self.by_registers, wanted))


@cache  # one for the many products of a model
def _tiles(unit: Unit, target: Target, ways: tuple[Way, ...]) -> Callable[[ProductSchedule], _Tile]:
    return cache(partial(_tile, unit, target, ways))


def _tile(unit: Unit, target: Target, ways: tuple[Way, ...], schedule: ProductSchedule) -> _Tile:
    rows, columns = schedule.rows(unit), schedule.columns(unit)
    extents = schedule.held(unit, target.wave_size)
    threads = schedule.waves * target.wave_size
    # Lanes that hold the same elements read them twice.
    same = max(1, unit.lanes // (unit.rows * unit.groups))
    fragments = schedule.tiles_m * unit.rows + schedule.tiles_n * unit.columns
    # 64 banks read twice as much in a clock as 32, and write no more.
    a_clock = LDS_BYTES_A_CLOCK * unit.banks // 32
    read = schedule.waves * same * fragments * unit.row_bytes / a_clock
    products = schedule.tiles_m * schedule.tiles_n * unit.tile_depth / unit.depth
    work = TILE_WORK + products + same * fragments * unit.row_bytes / CHUNK_BYTES / unit.lanes
    written = 0.0
    for extent, way in zip(extents, ways, strict=True):
        elements = extent * unit.tile_depth // threads
        work += 2 * elements / unit.chunk + (elements if way.turned else 0)
        slow = NARROW if way.narrow(unit, elements) else 1
        written += slow * extent * unit.row_bytes / LDS_BYTES_A_CLOCK
    lines = sum(
        way.lines(unit, extent, threads, target.wave_size)
        for extent, way in zip(extents, ways, strict=True)
    )
    # Each wave reads one byte for every row and every column of scales: a cache line each.
    scales = schedule.waves * fragments if unit.scaled else 0
    waves = target.gpu.lane_vgprs // registers(schedule, unit, target) * target.gpu.simds
    lds = [target.lds_bytes // (n * sum(extents) * unit.row_bytes) for n in range(1, BUFFERS + 1)]
    matrix = 2 * rows * columns * unit.tile_depth / unit.flops
    tile = _Tile(
        rows, columns, read, written, matrix, lines, scales, work, schedule.roomy(unit),
        waves // schedule.waves, tuple(lds), 0, 0,
    )  # fmt: skip
    busy = together(matrix, read + written, lines + scales, power=_power(unit))
    return replace(tile, busy=busy, alone=_alone(tile, schedule, unit, target))


def _power(unit: Unit) -> float:
    """Vector instructions that multiply overlap little with those that move operands."""
    return 1.5 if unit.kind == "fma" else 4


def _alone(
    tile: _Tile, schedule: ProductSchedule, unit: Unit, target: Target, vector: float = 0
) -> float:
    """Clocks of a tile along k for a work-group alone: a wave waits for its own instructions and
    for LDS; without room for the fragments of two steps, it multiplies nothing meanwhile, unless
    another wave of its SIMD does."""
    steps, simds = unit.row_chunks // unit.step_chunks, target.gpu.simds
    converting = vector * LANES_A_CLOCK / (schedule.waves * target.wave_size)
    turns = ceil_div(schedule.waves, simds) * simds / schedule.waves
    return together(
        tile.matrix * turns + (0 if tile.roomy or schedule.waves > simds else tile.read),
        tile.read + tile.written + (steps + 1) * LDS_LATENCY,
        tile.lines + tile.scales,
        vector * turns,
        ISSUE_CLOCKS * (tile.issued + converting),
        GLOBAL_LATENCY / schedule.prefetch,
        power=_power(unit),
    )


def _footprint(operand: Matrix | Image) -> float:
    """Bytes of memory that an operand's elements take; those of overlapping windows count once."""
    if isinstance(operand, Computed):
        return sum(_footprint(read.matrix) / read.per_byte for read in operand.tensors)
    assert isinstance(operand, Matrix)
    factors = [f for axis in (operand.batch, operand.row, operand.column) for f in axis.factors]
    count = math.prod(size for size, stride in factors if stride)
    span = 1 + sum((size - 1) * abs(stride) for size, stride in factors)
    return min(count, span) * emit.element_bytes(operand.element)


def operations(operand: Matrix | Image) -> float:
    """Vector instructions that an element of a computed operand takes on its way to LDS."""
    if not isinstance(operand, Computed) or isinstance(operand, Scaled):
        return 0
    free = (mgx.ConstantOp, mgx.ConvertOp, mgx.YieldOp)
    body = operand.op.regions[0].blocks[0].operations
    work = sum(QUANTIZING if isinstance(op, mgx.QuantizelinearOp) else 1
               for op in body if not isinstance(op, free))  # fmt: skip
    if in_halves(operand, 8):
        return (work + 3) / 2  # two numbers an instruction; bytes, bits and the number itself
    return work + 1 + (2 if any(read.per_byte > 1 for read in operand.tensors) else 0)


# Vector instructions that make a wider float of 8 bits, where the chip has none for it.
DECODING = 4
