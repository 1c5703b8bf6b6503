"""Operators that read images between their pixels: GridSample, RoiAlign, and their like.

Both become gathers of the neighbouring pixels and weighted sums of those.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

import ml_dtypes
import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import budget, emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator

_CUBIC = -0.75
_MODE = "coordinate_transformation_mode"
# Samples within a pixel on either side, half a pixel apart, and one more for rounding each way.
_TOUCHING = 7
_NO_SPAN = 2.0**-10
# A size of an image, or a scalar where it is open.
Length: TypeAlias = "int | ir.Value"


@operator("GridSample", (16, 22), "gathernd floor mul add where")
def grid_sample(node: Node) -> ir.Value:
    x, grid = node.tensor(0), node.tensor(1)
    stated = node.attribute("mode", "bilinear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(stated, stated)
    last = tensors.rank(grid) - 1
    sampler = Sampler(
        x,
        str(node.attribute("padding_mode", "zeros")),
        bool(node.attribute("align_corners", 0)),
    )
    places = []
    for axis, open_size in enumerate(sampler.sizes):
        entry = len(sampler.sizes) - 1 - axis  # the grid names the innermost dimension first
        place = emit.squeeze(emit.take(grid, last, entry, entry + 1), [last])
        size = _in_type_of(place, open_size)
        place = sampler.denormalised(place, size)
        place = mgx.nearbyint(place) if mode == "nearest" else place
        places.append(sampler.brought_back(place, size))
    y = sampler.interpolated(places, mode)
    return emit.transpose(y, [0, tensors.rank(y) - 1, *range(1, tensors.rank(y) - 1)])


def _neighbours(place: ir.Value, mode: str) -> list[tuple[ir.Value, ir.Value | None]]:
    """Indices (whole floats) of the pixels around a place, and the weight of each."""
    if mode == "nearest":
        return [(place, None)]
    first = mgx.floor(place)
    past = mgx.sub(place, first)
    if mode == "linear":
        return [(first, emit.add(mgx.neg(past), 1)), (emit.add(first, 1), past)]
    if mode != "cubic":
        raise UnsupportedError(f"mode = {mode}; nearest, linear and cubic are supported")
    made: list[tuple[ir.Value, ir.Value | None]] = []
    for offset in range(-1, 3):
        distance = mgx.abs(emit.sub(past, offset))
        near = offset in (0, 1)
        # Keys' kernel: one polynomial within distance 1, another to distance 2.
        a = _CUBIC
        coefficients = (a + 2, -(a + 3), 0.0, 1.0) if near else (a, -5 * a, 8 * a, -4 * a)
        weight = emit.like(distance, coefficients[0])
        for coefficient in coefficients[1:]:
            weight = emit.add(mgx.mul(weight, distance), coefficient)
        made.append((emit.add(first, offset), weight))
    return made


class Sampler:
    """The coordinates of a grid in an image, and the padding outside of the image."""

    def __init__(self, x: ir.Value, padding: str, align_corners: bool) -> None:
        """x is (batch, channels, sizes...)."""
        dims = enumerate(tensors.dims(x))
        # The sizes of the image, those that are open as scalars.
        self.sizes = [n if isinstance(n, int) else emit.size_of(x, i) for i, n in dims][2:]
        self.padding = padding
        self.align_corners = align_corners
        self._channels_last = emit.transpose(x, [0, *range(2, tensors.rank(x)), 1])

    def denormalised(self, place: ir.Value, size: Length) -> ir.Value:
        """-1 to 1 becomes 0 to size - 1 (corners aligned), or -0.5 to size - 0.5."""
        place = emit.add(place, 1)
        half: ir.Value | float
        if isinstance(size, ir.Value):
            half = emit.mul(emit.sub(size, 1) if self.align_corners else size, 0.5)
        else:
            half = (size - 1) / 2 if self.align_corners else size / 2
        place = emit.mul(place, half)
        return place if self.align_corners else emit.sub(place, 0.5)

    def brought_back(self, place: ir.Value, size: Length) -> ir.Value:
        """Places outside the image, moved into it as the padding mode says."""
        low, high = self._edges(size)
        if self.padding == "reflection":
            return _reflected(place, low, high)
        if self.padding == "border":
            outside = mgx.logical_or(
                mgx.less(place, emit.like(place, low)), emit.binary(mgx.greater, place, high)
            )
            return emit.where(outside, _clipped(place, size), place)
        return place

    def _edges(self, size: Length) -> tuple[float, ir.Value | float]:
        """The first and the last place of an image of that size."""
        if self.align_corners:
            return 0, _less(size, 1)
        return -0.5, _less(size, 0.5)

    def interpolated(self, places: Sequence[ir.Value], mode: str) -> ir.Value:
        """The image (N, places..., C) at places: the pixels around each place, weighted."""
        terms = []
        for combination in itertools.product(*(_neighbours(place, mode) for place in places)):
            pixel = self.pixel([index for index, _ in combination])
            for _, weight in combination:
                if weight is not None:
                    weight = emit.convert(weight, tensors.element(pixel))
                    pixel = emit.mul(pixel, emit.unsqueeze(weight, [tensors.rank(weight)]))
            terms.append(pixel)
        return reduce(mgx.add, terms)

    def pixel(self, indices: Sequence[ir.Value]) -> ir.Value:
        """The pixels (N, places..., C) at whole indices."""
        inside: list[ir.Value] = []
        whole = []
        for index, open_size in zip(indices, self.sizes, strict=True):
            size = _in_type_of(index, open_size)
            if self.padding == "zeros":
                not_below = mgx.greater(index, emit.like(index, -0.5))
                inside.append(mgx.logical_and(not_below, emit.binary(mgx.less, index, size)))
            elif self.padding == "reflection":
                index = _reflected(index, *self._edges(size))
            whole.append(emit.convert(_clipped(index, size), "i64"))
        stacked = emit.stack(whole, tensors.rank(whole[0]))
        pixels = mgx.gathernd(self._channels_last, stacked, batch_dims=1)
        if not inside:
            return pixels
        mask = reduce(mgx.logical_and, inside)
        return emit.where(emit.unsqueeze(mask, [tensors.rank(mask)]), pixels, 0)


def _in_type_of(place: ir.Value, size: Length) -> Length:
    """A size, as a scalar of the places' type where it is open."""
    return emit.convert(size, tensors.element(place)) if isinstance(size, ir.Value) else size


