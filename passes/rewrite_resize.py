"""mgx-rewrite-resize: enlarging an image by whole numbers is a broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.reference.meanings import enum
from mgx_mlir.reference.ops.resize import is_identity, nearest_places
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import in_views, shape
from mgx_mlir.rewriting.view_chains import changes
from mgx_mlir.rewriting.views import whole


@rewrites(mgx.ResizeOp)
def read_through_views(op: mgx.ResizeOp, context: PassContext) -> ir.Value | None:
    """The views that give a resize's result, if any do."""
    types = op.x.type, op.y.type
    if not all(type_.has_static_shape and 0 not in type_.shape for type_ in types):
        return None
    if enum(op.mode) != "nearest" or enum(op.coordinate_mode) == "tf_crop_and_resize":
        return None
    source, result = shape(op.x), shape(op.y)
    layout = whole(source)
    for axis in range(len(source)):
        if is_identity(op, axis, source, result):
            continue
        picked = layout.picked(axis, nearest_places(op, axis, source, result).tolist())
        if picked is None:
            return None
        layout = picked
    steps = changes(layout, source)
    return None if steps is None else in_views(op.x, steps)


@dataclass(frozen=True)
class RewriteResize(PatternPass):
    """Writes a resize to the nearest element as views, where strides tell which elements.

    Before:  %y = mgx.resize %x scales = [1.0, 2.0] : tensor<3x4xf32> -> tensor<3x8xf32>
    After:   %r = mgx.reshape %x : tensor<3x4xf32> -> tensor<3x4x1xf32>
             %b = mgx.multibroadcast %r : tensor<3x4x1xf32> -> tensor<3x4x2xf32>
             %y = mgx.reshape %b : tensor<3x4x2xf32> -> tensor<3x8xf32>

    Strides tell where each element is repeated equally often, or every n-th one is taken. Readers
    of the image read through the views; any other resize keeps its kernel.
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-rewrite-resize"
    patterns: ClassVar = (read_through_views,)
