"""Loops whose trips are all in one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from mgx_mlir.codegen.loops.body import Lazy
from mgx_mlir.codegen.loops.kernel import Kernel, lowers
from mgx_mlir.dialects import mgx


@lowers(mgx.LoopOp)
def loop(kernel: Kernel, op: mgx.LoopOp, operands: Sequence[Lazy]) -> list[Lazy]:
    return kernel.repeat(op, operands)
