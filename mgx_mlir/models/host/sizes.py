"""Operators whose sizes only a run knows, by numpy: onnx's reference takes many times as long.

A form that is not here, such as that of an old definition, is the reference's: NotImplemented.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import numpy_helper

from mgx_mlir.errors import ModelError
from mgx_mlir.models.host.table import Call, Kind, host_operator


def _integers(call: Call, index: int) -> list[int]:
    return [int(n) for n in call.array(index).reshape(-1)]


@host_operator("Slice", Kind.SIZES)
def slice_(call: Call) -> Any:
    """Elements from starts to ends, in steps, along axes."""
    if call.version < 10:
        return NotImplemented
    x, starts, ends = call.array(0), _integers(call, 1), _integers(call, 2)
    axes = _integers(call, 3) if call.given(3) else range(len(starts))
    steps = _integers(call, 4) if call.given(4) else [1] * len(starts)
    places = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if not -x.ndim <= axis < x.ndim or step == 0:
            raise ModelError(f"steps of {step} along axis {axis} of {list(x.shape)}")
        # A start before the first element is the first one, for negative steps too.
        places[axis] = slice(max(start, -x.shape[axis]) if x.shape[axis] else start, end, step)
    return [x[tuple(places)].copy()]


@host_operator("Range", Kind.SIZES)
def range_(call: Call) -> Any:
    """Numbers from a start to a limit."""
    start, limit, delta = (call.array(index).reshape(-1)[0] for index in range(3))
    if start.dtype.kind not in "iu":
        return NotImplemented  # floats, whose rounding the definition states
    if delta == 0:
        raise ModelError("a range in steps of 0")
    first, last, step = int(start), int(limit), int(delta)
    call.size([max(-(-(last - first) // step), 0)])
    return [np.arange(first, last, step, dtype=start.dtype)]


@host_operator("Expand", Kind.SIZES)
def expand(call: Call) -> Any:
    """A tensor repeated to a shape, by numpy's rule."""
    x = call.array(0)
    sizes = call.size(np.broadcast_shapes(x.shape, tuple(_integers(call, 1))))
    return [np.broadcast_to(x, sizes).copy()]


@host_operator("Tile", Kind.SIZES)
def tile(call: Call) -> Any:
    """A tensor repeated along each dimension."""
    x, repeats = call.array(0), _integers(call, 1)
    if call.version < 6:
        return NotImplemented
    if len(repeats) != x.ndim or min(repeats, default=0) < 0:
        raise ModelError(f"repeats {repeats} of {list(x.shape)}")
    call.size([n * count for n, count in zip(x.shape, repeats, strict=True)])
    return [np.tile(x, repeats)]


@host_operator("Reshape", Kind.SIZES)
def reshape(call: Call) -> Any:
    """The elements in another shape: 0 copies a size, -1 takes what is left."""
    if call.version < 5:
        return NotImplemented
    x, wanted = call.array(0), _integers(call, 1)
    if not call.attribute("allowzero"):
        if any(n == 0 and place >= x.ndim for place, n in enumerate(wanted)):
            raise ModelError(f"shape {wanted} copies a dimension that is not there")
        wanted = [x.shape[place] if n == 0 else n for place, n in enumerate(wanted)]
    if -1 in wanted and math.prod(wanted) == 0:
        raise ModelError(f"shape {wanted} leaves a size open that nothing says")
    return [x.reshape(wanted).copy()]


@host_operator("Unsqueeze", Kind.SIZES)
def unsqueeze(call: Call) -> Any:
    """A tensor with new dimensions of one element."""
    axes: Sequence[int] = _integers(call, 1) if call.given(1) else call.attribute("axes")
    return [np.expand_dims(call.array(0), tuple(axes)).copy()]


@host_operator("ConstantOfShape", Kind.SIZES)
def constant_of_shape(call: Call) -> Any:
    """One value, repeated."""
    stated = call.attribute("value")
    value = np.zeros(1, np.float32) if stated is None else numpy_helper.to_array(stated)
    return [np.full(call.size(_integers(call, 0)), value.reshape(-1)[0], value.dtype)]


@host_operator("Split", Kind.SIZES)
def split(call: Call) -> Any:
    """Parts along an axis, of the sizes that are given."""
    if not call.given(1):
        return NotImplemented
    x, sizes, axis = call.array(0), _integers(call, 1), call.attribute("axis")
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise ModelError(f"parts {sizes} of {list(x.shape)} along axis {axis}")
    return [part.copy() for part in np.split(x, np.cumsum(sizes)[:-1], axis)]