def _less(size: Length, number: float) -> ir.Value | float:
    return emit.sub(size, number) if isinstance(size, ir.Value) else size - number


def _clipped(place: ir.Value, size: Length) -> ir.Value:
    """Places from 0 to size - 1."""
    if isinstance(size, int):
        return emit.clip(place, 0, size - 1)
    return emit.binary(mgx.min, mgx.max(place, emit.like(place, 0)), emit.sub(size, 1))


def _reflected(place: ir.Value, low: float, high: ir.Value | float) -> ir.Value:
    """Places mirrored at low and high until they lie between."""
    span = emit.sub(high, low) if isinstance(high, ir.Value) else high - low
    if isinstance(span, ir.Value):
        # An image of one pixel has no span; any small one gives that pixel.
        span = mgx.max(span, emit.like(span, _NO_SPAN))
        twice: ir.Value | float = emit.mul(span, 2)
    elif span == 0:
        return emit.like(place, low)
    else:
        twice = 2 * span
    phase = emit.binary(mgx.mod, emit.sub(place, low), twice)
    return emit.add(
        mgx.neg(mgx.abs(emit.sub(phase, span))),
        emit.add(span, low) if isinstance(span, ir.Value) else low + span,
    )


@operator("RoiAlign", (10, 22), "gathernd floor mul add reduce_mean reduce_max")
def roi_align(node: Node) -> ir.Value:
    """Samples on a regular grid in each bin of a region; their mean or maximum."""
    x, rois, batches = node.tensors()
    height, width = int(node.attribute("output_height")), int(node.attribute("output_width"))
    samples = int(node.attribute("sampling_ratio"))
    scale = node.attribute("spatial_scale")
    half = node.version >= 16 and node.attribute(_MODE) == "half_pixel"
    largest = node.attribute("mode") == "max"
    corners = emit.mul(rois, scale)
    corners = emit.sub(corners, 0.5) if half else corners
    x1, y1, x2, y2 = (emit.take(corners, 1, i, i + 1) for i in range(4))
    image = tensors.static_dims(x)[2:]
    if samples <= 0:
        if largest:
            raise UnsupportedError("sampling_ratio = 0 with mode = max")
        parts = ((y1, y2, height, image[0]), (x1, x2, width, image[1]))
        return _averaged(x, batches, *(_shares(*part, half) for part in parts))
    axes = []
    for first, end, count, size in ((y1, y2, height, image[0]), (x1, x2, width, image[1])):
        length = mgx.sub(end, first)
        length = length if half else mgx.max(length, emit.like(length, 1))
        budget.check_made(count, samples)
        steps = (np.arange(count * samples) + 0.5) / (count * samples)
        ticks = node.make(steps.astype(emit.numpy_type(rois))[None])
        axes.append(_Ticks(emit.add(emit.mul(length, ticks), first), size))
    channels_last = emit.transpose(x, [0, 2, 3, 1])
    grid = (tensors.dims(rois)[0], height * samples, width * samples)
    batch = emit.broadcast(emit.unsqueeze(emit.convert(batches, "i64"), [1, 2]), grid)
    terms = []
    for (row, row_weight), (column, column_weight) in itertools.product(*(a.pixels for a in axes)):
        where = [emit.unsqueeze(row, [2]), emit.unsqueeze(column, [1])]
        indices = [batch, *(emit.broadcast(w, grid) for w in where)]
        pixel = mgx.gathernd(channels_last, emit.stack(indices, 3))
        weight = emit.mul(emit.unsqueeze(row_weight, [2]), emit.unsqueeze(column_weight, [1]))
        terms.append(emit.mul(pixel, emit.convert(emit.unsqueeze(weight, [3]), tensors.element(x))))
    y = reduce(mgx.max if largest else mgx.add, terms)
    channels = tensors.dims(x)[1]
    y = emit.reshape(y, (grid[0], height, samples, width, samples, channels))
    y = (mgx.reduce_max if largest else mgx.reduce_mean)(y, [2, 4])
    return emit.transpose(emit.squeeze(y, [2, 4]), [0, 3, 1, 2])


