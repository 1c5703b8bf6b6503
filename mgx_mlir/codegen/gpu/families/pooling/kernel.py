"""Whether the pooling family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.family import Family, Types, program_of
from mgx_mlir.codegen.gpu.families.pooling.generator import PoolingSchedule, choose, generate
from mgx_mlir.codegen.gpu.families.pooling.match import Pooling, match_pooling
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def pooling_program(
    kernel: mgx.KernelOp, target: Target, schedule: PoolingSchedule | None = None
) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None where the kernel holds no pooling.
    """

    def made(pooling: Pooling, types: Types, name: str) -> Generated[GpuProgram]:
        chosen = schedule or choose(pooling, target.compute_units)
        return Generated(generate(pooling, types, chosen, name), chosen.describe())

    return program_of(kernel, match_pooling, made)


FAMILY = Family("pooling", 80, pooling_program)
