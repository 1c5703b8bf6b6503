"""Whether the resize family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.family import Family, Types, program_of
from mgx_mlir.codegen.gpu.families.resize.generator import ResizeSchedule, choose, generate
from mgx_mlir.codegen.gpu.families.resize.match import Resize, match_resize
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def resize_program(
    kernel: mgx.KernelOp, target: Target, schedule: ResizeSchedule | None = None
) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None where the kernel holds neither a resize nor a pad with elements.
    """

    def made(resize: Resize, types: Types, name: str) -> Generated[GpuProgram]:
        chosen = schedule or choose(resize, target)
        return Generated(generate(resize, types, chosen, target, name), chosen.describe())

    return program_of(kernel, match_resize, made)


FAMILY = Family("resize", 100, resize_program)
