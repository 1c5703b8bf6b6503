"""mgx-normalize-control-flow: loops whose bodies need nothing of them; known branches are taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import MAX_ITERATIONS, main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
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

    So a body is the same at every trip, and the host counts for itself. While a body runs
    its condition is true. A branch whose condition is constant takes the place of its
    `mgx.if`, and a loop of no trips goes away unless it stacks results.
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-normalize-control-flow"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        changed = True
        while changed:  # inlining and rebuilding make new blocks
            changed = any(
                _normalize(op, context)
                for block in blocks(main_function(module))
                for op in list(block.operations)
                if op.operation.name in ("mgx.if", "mgx.loop")
            )


def _normalize(op: ir.OpView, context: PassContext) -> bool:
    node = node_name(op)
    with ir.InsertionPoint(op), op.operation.location:
        if op.operation.name == "mgx.if":
            rewrite = _take_branch(op)
        else:
            rewrite = _skip_loop(op) or _fix_condition(op) or _carry_counter(op)
    if rewrite:
        context.note(rewrite, node)
    return bool(rewrite)


def _take_branch(op: ir.OpView) -> str:
    condition = splat(op.operation.operands[0])
    if condition is None:
        return ""
    *inner, terminator = op.operation.regions[0 if condition else 1].blocks[0].operations
    for one in inner:
        one.operation.move_before(op.operation)
    replace(op, list(terminator.operation.operands))
    return "known branch"


def _skip_loop(op: ir.OpView) -> str:
    trips, condition, *init = op.operation.operands
    count, go = splat(trips), splat(condition)
    never = (count is not None and int(count) <= 0) or (go is not None and not go)
    if not never or len(op.operation.results) > len(init):
        return ""
    replace(op, init)
    return "loop without trips"


def _fix_condition(op: ir.OpView) -> str:
    block = op.operation.regions[0].blocks[0]
    condition = block.arguments[1]
    if not _is_used(condition):
        return ""
    with ir.InsertionPoint.at_block_begin(block):
        condition.replace_all_uses_with(mgx.splat(np.bool_(True), condition.type))
    return "true in the body"


def _carry_counter(op: ir.OpView) -> str:
    block = op.operation.regions[0].blocks[0]
    counter, type_ = block.arguments[0], block.arguments[0].type
    if not _is_used(counter):
        return ""
    trips, condition, *init = op.operation.operands
    carried = block.add_argument(type_, op.operation.location)
    counter.replace_all_uses_with(carried)
    terminator = list(block.operations)[-1]
    yielded = list(terminator.operation.operands)
    with ir.InsertionPoint(terminator):
        yielded.insert(1 + len(init), mgx.add(carried, mgx.splat(np.int64(1), type_)))
        mgx.YieldOp(yielded)
    terminator.operation.erase()
    types = [result.type for result in op.operation.results]
    types.insert(len(init), type_)
    start = mgx.splat(np.int64(0), type_)
    made = mgx.LoopOp(types, trips, condition, [*init, start])
    if MAX_ITERATIONS in op.operation.attributes:
        made.operation.attributes[MAX_ITERATIONS] = op.operation.attributes[MAX_ITERATIONS]
    block.append_to(made.operation.regions[0])
    results = list(made.operation.results)
    del results[len(init)]
    replace(op, results)
    return "carried counter"


def _is_used(value: ir.Value) -> bool:
    return any(True for _ in value.uses)
