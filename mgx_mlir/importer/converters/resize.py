"""Resize in all its versions, and Upsample, its predecessor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator


def _result(sizes: Sequence[int], scales: Sequence[float]) -> list[int]:
    if not all(0 < scale < math.inf for scale in scales):
        raise ModelError(f"scales of {list(scales)}; they are numbers above 0")
    # ONNX's shape inference multiplies in 32 bits: .7 of 10 is 7, where 64 bits give 6.
    products = [np.float32(n) * np.float32(s) for n, s in zip(sizes, scales, strict=True)]
    return [math.floor(p) for p in products]


def _upsample(node: Node) -> ir.Value:
    """Coordinates are divided by the scale and rounded down (nearest), or interpolated."""
    x = node.tensor(0)
    sizes = tensors.static_dims(x)
    stated = node.attribute("scales") if node.version < 9 else node.constant(1, "scales")
    return _scaled(x, sizes, np.asarray(stated, np.float64), str(node.attribute("mode")))


def _scaled(x: ir.Value, sizes: Sequence[int], scales: np.ndarray, mode: str) -> ir.Value:
    if scales.size != len(sizes):
        raise ModelError(f"{scales.size} scales for {len(sizes)} dimensions")
    factors = [float(np.float32(s)) for s in scales.reshape(-1)]
    if all(f == 1 for f in factors):
        return x
    return mgx.resize(
        x,
        _result(sizes, factors),
        factors,
        mode=mgx.ResizeMode[mode],
        coordinate_mode=mgx.CoordinateMode.asymmetric,
        nearest_mode=mgx.NearestMode.floor,
    )


operator("Upsample", (7, 9), "resize")(_upsample)


@operator("Resize", (10, 19), "resize")
def resize(node: Node) -> ir.Value:
    x = node.tensor(0)
    sizes = tensors.static_dims(x)
    if node.version == 10:
        scales = node.constant(1, "scales").astype(np.float64)
        return _scaled(x, sizes, scales, str(node.attribute("mode")))
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
    if target == list(sizes) and all(f == 1 for f in factors) and not options:
        return x
    if coordinates == "tf_half_pixel_for_nn":
        if antialias:
            raise UnsupportedError(f"antialias with coordinate_transformation_mode = {coordinates}")
        return _from_corners(node, x, target, factors)
    return mgx.resize(
        x,
        target,
        factors,
        mode=mgx.ResizeMode[mode],
        coordinate_mode=mgx.CoordinateMode[coordinates],
        antialias=antialias,
        **attributes,
        **options,
    )


def _from_corners(
    node: Node, x: ir.Value, target: Sequence[int], factors: Sequence[float]
) -> ir.Value:
    """x where index i of the result is at (i + 0.5) / factor: half a pixel after half_pixel.

    A gather for each dimension, or a product with the weights of its elements.
    """
    element, mode = tensors.element(x), str(node.attribute("mode"))
    for axis, (wanted, factor) in enumerate(zip(target, factors, strict=True)):
        size = tensors.static_dims(x)[axis]
        if wanted == size and factor == 1:
            continue
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


def _target(node: Node, sizes: Sequence[int], axes: list[int]) -> tuple[list[int], list[float]]:
    """The sizes of the result and the factor of each dimension."""
    policy = "stretch"
    if node.version >= 18:
        policy = str(node.attribute("keep_aspect_ratio_policy"))
    scales = node.constant(2, "scales") if node.given(2) else np.zeros(0)
    if scales.size:
        factors = [1.0] * len(sizes)
        for axis, factor in zip(axes, scales.reshape(-1), strict=True):
            factors[axis] = float(np.float32(factor))
        return _result(sizes, factors), factors
    wanted = node.integers(3, "sizes") if node.given(3) else []
    if len(wanted) != len(axes) or min(wanted, default=1) < 0:
        raise ModelError(f"sizes {wanted} for {len(axes)} dimensions")
    ratios = [w / sizes[a] for w, a in zip(wanted, axes, strict=True)]
    target, factors = list(sizes), [1.0] * len(sizes)
    for axis, want, ratio in zip(axes, wanted, ratios, strict=True):
        if policy == "stretch":
            target[axis], factors[axis] = want, ratio
            continue
        common = min(ratios) if policy == "not_larger" else max(ratios)
        target[axis], factors[axis] = math.floor(common * sizes[axis] + 0.5), common
    return target, factors


def _region(node: Node, axes: list[int], rank: int) -> list[float]:
    """Starts of all dimensions, then ends; dimensions that are not named are whole."""
    stated = [float(v) for v in node.constant(1, "roi").reshape(-1)]
    if len(stated) != 2 * len(axes):
        raise ModelError(f"a roi of {len(stated)} numbers for {len(axes)} dimensions")
    starts, ends = [0.0] * rank, [1.0] * rank
    for place, axis in enumerate(axes):
        starts[axis], ends[axis] = stated[place], stated[len(axes) + place]
    return starts + ends
