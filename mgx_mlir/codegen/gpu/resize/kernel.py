"""A kernel of the resize family: whether the family takes it, and its program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.codegen.gpu.builder import signature, size_refusal
from mgx_mlir.codegen.gpu.generic import GpuProgram
from mgx_mlir.codegen.gpu.passes import expand_math
from mgx_mlir.codegen.gpu.resize.generator import Schedule, choose, generate
from mgx_mlir.codegen.gpu.resize.match import match_resize
from mgx_mlir.target import Target


def resize_program(
    kernel: ir.OpView, target: Target, schedule: Schedule | None = None
) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels; an empty reason where the kernel
    holds neither a resize nor a pad with elements.
    """
    with kernel.context, kernel.location:
        resize = match_resize(kernel)
        if isinstance(resize, str):
            return None, resize
        name, types = signature(kernel)
        reason = size_refusal([*types[0], *types[1]])
        if reason:
            return None, f"{resize.name}: {reason}"
        schedule = schedule or choose(resize, target)
        program = generate(resize, types, schedule, target, name)
        expand_math(program.module)
        return program, f"{resize.name}: {schedule.describe()}"
