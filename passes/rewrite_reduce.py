"""mgx-rewrite-reduce: softmax and mean as reductions and pointwise ops, which then fuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import element_type, has_sizes, shape


@rewrites(mgx.SoftmaxOp, mgx.LogsoftmaxOp)
def expand_softmax(op: mgx.SoftmaxOp | mgx.LogsoftmaxOp, context: PassContext) -> ir.Value | None:
    """Softmax as a maximum, exponentials and their sum."""
    if not has_sizes(op):
        return None
    x: ir.Value = op.x
    narrow = element_type(x)
    wide = ir.F32Type.get()
    is_narrow = ir.FloatType(narrow).width < 32
    if is_narrow:
        x = mgx.convert(x, wide)
    dims = list(shape(x))
    axis = op.axis.value % len(dims)
    shifted = mgx.sub(x, mgx.multibroadcast(mgx.reduce_max(x, [axis]), dims))
    exponential = mgx.exp(shifted)
    total = mgx.reduce_sum(exponential, [axis])
    if isinstance(op, mgx.SoftmaxOp):
        y = mgx.mul(exponential, mgx.multibroadcast(mgx.recip(total), dims))
    else:
        y = mgx.sub(shifted, mgx.multibroadcast(mgx.log(total), dims))
    return mgx.convert(y, narrow) if is_narrow else y


@dataclass(frozen=True)
class RewriteReduce(PatternPass):
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
    patterns: ClassVar = (expand_softmax,)
