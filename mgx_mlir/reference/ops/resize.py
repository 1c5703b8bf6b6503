"""resize: a gather for `nearest`, a product with one matrix for each dimension otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgx_mlir.reference.meanings import Array, enum, meaning
from mgx_mlir.reference.numbers import rounded, widened


@meaning("resize")
def _resize(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x, shape = operands[0], list(op.results[0].type.shape)
    scales = list(op.scales)
    shape = [
        int(np.floor(np.float32(n) * np.float32(s))) if m < 0 else m
        for n, s, m in zip(x.shape, scales, shape, strict=True)
    ]
    mode = enum(op.mode)
    if mode == "nearest":
        result = x
        for axis in range(x.ndim):
            if not is_identity(op, axis, x.shape, shape):
                result = np.take(result, nearest_places(op, axis, x.shape, shape), axis)
    else:
        # Weights are fractions, of integers too.
        values = widened(x, accumulate) if x.dtype.kind in "fV" else x.astype(accumulate)
        for axis in range(x.ndim):
            if not is_identity(op, axis, x.shape, shape):
                matrix = _weights(op, axis, x.shape, shape).astype(values.dtype)
                values = np.moveaxis(np.tensordot(matrix, values, (1, axis)), 0, axis)
        result = (
            rounded(values, x.dtype) if x.dtype.kind in "fV" else rounded(np.rint(values), x.dtype)
        )
    return _with_outside(op, result, x.shape, shape)


def is_identity(op: Any, axis: int, source: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a dimension of the result is that of the input."""
    crops = enum(op.coordinate_mode) == "tf_crop_and_resize"
    return source[axis] == shape[axis] and op.scales[axis] == 1.0 and not crops


def coordinates(op: Any, axis: int, source: Sequence[int], shape: Sequence[int]) -> Array:
    """Where in the input each result index falls, in f32 as ONNX's runtimes have it."""
    f32 = np.float32
    size, wanted, scale = f32(source[axis]), f32(shape[axis]), f32(op.scales[axis])
    x = np.arange(shape[axis], dtype=np.float32)
    mode = enum(op.coordinate_mode)
    if mode == "asymmetric":
        return x / scale
    if mode == "align_corners":
        return x * (size - f32(1)) / (wanted - f32(1)) if wanted > 1 else x * f32(0)
    if mode == "pytorch_half_pixel" and wanted <= 1:
        return x * f32(0)
    if mode == "half_pixel_symmetric":
        offset = size / f32(2) * (f32(1) - wanted / (scale * size))
        return offset + (x + f32(0.5)) / scale - f32(0.5)
    if mode == "tf_crop_and_resize":
        start, end = f32(op.roi[axis]), f32(op.roi[len(shape) + axis])
        if wanted <= 1:
            return x + f32(0.5) * (start + end) * (size - f32(1))
        return start * (size - f32(1)) + x * ((end - start) * (size - f32(1)) / (wanted - f32(1)))
    return (x + f32(0.5)) / scale - f32(0.5)


def nearest_places(op: Any, axis: int, source: Sequence[int], shape: Sequence[int]) -> Array:
    """The index in the input that each result index of a dimension takes, without weights."""
    index = _nearest(coordinates(op, axis, source, shape), enum(op.nearest_mode))
    return np.clip(index, 0, source[axis] - 1)


def _nearest(where: Array, mode: str) -> Array:
    half = np.float32(0.5)
    whole = {
        "round_prefer_floor": np.ceil(where - half),
        "round_prefer_ceil": np.floor(where + half),
        "floor": np.floor(where),
        "ceil": np.ceil(where),
    }
    return whole[mode].astype(np.int64)


def _weights(op: Any, axis: int, source: Sequence[int], shape: Sequence[int]) -> Array:
    """(result size, input size): how much of each input element a result element takes."""
    size = source[axis]
    where = coordinates(op, axis, source, shape).astype(np.float64)
    cubic = enum(op.mode) == "cubic"
    stretch = min(float(op.scales[axis]), 1.0) if op.antialias.value else 1.0
    reach = int(np.ceil((2 if cubic else 1) / stretch)) + 1
    taps = np.floor(where)[:, None].astype(np.int64) + np.arange(-reach, reach + 1)
    distance = np.abs(taps - where[:, None]) * stretch
    weights = _cubic(distance, op.cubic_coeff_a.value) if cubic else np.maximum(1 - distance, 0)
    if op.exclude_outside.value:
        weights = np.where((taps >= 0) & (taps < size), weights, 0)
    if op.exclude_outside.value or op.antialias.value:
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((len(where), size))
    rows = np.broadcast_to(np.arange(len(where))[:, None], taps.shape)
    np.add.at(matrix, (rows, np.clip(taps, 0, size - 1)), weights)
    return matrix


def _cubic(distance: Array, a: float) -> Array:
    d = distance
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _with_outside(op: Any, result: Array, source: Sequence[int], shape: Sequence[int]) -> Array:
    """tf_crop_and_resize fills what falls outside the input."""
    if enum(op.coordinate_mode) != "tf_crop_and_resize":
        return result
    outside = np.zeros(result.shape, np.bool_)
    for axis in range(result.ndim):
        where = coordinates(op, axis, source, shape)
        bad = (where < 0) | (where > source[axis] - 1)
        outside |= bad.reshape([-1 if d == axis else 1 for d in range(result.ndim)])
    fill = rounded(np.array(op.extrapolation_value.value), result.dtype)
    return np.where(outside, fill, result)
