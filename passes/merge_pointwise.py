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
    element_type,
    fused_location,
    identity,
    inlined,
    is_constant,
    shape,
    users,
)
from mgx_mlir.rewriting.topology import sort_topologically


@dataclass(frozen=True)
class MergePointwise(Pass):
    """Merges `mgx.pointwise` ops of one shape that read one value, or one of which reads the other.

    Before:  %c = mgx.pointwise(%x, %c0) ... -> tensor<1x128xf32>
             %h = mgx.pointwise(%x, %c) ... -> tensor<1x128xf32>
             // %c is used again
    After:   %c, %h = mgx.pointwise(%x, %c0) ... -> tensor<1x128xf32>, tensor<1x128xf32>

    An operand of both is read once. Two that read slices of one tensor are one kernel too. The
    epilogues of two contractions stay two: one of the contractions would lose its epilogue.
    A merged op has at most `max_results` results, `max_inputs` inputs and `max_ops` ops.
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
                if key in erased or not isinstance(start, mgx.PointwiseOp):
                    continue
                op = start
                while (partner := self._partner(op, order)) is not None:
                    context.note("merge", node_name(op))
                    erased.update((identity(partner), identity(op)))
                    op = _merge(partner, op, order)
                    merged = True
            if merged:
                sort_topologically(block)

    def _partner(self, op: mgx.PointwiseOp, order: Order) -> mgx.PointwiseOp | None:
        """A `mgx.pointwise` before `op` that it can be merged with."""
        if expands_blocks(op):
            return None
        seen = set()
        for other, beside in islice(_related(op), MOST_USERS):
            key = identity(other), beside
            if key in seen or other not in order or order.of(other) >= order.of(op):
                continue
            seen.add(key)
            if shape(other.outputs[0]) != shape(op.outputs[0]) or not self._fits(other, op):
                continue
            if expands_blocks(other) or (beside and contraction_of(other) is not None):
                continue
            if not _would_cycle(other, op, order):
                return other
        return None

    def _fits(self, a: mgx.PointwiseOp, b: mgx.PointwiseOp) -> bool:
        if len(a.outputs) + len(b.outputs) > self.max_results:
            return False
        if len({*a.inputs, *b.inputs}) > self.max_inputs:
            return False
        if sum(len(op.body.blocks[0].operations) for op in (a, b)) > self.max_ops:
            return False
        return contraction_of(a) is None or contraction_of(b) is None


def _would_cycle(before: ir.OpView, op: ir.OpView, order: Order) -> bool:
    """Whether `op` depends on `before` through other ops, or `before` on `op` in any way."""
    if any(value.owner == op for value in before.operands):
        return True
    groups = Group(order), Group(order)
    for group, member, other in zip(groups, (before, op), (op, before), strict=True):
        group.add(member)
        if group.would_cycle(other):
            return True
    return False


def _related(op: mgx.PointwiseOp) -> Iterator[tuple[mgx.PointwiseOp, bool]]:
    """The `mgx.pointwise` ops related to `op`, with a bool.

    With False: `op` reads one of their results, or one of their operands. With True: they read
    another slice of a tensor that `op` reads a slice of.
    """
    size = shape(op.outputs[0])
    for value in op.inputs:
        if shape(value) != size or is_constant(value):
            continue
        producer = definition(value)
        if isinstance(producer, mgx.SliceOp) and contraction_of(op) is None:
            yield from ((other, True) for other in _beside(producer))
        # Reading a broadcast again costs little.
        if mgx.is_view(producer):
            continue
        if isinstance(producer, mgx.PointwiseOp):
            yield producer, False
        for user in _few_users(value):
            if isinstance(user, mgx.PointwiseOp) and user != op:
                yield user, False


def _few_users(value: ir.Value) -> Iterator[ir.OpView]:
    return (use.owner.opview for use in islice(value.uses, MOST_USERS))


def _beside(part: mgx.SliceOp) -> Iterator[mgx.PointwiseOp]:
    """The `mgx.pointwise` ops that read a slice of the same shape of the same tensor."""
    for slice_ in _few_users(part.x):
        if not isinstance(slice_, mgx.SliceOp) or shape(slice_.y) != shape(part.y):
            continue
        for user in _few_users(slice_.y):
            if isinstance(user, mgx.PointwiseOp) and slice_ != part:
                yield user


def _merge(a: mgx.PointwiseOp, b: mgx.PointwiseOp, order: Order) -> mgx.PointwiseOp:
    """One op that replaces two, the second of which may read results of the first."""
    own = set(a.outputs)
    inputs = list(dict.fromkeys([*a.inputs, *(v for v in b.inputs if v not in own)]))
    outputs: list[ir.Value] = [v for v in a.outputs if any(user != b for user in users(v))]
    outputs += list(b.outputs)
    location = fused_location([a, b])
    with ir.InsertionPoint(b), location:
        fused = mgx.PointwiseOp([v.type for v in outputs], inputs)
        types = [element_type(v) for v in inputs]
        body = fused.body.blocks.append(*types, arg_locs=[location] * len(types))
    values: dict[ir.Value, ir.Value] = dict(zip(inputs, body.arguments, strict=True))
    with ir.InsertionPoint(body):
        for op in (a, b):
            values.update(zip(op.outputs, inlined(op, values), strict=True))
        mgx.YieldOp([values[v] for v in outputs], loc=location)
    keys = [key for key in (identity(a), identity(b)) if key is not None]
    for value, new in zip(outputs, fused.outputs, strict=True):
        value.replace_all_uses_with(new)
    order.replaced(keys, fused)
    b.erase()
    a.erase()
    return fused
