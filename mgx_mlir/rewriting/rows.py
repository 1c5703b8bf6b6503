"""Reductions over the same rows of elements, and the work that can be one op with them."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.fusing import Group, Order
from mgx_mlir.rewriting.prologues import expands_blocks
from mgx_mlir.rewriting.queries import definition, identity, shape, splat, users


@dataclass(frozen=True)
class Rows:
    """The shapes of a reduction: whole tensors, and tensors with its axes reduced."""

    whole: tuple[int, ...]
    reduced: tuple[int, ...]
    axes: list[int]

    def fit(self, op: ir.OpView) -> bool:
        """Whether the op can be in the body."""
        if mgx.is_pointwise(op):
            return shape(op.result) in (self.whole, self.reduced)
        if isinstance(op, mgx.MultibroadcastOp):
            return (shape(op.x), shape(op.y)) == (self.reduced, self.whole)
        return rows_of(op) == self


def rows_of(op: ir.OpView) -> Rows | None:
    """The shapes of a reduction; None for another op."""
    if not isinstance(op, mgx.REDUCTION_OPS):
        return None
    return Rows(shape(op.x), shape(op.y), sorted(op.axes))


def grown(reduction: ir.OpView, rows: Rows, order: Order, max_ops: int) -> Group:
    """A reduction with the others over its rows, and the pointwise work that can join them."""
    group = Group(order)
    group.add(reduction)
    changed = True
    while changed and len(group) < max_ops:
        changed = False
        for member in group.ordered():
            near = [user for result in member.results for user in users(result)]
            for op in sorted(near, key=order.of):
                if op in group or op not in order or not rows.fit(op):
                    continue
                if expands_blocks(op):
                    continue
                if not group.would_cycle(op):
                    group.add(op)
                    changed = True
            for value in member.operands:
                producer = definition(value)
                if producer is None or producer in group or splat(value) is not None:
                    continue
                # Values computed outside of a loop stay there.
                if producer not in order:
                    continue
                if rows.fit(producer) and _may_enter(group, producer, rows):
                    group.add(producer)
                    changed = True
    _leave_broadcasts(group)
    return group


def _may_enter(group: Group, producer: ir.OpView, rows: Rows) -> bool:
    """Whether a producer costs less in the group, also as a result where others read it."""
    if group.owns_all_uses(producer):
        return True
    if not mgx.is_pointwise(producer) or producer not in group.order:
        return False
    if shape(producer.result) != rows.whole or _is_epilogue(producer):
        return False
    return not group.would_be_read(producer)


def _is_epilogue(op: ir.OpView) -> bool:
    """Whether a contraction's kernel can include a pointwise op, alone or after others."""
    own = {identity(op)}
    waiting = [op]
    while waiting:
        for value in waiting.pop().operands:
            producer = definition(value)
            # A producer that nothing else reads is fused with it.
            if producer is None or any(identity(user) not in own for user in users(value)):
                continue
            if isinstance(producer, mgx.CONTRACTIONS):
                return True
            fuses = mgx.is_pointwise(producer) or isinstance(producer, mgx.RESHAPES)
            if fuses and value not in own:
                own.add(value)
                waiting.append(producer)
    return False


def _leave_broadcasts(group: Group) -> None:
    """Removes broadcasts that no op in the group reads: their readers repeat elements for free."""
    for op in reversed(group.ordered()):
        if isinstance(op, mgx.MultibroadcastOp) and not any(user in group for user in users(op.y)):
            del group.members[op.y]
