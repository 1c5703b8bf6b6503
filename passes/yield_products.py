"""mgx-yield-products: an epilogue also gives the contraction's result that others read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.fusing import WITH_EPILOGUE, Group, Order, contraction_of
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    has_one_use,
    identity,
    inlined,
    shape,
    users,
)
from mgx_mlir.rewriting.topology import sort_topologically


@dataclass(frozen=True)
class YieldProducts(Pass):
    """Makes a contraction's result one of a `mgx.pointwise` that reads it, for its other readers.

    Before:  %d = mgx.dot %x, %w ...
             %y = mgx.pointwise(%d) ...            // the first of several that read %d
             %z = mgx.concat %d, ...
    After:   %d = mgx.dot %x, %w ...
             %y, %e = mgx.pointwise(%d) ...        // in the contraction's kernel
             %z = mgx.concat %e, ...

    The contraction's kernel writes both results, and no other kernel reads %d for %y; an
    attention's result likewise. A `mgx.pointwise` that ends another contraction stays as it is,
    and so does one with `max_results` results.
    """

    max_results: int = 16

    name: ClassVar[str] = "mgx-yield-products"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            order = Order(block)
            changed = False
            # List the contractions first: pointwise ops are erased on the way.
            for op in [op for op in block.operations if isinstance(op, WITH_EPILOGUE)]:
                reader = self._reader(op, order)
                if reader is not None:
                    context.note("result", node_name(op))
                    _yield(op.results[0], reader, order)
                    changed = True
            if changed:
                sort_topologically(block)

    def _reader(self, op: ir.OpView, order: Order) -> mgx.PointwiseOp | None:
        """The first `mgx.pointwise` that can be part of the contraction's kernel."""
        value = op.results[0]
        if has_one_use(value):
            return None
        found = users(value)
        fused = [user for user in found if isinstance(user, mgx.PointwiseOp)]
        fused.sort(key=order.of)
        for reader in fused:
            if list(reader.inputs).count(value) != 1:
                continue
            if reader not in order or contraction_of(reader) is not None:
                continue
            if len(reader.outputs) >= self.max_results:
                continue
            if shape(reader.outputs[0]) != shape(value):
                continue
            others = [user for user in found if user != reader]
            if all(_may_follow(user, reader, order) for user in others):
                return reader
        return None


def _may_follow(user: ir.OpView, reader: mgx.PointwiseOp, order: Order) -> bool:
    """Whether the reader depends on no result of the user."""
    if user.operation.block != reader.operation.block:
        return False
    if identity(user) is None:
        return True  # the end of the block
    if any(result in list(reader.inputs) for result in user.results):
        return False
    group = Group(order)
    group.add(user)
    return not group.would_cycle(reader)


def _yield(value: ir.Value, reader: mgx.PointwiseOp, order: Order) -> None:
    """Replaces a `mgx.pointwise` by one that also gives one of its operands."""
    inputs, results = list(reader.inputs), list(reader.outputs)
    location = reader.location
    with ir.InsertionPoint(reader), location:
        made = mgx.PointwiseOp([*(result.type for result in results), value.type], inputs)
        types = [argument.type for argument in reader.body.blocks[0].arguments]
        body = made.body.blocks.append(*types, arg_locs=[location] * len(types))
    with ir.InsertionPoint(body):
        yielded = inlined(reader, dict(zip(inputs, body.arguments, strict=True)))
        with list(reader.body.blocks[0].operations)[-1].location:
            mgx.YieldOp([*yielded, body.arguments[inputs.index(value)]])
    *others, own = made.outputs
    for result, new in zip(results, others, strict=True):
        result.replace_all_uses_with(new)
    key = results[0]
    reader.erase()
    for use in list(value.uses):
        if use.owner != made:
            use.owner.operands[use.operand_number] = own
    order.replaced([key], made)
