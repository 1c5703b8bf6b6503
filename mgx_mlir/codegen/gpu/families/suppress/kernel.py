"""Whether the suppress family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.family import Family, Types, program_of
from mgx_mlir.codegen.gpu.families.suppress.generator import generate, waves_of
from mgx_mlir.codegen.gpu.families.suppress.match import Suppress, match_suppress
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def suppress_program(
    kernel: mgx.KernelOp, target: Target
) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None where the kernel chooses among no boxes.
    """

    def made(suppress: Suppress, types: Types, name: str) -> Generated[GpuProgram]:
        waves, wave = waves_of(suppress, target), target.wave_size
        how = f"{wave} boxes at a time, {waves} waves compare them with those kept"
        return Generated(generate(suppress, types, target, name), how)

    return program_of(kernel, match_suppress, made)


FAMILY = Family("suppress", 130, suppress_program)
