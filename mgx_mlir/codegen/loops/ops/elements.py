"""Pointwise ops, constants, numbers of a few bits, regions, and loops in one kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.loops.body import Body, Indices, Lazy
from mgx_mlir.codegen.loops.kernel import Kernel, lowers
from mgx_mlir.codegen.loops.value import Computed
from mgx_mlir.codegen.meaning.element import element_of, sizes_of
from mgx_mlir.codegen.meaning.index import Index, delinear, index_constant
from mgx_mlir.codegen.meaning.pointwise import emit_pointwise, pointwise_ops
from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.constants import dense_attribute
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.sizes.arithmetic import Number

# With this many operations, the cost of a load is negligible.
_COSTLY = 4
_FREE = (mgx.ConvertOp, mgx.BitCastOp, mgx.ConstantOp, mgx.YieldOp)


def _cost(op: ir.OpView) -> int:
    if isinstance(op, mgx.PointwiseOp):
        return sum(_cost(inner) for inner in op.body.blocks[0].operations)
    if isinstance(op, _FREE):
        return 0
    return _COSTLY if isinstance(op, mgx.COSTLY) else 1


@lowers(*pointwise_ops(), mgx.PointwiseOp)
def pointwise(kernel: Kernel, op: ir.OpView, operands: Sequence[Lazy]) -> list[Lazy]:
    """Each result reads one element of each operand; results of one op share the work."""
    cost = _cost(op) + sum(x.cost for x in dict.fromkeys(operands))

    def elements(body: Body, indices: Indices) -> list[ir.Value]:
        return body.once(
            (op, indices),
            lambda: emit_pointwise(op, body.together([body.at(x, indices) for x in operands])),
        )

    def result(position: int) -> Lazy:
        type_ = op.results[position].type
        return Computed(
            sizes_of(type_),
            element_of(type_),
            lambda body, indices: elements(body, indices)[position],
            cost,
        )

    return [result(position) for position in range(len(op.results))]


@lowers(mgx.ConstantOp)
def constant(kernel: Kernel, op: mgx.ConstantOp, operands: Sequence[Lazy]) -> Lazy:
    value = ir.DenseElementsAttr(op.value)
    type_ = op.result.type
    element, shape = element_of(type_), sizes_of(type_)
    if value.is_splat:
        return Computed(
            shape,
            element,
            lambda body, indices: body.once(op, lambda: emit_pointwise(op, [])[0]),
            0,
        )
    return kernel.constant_tensor(value, element)


@lowers(mgx.DimensionsOfOp)
def dimensions_of(kernel: Kernel, op: mgx.DimensionsOfOp, operands: Sequence[Lazy]) -> Lazy:
    sizes = operands[0].shape[op.start.value : op.end.value]
    element = element_of(op.result.type)
    if not all(isinstance(size, int) for size in sizes):
        return kernel.result_of(op, lambda body, indices: _chosen(body, sizes, indices[0]), 1)
    value = dense_attribute(np.array(sizes, np.int64), element.storage())
    return kernel.constant_tensor(value, element)


def _chosen(body: Body, sizes: Sequence[Number], index: Index) -> ir.Value:
    """The size at an index, as an i64."""
    place, found = body.scalar(index), index_constant(sizes[0])
    for number, size in enumerate(sizes[1:], 1):
        here = arith.cmpi(arith.CmpIPredicate.eq, place, index_constant(number))
        found = arith.select(here, index_constant(size), found)
    return arith.index_cast(ir.IntegerType.get_signless(64), found)


@lowers(mgx.IotaOp)
def iota(kernel: Kernel, op: mgx.IotaOp, operands: Sequence[Lazy]) -> Lazy:
    storage = element_of(op.result.type).storage()
    return kernel.result_of(
        op, lambda body, indices: arith.index_cast(storage, body.scalar(indices[0])), 1
    )


@lowers(mgx.FusedReduceOp)
def fused_reduce(kernel: Kernel, op: mgx.FusedReduceOp, operands: Sequence[Lazy]) -> list[Lazy]:
    block = op.body.blocks[0]
    kernel.values.update(zip(block.arguments, operands, strict=True))
    return kernel.lower_block(block)


@lowers(mgx.IdentityOp, mgx.ContiguousOp)
def identity(
    kernel: Kernel, op: mgx.IdentityOp | mgx.ContiguousOp, operands: Sequence[Lazy]
) -> Lazy:
    return operands[0]


@lowers(mgx.LiteralOp)
def literal(kernel: Kernel, op: mgx.LiteralOp, operands: Sequence[Lazy]) -> Lazy:
    raise UnsupportedError(
        f"{op.location}: mgx.literal stands in a kernel; weights are operands of a kernel",
        (str(op.location),),
    )


@lowers(mgx.LoopOp)
def loop(kernel: Kernel, op: mgx.LoopOp, operands: Sequence[Lazy]) -> list[Lazy]:
    return kernel.repeat(op, operands)


@lowers(mgx.UnpackOp)
def unpack(kernel: Kernel, op: mgx.UnpackOp, operands: Sequence[Lazy]) -> Lazy:
    """The byte of a number, shifted so that the number is its low bits."""
    x, bits = operands[0], element_of(op.result.type).bits
    per_byte = 8 // bits
    i8 = ir.IntegerType.get_signless(8)

    def element(body: Body, indices: Indices) -> ir.Value:
        byte, part = delinear(indices[-1], [x.shape[-1], per_byte])
        value = body.at(x, (*indices[:-1], byte))
        places = arith.muli(body.scalar(part), index_constant(bits))
        value = arith.shrui(value, arith.index_cast(i8, places))
        return arith.andi(value, arith.constant(i8, (1 << bits) - 1))

    return kernel.result_of(op, element, x.cost + 3)
