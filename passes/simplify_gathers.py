"""mgx-simplify-gathers: gathers of evenly spaced indices are views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import definition, in_views, shape
from mgx_mlir.rewriting.view_chains import changes
from mgx_mlir.rewriting.views import whole


@rewrites(mgx.GatherOp)
def read_through_views(op: mgx.GatherOp, context: PassContext) -> ir.Value | None:
    """The views that give the elements, where the indices are constant and evenly spaced."""
    indices = definition(op.indices)
    static = op.x.type.has_static_shape and op.y.type.has_static_shape
    if not isinstance(indices, mgx.ConstantOp) or not static or 0 in shape(op.y):
        return None
    axis = op.axis.value
    size = shape(op.x)[axis]
    places = mgx.constant_array(indices).reshape(-1).astype(np.int64)
    places = np.where(places < 0, places + size, places)
    if places.min() < 0 or places.max() >= size:
        return None  # an error where the program runs
    steps = np.unique(np.diff(places))
    if len(steps) > 1:
        layout = whole(shape(op.x)).picked(axis, places.tolist())
        nested = None if layout is None else changes(layout, shape(op.x))
        return None if nested is None else mgx.ReshapeOp(op.y.type, in_views(op.x, nested)).result
    step = int(steps[0]) if len(steps) else 1
    low, high = int(places.min()), int(places.max())
    value = mgx.slice(op.x, [axis], [low], [high + 1])
    if abs(step) > 1:
        value = mgx.step(value, [axis], [abs(step)])
    if step < 0:
        value = mgx.reverse(value, [axis])
    if step == 0:
        dims = [*shape(value)[:axis], len(places), *shape(value)[axis + 1 :]]
        value = mgx.multibroadcast(value, dims)
    return mgx.ReshapeOp(op.y.type, value).result


@dataclass(frozen=True)
class SimplifyGathers(PatternPass):
    """Replaces a gather whose constant indices are evenly spaced by slice, step and reverse.

    Before:  %i = mgx.constant dense<0> : tensor<i64>
             %y = mgx.gather %x[%i] axis = 1 : tensor<2x8x4xf32>, tensor<i64> -> tensor<2x4xf32>
    After:   %s = mgx.slice %x axes = [1] starts = [0] ends = [1] : ... -> tensor<2x1x4xf32>
             %y = mgx.reshape %s : tensor<2x1x4xf32> -> tensor<2x4xf32>

    Indices that are all the same become a broadcast; those of nested strides, such as
    0, 0, 1, 1 or 0, 2, 1, 3, the views that give them.
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-simplify-gathers"
    patterns: ClassVar = (read_through_views,)
