"""Whether the lrn family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.family import Types, program_of
from mgx_mlir.codegen.gpu.families.lrn.generator import LrnSchedule, choose, generate
from mgx_mlir.codegen.gpu.families.lrn.match import Lrn, match_lrn


def lrn_program(
    kernel: ir.OpView, target: Target, schedule: LrnSchedule | None = None
) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels. The reason is empty where the kernel
    holds no normalization.
    """

    def made(lrn: Lrn, types: Types, name: str) -> tuple[GpuProgram, str]:
        chosen = schedule or choose(lrn, target)
        return generate(lrn, types, chosen, name), chosen.describe()

    return program_of(kernel, match_lrn, made)
