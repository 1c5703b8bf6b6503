"""GridSample, and all that reads images between their pixels.

It becomes gathers of the neighbouring pixels and weighted sums of those.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

import ml_dtypes
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator

_CUBIC = -0.75
_NO_SPAN = 2.0**-10
_COUNTED = 2.0**63
# A size of an image, or a scalar where it is open.
Length: TypeAlias = "int | ir.Value"


@operator("GridSample", (16, 22), "gathernd floor mul add where")
def grid_sample(node: Node) -> ir.Value:
    x, grid = node.tensor(0), node.tensor(1)
    stated = node.attribute("mode", "bilinear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(stated, stated)
    last = tensors.rank(grid) - 1
    tensors.require(grid, [*[None] * last, tensors.rank(x) - 2], "grid")
    sampler = Sampler(
        x,
        str(node.attribute("padding_mode", "zeros")),
        bool(node.attribute("align_corners", 0)),
    )
    places = []
    for axis, open_size in enumerate(sampler.sizes):
        entry = len(sampler.sizes) - 1 - axis  # the grid names the innermost dimension first
        place = emit.squeeze(emit.take(grid, last, entry, entry + 1), [last])
        size = in_type_of(place, open_size)
        place = sampler.denormalised(place, size)
        place = sampler.counted(place)
        place = mgx.nearbyint(place) if mode == "nearest" else place
        # Pixels around a place that curves weigh are brought back one by one.
        places.append(place if mode == "cubic" else sampler.brought_back(place, size))
    y = sampler.interpolated(places, mode)
    return emit.transpose(y, [0, tensors.rank(y) - 1, *range(1, tensors.rank(y) - 1)])


def neighbours(place: ir.Value, mode: str) -> list[tuple[ir.Value, ir.Value | None]]:
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

    def counted(self, place: ir.Value) -> ir.Value:
        """Places that no i64 counts, and NaN, moved to the first edge, as onnxruntime does."""
        most = _COUNTED if ml_dtypes.finfo(emit.numpy_type(place)).max > _COUNTED else math.inf
        counts = mgx.less(mgx.abs(place), emit.like(place, most))
        return emit.where(counts, place, self._edges(1)[0])

    def brought_back(self, place: ir.Value, size: Length) -> ir.Value:
        """Places outside the image, moved into it as the padding mode says."""
        low, high = self._edges(size)
        if self.padding == "reflection":
            return _reflected(place, low, high)
        if self.padding == "border":
            outside = mgx.logical_or(
                mgx.less(place, emit.like(place, low)), emit.binary(mgx.greater, place, high)
            )
            return emit.where(outside, clipped(place, size), place)
        return place

    def _edges(self, size: Length) -> tuple[float, ir.Value | float]:
        """The first and the last place of an image of that size."""
        if self.align_corners:
            return 0, _less(size, 1)
        return -0.5, _less(size, 0.5)

    def interpolated(self, places: Sequence[ir.Value], mode: str) -> ir.Value:
        """The image (N, places..., C) at places: the pixels around each place, weighted."""
        terms = []
        for combination in itertools.product(*(neighbours(place, mode) for place in places)):
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
            size = in_type_of(index, open_size)
            if self.padding == "zeros":
                not_below = mgx.greater(index, emit.like(index, -0.5))
                inside.append(mgx.logical_and(not_below, emit.binary(mgx.less, index, size)))
            elif self.padding == "reflection":
                index = _reflected(index, *self._edges(size))
            whole.append(emit.convert(clipped(index, size), "i64"))
        stacked = emit.stack(whole, tensors.rank(whole[0]))
        pixels = mgx.gathernd(self._channels_last, stacked, batch_dims=1)
        if not inside:
            return pixels
        mask = reduce(mgx.logical_and, inside)
        return emit.where(emit.unsqueeze(mask, [tensors.rank(mask)]), pixels, 0)


def in_type_of(place: ir.Value, size: Length) -> Length:
    """A size, as a scalar of the places' type where it is open."""
    return emit.convert(size, tensors.element(place)) if isinstance(size, ir.Value) else size


def _less(size: Length, number: float) -> ir.Value | float:
    return emit.sub(size, number) if isinstance(size, ir.Value) else size - number


def clipped(place: ir.Value, size: Length) -> ir.Value:
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
