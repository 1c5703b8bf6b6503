"""mgx-simplify-reshapes: chains of views become as short as they can be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import RESHAPES, blocks, erase_dead, in_views, replace, shape
from mgx_mlir.rewriting.views import changes, is_view, trace


@dataclass(frozen=True)
class SimplifyReshapes(Pass):
    """Replaces a chain of views by the shortest chain that gives the same elements.

    Before:  %1 = mgx.transpose %0 permutation = [0, 2, 1] : tensor<1x8x1xf32> -> tensor<1x1x8xf32>
             %2 = mgx.reshape %1 : tensor<1x1x8xf32> -> tensor<8xf32>
    After:   %2 = mgx.reshape %0 : tensor<1x8x1xf32> -> tensor<8xf32>

    Reshapes, transposes, slices, steps and broadcasts compose by the algebra of
    mgx_mlir.rewriting.views; what it cannot tell by strides stays as it is.
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-simplify-reshapes"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            # Operands come first in a block, so one walk sees each producer simplified.
            for op in list(block.operations):
                if is_view(op):
                    with ir.InsertionPoint(op), op.operation.location:
                        _simplify(op, context)
            erase_dead(block)


def _simplify(op: ir.OpView, context: PassContext) -> None:
    source, layout, chain = trace(op.operation.results[0])
    steps = changes(layout, shape(source))
    if steps is not None and _cost(f"mgx.{s.name}" for s in steps) < _cost(chain):
        context.note("views", node_name(op))
        replace(op, [in_views(source, steps)])


def _cost(names: Iterable[str]) -> tuple[int, int]:
    """The cost of a chain: the number of ops that move elements first, then of all ops."""
    ops = list(names)
    return sum(name not in RESHAPES for name in ops), len(ops)
