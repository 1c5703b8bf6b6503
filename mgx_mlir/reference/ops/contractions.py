"""dot, convolution and its transpose, and their quantized forms, through matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.reference.meanings import Array, meaning
from mgx_mlir.reference.numbers import is_float, rounded, widened
from mgx_mlir.rewriting.queries import pad_value_of


def _operands(op: Any, operands: Sequence[Array], accumulate: Any) -> list[Array]:
    """The operands in the type in which the result is summed."""
    dtype = numpy_dtype(op.results[0].type)
    if is_float(dtype):
        wide = np.float64 if dtype == np.float64 else np.promote_types(accumulate, np.float32)
    else:
        wide = dtype
    return [widened(x).astype(wide, copy=False) for x in operands]


@meaning("dot", "quant_dot")
def _dot(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    a, b = _operands(op, operands, accumulate)
    return rounded(_matmul(a, b), numpy_dtype(op.results[0].type))


def _matmul(a: Array, b: Array) -> Array:
    """numpy multiplies integer matrices without BLAS; sums of 8-bit products are exact in f64."""
    if a.dtype != np.int32:
        return np.matmul(a, b)
    return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(np.int32)


@meaning("convolution", "quant_convolution")
def _convolution(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    x, w = _operands(op, operands, accumulate)
    if op.channels_last:
        x, w = (np.moveaxis(a, -1, 1) for a in (x, w))
    window = list(op.pads), list(op.strides), list(op.dilations)
    result = convolve(x, w, *window, op.group.value, pad_value_of(op))
    if op.channels_last:
        result = np.moveaxis(result, 1, -1)
    return rounded(result, numpy_dtype(op.results[0].type))


def convolve(
    x: Array,
    w: Array,
    pads: list[int],
    strides: list[int],
    dilations: list[int],
    group: int,
    fill: int = 0,
) -> Array:
    """(N, C, spatial...) * (M, C / group, spatial...) -> (N, M, spatial...); pads of `fill`."""
    rank = x.ndim - 2
    around = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
    x = np.pad(x, around, constant_values=fill)
    windows = windows_of(x, list(w.shape[2:]), strides, dilations)  # N, C, out..., kernel...
    out = windows.shape[2 : 2 + rank]
    # N, C, kernel..., out... -> N, group, C / group * kernel, out
    order = [0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank)]
    columns = windows.transpose(order).reshape(
        x.shape[0], group, x.shape[1] // group * int(np.prod(w.shape[2:])), int(np.prod(out))
    )
    weights = w.reshape(group, w.shape[0] // group, -1)
    return _matmul(weights, columns).reshape(x.shape[0], w.shape[0], *out)


def windows_of(x: Array, lengths: list[int], strides: list[int], dilations: list[int]) -> Array:
    """(N, C, out..., lengths...): a view of the windows of (N, C, spatial...)."""
    rank = len(lengths)
    reach = [(k - 1) * d + 1 for k, d in zip(lengths, dilations, strict=True)]
    view = sliding_window_view(x, reach, tuple(range(2, 2 + rank)))
    steps = [slice(None, None, s) for s in strides]
    taps = [slice(None, None, d) for d in dilations]
    return view[(slice(None), slice(None), *steps, *taps)]


@meaning("convolution_backwards")
def _convolution_backwards(op: Any, operands: Sequence[Array], accumulate: Any) -> Array:
    """A convolution of the input, spread out by the strides, with the flipped weights."""
    x, w = _operands(op, operands, accumulate)
    rank, group = x.ndim - 2, op.group.value
    strides, dilations, pads = list(op.strides), list(op.dilations), list(op.pads)
    spread = np.zeros(
        (*x.shape[:2], *[(n - 1) * s + 1 for n, s in zip(x.shape[2:], strides, strict=True)]),
        x.dtype,
    )
    spread[(slice(None), slice(None), *[slice(None, None, s) for s in strides])] = x
    flipped = np.flip(w, tuple(range(2, 2 + rank)))
    # (C, M / group, ...) -> (M, C / group, ...)
    flipped = (
        flipped.reshape(group, w.shape[0] // group, *w.shape[1:])
        .swapaxes(1, 2)
        .reshape(group * w.shape[1], w.shape[0] // group, *w.shape[2:])
    )
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], dilations, strict=True)]
    before = [reach[d] - pads[d] for d in range(rank)]
    after = [reach[d] - pads[rank + d] + list(op.output_pads)[d] for d in range(rank)]
    # A pad larger than the window's reach cuts the input instead.
    cut = tuple(
        slice(max(-b, 0), n - max(-a, 0))
        for b, a, n in zip(before, after, spread.shape[2:], strict=True)
    )
    spread = spread[(slice(None), slice(None), *cut)]
    whole = [max(b, 0) for b in before] + [max(a, 0) for a in after]
    result = convolve(spread, flipped, whole, [1] * rank, dilations, group)
    return rounded(result, numpy_dtype(op.results[0].type))
