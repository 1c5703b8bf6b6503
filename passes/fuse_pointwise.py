"""mgx-fuse-pointwise: chains of pointwise ops become one loop over elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.counted import is_count, is_counted, recomputed
from mgx_mlir.rewriting.fusing import Group, Order, on_scalars
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.prologues import expands_blocks
from mgx_mlir.rewriting.queries import (
    blocks,
    definition,
    element_type,
    erase_dead,
    fused_location,
    has_one_use,
    identity,
    op_name,
    shape,
    splat,
)


@dataclass(frozen=True)
class FusePointwise(Pass):
    """Puts pointwise ops of one shape into `mgx.pointwise`, producers with their only consumer.

    Before:  %1 = mgx.add %0, %b : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
             %2 = mgx.relu %1 : tensor<2xf32>
    After:   %2 = mgx.pointwise(%0, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> {
             ^bb0(%x: f32, %y: f32):
               %s = mgx.add %x, %y : f32, f32 -> f32
               %t = mgx.relu %s : f32
               mgx.yield %t : f32
             }

    Constants whose elements are all equal, broadcasts of them too, stand in the body. A
    fused op holds at most `max_ops` ops and has at most `max_inputs` inputs. An op that expands
    blocks with scales for a product (OCP MX) stays alone: the product reads codes and scales.
    Cheap work on indices and sizes alone is done in each pointwise op that reads it, by broadcasts
    or not, and so is that on an input behind a broadcast of symbolic sizes, which may be none.
    """

    max_ops: int = 128
    max_inputs: int = 24

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-fuse-pointwise"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            _take_in_counted(block)
            erased: set[ir.Value | None] = set()
            order = Order(block)
            # Consumers first, so that a group takes in whole chains.
            for op, key in reversed([(op, identity(op)) for op in block.operations]):
                if key not in erased and mgx.is_pointwise(op):
                    group = self._grow(op, order)
                    context.note(f"{len(group)} ops", node_name(op))
                    erased.update(group.members)
                    _fuse(group, op)
            erase_dead(block)

    def _grow(self, root: ir.OpView, order: Order) -> Group:
        group = Group(order)
        group.add(root)
        dims = shape(root.result)
        frontier = [] if expands_blocks(root) else [root]
        while frontier:
            for value in frontier.pop().operands:
                producer = definition(value)
                if producer is None or producer in group or len(group) >= self.max_ops:
                    continue
                # Values computed outside of a loop stay there.
                if producer not in order:
                    continue
                if not mgx.is_pointwise(producer) or not group.owns_all_uses(producer):
                    continue
                if shape(value) != dims or not self._fits(group, producer):
                    continue
                group.add(producer)
                frontier.append(producer)
        return group

    def _fits(self, group: Group, producer: ir.OpView) -> bool:
        inputs = [v for v in group.inputs() if splat(v) is None]
        more = [v for v in producer.operands if v not in inputs and splat(v) is None]
        return len(inputs) - 1 + len(more) <= self.max_inputs


def _take_in_counted(block: ir.Block) -> None:
    """Repeats counted work in the shape of each pointwise op that reads it."""
    for op in list(block.operations):
        if not mgx.is_pointwise(op):
            continue
        for number, value in enumerate(op.operands):
            maker = definition(value)
            fuses = mgx.is_pointwise(maker) and has_one_use(value)
            if maker is None or fuses or is_count(maker) or not is_counted(value):
                continue
            with ir.InsertionPoint(op), op.location:
                op.operation.operands[number] = recomputed(value)
    erase_dead(block)


def _fuse(group: Group, root: ir.OpView) -> None:
    """Replaces `root`, the group's last op, by one `mgx.pointwise`."""
    members = group.ordered()
    inputs = [value for value in group.inputs() if splat(value) is None]
    location = fused_location(members)
    with ir.InsertionPoint(root), location:
        fused = mgx.PointwiseOp([root.result.type], inputs)
        types = [element_type(value) for value in inputs]
        body = fused.body.blocks.append(*types, arg_locs=[location] * len(types))
    values: dict[ir.Value, ir.Value] = dict(zip(inputs, body.arguments, strict=True))
    with ir.InsertionPoint(body):
        for op in members:
            for value in op.operands:
                if value not in values:
                    values[value] = _scalar(value, op.location)
            operands = [values[value] for value in op.operands]
            values[op.result] = on_scalars(op, element_type(op.result), operands)
        mgx.YieldOp([values[root.result]], loc=location)
    root.result.replace_all_uses_with(fused.result)
    for op in reversed(members):
        op.erase()


def _scalar(value: ir.Value, location: ir.Location) -> ir.Value:
    number = splat(value)
    assert number is not None, op_name(definition(value))
    return mgx.constant(number, type=element_type(value), loc=location)