def _shares(first: ir.Value, end: ir.Value, count: int, size: int, half: bool) -> ir.Value:
    """(regions, count, size): the weight of each pixel in the mean over a bin of a region.

    A bin has as many samples as pixels, rounded up. The samples that touch a pixel are at most
    half a pixel apart, or one alone: only the few from one pixel before it on can touch it.
    """
    length = mgx.sub(end, first)
    length = length if half else mgx.max(length, emit.like(length, 1))
    samples, part = mgx.ceil(emit.div(length, count)), emit.div(length, count)
    numbers, pixels = (like_vector(first, np.arange(n)) for n in (count, size))
    start = emit.unsqueeze(emit.add(emit.mul(part, numbers), first), [2, 3])
    pixel = emit.unsqueeze(pixels, [1, 3])
    samples, part = (emit.unsqueeze(v, [2, 3]) for v in (samples, part))
    step = emit.div(part, mgx.max(samples, emit.like(samples, 1)))
    before = emit.sub(emit.div(emit.sub(emit.add(pixel, -1), start), step), 0.5)
    number = mgx.floor(mgx.max(before, emit.like(before, 0)))
    number = emit.add(number, emit.unsqueeze(like_vector(first, np.arange(_TOUCHING)), [1, 2]))
    place = emit.add(emit.mul(emit.add(number, 0.5), step), start)
    counts = emit.binary(mgx.less, number, samples)
    inside = mgx.not_(
        mgx.logical_or(
            mgx.less(place, emit.like(place, -1)), mgx.greater(place, emit.like(place, size))
        )
    )
    distance = mgx.abs(emit.sub(emit.clip(place, 0, size - 1), pixel))
    weight = mgx.relu(emit.add(mgx.neg(distance), 1))
    weight = emit.where(mgx.logical_and(counts, inside), weight, 0)
    total = emit.squeeze(mgx.reduce_sum(weight, [3]), [3])
    samples = emit.squeeze(samples, [3])
    return emit.div(total, mgx.max(samples, emit.like(samples, 1)))


