"""mgx-rewrite-pooling: a window that is the whole image is a reduction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.graph import main_function, node_name
from mgx_mlir.pass_manager import Pass, PassContext
from mgx_mlir.rewriting import blocks, erase_dead, replace, shape


@dataclass(frozen=True)
class RewritePooling(Pass):
    """Makes a reduction of pooling over all of the spatial dimensions, which fuses.

    Before:  %y = mgx.pooling average %x lengths = [7, 7] pads = [0, 0, 0, 0] ...
                 : tensor<1x64x7x7xf32> -> tensor<1x64x1x1xf32>
    After:   %y = mgx.reduce_mean %x axes = [2, 3] : tensor<1x64x7x7xf32> -> tensor<1x64x1x1xf32>
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-rewrite-pooling"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if op.operation.name != "mgx.pooling" or not _is_global(op):
                    continue
                node = node_name(op)
                with ir.InsertionPoint(op), op.operation.location:
                    value = _reduction(op)
                if value is not None:
                    context.note("global", node)
                    replace(op, [value])
            erase_dead(block)


def _is_global(op: ir.OpView) -> bool:
    x, y = op.operation.operands[0], op.operation.results[0]
    if not ir.RankedTensorType(x.type).has_static_shape:
        return False
    attributes = op.operation.attributes
    lengths = tuple(ir.DenseI64ArrayAttr(attributes["lengths"]))
    no_padding = not any(ir.DenseI64ArrayAttr(attributes["pads"]))
    return lengths == shape(x)[2:] and no_padding and all(n == 1 for n in shape(y)[2:])


def _reduction(op: ir.OpView) -> ir.Value | None:
    x, attributes = op.operation.operands[0], op.operation.attributes
    axes = list(range(2, len(shape(x))))
    mode = str(attributes["mode"])
    if "average" in mode:
        return mgx.reduce_mean(x, axes)
    if "max" in mode:
        return mgx.reduce_max(x, axes)
    if ir.IntegerAttr(attributes["lp_order"]).value == 1:
        return mgx.reduce_sum(mgx.abs(x), axes)
    if ir.IntegerAttr(attributes["lp_order"]).value == 2:
        return mgx.sqrt(mgx.reduce_sum(mgx.mul(x, x), axes))
    return None
