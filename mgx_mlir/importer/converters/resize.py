"""Resize in all its versions, and Upsample, its predecessor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import tensors
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
    elif coordinates == "tf_half_pixel_for_nn":
        raise UnsupportedError(f"coordinate_transformation_mode = {coordinates}")
    antialias = bool(node.attribute("antialias")) if node.version >= 18 else False
    attributes = {
        "nearest_mode": mgx.NearestMode[node.attribute("nearest_mode")],
        "cubic_coeff_a": node.attribute("cubic_coeff_a"),
        "exclude_outside": bool(node.attribute("exclude_outside")),
        "extrapolation_value": node.attribute("extrapolation_value"),
    }
    if target == list(sizes) and all(f == 1 for f in factors) and not options:
        return x
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
