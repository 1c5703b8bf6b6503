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
        parts = ((y1, y2, height, 2), (x1, x2, width, 3))
        rows, columns = (_Touching(x, *part, half) for part in parts)
        if largest:
            return _largest(x, batches, rows, columns)
        return _averaged(x, batches, rows.shares(), columns.shares())
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


class _Touching:
    """The samples of each bin that touch each pixel along a dimension, and their weights there.

    A bin has as many samples as pixels, rounded up. The samples that touch a pixel are at most
    half a pixel apart, or one alone: only the few from one pixel before it on can touch it.
    `weight` is (regions, count, size of x along the axis, _TOUCHING), 0 where none touches.
    """

    def __init__(
        self, x: ir.Value, first: ir.Value, end: ir.Value, count: int, axis: int, half: bool
    ) -> None:
        length = mgx.sub(end, first)
        length = length if half else mgx.max(length, emit.like(length, 1))
        samples, part = mgx.ceil(emit.div(length, count)), emit.div(length, count)
        self.size = _length_along(x, axis, first)
        numbers = like_vector(first, np.arange(count))
        pixels = emit.counted(tensors.dims(x)[axis])
        pixels = emit.unsqueeze(emit.convert(pixels, tensors.element(first)), [0])
        self.start = emit.unsqueeze(emit.add(emit.mul(part, numbers), first), [2, 3])
        pixel = emit.unsqueeze(pixels, [1, 3])
        self.samples, part = (emit.unsqueeze(v, [2, 3]) for v in (samples, part))
        self.step = emit.div(part, mgx.max(self.samples, emit.like(self.samples, 1)))
        before = emit.div(emit.sub(emit.add(pixel, -1), self.start), self.step)
        before = emit.sub(before, 0.5)
        number = mgx.floor(mgx.max(before, emit.like(before, 0)))
        number = emit.add(number, emit.unsqueeze(like_vector(first, np.arange(_TOUCHING)), [1, 2]))
        place = self._place(number)
        counts = emit.binary(mgx.less, number, self.samples)
        distance = mgx.abs(emit.sub(clipped(place, self.size), pixel))
        weight = mgx.relu(emit.add(mgx.neg(distance), 1))
        counts = mgx.logical_and(counts, mgx.not_(self._outside(place)))
        self.weight = emit.where(counts, weight, 0)

    def _place(self, number: ir.Value) -> ir.Value:
        return emit.add(emit.mul(emit.add(number, 0.5), self.step), self.start)

    def _outside(self, place: ir.Value) -> ir.Value:
        before = mgx.less(place, emit.like(place, -1))
        return mgx.logical_or(before, emit.binary(mgx.greater, place, self.size))

    def shares(self) -> ir.Value:
        """(regions, count, size): the weight of each pixel in a bin's mean."""
        total = emit.squeeze(mgx.reduce_sum(self.weight, [3]), [3])
        samples = emit.squeeze(self.samples, [3])
        return emit.div(total, mgx.max(samples, emit.like(samples, 1)))

    def extremes(self) -> tuple[ir.Value, ir.Value]:
        """(regions, count, size): the most of a pixel's weights, and the least that is not 0."""
        touches = emit.binary(mgx.greater, self.weight, emit.like(self.weight, 0))
        least = mgx.reduce_min(emit.where(touches, self.weight, 2), [3])
        return emit.squeeze(mgx.reduce_max(self.weight, [3]), [3]), emit.squeeze(least, [3])

    def empty(self) -> ir.Value:
        """(regions, 1): whether bins have no sample."""
        count = emit.squeeze(self.samples, [2, 3])
        return mgx.not_(emit.binary(mgx.greater, count, emit.like(count, 0)))

    def adds_nothing(self, most: ir.Value) -> ir.Value:
        """(regions, count): whether a sample of a bin gives a pixel the weight 0.

        That is one on a pixel, whose neighbour counts nothing, or one outside.
        """
        on = mgx.reduce_max(most, [2])
        on = emit.squeeze(emit.binary(mgx.equal, on, emit.like(on, 1)), [2])
        last = emit.add(self.samples, -1)
        ends = [self._outside(self._place(n)) for n in (emit.like(last, 0), last)]
        return mgx.logical_or(on, emit.squeeze(mgx.logical_or(*ends), [2, 3]))


