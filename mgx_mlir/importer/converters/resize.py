"""Resize in all its versions, and Upsample, its predecessor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, OpenError, UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.sizes.arithmetic import Number

# The scale that is the ratio of the result's size to the input's, which a run knows.
RATIO = math.inf
# The greatest denominator of a scale of a size that only a run knows, and the greatest such size
# where rounding in f32 could tell.
_MAX_DENOMINATOR, _MAX_SIZE = 64, 1 << 14


def _result(node: Node, sizes: Sequence[Number], scales: Sequence[float]) -> list[Number]:
    if not all(0 < scale < math.inf for scale in scales):
        raise ModelError(f"scales of {list(scales)}; they are numbers above 0")
    return [_scaled_size(node, n, scale) for n, scale in zip(sizes, scales, strict=True)]


def _scaled_size(node: Node, size: Number, scale: float) -> Number:
    if isinstance(size, int):
        # ONNX's shape inference multiplies in 32 bits: .7 of 10 is 7, where 64 bits give 6.
        return math.floor(np.float32(size) * np.float32(scale))
    exact = Fraction(float(np.float32(scale)))
    if exact.denominator > _MAX_DENOMINATOR:
        exact = exact.limit_denominator(_MAX_DENOMINATOR)
        numbers = np.arange(_MAX_SIZE + 1)
        products = np.floor(numbers.astype(np.float32) * np.float32(scale))
        if (products != numbers * exact.numerator // exact.denominator).any():
            raise OpenError(f"a scale of {scale} for the size {size}, which only a run knows")
        node.require(_MAX_SIZE - size)
    return size * exact.numerator // exact.denominator


def _upsample(node: Node) -> ir.Value:
    """Coordinates are divided by the scale and rounded down (nearest), or interpolated."""
    x = node.tensor(0)
    sizes = tensors.known_sizes(x)
    stated = node.attribute("scales") if node.version < 9 else node.constant(1, "scales")
    return _scaled(node, sizes, np.asarray(stated, np.float64), str(node.attribute("mode")))


def _scaled(node: Node, sizes: Sequence[Number], scales: np.ndarray, mode: str) -> ir.Value:
    x = node.tensor(0)
    if scales.size != len(sizes):
        raise ModelError(f"{scales.size} scales for {len(sizes)} dimensions")
    factors = [float(np.float32(s)) for s in scales.reshape(-1)]
    if all(f == 1 for f in factors):
        return x
    return mgx.resize(
        x,
        tensors.named(_result(node, sizes, factors)),
        factors,
        mode=mgx.ResizeMode[mode],
        coordinate_mode=mgx.CoordinateMode.asymmetric,
        nearest_mode=mgx.NearestMode.floor,
    )


operator("Upsample", (7, 9), "resize")(_upsample)


@operator("Resize", (10, 19), "resize")
def resize(node: Node) -> ir.Value:
    x = node.tensor(0)
    sizes = tensors.known_sizes(x)
    if node.version == 10:
        scales = node.constant(1, "scales").astype(np.float64)
        return _scaled(node, sizes, scales, str(node.attribute("mode")))
    rank = len(sizes)
    axes = list(range(rank))
    if node.version >= 18 and node.attribute("axes") is not None:
        axes = [tensors.axis_in(a, rank) for a in node.attribute("axes")]
    target, factors = _target(node, sizes, axes)
    mode = str(node.attribute("mode"))
    coordinates = str(node.attribute("coordinate_transformation_mode"))
    options: dict[str, Any] = {}
    if coordinates == "tf_crop_and_resize":
        options["roi"] = _region(node, axes, rank)
    antialias = bool(node.attribute("antialias")) if node.version >= 18 else False
    attributes = {
        "nearest_mode": mgx.NearestMode[node.attribute("nearest_mode")],
        "cubic_coeff_a": node.attribute("cubic_coeff_a"),
        "exclude_outside": bool(node.attribute("exclude_outside")),
        "extrapolation_value": node.attribute("extrapolation_value"),
    }
    if antialias and RATIO in factors:
        raise OpenError("antialias to sizes that only a run knows")
    if target == sizes and all(f == 1 for f in factors) and not options:
        return x
    if 0 in target:
        return emit.filled(np.zeros((), emit.numpy_type(x)), tensors.named(target))
    for size, wanted in zip(sizes, target, strict=True):
        if size != wanted:
            node.require_some(size)
    if coordinates == "tf_half_pixel_for_nn":
        if antialias:
            raise UnsupportedError(f"antialias with coordinate_transformation_mode = {coordinates}")
        return _from_corners(node, x, target, factors)
    return mgx.resize(
        x,
        tensors.named(target),
        factors,
        mode=mgx.ResizeMode[mode],
        coordinate_mode=mgx.CoordinateMode[coordinates],
        antialias=antialias,
        **attributes,
        **options,
    )


def _from_corners(
    node: Node, x: ir.Value, target: Sequence[Number], factors: Sequence[float]
) -> ir.Value:
    """x where index i of the result is at (i + 0.5) / factor: half a pixel after half_pixel.

    A gather for each dimension, or a product with the weights of its elements.
    """
    element, mode = tensors.element(x), str(node.attribute("mode"))
    for axis, (wanted, factor) in enumerate(zip(target, factors, strict=True)):
        if factor == 1 and wanted == tensors.known_sizes(x)[axis]:
            continue
        size = tensors.size_of(x, axis, "the resized dimension")
        assert isinstance(wanted, int)
        where = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) / np.float32(factor)
        if mode == "nearest":
            places = _ROUNDINGS[str(node.attribute("nearest_mode"))](where)
            places = np.clip(places.astype(np.int64), 0, size - 1)
            x = mgx.gather(x, node.make(places), axis)
            continue
        x, back = emit.moved_to_end(emit.to_float(x), axis)
        weights = _weights(node, where, size).astype(emit.numpy_type(x))
        x = emit.transpose(emit.dot(x, node.make(weights)), back)
    if tensors.element(x) != element:
        x = emit.convert(mgx.nearbyint(x), element)
    return x


_HALF = np.float32(0.5)
_ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda where: np.floor(where + _HALF),
    "round_prefer_floor": lambda where: np.ceil(where - _HALF),
}


def _weights(node: Node, where: np.ndarray, size: int) -> np.ndarray:
    """(size, places): the weight of each element at each place of the result."""
    cubic = node.attribute("mode") == "cubic"
    where = where if cubic else np.clip(where, 0, size - 1)
    taps = np.floor(where).astype(np.int64)[:, None] + np.arange(-1, 3)
    d = np.abs(taps - where[:, None])
    weights = np.maximum(1 - d, 0)
    if cubic:  # Keys' kernel
        a = float(node.attribute("cubic_coeff_a"))
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        weights = np.where(
            d <= 1, near, np.where(d < 2, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a, 0)
        )
        if node.attribute("exclude_outside"):
            weights = np.where((taps >= 0) & (taps < size), weights, 0)
            weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((size, len(where)))
    columns = np.broadcast_to(np.arange(len(where))[:, None], taps.shape)
    np.add.at(matrix, (np.clip(taps, 0, size - 1), columns), weights)
    return matrix


def _target(
    node: Node, sizes: Sequence[Number], axes: list[int]
) -> tuple[list[Number], list[float]]:
    """The sizes of the result and the factor of each dimension."""
    policy = "stretch"
    if node.version >= 18:
        policy = str(node.attribute("keep_aspect_ratio_policy"))
    scales = node.constant(2, "scales") if node.given(2) else np.zeros(0)
    if scales.size:
        factors = [1.0] * len(sizes)
        for axis, factor in zip(axes, scales.reshape(-1), strict=True):
            factors[axis] = float(np.float32(factor))
        return _result(node, sizes, factors), factors
    wanted = _wanted(node)
    if len(wanted) != len(axes) or any(isinstance(w, int) and w < 0 for w in wanted):
        raise ModelError(f"sizes {[str(w) for w in wanted]} for {len(axes)} dimensions")
    ratios = [_ratio(w, sizes[a]) for w, a in zip(wanted, axes, strict=True)]
    if policy != "stretch" and RATIO in ratios:
        raise OpenError(f"keep_aspect_ratio_policy = {policy} and sizes that only a run knows")
    target, factors = list(sizes), [1.0] * len(sizes)
    for axis, want, ratio in zip(axes, wanted, ratios, strict=True):
        if policy == "stretch":
            target[axis], factors[axis] = want, ratio
            continue
        common = min(ratios) if policy == "not_larger" else max(ratios)
        size = sizes[axis]
        assert isinstance(size, int)
        target[axis], factors[axis] = math.floor(common * size + 0.5), common
    return target, factors


def _wanted(node: Node) -> list[Number]:
    """The sizes of the result that input 3 holds."""
    sizes = node.sizes(3) if node.given(3) else []
    return list(node.integers(3, "sizes")) if sizes is None else sizes


def _ratio(wanted: Number, size: Number) -> float:
    if isinstance(wanted, int) and isinstance(size, int):
        return wanted / size
    return 1.0 if wanted == size else RATIO


def _region(node: Node, axes: list[int], rank: int) -> list[float]:
    """Starts of all dimensions, then ends; dimensions that are not named are whole."""
    stated = [float(v) for v in node.constant(1, "roi").reshape(-1)]
    if len(stated) != 2 * len(axes):
        raise ModelError(f"a roi of {len(stated)} numbers for {len(axes)} dimensions")
    starts, ends = [0.0] * rank, [1.0] * rank
    for place, axis in enumerate(axes):
        starts[axis], ends[axis] = stated[place], stated[len(axes) + place]
    return starts + ends
