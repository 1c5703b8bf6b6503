"""Reductions, softmax, prefix sums, topk. Sums of narrow floats are kept in `accumulate`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.reference.meanings import Array, meaning
from mgx_mlir.reference.numbers import is_float, rounded, widened


def _start(dtype: np.dtype[Any], lowest: bool) -> Any:
    if is_float(dtype):
        return -np.inf if lowest else np.inf
    if dtype == np.bool_:
        return not lowest
    limits = np.iinfo(dtype)
    return limits.min if lowest else limits.max


def _reduction(function: Callable[..., Array]) -> Callable[[Any, Sequence[Array], Any], Array]:
    def reduce(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
        x = widened(operands[0], accumulate)
        return rounded(function(x, tuple(op.axes)), operands[0].dtype)

    return reduce


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    """Integers are summed in 64 bits; the quotient is truncated."""
    count = math.prod(x.shape[d] for d in axes)
    if is_float(x.dtype):
        return np.sum(x, axes, dtype=x.dtype, keepdims=True) / x.dtype.type(count)
    wide: Any = x.dtype if x.dtype == np.uint64 else np.int64
    total = np.sum(x, axes, dtype=wide, keepdims=True)
    quotient = np.abs(total) // count if wide is np.int64 else total // count
    return np.asarray(np.where(total < 0, -quotient, quotient)).astype(x.dtype)


meaning("reduce_sum")(_reduction(lambda x, axes: np.sum(x, axes, dtype=x.dtype, keepdims=True)))
meaning("reduce_prod")(_reduction(lambda x, axes: np.prod(x, axes, dtype=x.dtype, keepdims=True)))
meaning("reduce_mean")(_reduction(_mean))
meaning("reduce_max")(
    _reduction(lambda x, axes: np.max(x, axes, keepdims=True, initial=_start(x.dtype, lowest=True)))
)
meaning("reduce_min")(
    _reduction(
        lambda x, axes: np.min(x, axes, keepdims=True, initial=_start(x.dtype, lowest=False))
    )
)
meaning("reduce_any")(_reduction(lambda x, axes: np.any(x, axes, keepdims=True)))
meaning("reduce_all")(_reduction(lambda x, axes: np.all(x, axes, keepdims=True)))


@meaning("argmax", "argmin")
def _arg(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x, axis = widened(operands[0]), op.axis.value
    find = np.argmax if isinstance(op, mgx.ArgmaxOp) else np.argmin
    if op.select_last_index.value:
        found = x.shape[axis] - 1 - find(np.flip(x, axis), axis, keepdims=True)
    else:
        found = find(x, axis, keepdims=True)
    return np.asarray(found).astype(numpy_dtype(op.results[0].type))


@meaning("softmax")
def _softmax(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x, axis = widened(operands[0], accumulate), op.axis.value
    powers = np.exp(x - np.max(x, axis, keepdims=True, initial=-np.inf))
    return rounded(powers / np.sum(powers, axis, keepdims=True), operands[0].dtype)


@meaning("logsoftmax")
def _logsoftmax(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x, axis = widened(operands[0], accumulate), op.axis.value
    x = x - np.max(x, axis, keepdims=True, initial=-np.inf)
    return rounded(x - np.log(np.sum(np.exp(x), axis, keepdims=True)), operands[0].dtype)


@meaning("prefix_scan_prod")
def _prefix_scan_prod(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    return _scanned(op, operands[0], accumulate, np.cumprod, 1)


@meaning("prefix_scan_sum")
def _prefix_scan_sum(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    return _scanned(op, operands[0], accumulate, np.cumsum, 0)


def _scanned(op: Any, x: Array, accumulate: Any, scan: Any, nothing: int) -> Array:
    found, axis = widened(x, accumulate), op.axis.value
    if op.reverse.value:
        found = np.flip(found, axis)
    found = scan(found, axis, dtype=found.dtype)
    if op.exclusive.value:
        found = np.roll(found, 1, axis)
        found[(slice(None),) * axis + (0,)] = nothing
    if op.reverse.value:
        found = np.flip(found, axis)
    return rounded(found, x.dtype)


@meaning("suppress")
def _suppress(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    boxes, candidates = operands
    kept = np.zeros_like(candidates)
    for row in np.ndindex(*candidates.shape[:-1]):
        chosen = boxes[row][:0]
        for i in np.flatnonzero(candidates[row]):
            box = boxes[row][i]
            sides = np.minimum(chosen[:, 2:], box[2:]) - np.maximum(chosen[:, :2], box[:2])
            shared = np.maximum(sides, 0).prod(axis=1)
            areas = (chosen[:, 2:] - chosen[:, :2]).prod(axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                over = shared / ((box[2:] - box[:2]).prod() + areas - shared)
            limit = np.float32(op.threshold.value)
            if len(chosen) < op.most.value and not ((shared > 0) & (over > limit)).any():
                kept[row][i] = True
                chosen = np.concatenate([chosen, box[None]])
    return kept


@meaning("topk")
def _topk(op: Any, operands: Sequence[Array], accumulate: Any) -> list[Array]:
    x, axis, k = operands[0], op.axis.value, op.k.value
    keys = widened(x)
    if op.largest.value:  # a stable descending sort: the reversed ascending sort of the reverse
        order = (
            keys.shape[axis]
            - 1
            - np.flip(np.argsort(np.flip(keys, axis), axis, kind="stable"), axis)
        )
    else:
        order = np.argsort(keys, axis, kind="stable")
    order = np.take(order, range(k if k >= 0 else keys.shape[axis]), axis)
    indices = order.astype(numpy_dtype(op.results[1].type))
    return [np.take_along_axis(x, order, axis), indices]