def _averaged(x: ir.Value, batches: ir.Value, rows: ir.Value, columns: ir.Value) -> ir.Value:
    """The means (regions, channels, ...) by the shares of rows and of columns: two products."""
    images, channels, height, width = tensors.static_dims(x)
    regions, high, _ = tensors.static_dims(rows)
    wide = tensors.static_dims(columns)[1]
    element = tensors.element(x)
    rows, columns = (emit.convert(v, element) for v in (rows, columns))
    # The rows of all images are one dimension; a region has shares of its own image's.
    batch = emit.reshape(emit.convert(batches, "i64"), (regions, 1, 1, 1))
    own = emit.binary(mgx.equal, batch, mgx.constant(np.arange(images).reshape(1, 1, images, 1)))
    shares = emit.where(own, emit.unsqueeze(rows, [2]), 0)
    shares = emit.reshape(shares, (1, regions * high, images * height))
    lines = emit.reshape(emit.transpose(x, [1, 0, 2, 3]), (channels, images * height, width))
    y = emit.reshape(emit.dot(shares, lines), (channels, regions, high, width))
    y = emit.reshape(emit.transpose(y, [1, 0, 2, 3]), (regions, channels * high, width))
    y = emit.dot(y, emit.transpose(columns, [0, 2, 1]))
    return emit.reshape(y, (regions, channels, high, wide))


class _Ticks:
    """Sample places along one dimension (regions, samples), and the pixels on both sides."""

    def __init__(self, places: ir.Value, size: int) -> None:
        outside = mgx.logical_or(
            mgx.less(places, emit.like(places, -1)), mgx.greater(places, emit.like(places, size))
        )
        places = emit.clip(places, 0, size - 1)
        first = mgx.floor(places)
        past = mgx.sub(places, first)
        second = emit.clip(emit.add(first, 1), 0, size - 1)
        weights = (emit.add(mgx.neg(past), 1), past)
        self.pixels = [
            (emit.convert(index, "i64"), emit.where(outside, 0, weight))
            for index, weight in zip((first, second), weights, strict=True)
        ]


@operator("MaxRoiPool", (1, 22), "gather where reduce_max")
def max_roi_pool(node: Node) -> ir.Value:
    """The maxima of the bins of regions (image, x1, y1, x2, y2), along one axis after another."""
    x, rois = node.tensor(0), node.tensor(1)
    counts = node.attribute("pooled_shape")
    corners = emit.mul(rois, node.attribute("spatial_scale"))
    corners = mgx.floor(emit.add(corners, 0.5))
    batches = emit.squeeze(emit.convert(emit.take(rois, 1, 0, 1), "i64"), [1])
    y = mgx.gather(x, batches, 0)
    lowest = node.make(np.array(ml_dtypes.finfo(emit.numpy_type(x)).min))
    for axis in (1, 0):
        size, count = tensors.static_dims(x)[2 + axis], int(counts[axis])
        first, last = (emit.take(corners, 1, i, i + 1) for i in (2 - axis, 4 - axis))
        length = emit.add(mgx.sub(last, first), 1)
        length = emit.div(mgx.max(length, emit.like(length, 1)), count)
        budget.check_made(count)
        parts = like_vector(rois, np.arange(count))
        starts = emit.add(mgx.floor(emit.mul(length, parts)), first)
        ends = emit.add(mgx.ceil(emit.mul(length, emit.add(parts, 1))), first)
        # Where each part (regions, 1, parts, 1) reaches along the axis, which becomes the last.
        starts, ends = (emit.unsqueeze(emit.clip(e, 0, size), [1, 3]) for e in (starts, ends))
        places = node.make(np.arange(size, dtype=emit.numpy_type(rois)))
        after = mgx.not_(emit.binary(mgx.less, places, starts))
        within = mgx.logical_and(after, emit.binary(mgx.less, places, ends))
        # (regions, channels, rest, 1, size) becomes (regions, channels, rest, parts).
        y = emit.unsqueeze(y if axis else emit.transpose(y, [0, 1, 3, 2]), [3])
        chosen = emit.where(emit.unsqueeze(within, [2]), y, lowest)
        y = emit.squeeze(mgx.reduce_max(chosen, [4]), [4])
    empty = mgx.equal(y, emit.like(y, float(ml_dtypes.finfo(emit.numpy_type(x)).min)))
    return emit.transpose(emit.where(empty, 0, y), [0, 1, 3, 2])


