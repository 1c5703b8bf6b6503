"""Whether the resize family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.family import Types, program_of
from mgx_mlir.codegen.gpu.families.resize.generator import ResizeSchedule, choose, generate
from mgx_mlir.codegen.gpu.families.resize.match import Resize, match_resize


def resize_program(
    kernel: ir.OpView, target: Target, schedule: ResizeSchedule | None = None
) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels. The reason is empty where the kernel
    holds neither a resize nor a pad with elements.
    """

    def made(resize: Resize, types: Types, name: str) -> tuple[GpuProgram, str]:
        chosen = schedule or choose(resize, target)
        return generate(resize, types, chosen, target, name), chosen.describe()

    return program_of(kernel, match_resize, made)
