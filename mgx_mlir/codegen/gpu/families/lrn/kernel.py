"""Whether the lrn family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.family import Family, Types, program_of
from mgx_mlir.codegen.gpu.families.lrn.generator import LrnSchedule, choose, generate
from mgx_mlir.codegen.gpu.families.lrn.match import Lrn, match_lrn
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def lrn_program(
    kernel: mgx.KernelOp, target: Target, schedule: LrnSchedule | None = None
) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None where the kernel holds no normalization.
    """

    def made(lrn: Lrn, types: Types, name: str) -> Generated[GpuProgram]:
        chosen = schedule or choose(lrn, target)
        return Generated(generate(lrn, types, chosen, name), chosen.describe())

    return program_of(kernel, match_lrn, made)


FAMILY = Family("lrn", 140, lrn_program)
