"""Why a kernel is computed as it is: its schedule, and what the models chose it from."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.finalizer import finalize_kernel


def explain(bytecode: bytes, target: Target) -> str:
    """What finalizing a stored kernel for a target decides, in lines for people.

    Raises what `finalize_kernel` raises.
    """
    from mgx_mlir.codegen.gpu.families.choice import heard

    with heard() as choices:
        code = finalize_kernel(bytecode, target)
    found = [choice.describe() for choice in choices]
    return "\n".join(
        [code.why or "no families", *(found or ["the schedule follows from the sizes"])]
    )
