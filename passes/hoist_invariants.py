"""mgx-hoist-invariants: values that are equal in every trip of a loop are computed before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import blocks, used_values


@dataclass(frozen=True)
class HoistInvariants(Pass):
    """Moves ops of a loop's body that depend on nothing in it before the loop.

    Before:  %r = mgx.loop %n, %c init(%x) ... {
             ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<2x2xf32>):
               %u = mgx.exp %w : tensor<2x2xf32>      // %w is defined outside
               %d = mgx.dot %v, %u : ...
               mgx.yield %true, %d : ...
             }
    After:   %u = mgx.exp %w : tensor<2x2xf32>
             %r = mgx.loop %n, %c init(%x) ... { ... %d = mgx.dot %v, %u ... }

    An `mgx.if` moves whole or stays whole: no op leaves a branch.
    """

    name: ClassVar[str] = "mgx-hoist-invariants"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        loops = [
            op
            for block in blocks(main_function(module))
            for op in block.operations
            if isinstance(op, mgx.LoopOp)
        ]
        for loop in reversed(loops):  # inner loops first: their invariants may leave outer ones too
            _hoist(loop, context)


def _hoist(loop: mgx.LoopOp, context: PassContext) -> None:
    block = loop.body.blocks[0]
    inside: set[ir.Value] = set(block.arguments)
    *ops, _ = block.operations
    for op in ops:
        # Values of the op's own regions depend on nothing else.
        if inside.isdisjoint(used_values(op)):
            context.note("hoist", node_name(op))
            op.move_before(loop)
        else:
            inside.update(op.results)
