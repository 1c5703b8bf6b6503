"""Pooling and lrn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgx_mlir.reference.meanings import Array, enum, meaning
from mgx_mlir.reference.numbers import is_float, rounded, widened
from mgx_mlir.reference.ops.contractions import windows_of
from mgx_mlir.sizes.arithmetic import ceil_div


@meaning("pooling")
def _pooling(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    mode, x = enum(op.mode), widened(operands[0], accumulate)
    lengths, strides = list(op.lengths), list(op.strides)
    pads, dilations = list(op.pads), list(op.dilations)
    rank = x.ndim - 2
    out = [
        _window_count(
            x.shape[2 + d],
            lengths[d],
            strides[d],
            dilations[d],
            (pads[d], pads[rank + d]),
            op.ceil_mode.value,
        )
        for d in range(rank)
    ]
    # Elements beyond the pads that windows reach with ceil_mode: never counted.
    reach = [
        max(out[d] - 1, 0) * strides[d] + (lengths[d] - 1) * dilations[d] + 1 for d in range(rank)
    ]
    around = [
        (0, 0),
        (0, 0),
        *((pads[d], max(reach[d] - pads[d] - x.shape[2 + d], 0)) for d in range(rank)),
    ]

    neutral: Any = 0
    if mode == "max":
        neutral = -np.inf if is_float(x.dtype) else np.iinfo(x.dtype).min
    # A narrow float without infinity keeps its lowest value, as every element is above it.
    padded = np.pad(x, around, constant_values=neutral)
    windows = windows_of(padded, lengths, strides, dilations)
    windows = windows[(slice(None), slice(None), *(slice(n) for n in out))]
    axes = tuple(range(2 + rank, 2 + 2 * rank))
    if mode == "max":
        return rounded(windows.max(axes), operands[0].dtype)
    if mode == "lpnorm":
        order = op.lp_order.value
        total = (np.abs(windows) ** order).sum(axes, dtype=x.dtype)
        return rounded(total ** x.dtype.type(1.0 / order), operands[0].dtype)

    inside = np.zeros((1, 1, *padded.shape[2:]), np.int64)
    counted = [
        slice(0, pads[d] + x.shape[2 + d] + pads[rank + d])
        if op.count_include_pad.value
        else slice(pads[d], pads[d] + x.shape[2 + d])
        for d in range(rank)
    ]
    inside[(slice(None), slice(None), *counted)] = 1
    count = windows_of(inside, lengths, strides, dilations)
    count = count[(slice(None), slice(None), *(slice(n) for n in out))].sum(axes)
    if is_float(x.dtype):
        total = windows.sum(axes, dtype=x.dtype)
        return rounded(total / count.astype(x.dtype), operands[0].dtype)
    total = windows.sum(axes, dtype=np.int64)
    quotient = np.abs(total) // count
    return rounded(np.where(total < 0, -quotient, quotient), operands[0].dtype)


def _window_count(
    size: int, length: int, stride: int, dilation: int, pads: tuple[int, int], ceil: bool
) -> int:
    """How many windows there are; with `ceil`, none starts in the padding after the input."""
    span = size + sum(pads) - ((length - 1) * dilation + 1)
    if not ceil:
        return span // stride + 1
    count = ceil_div(span, stride) + 1
    return count - 1 if (count - 1) * stride >= size + pads[0] else count


@meaning("lrn")
def _lrn(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x, size = widened(operands[0], accumulate), op.size.value
    channels = x.shape[1]
    squares = np.zeros_like(x)
    for channel in range(channels):
        first = max(channel - (size - 1) // 2, 0)
        last = min(channel + size // 2, channels - 1)
        squares[:, channel] = (x[:, first : last + 1] ** 2).sum(1)
    scale = x.dtype.type(op.bias.value) + x.dtype.type(op.alpha.value / size) * squares
    return rounded(x / scale ** x.dtype.type(op.beta.value), operands[0].dtype)
