"""Convolutions of one channel a group with channels last: each thread has neighbouring channels.

A thread computes its channels of some neighbouring pixels, whose windows overlap. It reads each
pixel that the windows share once, as one vector, and the filter's elements of its channels.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.families.contraction.convolution import split
from mgx_mlir.codegen.gpu.families.contraction.cost import GLOBAL_LATENCY
from mgx_mlir.codegen.gpu.families.contraction.direct import Dimension, dimensions, offsets
from mgx_mlir.codegen.problem.match import Match, Operand, Source
from mgx_mlir.codegen.problem.problem import Axis, Image, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import ceil_div

# Channels that a thread may have, and its pixels along a dimension.
_LANES, _SIDES = (8, 4, 2), (8, 4, 2, 1)
THREADS = 256
# Multiply-adds of a thread, each of which is an instruction, and its registers, about.
_MOST_WORK, _MOST_REGISTERS = 3200, 128
# Registers for values on their way from memory.
_MOST_WAITING = 80


@dataclass(frozen=True)
class DepthwiseSchedule:
    """A thread has `lanes` channels of `rows` x `width` pixels; a work-group has `threads`.

    `mixed`: instructions multiply f16 and add to f32. Otherwise all values become f32 first,
    which is less work where a chip multiplies two at a time and pixels have several users.
    """

    lanes: int
    rows: int
    width: int
    mixed: bool = False
    threads: int = 64

    def describe(self) -> str:
        """For people."""
        return f"{self.lanes} channels of {self.rows}x{self.width} pixels a thread"


@dataclass(frozen=True)
class Depthwise:
    """The convolution as matrices [image, pixel, channel].

    `match`: its sizes, sources and place are those of these matrices; its operands are the fields
    here. `image.batch` counts images, `channel` their channels. `filter`: [-, tap, channel].
    `geometry`: the spatial dimensions, two at least.
    """

    match: Match
    image: Image
    channel: Axis
    filter: Matrix
    geometry: tuple[Dimension, ...]

    @property
    def lanes(self) -> int:
        """The most channels of a thread: as many as one access takes."""
        size = emit.element_bytes(self.image.element)
        return math.gcd(self.match.problem.N, min(_LANES[0], CHUNK_BYTES // size))

    def counts(self, schedule: DepthwiseSchedule) -> tuple[int, ...]:
        """Threads along each dimension, then those along channels."""
        *outer, rows, width = (dim[2] for dim in self.geometry)
        return (
            *outer,
            ceil_div(rows, schedule.rows),
            ceil_div(width, schedule.width),
            self.match.problem.N // schedule.lanes,
        )

    def threads(self, schedule: DepthwiseSchedule) -> int:
        """All threads that have work."""
        return self.match.problem.batch * math.prod(self.counts(schedule))


def as_depthwise(match: Match) -> Depthwise | Refusal:
    """A match that `direct` does not refuse, as matrices [image, pixel, channel].

    A Refusal where its channels are not last, or not read as vectors.
    """
    problem, image, a = match.problem, match.problem.b, match.problem.a
    assert isinstance(image, Image)
    pixels = math.prod(image.outputs)
    channels = match.place.column.stride if match.place is not None else None
    if not channels:
        return Refusal("channels that are not last")
    if problem.M != 1 or pixels == 1:
        return Refusal(f"{problem.M} filters a channel, {pixels} pixels")
    count = problem.batch // channels
    images, channel = split(image.batch, count)
    taps = Matrix(a.argument, a.element, a.offset, Axis(()), a.column, split(a.batch, count)[1])
    sources: list[Source] = []
    for source in match.sources:
        if isinstance(source, Operand):
            batch, column = split(source.batch, count)
            source = replace(source, batch=batch, row=source.column, column=column)
        sources.append(source)
    place = Matrix(
        0, "", 0, Axis.of((count, pixels * channels)), Axis.of((pixels, channels)),
        Axis.of((channels, 1)),
    )  # fmt: skip
    transposed = replace(
        match,
        problem=replace(problem, batch=count, M=pixels, N=channels),
        sources=tuple(sources),
        place=place,
    )
    found = Depthwise(transposed, replace(image, batch=images), channel, taps, dimensions(image))
    return found if found.lanes > 1 else Refusal("channels that no vector divides")


def choose(depthwise: Depthwise, target: Target) -> DepthwiseSchedule:
    """The schedule with the least estimate; of equal ones that of the most pixels."""
    found = []
    height, width = (dim[2] for dim in depthwise.geometry[-2:])
    mixed = (True, False) if depthwise.image.element == "f16" else (False,)
    for lanes, rows, columns, mix in itertools.product(_LANES, _SIDES, _SIDES, mixed):
        if depthwise.lanes % lanes or rows >= 2 * height or columns >= 2 * width:
            continue
        schedule = DepthwiseSchedule(lanes, rows, columns, mix)
        if depthwise.threads(schedule) >= THREADS * target.compute_units:
            schedule = replace(schedule, threads=THREADS)
        if rows * columns == 1 or _fits(depthwise, schedule, target):
            found.append(schedule)
    return min(found, key=lambda schedule: _clocks(depthwise, schedule, target))


@dataclass(frozen=True)
class Step:
    """A row of pixels: its offset in the windows, and the rows of results and filters it meets.

    `users`: each a row of results, and the number of the first tap.
    """

    plane: tuple[int, ...]
    row: int
    users: tuple[tuple[int, int], ...]


def steps(depthwise: Depthwise, schedule: DepthwiseSchedule) -> list[Step]:
    *outer, (_, _, _, window, step, dilation, _), (_, _, _, taps, _, _, _) = depthwise.geometry
    found = []
    for number, plane in enumerate(offsets(outer)):
        for row in range((schedule.rows - 1) * step + (window - 1) * dilation + 1):
            users = tuple(
                (i, (number * window + r) * taps)
                for i in range(schedule.rows)
                for r in range(window)
                if i * step + r * dilation == row
            )
            if users:
                found.append(Step(plane, row, users))
    return found


def prefetch_distance(depthwise: Depthwise, schedule: DepthwiseSchedule) -> int:
    """The prefetch distance: steps whose reads are on their way before the first's are used."""
    size = emit.element_bytes(depthwise.image.element)
    vectors = _spans(depthwise, schedule)[1] + depthwise.geometry[-1][3]
    return max(1, _MOST_WAITING // (vectors * schedule.lanes * size // 4))


def _spans(depthwise: Depthwise, schedule: DepthwiseSchedule) -> tuple[int, int]:
    """Rows and columns that the windows of a thread cover."""
    (*_, rows, columns) = depthwise.geometry
    found = []
    for count, (_, _, _, window, step, dilation, _) in zip(
        (schedule.rows, schedule.width), (rows, columns), strict=True
    ):
        found.append(
            len({i * step + tap * dilation for i in range(count) for tap in range(window)})
        )
    return found[0], found[1]


def _fits(depthwise: Depthwise, schedule: DepthwiseSchedule, target: Target) -> bool:
    lanes, pixels = schedule.lanes, schedule.rows * schedule.width
    size = emit.element_bytes(depthwise.image.element)
    *_, (_, _, _, height, step, _, _), (_, _, _, width, _, _, _) = depthwise.geometry
    # Sums; a row of pixels; elements of the filter, kept while rows of results need them.
    kept = _spans(depthwise, schedule)[1] + width * min(height, 1 + (schedule.rows - 1) * step)
    registers = lanes * pixels + kept * lanes * size // 4
    work = depthwise.match.problem.K * lanes * pixels
    return work <= _MOST_WORK and registers <= _MOST_REGISTERS * target.register_share


def _clocks(depthwise: Depthwise, schedule: DepthwiseSchedule, target: Target) -> float:
    """Estimated clocks of the function on a chip.

    A compute unit's vector units do one instruction of a wave of 64 a clock, or two of 32; its
    path to memory gives 64 bytes a clock.
    """
    lanes, wave = schedule.lanes, target.wave_size
    size = emit.element_bytes(depthwise.image.element)
    taps, pixels = depthwise.match.problem.K, schedule.rows * schedule.width
    reads = len(steps(depthwise, schedule)) * _spans(depthwise, schedule)[1]
    work = taps * lanes * pixels
    if not schedule.mixed:
        # Two products at a time where instructions take them, and the conversions.
        work = work // (2 if "packed-f32" in target.features else 1) + (size < 4) * lanes * (
            reads + taps
        )
    work += 6 * reads + 30 * pixels
    path = (reads + taps + pixels) * max(lanes * size, 4) * wave // 64
    waves = ceil_div(depthwise.threads(schedule), wave)
    alone = 2 * GLOBAL_LATENCY + work * wave // 16
    busy = max(work * wave // 16 // target.gpu.simds, path)
    return max(alone, ceil_div(waves, target.compute_units) * busy)
