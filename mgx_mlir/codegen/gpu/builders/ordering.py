"""The order of instructions, where LLVM's own would cost time or registers."""

from __future__ import annotations

from mlir.dialects import rocdl


def fence() -> None:
    """Keeps LLVM's scheduler from moving instructions across this point."""
    rocdl.sched_barrier(0)
