"""mgx-normalize-ops: one form for each thing, so that later passes match one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.graph import main_function
from mgx_mlir.pass_manager import Pass, PassContext
from mgx_mlir.rewriting import blocks, replace, shape


@dataclass(frozen=True)
class NormalizeOps(Pass):
    """Writes squeeze, unsqueeze and flatten as reshape, broadcast as multibroadcast.

    Before:  %1 = mgx.unsqueeze %0 axes = [0] : tensor<3xf32> -> tensor<1x3xf32>
             %2 = mgx.broadcast %0 axis = 1 : tensor<3xf32> -> tensor<2x3x4xf32>
    After:   %1 = mgx.reshape %0 : tensor<3xf32> -> tensor<1x3xf32>
             %r = mgx.reshape %0 : tensor<3xf32> -> tensor<3x1xf32>
             %2 = mgx.multibroadcast %r : tensor<3x1xf32> -> tensor<2x3x4xf32>

    Identity and contiguous, which say nothing about values, go away. Shapes that are not
    static are left as they are.
    """

    name: ClassVar[str] = "mgx-normalize-ops"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                with ir.InsertionPoint(op), op.operation.location:
                    _normalize(op)


def _normalize(op: ir.OpView) -> None:
    name = op.operation.name
    if name in ("mgx.identity", "mgx.contiguous"):
        replace(op, [op.operation.operands[0]])
    elif name in ("mgx.squeeze", "mgx.unsqueeze", "mgx.flatten"):
        result = op.operation.results[0]
        if ir.RankedTensorType(result.type).has_static_shape:
            replace(op, [mgx.ReshapeOp(result.type, op.operation.operands[0]).result])
    elif name == "mgx.broadcast":
        _normalize_broadcast(op)


def _normalize_broadcast(op: ir.OpView) -> None:
    source, result = op.operation.operands[0], op.operation.results[0]
    types = (ir.RankedTensorType(source.type), ir.RankedTensorType(result.type))
    if not all(t.has_static_shape for t in types):
        return
    axis = ir.IntegerAttr(op.operation.attributes["axis"]).value
    trailing = types[1].rank - axis - types[0].rank
    padded = mgx.reshape(source, [*shape(source), *[1] * trailing])
    replace(op, [mgx.MultibroadcastOp(result.type, padded).result])
