"""The order of waves, and of instructions where LLVM's own would cost time or registers."""

from __future__ import annotations

from mlir.dialects import amdgpu, rocdl


def fence() -> None:
    """Keeps LLVM's scheduler from moving instructions across this point."""
    rocdl.sched_barrier(0)


def barrier() -> None:
    """Waits for all waves of the work-group; what they wrote to LDS before can be read after it."""
    amdgpu.LDSBarrierOp()
