"""How a convolution of an image with channels last is cut: tiles, copies and work items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.cpu.schedule import Machine, idle_share
from mgx_mlir.codegen.cpu.window_copy import Scene, scene_of
from mgx_mlir.codegen.problem.match import Match, mapped
from mgx_mlir.codegen.problem.problem import Axis, Contraction, Matrix
from mgx_mlir.sizes.arithmetic import ceil_div

# Products that a sum adds up in registers, at most about.
DEPTH = 576
# Bytes of the second-level cache that a copy, and the sums of an item, may take.
COPY_BYTES, SUMS_BYTES = 192 << 10, 256 << 10
# Multiply-adds that are worth a work item, and work items that are enough for all threads.
ITEM_MULTIPLY_ADDS, ITEMS = 1 << 19, 16
# Costs in multiply-adds of a vector: an element of the copy in all lanes and a vector of filters,
# a vector that is copied, and a vector of filters that comes from memory.
LOAD_PIXEL, LOAD_FILTER, COPY, STREAM = 0.15, 0.3, 2.0, 4.0
# Multiply-adds in flight that hide their latency.
CHAINS = 8
# Bytes of filters, and pixels that use them, that are worth packing.
PACKED_BYTES, PACKED_PIXELS = 256 << 10, 16
ELEMENTS = frozenset(("f32", "f64", "f16", "bf16"))


@dataclass(frozen=True)
class Pixels:
    """A convolution as this generator takes it: how its image lies, and how its filters do.

    `filters`: [(image, group), filter, (channel, window)], as `Contraction.a`. `c_step` and
    `taps`: the distances in memory of neighbouring channels of a filter, and of rows and columns of
    its window.
    """

    problem: Contraction
    scene: Scene
    filters: Matrix
    c_step: int
    taps: tuple[int, int]


@dataclass(frozen=True)
class PixelSchedule:
    """A register tile has `high` x `wide` pixels by `vectors` vectors of filters.

    A work item has `rows` rows of output and `filters` filters; it copies `chunk` channels at a
    time.
    """

    lanes: int
    high: int
    wide: int
    vectors: int
    chunk: int
    rows: int
    filters: int

    def __str__(self) -> str:
        pixels, filters = f"{self.high}x{self.wide}", self.vectors * self.lanes
        return f"tiles of {pixels} pixels by {filters} filters, {self.chunk} channels at a time"

    def items(self, pixels: Pixels) -> int:
        parts = ceil_div(pixels.scene.outputs[0], self.rows)
        return pixels.problem.batch * parts * ceil_div(pixels.problem.M, self.filters)


def match_pixels(match: Match, machine: Machine) -> Pixels | None:
    """The convolution of a match that this generator takes; None for any other."""
    problem = match.problem
    if match.place is None or problem.a.element not in ELEMENTS:
        return None
    scene = scene_of(problem)
    if scene is None or not isinstance(problem.a, Matrix) or problem.M == 1 or problem.N == 1:
        return None
    if type(problem.a) is not Matrix or not problem.a.row.contiguous(
        machine.lanes(problem.accumulator)
    ):
        return None
    found = _filter_steps(problem.a.column, scene)
    return found and Pixels(problem, scene, problem.a, *found)


def _filter_steps(column: Axis, scene: Scene) -> tuple[int, tuple[int, int]] | None:
    """The distances of channels, and of rows and columns of the window, in a filter's memory."""
    high, wide = scene.window
    sizes = (scene.channels, high, wide)
    places = [high * wide, wide, 1]
    steps = [
        _number(column.offset(place)) if size > 1 else 0
        for size, place in zip(sizes, places, strict=True)
    ]
    if Axis.of(*zip(sizes, steps, strict=True)) != column:
        return None
    return steps[0], (steps[1], steps[2])


def _number(index: Index) -> int:
    assert isinstance(index, int)
    return index


