"""Regions of images, read between their pixels: RoiAlign, MaxRoiPool, and crops."""

from __future__ import annotations

import itertools
from functools import reduce

import ml_dtypes
import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import budget, emit, tensors
from mgx_mlir.importer.converters.sampling import Length, clipped, in_type_of, neighbours
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.sizes.arithmetic import Number

_MODE = "coordinate_transformation_mode"
# Samples within a pixel on either side, half a pixel apart, and one more for rounding each way.
_TOUCHING = 7


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
    if samples <= 0:
        if largest:
            raise UnsupportedError("sampling_ratio = 0 with mode = max")
        parts = ((y1, y2, height, 2), (x1, x2, width, 3))
        return _averaged(x, batches, *(_shares(x, *part, half) for part in parts))
    axes = []
    for first, end, count, axis in ((y1, y2, height, 2), (x1, x2, width, 3)):
        length = mgx.sub(end, first)
        length = length if half else mgx.max(length, emit.like(length, 1))
        budget.check_made(count, samples)
        steps = (np.arange(count * samples) + 0.5) / (count * samples)
        ticks = node.make(steps.astype(emit.numpy_type(rois))[None])
        places = emit.add(emit.mul(length, ticks), first)
        axes.append(_Ticks(places, _length_along(x, axis, places)))
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


def _length_along(x: ir.Value, axis: int, places: ir.Value) -> Length:
    """The size of a dimension, of the places' type where it is open."""
    size = tensors.dims(x)[axis]
    return size if isinstance(size, int) else in_type_of(places, emit.size_of(x, axis))


def _shares(
    x: ir.Value, first: ir.Value, end: ir.Value, count: int, axis: int, half: bool
) -> ir.Value:
    """(regions, count, size of x along the axis): the weight of each pixel in a bin's mean.

    A bin has as many samples as pixels, rounded up. The samples that touch a pixel are at most
    half a pixel apart, or one alone: only the few from one pixel before it on can touch it.
    """
    length = mgx.sub(end, first)
    length = length if half else mgx.max(length, emit.like(length, 1))
    samples, part = mgx.ceil(emit.div(length, count)), emit.div(length, count)
    size = _length_along(x, axis, first)
    numbers = like_vector(first, np.arange(count))
    pixels = emit.counted(tensors.dims(x)[axis])
    pixels = emit.unsqueeze(emit.convert(pixels, tensors.element(first)), [0])
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
        mgx.logical_or(mgx.less(place, emit.like(place, -1)), emit.binary(mgx.greater, place, size))
    )
    distance = mgx.abs(emit.sub(clipped(place, size), pixel))
    weight = mgx.relu(emit.add(mgx.neg(distance), 1))
    weight = emit.where(mgx.logical_and(counts, inside), weight, 0)
    total = emit.squeeze(mgx.reduce_sum(weight, [3]), [3])
    samples = emit.squeeze(samples, [3])
    return emit.div(total, mgx.max(samples, emit.like(samples, 1)))


def _averaged(x: ir.Value, batches: ir.Value, rows: ir.Value, columns: ir.Value) -> ir.Value:
    """The means (regions, channels, ...) by the shares of rows and of columns: two products."""
    images, channels, height, width = _sizes_of(x)
    regions, high, _ = _sizes_of(rows)
    wide = _sizes_of(columns)[1]
    element = tensors.element(x)
    rows, columns = (emit.convert(v, element) for v in (rows, columns))
    # The rows of all images are one dimension; a region has shares of its own image's.
    batch = emit.unsqueeze(emit.convert(batches, "i64"), [1, 2, 3])
    numbers = emit.unsqueeze(emit.counted(tensors.dims(x)[0]), [0, 1, 3])
    own = emit.binary(mgx.equal, batch, numbers)
    shares = emit.where(own, emit.unsqueeze(rows, [2]), 0)
    shares = _reshaped(shares, 1, regions * high, images * height)
    lines = _reshaped(emit.transpose(x, [1, 0, 2, 3]), channels, images * height, width)
    y = _reshaped(emit.dot(shares, lines), channels, regions, high, width)
    y = _reshaped(emit.transpose(y, [1, 0, 2, 3]), regions, channels * high, width)
    y = emit.dot(y, emit.transpose(columns, [0, 2, 1]))
    return _reshaped(y, regions, channels, high, wide)


def _sizes_of(x: ir.Value) -> list[Number]:
    """The sizes of a tensor, and formulas. Raises OpenError where one has no name."""
    sizes = [size for size in tensors.sizes(x) if size is not None]
    return sizes if len(sizes) == tensors.rank(x) else list(tensors.static_dims(x))


def _reshaped(x: ir.Value, *sizes: Number) -> ir.Value:
    return emit.reshape(x, tensors.named(sizes))


class _Ticks:
    """Sample places along one dimension (regions, samples), and the pixels on both sides."""

    def __init__(self, places: ir.Value, size: Length) -> None:
        outside = mgx.logical_or(
            mgx.less(places, emit.like(places, -1)), emit.binary(mgx.greater, places, size)
        )
        places = clipped(places, size)
        first = mgx.floor(places)
        past = mgx.sub(places, first)
        second = clipped(emit.add(first, 1), size)
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
    sides, inside = [], []
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
        sides.append(neighbours(places, "linear" if mode == "bilinear" else mode))
    channels_last = emit.transpose(x, [0, 2, 3, 1])
    batch = emit.broadcast(emit.unsqueeze(emit.convert(batches, "i64"), [1, 2]), grid)
    terms = []
    for combination in itertools.product(*sides):
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
