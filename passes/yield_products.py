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
    op_name,
    shape,
    sort_topologically,
    users,
)


@dataclass(frozen=True)
class YieldProducts(Pass):
    """Makes a contraction's result one of a `mgx.pointwise` that reads it, for its other readers.

    Before:  %d = mgx.dot %x, %w ...
             %y = mgx.pointwise(%d) ...            // the first of several that read %d
             %z = mgx.concat %d, ...
    After:   %d = mgx.dot %x, %w ...
             %y, %e = mgx.pointwise(%d) ...        // in the contraction's kernel
             %z = mgx.concat %e, ...

    The result is written as it was before, but not read again, by a kernel of its own; the same
    goes for an attention's. A
    `mgx.pointwise` that ends another contraction stays as it is, and so does one with
    `max_results` results.
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
                    before = identity(reader)
                    assert before is not None
                    order.replaced([before], _yield(op.operation.results[0], reader))
                    changed = True
            if changed:
                sort_topologically(block)

    def _reader(self, op: ir.OpView, order: Order) -> ir.OpView | None:
        """The first `mgx.pointwise` that can be part of the contraction's kernel."""
        if has_one_use(op.operation.results[0]):
            return None
        value = op.operation.results[0]
        found = users(value)
        fused = [user for user in found if op_name(user) == "mgx.pointwise"]
        fused.sort(key=order.of)
        for reader in fused:
            if list(reader.operation.operands).count(value) != 1:
                continue
            if reader not in order or contraction_of(reader) is not None:
                continue
            if len(reader.operation.results) >= self.max_results:
                continue
            if shape(reader.operation.results[0]) != shape(value):
                continue
            others = [user for user in found if user != reader]
            if all(_may_follow(user, reader, order) for user in others):
                return reader
        return None


def _may_follow(user: ir.OpView, reader: ir.OpView, order: Order) -> bool:
    """Whether the reader depends on no result of the user."""
    if user.operation.block != reader.operation.block:
        return False
    if identity(user) is None:
        return True  # the end of the block
    if any(result in list(reader.operation.operands) for result in user.operation.results):
        return False
    group = Group(order)
    group.add(user)
    return not group.would_cycle(reader)


def _yield(value: ir.Value, reader: ir.OpView) -> ir.OpView:
    """Replaces a `mgx.pointwise` by one that also gives one of its operands."""
    operation = reader.operation
    operands = list(operation.operands)
    results = [*(result.type for result in operation.results), value.type]
    before = reader.regions[0].blocks[0]
    types = [argument.type for argument in before.arguments]
    with ir.InsertionPoint(reader), operation.location:
        made = mgx.PointwiseOp(results, operands)
        body = made.body.blocks.append(*types, arg_locs=[operation.location] * len(types))
    values = dict(zip(before.arguments, body.arguments, strict=True))
    *ops, last = before.operations
    with ir.InsertionPoint(body):
        for op in ops:
            clone = op.operation.clone()
            for number, operand in enumerate(op.operation.operands):
                clone.operands[number] = values[operand]
            values.update(zip(op.operation.results, clone.results, strict=True))
        yielded = [values[operand] for operand in last.operation.operands]
        with last.operation.location:
            mgx.YieldOp([*yielded, body.arguments[operands.index(value)]])
    *others, own = made.operation.results
    for result, new in zip(operation.results, others, strict=True):
        result.replace_all_uses_with(new)
    operation.erase()
    for use in list(value.uses):
        if use.owner != made.operation:
            use.owner.operands[use.operand_number] = own
    return made
