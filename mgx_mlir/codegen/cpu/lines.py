"""Convolutions whose columns are the neighbouring pixels of a line, with channels first.

    image [channel, row, column]    copy [channel, row, step, column]

Filters are the rows of such a product, and are read where they lie. The windows are read in place
too: of a copy with what they reach around the image. Where they move by several pixels, each line
of it has first all pixels of the first step, then those of the second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.channel_windows import USUAL_SIDE
from mgx_mlir.codegen.cpu.contraction import emit_contraction
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.frame import Frame, Memory
from mgx_mlir.codegen.cpu.pack import Line
from mgx_mlir.codegen.cpu.padded import Padding
from mgx_mlir.codegen.cpu.schedule import PACK_VECTOR, CpuSchedule, Machine, choose, most_columns
from mgx_mlir.codegen.cpu.windows import PADDED, USUAL_PIXELS
from mgx_mlir.codegen.problem.match import Match, mapped
from mgx_mlir.codegen.problem.problem import Axis, Image, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.rewriting.views import row_major
from mgx_mlir.sizes.arithmetic import ceil_div

# The most elements of a window's last dimension, of one filter and of more: code has all of them.
_MOST_OF_ONE, _MOST_TAPS = 64, 16
# Vectors of a line that a schedule is chosen for, where its pixels are symbolic.
_USUAL_VECTORS = 4


@dataclass(frozen=True)
class Lines:
    """A convolution by lines of pixels, which its batch counts."""

    match: Match
    copy: Padding
    schedule: CpuSchedule
    work: float

    def __str__(self) -> str:
        return f"lines of pixels, {self.schedule}"


def lines_of(match: Match, machine: Machine) -> Lines | Refusal:
    """A convolution by lines, or why it is none."""
    problem, image = match.problem, match.problem.b
    if type(image) is not Image or match.added or match.place or match.pairs:
        return Refusal("no windows with channels first")
    if type(problem.a) is not Matrix or not all(isinstance(n, int) for n in (problem.M, problem.K)):
        return Refusal("filters that are computed, or of symbolic sizes")
    most, last = _MOST_TAPS if problem.M > 1 else _MOST_OF_ONE, image.dims[-1]
    if last.window > most or (problem.M > 1 and not emit.is_float(image.element)):
        return Refusal(f"windows of more than {most} pixels, or products of integers")
    width, count = last.outputs, math.prod(image.outputs[:-1])
    sources = {read: _by_lines(read, problem.batch, count, width) for read in match.reads}
    if None in sources.values():
        return Refusal("operands that do not lie by lines")
    planes = Axis.of(*image.batch.factors, *image.channel.factors)
    copy = Padding.of(replace(image, batch=planes, channel=Axis(())), PADDED)
    lanes, step = machine.lanes(problem.accumulator), last.step
    long = ceil_div(copy.sizes[-1], step)
    sizes = (*copy.sizes[:-1], long * step)
    copy = replace(copy, sizes=sizes, slack=lanes, element=problem.accumulator, step=step)
    pixels = count * width
    place = Matrix(
        0, "", 0, Axis.of((problem.batch, problem.M * pixels), (count, width)),
        Axis(((problem.M, pixels),)), Axis(((width, 1),)),
    )  # fmt: skip
    batch = problem.a.batch.factors or ((problem.batch, 0),)
    own = replace(
        problem,
        batch=problem.batch * count,
        N=width,
        a=replace(problem.a, batch=Axis.of(*batch, (count, 0))),
        b=_columns(image, copy, problem.batch, long),
    )
    made = replace(
        match, problem=own, place=place, sources=mapped(match.sources, lambda x: sources[x] or x)
    )
    # An image of symbolic sizes counts as many pixels as `windows` estimates.
    given, share = own, 1.0
    if not isinstance(pixels, int):
        given, share = replace(own, batch=USUAL_SIDE, N=USUAL_SIDE), USUAL_PIXELS / USUAL_SIDE**2
    given = replace(given, batch=given.batch if isinstance(given.batch, int) else count)
    if isinstance(width, int):
        schedule = choose(given, machine)
    else:
        chosen = choose(replace(given, N=_USUAL_VECTORS * lanes), machine)
        schedule = replace(chosen, columns=most_columns(own.b, lanes))
    clocks = schedule.work(given)
    copied = given.batch * given.N * image.channel.size * math.prod(x.step for x in image.dims)
    clocks += PACK_VECTOR / lanes * copied
    return Lines(made, copy, schedule, share * clocks)


def _columns(image: Image, copy: Padding, batch: int, long: int) -> Line:
    """The pixels of lines of a copy, in whose lines `long` pixels of each step lie together."""
    places, plane = row_major(copy.sizes)[:-1], math.prod(copy.sizes)
    channels, last, step = image.channel.size, image.dims[-1], image.dims[-1].step
    lines = list(zip(image.dims, places, strict=False))  # the last dimension has no place
    starts = [(dim.outputs, dim.step * at) for dim, at in lines]
    moves = [(dim.window, dim.dilation * at) for dim, at in lines]
    ahead = [tap * last.dilation for tap in range(last.window)]
    row, column = Axis(((channels * image.taps, 0),)), Axis(((last.outputs, 1),))
    runs, batches = Axis.of((channels, plane), *moves), Axis.of((batch, channels * plane), *starts)
    taps = tuple(n % step * long + n // step for n in ahead)
    phases, largest = min(step, last.window), image.fill == -math.inf
    count = math.prod(image.outputs[:-1])
    return Line(PADDED, copy.element, 0, batches, row, column, runs, taps, phases, largest, count)


def _by_lines(source: Matrix, batch: int, count: int, width: int) -> Matrix | None:
    """A matrix [image and group, filter, pixel] as [image, group and line, filter, pixel of it]."""
    moves = any(stride for _, stride in source.column.factors)
    found = source.column.split(width) if moves else (Axis(()), Axis(()))
    if found is None:
        return None
    images, lines = source.batch.factors or ((batch, 0),), found[0].factors or ((count, 0),)
    return replace(source, batch=Axis.of(*images, *lines), column=found[1])


def add_lines(work: Lines, frame: Frame) -> None:
    """Adds the functions of a convolution by lines: the copy of its image, and the product."""
    match, problem = work.match, work.match.problem
    image = work.copy.add(frame)
    used = sorted({problem.a.argument, *(x.argument for x in match.reads)})

    def product(
        read: Memory, others: Sequence[ir.Value], store: Epilogue, begin: ir.Value, end: ir.Value
    ) -> None:
        left = read[problem.a.argument]
        emit_contraction(problem, work.schedule, left, others[0], store, begin, end)

    frame.add(match, used, work.schedule.items(problem), product, [image])
