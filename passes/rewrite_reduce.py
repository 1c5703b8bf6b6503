"""mgx-rewrite-reduce: softmax and mean as reductions and pointwise ops, which then fuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import blocks, element_type, has_sizes, replace, shape


@dataclass(frozen=True)
class RewriteReduce(Pass):
    """Writes softmax and logsoftmax with reduce_max, exp and reduce_sum.

    Before:  %y = mgx.softmax %x axis = 1 : tensor<2x3xf32>
    After:   %m = mgx.reduce_max %x axes = [1] : tensor<2x3xf32> -> tensor<2x1xf32>
             %d = x - m, %e = exp(d)
             %s = mgx.reduce_sum %e axes = [1] : tensor<2x3xf32> -> tensor<2x1xf32>
             %y = e / s

    Narrow floats are widened to f32 inside, so that the sum keeps its precision.
    """

    rounds: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-rewrite-reduce"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if op.operation.name in ("mgx.softmax", "mgx.logsoftmax") and has_sizes(op):
                    context.note(op.operation.name, node_name(op))
                    with ir.InsertionPoint(op), op.operation.location:
                        replace(op, [_expand(op)])


def _expand(op: ir.OpView) -> ir.Value:
    x = op.operation.operands[0]
    narrow = element_type(x)
    wide = ir.F32Type.get()
    is_narrow = ir.FloatType(narrow).width < 32
    if is_narrow:
        x = mgx.convert(x, wide)
    rank, dims = len(shape(x)), list(shape(x))
    axis = ir.IntegerAttr(op.operation.attributes["axis"]).value % rank
    shifted = mgx.sub(x, mgx.multibroadcast(mgx.reduce_max(x, [axis]), dims))
    exponential = mgx.exp(shifted)
    total = mgx.reduce_sum(exponential, [axis])
    if op.operation.name == "mgx.softmax":
        y = mgx.mul(exponential, mgx.multibroadcast(mgx.recip(total), dims))
    else:
        y = mgx.sub(shifted, mgx.multibroadcast(mgx.log(total), dims))
    return mgx.convert(y, narrow) if is_narrow else y
