"""The number of arithmetic operations of a kernel, to compare with its time.

A multiplication with its addition counts as two. Any other pointwise op, and each element that
a reduction reads, counts as one. Moving data counts as nothing.
"""

from __future__ import annotations

import math

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import CONTRACTIONS, shape

# Reductions along an axis that are ops of their own: their passes over the operand.
_PASSES = {
    "mgx.argmax": 1,
    "mgx.argmin": 1,
    "mgx.logsoftmax": 5,
    "mgx.lrn": 4,
    "mgx.prefix_scan_prod": 1,
    "mgx.prefix_scan_sum": 1,
    "mgx.softmax": 5,
}


def flops_of(kernel: ir.OpView) -> int:
    """The operations of one run of an `mgx.kernel`; 0 where its sizes are not known."""
    type_ = ir.FunctionType(ir.TypeAttr(kernel.operation.attributes["function_type"]).value)
    if not all(ir.RankedTensorType(t).has_static_shape for t in (*type_.inputs, *type_.results)):
        return 0
    return _block(kernel.operation.regions[0].blocks[0], 1)


def flops_of_op(op: ir.OpView) -> int:
    """The operations of one op on tensors of known sizes."""
    return _op(op, 1)


def _block(block: ir.Block, elements: int) -> int:
    return sum(_op(op, elements) for op in block.operations)


def _op(op: ir.OpView, elements: int) -> int:
    """The operations of one op; an op on scalars is done once for each of `elements`."""
    operation = op.operation
    name = operation.name
    if name in CONTRACTIONS:
        return 2 * _products(op)
    if name == "mgx.attention":
        return _attention(op)
    if name == "mgx.pointwise":
        values = [*operation.results, *operation.operands]
        return _block(operation.regions[0].blocks[0], math.prod(shape(values[0])))
    if name == "mgx.fused_reduce":
        return _block(operation.regions[0].blocks[0], 1)
    if name in mgx.POINTWISE:
        return _count(operation.results[0], elements)
    if name in mgx.REDUCTIONS or name in _PASSES:
        return _PASSES.get(name, 1) * math.prod(shape(operation.operands[0]))
    if name == "mgx.pooling":
        window = math.prod(ir.DenseI64ArrayAttr(operation.attributes["lengths"]))
        return math.prod(shape(operation.results[0])) * window
    return 0


def _count(value: ir.Value, elements: int) -> int:
    return math.prod(shape(value)) if isinstance(value.type, ir.ShapedType) else elements


def _products(op: ir.OpView) -> int:
    """The multiplications of a contraction."""
    x, w = (shape(value) for value in list(op.operation.operands)[:2])
    result = math.prod(shape(op.operation.results[0]))
    if op.operation.name in ("mgx.dot", "mgx.quant_dot"):
        return result * x[-1]
    if op.operation.name == "mgx.convolution_backwards":
        return math.prod(x) * math.prod(w[1:])
    return result * math.prod(w[1:])


def _attention(op: ir.OpView) -> int:
    """The two products, and the softmax and the body between them."""
    q, k = (shape(value) for value in list(op.operation.operands)[:2])
    scores = math.prod(q[:-1]) * k[-2]
    width = shape(op.operation.results[0])[-1]
    between = _PASSES["mgx.softmax"] * scores + _block(op.operation.regions[0].blocks[0], scores)
    return 2 * scores * (q[-1] + width) + between
