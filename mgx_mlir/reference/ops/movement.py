"""concat, gather, scatter, pad, nonzero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.reference.meanings import Array, enum, meaning
from mgx_mlir.reference.numbers import rounded, widened


@meaning("concat")
def _concat(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    return np.concatenate(operands, op.axis.value)


def _positive(indices: Array, size: int) -> Array:
    """Negative indices count from the end; those out of bounds become the nearest."""
    indices = indices.astype(np.int64)
    return np.clip(np.where(indices < 0, indices + size, indices), 0, max(size - 1, 0))


@meaning("gather")
def _gather(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x, axis = operands[0], op.axis.value
    return np.take(x, _positive(operands[1], x.shape[axis]), axis)


@meaning("gather_elements")
def _gather_elements(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x, axis = operands[0], op.axis.value
    where = list(np.indices(operands[1].shape))
    where[axis] = _positive(operands[1], x.shape[axis])
    return x[tuple(where)]


@meaning("gathernd")
def _gathernd(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x, indices = operands
    batch = op.batch_dims.value
    depth = indices.shape[-1]
    tuples = [_positive(indices[..., i], x.shape[batch + i]) for i in range(depth)]
    batches = np.indices(indices.shape[:-1])[:batch]
    return x[(*batches, *tuples)]


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@meaning(*(f"scatter_{kind}" for kind in _COMBINE))
def _scatter(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x, indices, updates = operands
    axis = op.axis.value
    where = list(np.indices(indices.shape))
    where[axis] = _positive(indices, x.shape[axis])
    places = np.stack([w.reshape(-1) for w in where], axis=1)
    return _applied(op, x, places, updates.reshape(-1))


@meaning(*(f"scatternd_{kind}" for kind in _COMBINE))
def _scatternd(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x, indices, updates = operands
    depth = indices.shape[-1]
    places = np.stack(
        [_positive(indices[..., i].reshape(-1), x.shape[i]) for i in range(depth)], axis=1
    )
    return _applied(op, x, places, updates.reshape(len(places), *x.shape[depth:]))


def _applied(op: Any, x: Array, places: Array, updates: Array) -> Array:
    """x after the updates, one after another in their order."""
    combine = _COMBINE[op.operation.name.rpartition("_")[2]]
    result = x.copy()
    for place, update in zip(places, updates, strict=True):
        where = tuple(place)
        value = combine(widened(result[where]), widened(np.asarray(update)))
        result[where] = rounded(np.asarray(value), x.dtype)
    return result


@meaning("pad")
def _pad(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x, low, high = operands[0], list(op.low), list(op.high)
    kept = tuple(
        slice(max(-before, 0), size - max(-after, 0))
        for before, after, size in zip(low, high, x.shape, strict=True)
    )
    mode = enum(op.mode)
    if mode == "constant":
        value = (
            rounded(np.array(op.value.value), x.dtype)
            if x.dtype.kind in "fV"
            else np.array(int(op.value.value)).astype(x.dtype)
        )
        amounts = [(max(b, 0), max(a, 0)) for b, a in zip(low, high, strict=True)]
        shape = [n + b + a for n, (b, a) in zip(x[kept].shape, amounts, strict=True)]
        result = np.full(shape, value, x.dtype)
        inner = tuple(slice(b, b + n) for (b, _), n in zip(amounts, x[kept].shape, strict=True))
        result[inner] = x[kept]
        return result
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        x = np.take(x, _padded_indices(mode, before, after, x.shape[axis]), axis)
    return x


def _padded_indices(mode: str, before: int, after: int, size: int) -> Array:
    positions = np.arange(-before, size + after)
    if mode == "edge" or size == 1:
        return np.clip(positions, 0, size - 1)
    if mode == "wrap":
        return positions % size
    period = 2 * (size - 1)
    positions = positions % period
    return np.minimum(positions, period - positions)


@meaning("nonzero")
def _nonzero(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    """A static result holds the indices first and zeros after them."""
    found = np.stack(np.nonzero(widened(operands[0]))).astype(numpy_dtype(op.results[0].type))
    columns = op.results[0].type.shape[1]
    if columns < 0:
        return found
    result = np.zeros((operands[0].ndim, columns), found.dtype)
    count = min(columns, found.shape[1])
    result[:, :count] = found[:, :count]
    return result
