"""mgx-merge-pointwise: loops over the same elements become one loop with several results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.fusing import Group, Order, contraction_of
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.prologues import expands_blocks
from mgx_mlir.rewriting.queries import (
    MOST_USERS,
    blocks,
    definition,
    fused_location,
    identity,
    is_constant,
    op_name,
    shape,
    sort_topologically,
    users,
)


@dataclass(frozen=True)
class MergePointwise(Pass):
    """Merges `mgx.pointwise` ops of one shape that read one value, or one of which reads the other.

    Before:  %c = mgx.pointwise(%x, %c0) ... -> tensor<1x128xf32>
             %h = mgx.pointwise(%x, %c) ... -> tensor<1x128xf32>
             // %c is used again
    After:   %c, %h = mgx.pointwise(%x, %c0) ... -> tensor<1x128xf32>, tensor<1x128xf32>

    What both read is read once. Two that read slices of one tensor are one kernel too. Two
    that are the epilogues of two contractions stay two: one of the contractions would lose
    its epilogue. A merged op has at most `max_results` results, `max_inputs` inputs and
    `max_ops` ops.
    """

    max_results: int = 32
    max_inputs: int = 96
    max_ops: int = 256

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-merge-pointwise"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            order = Order(block)
            merged = False
            erased: set[ir.Value | None] = set()
            for start, key in [(op, identity(op)) for op in block.operations]:
                if key in erased or start.operation.name != "mgx.pointwise":
                    continue
                op = start
                while (partner := self._partner(op, order)) is not None:
                    context.note("merge", node_name(op))
                    erased.update((identity(partner), identity(op)))
                    op = _merge(partner, op, order)
                    merged = True
            if merged:
                sort_topologically(block)

    def _partner(self, op: ir.OpView, order: Order) -> ir.OpView | None:
        """A `mgx.pointwise` before `op` that it can be merged with."""
        result = op.operation.results[0]
        if expands_blocks(op):
            return None
        seen = set()
        for other, beside in islice(_related(op), MOST_USERS):
            key = identity(other), beside
            if key in seen or other not in order or order.of(other) >= order.of(op):
                continue
            seen.add(key)
            if shape(other.operation.results[0]) != shape(result) or not self._fits(other, op):
                continue
            if expands_blocks(other) or (beside and contraction_of(other) is not None):
                continue
            if not _would_cycle(other, op, order):
                return other
        return None

    def _fits(self, a: ir.OpView, b: ir.OpView) -> bool:
        if len(a.operation.results) + len(b.operation.results) > self.max_results:
            return False
        if len({*a.operation.operands, *b.operation.operands}) > self.max_inputs:
            return False
        if sum(len(op.regions[0].blocks[0].operations) for op in (a, b)) > self.max_ops:
            return False
        return contraction_of(a) is None or contraction_of(b) is None


def _would_cycle(before: ir.OpView, op: ir.OpView, order: Order) -> bool:
    """Whether `op` depends on `before` through other ops, or `before` on `op` in any way."""
    if any(value.owner == op.operation for value in before.operation.operands):
        return True
    groups = Group(order), Group(order)
    for group, member, other in zip(groups, (before, op), (op, before), strict=True):
        group.add(member)
        if group.would_cycle(other):
            return True
    return False


def _related(op: ir.OpView) -> Iterator[tuple[ir.OpView, bool]]:
    """The `mgx.pointwise` ops related to `op`, with a bool.

    With False: `op` reads one of their results, or one of their operands. With True: they read
    another slice of a tensor that `op` reads a slice of.
    """
    size = shape(op.operation.results[0])
    for value in op.operation.operands:
        if shape(value) != size or is_constant(value):
            continue
        producer = definition(value)
        if op_name(producer) == "mgx.slice" and contraction_of(op) is None:
            yield from ((other, True) for other in _beside(value))
        # Reading a broadcast again costs little.
        if op_name(producer) in mgx.VIEWS:
            continue
        if producer is not None and producer.operation.name == "mgx.pointwise":
            yield producer, False
        for use in islice(value.uses, MOST_USERS):
            user = use.owner.opview
            if user.operation.name == "mgx.pointwise" and user.operation != op.operation:
                yield user, False


def _beside(part: ir.Value) -> Iterator[ir.OpView]:
    """The `mgx.pointwise` ops that read a slice of the same shape of the same tensor."""
    for use in islice(part.owner.operands[0].uses, MOST_USERS):
        slice_ = use.owner.opview
        if op_name(slice_) != "mgx.slice" or shape(slice_.operation.results[0]) != shape(part):
            continue
        for user in (use.owner.opview for use in islice(slice_.results[0].uses, MOST_USERS)):
            if user.operation.name == "mgx.pointwise" and slice_.operation != part.owner:
                yield user


def _merge(a: ir.OpView, b: ir.OpView, order: Order) -> ir.OpView:
    """One op that replaces two, the second of which may read results of the first."""
    own = set(a.operation.results)
    operands = [*a.operation.operands, *(v for v in b.operation.operands if v not in own)]
    inputs = list(dict.fromkeys(operands))
    outputs = [v for v in a.operation.results if any(u.operation != b.operation for u in users(v))]
    outputs += list(b.operation.results)
    location = fused_location([a, b])
    with ir.InsertionPoint(b), location:
        fused = mgx.PointwiseOp([v.type for v in outputs], inputs)
        types = [ir.RankedTensorType(v.type).element_type for v in inputs]
        body = fused.body.blocks.append(*types, arg_locs=[location] * len(types))
    values: dict[ir.Value, ir.Value] = dict(zip(inputs, body.arguments, strict=True))
    with ir.InsertionPoint(body):
        for op in (a, b):
            yielded = _inline(op, values)
            values.update(zip(op.operation.results, yielded, strict=True))
        mgx.YieldOp([values[v] for v in outputs], loc=location)
    keys = [key for key in (identity(a), identity(b)) if key is not None]
    for value, new in zip(outputs, fused.operation.results, strict=True):
        value.replace_all_uses_with(new)
    order.replaced(keys, fused)
    b.operation.erase()
    a.operation.erase()
    merged: ir.OpView = fused.operation.opview
    return merged


def _inline(op: ir.OpView, outside: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """Clones a body, with `outside` mapping the op's operands to scalars; gives its results."""
    block = op.regions[0].blocks[0]
    values = {
        argument: outside[value]
        for argument, value in zip(block.arguments, op.operation.operands, strict=True)
    }
    *inner, terminator = block.operations
    for one in inner:
        clone = one.operation.clone()
        for i, value in enumerate(one.operation.operands):
            clone.operands[i] = values[value]
        values.update(zip(one.operation.results, clone.results, strict=True))
    return [values[value] for value in terminator.operation.operands]
