"""A kernel as it is compiled: its schedule, all that it was chosen from, and its stages."""

from __future__ import annotations

from mgx_mlir.artifact.schedule import Tuned
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import UsageError
from mgx_mlir.finalizer import finalize_kernel, finalize_kernel_for


def explain(bytecode: bytes, target: Target) -> str:
    """The decisions of finalizing a stored kernel for a target, in lines for people.

    Raises what `finalize_kernel` raises.
    """
    from mgx_mlir.codegen.choice import heard

    with heard() as found:
        code = finalize_kernel(bytecode, target)
    return "\n".join(
        [code.why or "no families", found.describe() or "the schedule follows from the sizes"]
    )


# The forms of a kernel between the stored one and its instructions, which artifacts hold.
STAGES = ("gpu", "cpu", "llvm")


def stage_text(bytecode: bytes, target: Target, stage: str, tuned: Tuned | None = None) -> str:
    """A stored kernel at a stage (see STAGES) of being compiled for a target, as it was tuned.

    Raises UsageError where the target's code passes no such stage, and what `finalize_kernel`
    raises.
    """
    from mgx_mlir.codegen.stages import watched

    schedules = {target.identity: tuned} if tuned else {}
    with watched() as forms:
        finalize_kernel_for(bytecode, (target,), schedules)
    if stage not in forms:
        known = ", ".join(["portable", *forms, "isa"])
        raise UsageError(f"a kernel for {target.name} has no stage '{stage}'; it has {known}")
    return forms[stage]
