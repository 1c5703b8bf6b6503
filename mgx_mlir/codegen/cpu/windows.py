"""Convolutions as products of their windows.

    %y = mgx.convolution %x, %w : tensor<?x?x?x16xf32>, tensor<8x3x3x16xf32> -> tensor<?x?x?x8xf32>

A row is the window of a pixel, with channels last where the image has them so, and a column is a
filter. There may be any number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.frame import Computing, computed_first
from mgx_mlir.codegen.cpu.padded import Padded, Padding, Windows, always_inside, is_last
from mgx_mlir.codegen.problem.match import Match, mapped
from mgx_mlir.codegen.problem.problem import Axis, Contraction, Dimension, Image, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import Number, exact

# The number of pixels that a schedule is chosen for, where it is open.
USUAL_PIXELS = 512
# The argument number of the first copy of an image; those of others count down from it.
PADDED = -10
_ELEMENTS = frozenset(("f32", "f64", "f16", "bf16", "i8", "ui8"))


@dataclass(frozen=True)
class WindowProduct:
    """A convolution as a product of `rows` rows, for each group of channels.

    match: that of some rows, whose left operand are `Windows`, `Padded` ones, or the pixels
    themselves; its results have channels last. filters: a matrix [element of a window, filter] of
    each group, for each image. pixels: those of an image, where the kernel's results have channels
    first. copies: those of images, with channels last, and with what
    windows read around them. made: operands that are computed first, by the
    numbers that they are read by.
    """

    match: Match
    rows: Number
    filters: tuple[Matrix, ...]
    pixels: Number | None
    copies: tuple[Padding, ...]
    made: Mapping[int, Computing]


def window_product(match: Match) -> WindowProduct | Refusal:
    """A convolution as a product, or why it is none."""
    if match.place is None and not any(isinstance(term.b, Image) for term in match.terms):
        return Refusal("no windows")
    made, match = computed_first(match)
    problem, groups = match.problem, groups_of(match.problem)
    rows = exact(problem.batch * problem.N, groups)
    if match.causal is not None or match.pairs or problem.a.element not in _ELEMENTS:
        return Refusal(f"elements of {problem.a.element}, or work on pairs of filters")
    if not all(isinstance(size, int) for size in (problem.M, problem.K, groups)):
        return Refusal("filters of symbolic sizes")
    if rows is None:
        return Refusal("groups that do not divide the images")
    images: list[Image] = []
    filters: list[Matrix] = []
    steps: set[Axis] = set()
    copies: list[Padding] = []
    for number, term in enumerate(match.terms):
        image = _image_of(term)
        parts = None if image is None else image.batch.split(groups)
        if image is None or parts is None or groups_of(term) != groups:
            return Refusal("images or filters without strides, or groups of one channel")
        image, step = replace(image, batch=parts[0]), parts[1]
        if not (is_last(image) and always_inside(image)):
            whole = replace(image, channel=Axis.of(*step.factors, *image.channel.factors))
            copies.append(Padding.of(whole, PADDED - number))
            image, step = copies[-1].windows(groups)
        found = _filters(term, image)
        if found is None:
            return Refusal("filters that are no matrix")
        images.append(image)
        filters.append(found)
        steps.add(step)
    place = _place(match, rows, groups)
    sources = {read: by_pixels(read, groups) for read in match.reads}
    if len(steps) != 1 or place is None or None in sources.values():
        return Refusal("results or operands that do not lie by pixels")
    depth = sum(image.taps * image.channel.size for image in images)
    if len(images) > 1 and not emit.is_float(problem.accumulator):
        # They lie together in blocks of filters, across which no window may begin.
        return Refusal("several images of integers")
    usual, first_step = rows if isinstance(rows, int) else USUAL_PIXELS, steps.pop()
    rows_of = [Padded.of(image, first_step, usual) for image in images]
    left: Matrix = Windows.of(rows_of)
    if not match.added and type(problem.b) is Image and problem.a.element == problem.accumulator:
        (left,) = rows_of
    elif len(images) == groups == 1 and type(problem.b) is Matrix:
        (image,) = images
        pixels = Axis.of(*image.batch.factors, (image.dims[0].size, image.dims[0].stride))
        if isinstance(pixels.stride, int):
            row, column = Axis(((usual, pixels.stride),)), image.channel
            left = Matrix(image.argument, image.element, image.offset, Axis(()), row, column)
    # Schedules ask filters for their sizes: they have as many rows as windows have elements.
    right = replace(filters[0], row=Axis(((depth, filters[0].column.size),)))
    own = replace(problem, batch=groups, M=usual, N=problem.M, K=depth, a=left, b=right)
    plain = place.row.stride == problem.M and place.offset == 0 and groups == 1
    own_match = replace(
        match,
        problem=own,
        added=(),
        place=None if plain else place,
        sources=mapped(match.sources, lambda x: sources[x] or x),
    )
    first = None if match.place else problem.N
    return WindowProduct(own_match, rows, tuple(filters), first, tuple(copies), made)


def groups_of(problem: Contraction) -> int:
    """The groups of a convolution: the filters of each lie apart."""
    return math.prod(size for size, stride in problem.a.batch.factors if stride)


def _image_of(term: Contraction) -> Image | None:
    """The image of a convolution; pixels without windows are a line of them."""
    b = term.b
    if type(b) is Matrix:
        stride = b.column.stride
        if stride is None:
            return None
        line = Dimension(b.column.size, stride, b.column.size, 1, 1, 1, 0)
        b = Image(b.argument, b.element, b.offset, b.batch, b.row, (line,))
    if type(b) is not Image or not isinstance(b.channel.size, int):
        return None
    return b if term.M > 1 or groups_of(term) == 1 or b.channel.size > 1 else None


def _filters(term: Contraction, image: Image) -> Matrix | None:
    """Filters as a matrix [element of a window, filter] of each group."""
    a = term.a
    if type(a) is not Matrix:
        return None
    steps = filter_steps(a.column, image)
    if steps is None:
        return None
    sizes = (image.channel.size, *(dim.window for dim in image.dims))
    channel, *window = zip(sizes, steps, strict=True)
    row = Axis.of(*window, channel)
    batch = Axis(tuple(factor for factor in a.batch.factors if factor[1]))
    return replace(a, batch=batch, row=row, column=a.row)


def filter_steps(column: Axis, image: Image) -> list[int] | None:
    """The distances in memory of neighbours of a filter's elements along channels and window."""
    sizes = (image.channel.size, *(dim.window for dim in image.dims))
    places = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    steps = [
        column.distance(place) if size > 1 else 0 for size, place in zip(sizes, places, strict=True)
    ]
    return steps if Axis.of(*zip(sizes, steps, strict=True)) == column else None


def by_pixels(source: Matrix, groups: int) -> Matrix | None:
    """A matrix [image and group, filter, pixel] as [group, pixel of all images, filter]."""
    found = source.batch.split(groups)
    if found is None:
        if any(stride for _, stride in source.batch.factors):
            return None
        found = Axis(()), Axis(())
    row = Axis.of(*found[0].factors, *source.column.factors)
    return replace(source, batch=found[1], row=row, column=source.row)


def _place(match: Match, rows: int, groups: int) -> Matrix | None:
    """The layout of the results [group, pixel of all images, filter], channels last."""
    if match.place is not None:
        place = by_pixels(match.place, groups)
        if place is not None and match.problem.M == 1:
            return replace(place, column=Axis(((1, 1),)))
        return place if place is not None and place.column.stride == 1 else None
    filters = match.problem.M
    batch, row = Axis.of((groups, filters)), Axis.of((rows, groups * filters))
    return Matrix(0, "", 0, batch, row, Axis.of((filters, 1)))
