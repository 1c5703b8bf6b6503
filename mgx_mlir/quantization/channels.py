"""Weights of int8 and fp8 with a scale for each output channel, and the biases beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import ml_dtypes
import numpy as np

FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
# The largest number of each type that weights use.
LARGEST = {"int8": 127.0, "fp8": float(ml_dtypes.finfo(FP8).max)}
TYPES = {"int8": np.dtype(np.int8), "fp8": FP8}
# A 32-bit bias keeps one bit for the sum that it starts.
_LARGEST_BIAS = 2.0**30
_PIECE = 1 << 20


@dataclass(frozen=True)
class Parameters:
    """The scale and the zero point of a tensor of `kind` ('int8' or 'fp8')."""

    kind: str
    scale: np.float32
    zero: int = 0

    @staticmethod
    def of(kind: str, ends: tuple[float, float], *, asymmetric: bool) -> Parameters:
        """The parameters that hold a range and zero."""
        low, high = min(ends[0], 0.0), max(ends[1], 0.0)
        if kind == "int8" and asymmetric and high > low:
            scale = np.float32((high - low) / 255)
            if scale > 0:
                return Parameters(kind, scale, int(np.clip(round(-128 - low / scale), -128, 127)))
        return Parameters(kind, _positive(np.float32(max(-low, high) / LARGEST[kind])))


def _positive(scale: np.float32) -> np.float32:
    """A scale; 1 for tensors of zeros, and for those whose scale f32 does not hold."""
    return scale if scale >= np.finfo(np.float32).tiny else np.float32(1)


def pieces(array: np.ndarray) -> Iterator[slice]:
    """Slices of the first axis that hold about a million elements each."""
    step = max(1, _PIECE // max(1, array[:1].size))
    for start in range(0, len(array), step):
        yield slice(start, start + step)


def scales_of(weight: np.ndarray, axis: int, kind: str) -> np.ndarray:
    """The scale of each output channel: f32 (channels,)."""
    largest = np.zeros(weight.shape[axis], np.float32)
    others = tuple(i for i in range(weight.ndim) if i != axis)
    for piece in pieces(weight):
        found = np.abs(weight[piece]).max(others)
        if axis == 0:
            largest[piece] = found
        else:
            largest = np.maximum(largest, found)
    scale = largest / np.float32(LARGEST[kind])
    return np.where(scale >= np.finfo(np.float32).tiny, scale, np.float32(1))


def with_room(scales: np.ndarray, bias: np.ndarray, x_scale: np.float32) -> np.ndarray:
    """The scales, larger where a bias would not fit 32 bits otherwise."""
    least = np.abs(bias) / (np.float64(x_scale) * _LARGEST_BIAS)
    return np.maximum(scales, least.astype(np.float32))


def quantized(weight: np.ndarray, scales: np.ndarray, axis: int, kind: str) -> np.ndarray:
    """The weight divided by its scales and rounded, in the type of `kind`."""
    found = np.empty(weight.shape, TYPES[kind])
    for piece in pieces(weight):
        shared = along(scales[piece] if axis == 0 else scales, axis, weight.ndim)
        values = weight[piece] / shared
        if kind == "int8":
            values = np.round(values)
        found[piece] = np.clip(values, -LARGEST[kind], LARGEST[kind]).astype(TYPES[kind])
    return found


def along(vector: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """A vector with the rank of a tensor, along one of its axes."""
    return vector.reshape([-1 if i == axis else 1 for i in range(rank)])


def mean_error(
    weight: np.ndarray, scales: np.ndarray, axis: int, kind: str, means: np.ndarray
) -> np.ndarray | None:
    """The mean that rounding the weight adds to each output channel, f64 (channels,).

    `means` are those of the summed channels of x. None where they do not fit the weight.
    """
    spatial = tuple(range(2, weight.ndim)) if axis == 0 else ()
    if axis == 0:
        rows = weight.shape[1]
        groups = len(means) // rows if rows else 0
        if not groups or groups * rows != len(means) or len(weight) % groups:
            return None
        of_group = np.arange(len(weight)) // (len(weight) // groups)
    elif weight.ndim != 2 or weight.shape[0] != len(means):
        return None
    total = np.zeros(weight.shape[axis])
    for piece in pieces(weight):
        own = scales[piece] if axis == 0 else scales
        rounded = quantized(weight[piece], own, axis, kind).astype(np.float64)
        error = rounded * along(own, axis, weight.ndim) - weight[piece]
        if axis == 0:
            each = means.reshape(groups, rows)[of_group[piece]]
            total[piece] = (error.sum(spatial) * each).sum(1)
        else:
            total += means[piece] @ error
    return total
