"""Whether the pointwise family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.family import Types, program_of
from mgx_mlir.codegen.gpu.families.pointwise.cost import choose
from mgx_mlir.codegen.gpu.families.pointwise.generator import generate
from mgx_mlir.codegen.gpu.families.pointwise.match import Elements, match_elements
from mgx_mlir.codegen.gpu.families.pointwise.space import PointwiseSchedule
from mgx_mlir.codegen.gpu.families.pointwise.turned import Turned, turned


def pointwise_program(
    kernel: ir.OpView, target: Target, schedule: PointwiseSchedule | Turned | None = None
) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels. The reason is empty where the kernel
    holds other work. Without a `schedule` the cost model chooses one.
    """

    def made(elements: Elements, types: Types, name: str) -> tuple[GpuProgram, str]:
        chosen = schedule or turned(elements, target) or choose(elements, target)
        return generate(elements, types, chosen, target, name), chosen.describe()

    return program_of(kernel, match_elements, made)
