"""Whether the pooling family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.family import Types, program_of
from mgx_mlir.codegen.gpu.families.pooling.generator import PoolingSchedule, choose, generate
from mgx_mlir.codegen.gpu.families.pooling.match import Pooling, match_pooling


def pooling_program(
    kernel: ir.OpView, target: Target, schedule: PoolingSchedule | None = None
) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels. The reason is empty where the kernel
    holds no pooling.
    """

    def made(pooling: Pooling, types: Types, name: str) -> tuple[GpuProgram, str]:
        chosen = schedule or choose(pooling, target.compute_units)
        return generate(pooling, types, chosen, name), chosen.describe()

    return program_of(kernel, match_pooling, made)