def is_worth_packing(pixels: Pixels) -> bool:
    """Whether filters are so many that tiles read them from far: a vector of each k is a page away
    from the next, of which the processor foresees nothing."""
    problem, element = pixels.problem, emit.element_bytes(pixels.filters.element)
    return problem.M * problem.K * element >= PACKED_BYTES and problem.N >= PACKED_PIXELS


def _groups(pixels: Pixels) -> Axis:
    """The groups of filters that lie apart."""
    return Axis(tuple(factor for factor in pixels.filters.batch.factors if factor[1]))


def filter_vectors(pixels: Pixels, lanes: int) -> int:
    """Vectors of packed filters, of all groups."""
    return _groups(pixels).size * ceil_div(pixels.problem.M, lanes)


def packed_filters(pixels: Pixels, lanes: int) -> Pixels:
    """The convolution with filters [group, vector of filters, (window, channel), lane]."""
    problem, (_, wide) = pixels.problem, pixels.scene.window
    whole = ceil_div(problem.M, lanes) * lanes * problem.K
    factors: list[tuple[int, int]] = []
    for size, stride in reversed(pixels.filters.batch.factors):
        factors.insert(0, (size, whole if stride else 0))
        whole *= size if stride else 1
    channel = pixels.scene.channels * lanes
    # A vector begins at a multiple of lanes, of which each lies K elements from the one before.
    filters = replace(
        pixels.filters, offset=0, batch=Axis(tuple(factors)), row=Axis(((problem.M, problem.K),))
    )
    return replace(pixels, filters=filters, c_step=lanes, taps=(wide * channel, channel))


def pack_vector(
    pixels: Pixels, packed: Pixels, lanes: int, source: ir.Value, target: ir.Value, number: Index
) -> None:
    """Packs one vector of filters."""
    filters, (high, wide) = pixels.filters, pixels.scene.window
    count = ceil_div(pixels.problem.M, lanes)
    first = emit.mul(emit.rem(number, count), lanes)
    start = emit.add(filters.offset, _groups(pixels).offset(emit.div(number, count)))
    start = emit.add(start, filters.row.offset(first))
    to = emit.mul(number, pixels.problem.K * lanes)
    mask = emit.lane_mask(emit.sub(pixels.problem.M, first), lanes)

    def tap(kh: int, kw: int) -> None:
        here = emit.add(start, kh * pixels.taps[0] + kw * pixels.taps[1])
        there = emit.add(to, kh * packed.taps[0] + kw * packed.taps[1])

        def channel(c: Index) -> None:
            x = emit.load_vector(source, emit.linear(here, (c, pixels.c_step)), lanes, mask)
            emit.store_vector(x, target, emit.linear(there, (c, packed.c_step)))

        emit.loop(0, pixels.scene.channels, 1, channel)

    for kh in range(high):
        for kw in range(wide):
            tap(kh, kw)


def as_rows(match: Match) -> Match:
    """The match with rows and columns swapped: its results are [batch, pixel, filter]."""
    problem = match.problem
    sources = mapped(match.sources, Matrix.transposed)
    place = match.place and match.place.transposed()
    swapped = replace(problem, M=problem.N, N=problem.M)
    return replace(match, problem=swapped, sources=sources, place=place)


# Schedule ------------------------------------------------------------------------------------


def choose_pixels(pixels: Pixels, machine: Machine) -> PixelSchedule:
    """The schedule of the least estimated cost."""
    problem, scene = pixels.problem, pixels.scene
    lanes = machine.lanes(problem.accumulator)
    high = scene.outputs[0]
    _, tile = _least_tile(pixels, machine)
    chunks = ceil_div(problem.K, DEPTH)
    chunk = min(scene.channels, ceil_div(ceil_div(scene.channels, chunks), lanes) * lanes)
    element = emit.element_bytes(problem.accumulator)
    most = high
    while most > tile[0] and scene.copied(most, chunk) * element > COPY_BYTES:
        most -= 1
    best = None
    for parts in range(ceil_div(high, most), high + 1):
        rows = ceil_div(high, parts)
        for filters in _filter_parts(problem.M, tile[2] * lanes):
            plan = PixelSchedule(lanes, *tile, chunk, rows, filters)
            cost = _item_cost(pixels, plan, element)
            if best is None or cost < best[0]:
                best = cost, plan
    assert best is not None
    return best[1]


