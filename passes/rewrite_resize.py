"""mgx-rewrite-resize: enlarging an image by whole numbers is a broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.reference.meanings import enum
from mgx_mlir.reference.ops.resize import is_identity, nearest_places
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import blocks, in_views, replace, shape
from mgx_mlir.rewriting.views import Change, changes, whole


@dataclass(frozen=True)
class RewriteResize(Pass):
    """Writes a resize to the nearest element as views, where strides tell which elements.

    Before:  %y = mgx.resize %x scales = [1.0, 2.0] : tensor<3x4xf32> -> tensor<3x8xf32>
    After:   %r = mgx.reshape %x : tensor<3x4xf32> -> tensor<3x4x1xf32>
             %b = mgx.multibroadcast %r : tensor<3x4x1xf32> -> tensor<3x4x2xf32>
             %y = mgx.reshape %b : tensor<3x4x2xf32> -> tensor<3x8xf32>

    That is so where each element is repeated equally often, or every n-th one is taken. What
    reads the image reads through the views; any other resize keeps its kernel.
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-rewrite-resize"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if op.operation.name != "mgx.resize":
                    continue
                steps = _views(op)
                if steps is None:
                    continue
                context.note("views", node_name(op))
                with ir.InsertionPoint(op), op.operation.location:
                    replace(op, [in_views(op.operation.operands[0], steps)])


def _views(op: ir.OpView) -> list[Change] | None:
    """The views that give a resize's result; None if no views do."""
    x, y = op.operation.operands[0], op.operation.results[0]
    types = [ir.RankedTensorType(value.type) for value in (x, y)]
    if not all(type_.has_static_shape and 0 not in type_.shape for type_ in types):
        return None
    if enum(op.mode) != "nearest" or enum(op.coordinate_mode) == "tf_crop_and_resize":
        return None
    source, result = shape(x), shape(y)
    layout = whole(source)
    for axis in range(len(source)):
        if is_identity(op, axis, source, result):
            continue
        picked = layout.picked(axis, nearest_places(op, axis, source, result).tolist())
        if picked is None:
            return None
        layout = picked
    return changes(layout, source)
