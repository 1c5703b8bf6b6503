"""mgx-normalize-ops: one form for each computation, so that later passes match one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import blocks, replace, shape


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

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-normalize-ops"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                name = op.operation.name
                if name not in _FORMS:
                    continue
                with ir.InsertionPoint(op), op.operation.location:
                    value = _FORMS[name](op)
                if value is not None:
                    context.note(name, node_name(op))
                    replace(op, [value])


def _operand(op: ir.OpView) -> ir.Value | None:
    operand: ir.Value = op.operation.operands[0]
    return operand


def _reshape(op: ir.OpView) -> ir.Value | None:
    result = op.operation.results[0]
    if not ir.RankedTensorType(result.type).has_static_shape:
        return None
    return mgx.ReshapeOp(result.type, op.operation.operands[0]).result


def _multibroadcast(op: ir.OpView) -> ir.Value | None:
    source, result = op.operation.operands[0], op.operation.results[0]
    types = (ir.RankedTensorType(source.type), ir.RankedTensorType(result.type))
    if not all(t.has_static_shape for t in types):
        return None
    axis = ir.IntegerAttr(op.operation.attributes["axis"]).value
    trailing = types[1].rank - axis - types[0].rank
    padded = mgx.reshape(source, [*shape(source), *[1] * trailing])
    return mgx.MultibroadcastOp(result.type, padded).result


_FORMS = {
    "mgx.broadcast": _multibroadcast,
    "mgx.contiguous": _operand,
    "mgx.flatten": _reshape,
    "mgx.identity": _operand,
    "mgx.squeeze": _reshape,
    "mgx.unsqueeze": _reshape,
}
