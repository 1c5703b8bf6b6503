"""Views and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgx_mlir.dialects import mgx
from mgx_mlir.reference.meanings import Array, meaning


@meaning("reshape", "multibroadcast")
def _by_type(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    shape = [n if n >= 0 else -1 for n in op.results[0].type.shape]
    if isinstance(op, mgx.ReshapeOp):
        return operands[0].reshape(shape)
    shape = _known(shape, operands[0].shape)
    return np.broadcast_to(operands[0], shape)


def _known(shape: Sequence[int], source: Sequence[int]) -> list[int]:
    """Unknown sizes of a broadcast from the operand's, aligned at the end."""
    offset = len(shape) - len(source)
    return [source[d - offset] if n < 0 else n for d, n in enumerate(shape)]


@meaning("broadcast")
def _broadcast(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x, shape, axis = operands[0], list(op.results[0].type.shape), op.axis.value
    placed = [1] * len(shape)
    placed[axis : axis + x.ndim] = x.shape
    return np.broadcast_to(
        x.reshape(placed), [p if n < 0 else n for p, n in zip(placed, shape, strict=True)]
    )


@meaning("reshape_to")
def _reshape_to(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    return operands[0].reshape(operands[1].tolist())


@meaning("broadcast_with_dims")
def _broadcast_with_dims(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    shape = np.broadcast_shapes(operands[0].shape, tuple(operands[1].tolist()))
    return np.broadcast_to(operands[0], shape)


@meaning("transpose")
def _transpose(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    return operands[0].transpose(list(op.permutation))


@meaning("squeeze")
def _squeeze(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    return operands[0].squeeze(tuple(op.axes))


@meaning("unsqueeze")
def _unsqueeze(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    return np.expand_dims(operands[0], tuple(op.axes))


@meaning("flatten")
def _flatten(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    rows = int(np.prod(operands[0].shape[: op.axis.value], dtype=np.int64))
    columns = int(np.prod(operands[0].shape[op.axis.value :], dtype=np.int64))
    return operands[0].reshape(rows, columns)


@meaning("slice")
def _slice(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    taken = [slice(None)] * operands[0].ndim
    for axis, start, end in zip(op.axes, op.starts, op.ends, strict=True):
        taken[axis] = slice(start, end)
    return operands[0][tuple(taken)]


@meaning("step")
def _step(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    taken = [slice(None)] * operands[0].ndim
    for axis, step in zip(op.axes, op.steps, strict=True):
        taken[axis] = slice(None, None, step)
    return operands[0][tuple(taken)]


@meaning("reverse")
def _reverse(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    return np.flip(operands[0], tuple(op.axes))


@meaning("identity", "contiguous", "layout")
def _identity(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    return operands[0]


@meaning("dimensions_of")
def _dimensions_of(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    return np.array(operands[0].shape[op.start.value : op.end.value], np.int64)
