"""mgx-simplify-gathers: gathers of evenly spaced indices are views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    definition,
    erase_dead,
    in_views,
    op_name,
    replace,
    shape,
)
from mgx_mlir.rewriting.views import changes, whole


@dataclass(frozen=True)
class SimplifyGathers(Pass):
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

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if op.operation.name != "mgx.gather":
                    continue
                node = node_name(op)
                with ir.InsertionPoint(op), op.operation.location:
                    value = _view(op)
                if value is not None:
                    context.note("view", node)
                    replace(op, [value])
            erase_dead(block)


def _view(op: ir.OpView) -> ir.Value | None:
    x, indices = op.operation.operands
    source = definition(indices)
    result = ir.RankedTensorType(op.operation.results[0].type)
    static = ir.RankedTensorType(x.type).has_static_shape and result.has_static_shape
    if op_name(source) != "mgx.constant" or not static or 0 in result.shape:
        return None
    assert source is not None
    axis = ir.IntegerAttr(op.operation.attributes["axis"]).value
    size = shape(x)[axis]
    places = mgx.constant_array(source).reshape(-1).astype(np.int64)
    places = np.where(places < 0, places + size, places)
    if places.min() < 0 or places.max() >= size:
        return None  # an error where the program runs
    steps = np.unique(np.diff(places))
    if len(steps) > 1:
        layout = whole(shape(x)).picked(axis, places.tolist())
        nested = None if layout is None else changes(layout, shape(x))
        return None if nested is None else mgx.ReshapeOp(result, in_views(x, nested)).result
    step = int(steps[0]) if len(steps) else 1
    low, high = int(places.min()), int(places.max())
    value = mgx.slice(x, [axis], [low], [high + 1])
    if abs(step) > 1:
        value = mgx.step(value, [axis], [abs(step)])
    if step < 0:
        value = mgx.reverse(value, [axis])
    if step == 0:
        dims = [*shape(value)[:axis], len(places), *shape(value)[axis + 1 :]]
        value = mgx.multibroadcast(value, dims)
    return mgx.ReshapeOp(result, value).result
