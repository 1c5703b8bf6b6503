"""The number of arithmetic operations of a kernel, to compare with its time.

A multiplication with its addition counts as two. Any other pointwise op, and each element that
a reduction reads, counts as one. Moving data counts as nothing.
"""

from __future__ import annotations

import math

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import shape, splat
from mgx_mlir.sizes.arithmetic import Number


def flops_of(kernel: mgx.KernelOp) -> Number:
    """The operations of one run, a formula where the kernel has symbolic sizes."""
    return _block(kernel.regions[0].blocks[0], 1)


def flops_of_op(op: ir.OpView) -> int:
    """The operations of one op on tensors of known sizes."""
    return _op(op, 1)


def _block(block: ir.Block, elements: int) -> int:
    return sum(_op(op, elements) for op in block.operations)


def _op(op: ir.OpView, elements: int) -> int:
    """The operations of one op; an op on scalars is done once for each of `elements`."""
    match op:
        case mgx.AttentionOp():
            return _attention(op)
        case mgx.PointwiseOp():
            values = [*op.results, *op.inputs]
            return _block(op.body.blocks[0], math.prod(shape(values[0])))
        case mgx.FusedReduceOp():
            return _block(op.body.blocks[0], 1)
        case mgx.LoopOp():
            return int(splat(op.max_trip_count) or 1) * _block(op.body.blocks[0], 1)
        case mgx.PoolingOp():
            return math.prod(shape(op.result)) * math.prod(op.lengths)
    if isinstance(op, mgx.CONTRACTIONS):
        return 2 * _products(op)
    if mgx.is_pointwise(op):
        return _count(op.result, elements)
    if (passes := mgx.PASSES.get(type(op), 0)) != 0:
        return passes * math.prod(shape(op.operands[0]))
    return 0


def _count(value: ir.Value, elements: int) -> int:
    return math.prod(shape(value)) if isinstance(value.type, ir.ShapedType) else elements


def _products(op: ir.OpView) -> int:
    """The multiplications of a contraction."""
    x, w = (shape(value) for value in list(op.operands)[:2])
    result = math.prod(shape(op.result))
    if isinstance(op, mgx.DOTS):
        return result * x[-1]
    if isinstance(op, mgx.ConvolutionBackwardsOp):
        return math.prod(x) * math.prod(w[1:])
    return result * math.prod(w[1:])


def _attention(op: mgx.AttentionOp) -> int:
    """The two products, and the softmax and the body between them."""
    q, k = shape(op.q), shape(op.k)
    scores = math.prod(q[:-1]) * k[-2]
    width = shape(op.result)[-1]
    softmax = mgx.PASSES[mgx.SoftmaxOp] * scores
    return 2 * scores * (q[-1] + width) + softmax + _block(op.body.blocks[0], scores)
