"""The order of waves, and of instructions where LLVM's own would cost time or registers."""

from __future__ import annotations

from mlir.dialects import amdgpu, rocdl

from mgx_mlir.codegen.gpu.builders.units import Unit


def fence() -> None:
    """Keeps LLVM's scheduler from moving instructions across this point."""
    rocdl.sched_barrier(0)


def barrier() -> None:
    """Waits for all waves of the work-group; what they wrote to LDS before can be read after it."""
    amdgpu.LDSBarrierOp()


def await_lds(unit: Unit) -> None:
    """Waits once for all reads from LDS so far, on chips whose s_waitcnt counts these."""
    if unit.lds_done is not None:
        rocdl.s_waitcnt(unit.lds_done)


def await_loads(unit: Unit, later: int) -> None:
    """On RDNA 3, waits for all reads from memory but the `later` last ones."""
    if unit.kind == "wmma" and unit.lds_done is not None:
        rocdl.s_waitcnt(min(later, 63) << 10 | 0x3F7)
