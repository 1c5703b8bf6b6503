"""mgx-simplify-reshapes: chains of views become as short as they can be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import in_views, shape
from mgx_mlir.rewriting.view_chains import changes
from mgx_mlir.rewriting.views import is_view, trace


@rewrites(*mgx.VIEW_OPS)
def shorten_views(op: ir.OpView, context: PassContext) -> ir.Value | None:
    """The shortest chain from the first value that all views of the chain are of."""
    if not is_view(op):
        return None
    source, layout, chain = trace(op.result)
    steps = changes(layout, shape(source))
    if steps is None:
        return None
    after = _cost(step.name != "reshape" for step in steps)
    if after >= _cost(one not in mgx.RESHAPES for one in chain):
        return None
    return in_views(source, steps)


def _cost(is_move: Iterable[bool]) -> tuple[int, int]:
    """The cost of a chain: the number of ops that move elements first, then of all ops."""
    moves = list(is_move)
    return sum(moves), len(moves)


@dataclass(frozen=True)
class SimplifyReshapes(PatternPass):
    """Replaces a chain of views by the shortest chain that gives the same elements.

    Before:  %1 = mgx.transpose %0 permutation = [0, 2, 1] : tensor<1x8x1xf32> -> tensor<1x1x8xf32>
             %2 = mgx.reshape %1 : tensor<1x1x8xf32> -> tensor<8xf32>
    After:   %2 = mgx.reshape %0 : tensor<1x8x1xf32> -> tensor<8xf32>

    Reshapes, transposes, slices, steps and broadcasts compose by the algebra of
    mgx_mlir.rewriting.views; a chain that strides cannot describe stays as it is.
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-simplify-reshapes"
    patterns: ClassVar = (shorten_views,)