def cropped(
    x: ir.Value,
    boxes: ir.Value,
    batches: ir.Value,
    size: tuple[int, int],
    mode: str,
    fill: float,
) -> ir.Value:
    """Boxes (y1, x1, y2, x2, as fractions of the size) of images (batch, channels, height, width).

    Each box becomes `size` pixels, whose corners are the box's; pixels outside are `fill`.
    """
    if mode not in ("bilinear", "nearest"):
        raise UnsupportedError(f"mode = {mode}; bilinear and nearest are supported")
    image = tensors.static_dims(x)[2:]
    grid = (tensors.static_dims(boxes)[0], *size)
    edges = [emit.take(boxes, 1, i, i + 1) for i in range(4)]
    neighbours, inside = [], []
    for axis, (count, extent) in enumerate(zip(size, image, strict=True)):
        first, last = edges[axis], edges[axis + 2]
        if count > 1:
            budget.check_made(count)
            steps = np.arange(count) / (count - 1)
            ticks = emit.mul(mgx.sub(last, first), like_vector(boxes, steps))
            places = emit.mul(emit.add(ticks, first), extent - 1)
        else:
            places = emit.mul(mgx.add(first, last), (extent - 1) / 2)
        places = emit.broadcast(emit.unsqueeze(places, [2 - axis]), grid)
        outside = mgx.logical_or(
            mgx.less(places, emit.like(places, 0)),
            mgx.greater(places, emit.like(places, extent - 1)),
        )
        inside.append(mgx.not_(outside))
        places = emit.clip(places, 0, extent - 1)
        if mode == "nearest":
            places = mgx.floor(emit.add(places, 0.5))
        neighbours.append(_neighbours(places, "linear" if mode == "bilinear" else mode))
    channels_last = emit.transpose(x, [0, 2, 3, 1])
    batch = emit.broadcast(emit.unsqueeze(emit.convert(batches, "i64"), [1, 2]), grid)
    terms = []
    for combination in itertools.product(*neighbours):
        indices = [
            emit.convert(emit.clip(index, 0, extent - 1), "i64")
            for (index, _), extent in zip(combination, image, strict=True)
        ]
        pixel = mgx.gathernd(channels_last, emit.stack([batch, *indices], 3))
        for _, weight in combination:
            if weight is not None:
                weight = emit.convert(weight, tensors.element(x))
                pixel = emit.mul(pixel, emit.unsqueeze(weight, [3]))
        terms.append(pixel)
    kept = emit.unsqueeze(reduce(mgx.logical_and, inside), [3])
    return emit.transpose(emit.where(kept, reduce(mgx.add, terms), fill), [0, 3, 1, 2])


def like_vector(x: ir.Value, numbers: np.ndarray) -> ir.Value:
    """Numbers as a row (1, count) of x's element type."""
    return mgx.constant(numbers[None].astype(emit.numpy_type(x)))
