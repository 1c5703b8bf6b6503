"""mgx-rewrite-reduce: softmax and mean as reductions and pointwise ops, which then fuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import element_type, has_sizes, shape, splat


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


@rewrites(mgx.ReduceMaxOp, mgx.ReduceMinOp)
def extreme_of_equals(op: mgx.ReduceMaxOp | mgx.ReduceMinOp, context: PassContext) -> Any:
    """The extreme of equal elements is one of them, however many a run has."""
    value = splat(op.x)
    return None if value is None or not has_sizes(op) else mgx.splat(value, op.y.type)


@dataclass(frozen=True)
class RewriteReduce(PatternPass):
    """Writes softmax and logsoftmax with reduce_max, exp and reduce_sum.

    Before:  %y = mgx.softmax %x axis = 1 : tensor<2x3xf32>
    After:   %m = mgx.reduce_max %x axes = [1] : tensor<2x3xf32> -> tensor<2x1xf32>
             %d = x - m, %e = exp(d)
             %s = mgx.reduce_sum %e axes = [1] : tensor<2x3xf32> -> tensor<2x1xf32>
             %y = e / s

    A maximum or minimum of equal elements becomes a constant.

    Narrow floats are widened to f32 inside, so that the sum keeps its precision.
    """

    rounds: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-rewrite-reduce"
    patterns: ClassVar = (expand_softmax, extreme_of_equals)