def _largest(x: ir.Value, batches: ir.Value, rows: _Touching, columns: _Touching) -> ir.Value:
    """The largest product of a pixel and its weight in any sample, along one axis after another.

    Of a pixel that is not negative, the largest weight gives it, of a negative one the least.
    """
    lowest = float(ml_dtypes.finfo(emit.numpy_type(x)).min)
    element = tensors.element(x)
    pixels = mgx.gather(x, emit.convert(batches, "i64"), 0)
    # (regions, channels, bins, size, columns)
    positive, negative = _split_by_sign(emit.unsqueeze(pixels, [2]), lowest)
    kinds = []
    by_row, by_column = rows.extremes(), columns.extremes()
    for values, weights in zip((positive, negative), by_row, strict=True):
        kinds.append(_products(values, emit.unsqueeze(emit.convert(weights, element), [1, 4]), 3))
    found = []
    for values, weights in zip(kinds, by_column, strict=True):
        wide = emit.unsqueeze(emit.convert(weights, element), [1, 2])
        found.append(_products(emit.unsqueeze(values, [3]), wide, 4))
    y = mgx.max(*found)
    edges = [rows.adds_nothing(by_row[0]), columns.adds_nothing(by_column[0])]
    zero = emit.binary(mgx.logical_or, emit.unsqueeze(edges[0], [2]), emit.unsqueeze(edges[1], [1]))
    y = emit.where(emit.unsqueeze(zero, [1]), emit.binary(mgx.max, y, emit.like(y, 0)), y)
    empty = mgx.logical_or(rows.empty(), columns.empty())
    return emit.where(emit.unsqueeze(empty, [1, 2]), 0, y)


def _split_by_sign(x: ir.Value, lowest: float) -> list[ir.Value]:
    """x where it is not negative, and where it is; the lowest number elsewhere."""
    negative = emit.binary(mgx.less, x, emit.like(x, 0))
    return [emit.where(negative, lowest, x), emit.where(negative, x, lowest)]


def _products(values: ir.Value, weights: ir.Value, axis: int) -> ir.Value:
    """The largest product of values and weights along an axis, of those that there are."""
    lowest = float(ml_dtypes.finfo(emit.numpy_type(values)).min)
    there = emit.binary(mgx.greater, values, emit.like(values, lowest))
    in_range = mgx.logical_and(
        emit.binary(mgx.greater, weights, emit.like(weights, 0)),
        emit.binary(mgx.less, weights, emit.like(weights, 2)),
    )
    kept = emit.binary(mgx.logical_and, there, in_range)
    products = emit.where(kept, emit.binary(mgx.mul, values, weights), lowest)
    return emit.squeeze(mgx.reduce_max(products, [axis]), [axis])


def _averaged(x: ir.Value, batches: ir.Value, rows: ir.Value, columns: ir.Value) -> ir.Value:
    """The means (regions, channels, ...) by the shares of rows and of columns: two products."""
    images, channels, height, width = tensors.known_sizes(x)
    regions, high, _ = tensors.known_sizes(rows)
    wide = tensors.known_sizes(columns)[1]
    element = tensors.element(x)
    rows, columns = (emit.convert(v, element) for v in (rows, columns))
    # The rows of all images are one dimension; a region has shares of its own image's.
    batch = emit.unsqueeze(emit.convert(batches, "i64"), [1, 2, 3])
    numbers = emit.unsqueeze(emit.counted(tensors.dims(x)[0]), [0, 1, 3])
    own = emit.binary(mgx.equal, batch, numbers)
    shares = emit.where(own, emit.unsqueeze(rows, [2]), 0)
    shares = emit.reshape_to(shares, 1, regions * high, images * height)
    lines = emit.reshape_to(emit.transpose(x, [1, 0, 2, 3]), channels, images * height, width)
    y = emit.reshape_to(emit.dot(shares, lines), channels, regions, high, width)
    y = emit.reshape_to(emit.transpose(y, [1, 0, 2, 3]), regions, channels * high, width)
    y = emit.dot(y, emit.transpose(columns, [0, 2, 1]))
    return emit.reshape_to(y, regions, channels, high, wide)


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