def least_tile_cost(pixels: Pixels, machine: Machine) -> float:
    """Estimated work of all tiles, in multiply-adds of vectors for each k."""
    return _least_tile(pixels, machine)[0]


def _least_tile(pixels: Pixels, machine: Machine) -> tuple[float, tuple[int, int, int]]:
    lanes = machine.lanes(pixels.problem.accumulator)
    return min(
        (_tile_cost(pixels, lanes, *tile), tile) for tile in _tiles(pixels.scene, machine.registers)
    )


def _tiles(scene: Scene, registers: int) -> Iterator[tuple[int, int, int]]:
    """Register tiles: rows and columns of pixels, and vectors."""
    high, wide = scene.outputs
    for vectors in range(1, 5):
        most = (registers - 1 - vectors) // vectors
        for parts in range(ceil_div(wide, most), min(wide, ceil_div(wide, most) + 1) + 1):
            columns = ceil_div(wide, parts)
            for rows in {1, max(1, min(high, most // wide)) if parts == 1 else 1}:
                yield rows, columns, vectors


def _tile_cost(pixels: Pixels, lanes: int, high: int, wide: int, vectors: int) -> float:
    """Estimated work of all tiles, in multiply-adds of vectors for each k."""
    rows, columns = pixels.scene.outputs

    def tile(count: int, width: int) -> float:
        work = max(count * width, CHAINS)
        return work + count * LOAD_PIXEL + width * LOAD_FILTER

    def blocks(width: int) -> float:
        total = 0.0
        for size, count in parts_of(columns, wide):
            whole, rest = divmod(rows, high)
            total += count * (whole * tile(high * size, width) + rest * tile(size, width))
        return total

    whole, rest = divmod(ceil_div(pixels.problem.M, lanes), vectors)
    return whole * blocks(vectors) + (blocks(rest) if rest else 0)


def parts_of(size: int, most: int) -> list[tuple[int, int]]:
    """Equal parts of a size, of at most `most`: (size of a part, number of such parts)."""
    count = ceil_div(size, most)
    part, more = divmod(size, count)
    return [(n, times) for n, times in ((part + 1, more), (part, count - more)) if times]


def _filter_parts(filters: int, tile: int) -> Iterator[int]:
    tiles = ceil_div(filters, tile)
    for parts in sorted({min(tiles, n) for n in (1, 2, 4, 8, 16)}):
        yield ceil_div(tiles, parts) * tile


def _item_cost(pixels: Pixels, plan: PixelSchedule, element: int) -> tuple[float, ...]:
    """The cost of a cut into items: too much memory, few or small items, work."""
    problem, scene, lanes = pixels.problem, pixels.scene, plan.lanes
    items = plan.items(pixels)
    width = scene.outputs[1]
    sums = plan.rows * width * ceil_div(plan.filters, lanes) * lanes * element
    over = sums > SUMS_BYTES and plan.chunk < scene.channels
    total = problem.batch * problem.M * problem.N * problem.K
    enough = max(1, min(ITEMS, total // ITEM_MULTIPLY_ADDS))
    idle = total / lanes * idle_share(items, enough)
    chunks = ceil_div(scene.channels, plan.chunk)
    copies = items * chunks * ceil_div(scene.copied(plan.rows, plan.chunk), lanes) * COPY
    rest = plan.rows % plan.high
    tiles = ceil_div(scene.outputs[0], plan.rows) * rest * plan.wide * 8.0
    streamed = items * ceil_div(plan.filters, lanes) * problem.K * STREAM
    small = max(0.0, 64.0 - total / lanes / items / 100) * items
    return float(over), idle + copies + tiles + streamed + small
