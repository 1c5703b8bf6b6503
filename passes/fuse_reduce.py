"""mgx-fuse-reduce: reductions with the pointwise work around them become one op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.fusing import Group, Order
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    clone_into,
    erase_dead,
    fused_location,
    has_sizes,
    identity,
    splat,
)
from mgx_mlir.rewriting.rows import Rows, grown, rows_of
from mgx_mlir.rewriting.topology import sort_topologically


@dataclass(frozen=True)
class FuseReduce(Pass):
    """Puts reductions over the same axes, and pointwise ops beside them, into `mgx.fused_reduce`.

    Before:  %m = mgx.reduce_max %x axes = [1] : tensor<2x3xf32> -> tensor<2x1xf32>
             %b = mgx.multibroadcast %m : tensor<2x1xf32> -> tensor<2x3xf32>
             %y = mgx.sub %x, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
    After:   %y = mgx.fused_reduce(%x) axes = [1] : (tensor<2x3xf32>) -> tensor<2x3xf32> { ... }

    A softmax or a layer normalisation with what surrounds it becomes one op. A producer
    goes in when nothing else uses it; one that others use too, as residuals are, becomes a
    second result, unless a contraction's kernel can make it. A consumer goes in when its
    other operands do not depend on the group, unless it expands blocks with scales for a product
    (OCP MX): the product reads codes and scales.
    """

    max_ops: int = 128

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-fuse-reduce"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            erased: set[ir.Value | None] = set()
            order = Order(block)
            for op, key in [(op, identity(op)) for op in block.operations]:
                rows = None if key in erased else rows_of(op)
                if rows is not None and has_sizes(op):
                    group = grown(op, rows, order, self.max_ops)
                    if all(splat(value) is not None for value in group.inputs()):
                        continue
                    context.note(f"{len(group)} ops", node_name(op))
                    erased.update(group.members)
                    _fuse(group, rows, order)
            sort_topologically(block)
            erase_dead(block)


def _share_conversions(members: list[ir.OpView]) -> None:
    """Makes equal conversions one again (mgx-split-conversions): no two results are the same."""
    first: dict[tuple[ir.Value, str], ir.Value] = {}
    for op in members:
        if isinstance(op, mgx.ConvertOp):
            shared = first.setdefault((op.x, str(op.y.type)), op.y)
            if shared != op.y:
                op.y.replace_all_uses_with(shared)


def _fuse(group: Group, rows: Rows, order: Order) -> None:
    members = group.ordered()
    _share_conversions(members)
    outputs = group.outputs()
    inputs = [value for value in group.inputs() if splat(value) is None]
    location = fused_location(members)
    with ir.InsertionPoint.after(members[-1]), location:
        fused = mgx.FusedReduceOp([v.type for v in outputs], inputs, rows.axes)
        types = [value.type for value in inputs]
        body = fused.body.blocks.append(*types, arg_locs=[location] * len(types))
    values: dict[ir.Value, ir.Value] = dict(zip(inputs, body.arguments, strict=True))
    with ir.InsertionPoint(body):
        for op in members:
            for value in op.operands:
                if value not in values:
                    values[value] = mgx.splat(splat(value), value.type, loc=op.location)
            if isinstance(op, mgx.REDUCTION_OPS):  # its axes may stand in another order
                op.attributes["axes"] = ir.DenseI64ArrayAttr.get(rows.axes)
            clone_into(op, values)
        mgx.YieldOp([values[v] for v in outputs], loc=location)
    for value, new in zip(outputs, fused.results, strict=True):
        value.replace_all_uses_with(new)
    order.replaced(group.members, fused)
    for op in reversed(members):
        op.erase()
