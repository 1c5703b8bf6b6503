"""Why a kernel is computed as it is: its schedule, and all that it was chosen from."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.finalizer import finalize_kernel


def explain(bytecode: bytes, target: Target) -> str:
    """The decisions of finalizing a stored kernel for a target, in lines for people.

    Raises what `finalize_kernel` raises.
    """
    from mgx_mlir.codegen.gpu.families.choice import heard

    with heard() as found:
        code = finalize_kernel(bytecode, target)
    return "\n".join(
        [code.why or "no families", found.describe() or "the schedule follows from the sizes"]
    )
