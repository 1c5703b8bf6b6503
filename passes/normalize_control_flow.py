"""mgx-normalize-control-flow: loops whose bodies need nothing of them; known branches are taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.plan_attributes import MAX_ITERATIONS
from mgx_mlir.rewriting.queries import blocks, replace, splat


@dataclass(frozen=True)
class NormalizeControlFlow(Pass):
    """Makes the trip's number a carried value, and the condition in a body a constant.

    Before:  %r = mgx.loop %n, %c init(%x) ... {
             ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<2xf32>):
               // %i is used
               mgx.yield %go, %w : tensor<i1>, tensor<2xf32>
             }
    After:   %zero = mgx.constant dense<0> : tensor<i64>
             %r, %last = mgx.loop %n, %c init(%x, %zero) ... {
             ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<2xf32>, %j: tensor<i64>):
               // %j is used
               %next = mgx.add %j, %one : tensor<i64>, tensor<i64> -> tensor<i64>
               mgx.yield %true, %w, %next : tensor<i1>, tensor<2xf32>, tensor<i64>
             }

    A body is then the same at every trip, and the host counts for itself. While a body runs
    its condition is true. A branch whose condition is constant takes the place of its
    `mgx.if`, and a loop of no trips goes away unless it stacks results.
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-normalize-control-flow"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        changed = True
        while changed:  # inlining and rebuilding make new blocks
            changed = any(
                _normalize(op, context)
                for block in blocks(main_function(module))
                for op in list(block.operations)
                if isinstance(op, mgx.CONTROL_FLOW)
            )


def _normalize(op: mgx.IfOp | mgx.LoopOp, context: PassContext) -> bool:
    node = node_name(op)
    with ir.InsertionPoint(op), op.location:
        if isinstance(op, mgx.IfOp):
            rewrite = _take_branch(op)
        else:
            rewrite = _skip_loop(op) or _fix_condition(op) or _carry_counter(op)
    if rewrite:
        context.note(rewrite, node)
    return rewrite is not None


def _take_branch(op: mgx.IfOp) -> str | None:
    condition = splat(op.condition)
    if condition is None:
        return None
    *inner, terminator = (op.then_region if condition else op.else_region).blocks[0].operations
    for one in inner:
        one.operation.move_before(op.operation)
    replace(op, list(terminator.operands))
    return "known branch"


def _skip_loop(op: mgx.LoopOp) -> str | None:
    count, go, init = splat(op.max_trip_count), splat(op.condition), list(op.init)
    never = (count is not None and int(count) <= 0) or (go is not None and not go)
    if not never or len(op.outputs) > len(init):
        return None
    replace(op, init)
    return "loop without trips"


def _fix_condition(op: mgx.LoopOp) -> str | None:
    block = op.body.blocks[0]
    condition = block.arguments[1]
    if not _is_used(condition):
        return None
    with ir.InsertionPoint.at_block_begin(block):
        condition.replace_all_uses_with(mgx.splat(np.bool_(True), condition.type))
    return "true in the body"


def _carry_counter(op: mgx.LoopOp) -> str | None:
    block = op.body.blocks[0]
    counter, type_ = block.arguments[0], block.arguments[0].type
    if not _is_used(counter):
        return None
    count = len(op.init)
    carried = block.add_argument(type_, op.location)
    counter.replace_all_uses_with(carried)
    terminator = list(block.operations)[-1]
    following = list(terminator.operands)
    with ir.InsertionPoint(terminator):
        following.insert(1 + count, mgx.add(carried, mgx.splat(np.int64(1), type_)))
        mgx.YieldOp(following)
    terminator.erase()
    types = [result.type for result in op.outputs]
    types.insert(count, type_)
    start = mgx.splat(np.int64(0), type_)
    made = mgx.LoopOp(types, op.max_trip_count, op.condition, [*op.init, start])
    if MAX_ITERATIONS in op.attributes:
        made.attributes[MAX_ITERATIONS] = op.attributes[MAX_ITERATIONS]
    block.append_to(made.body)
    results = list(made.outputs)
    del results[count]
    replace(op, results)
    return "carried counter"


def _is_used(value: ir.Value) -> bool:
    return any(True for _ in value.uses)
