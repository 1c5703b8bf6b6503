"""A kernel of the pooling family: whether the family takes it, and its program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.codegen.gpu.builder import signature, size_refusal
from mgx_mlir.codegen.gpu.generic import GpuProgram
from mgx_mlir.codegen.gpu.passes import expand_math
from mgx_mlir.codegen.gpu.pooling.generator import Schedule, choose, generate
from mgx_mlir.codegen.gpu.pooling.match import match_pooling
from mgx_mlir.target import Target


def pooling_program(
    kernel: ir.OpView, target: Target, schedule: Schedule | None = None
) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels; an empty reason where the kernel
    holds no pooling.
    """
    with kernel.context, kernel.location:
        pooling = match_pooling(kernel)
        if isinstance(pooling, str):
            return None, pooling and f"mgx.pooling: {pooling}"
        name, types = signature(kernel)
        reason = size_refusal([*types[0], *types[1]])
        if reason:
            return None, f"mgx.pooling: {reason}"
        schedule = schedule or choose(pooling, target.compute_units)
        program = generate(pooling, types, schedule, name)
        expand_math(program.module)
        return program, f"mgx.pooling: {schedule.describe()}"
