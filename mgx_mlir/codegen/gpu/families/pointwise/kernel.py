"""Whether the pointwise family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.family import Family, Types, program_of
from mgx_mlir.codegen.gpu.families.pointwise.cost import choose
from mgx_mlir.codegen.gpu.families.pointwise.generator import generate
from mgx_mlir.codegen.gpu.families.pointwise.match import Elements, match_elements
from mgx_mlir.codegen.gpu.families.pointwise.space import PointwiseSchedule
from mgx_mlir.codegen.gpu.families.pointwise.transposed import (
    TransposedSchedule,
    transposed_schedule,
)
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def pointwise_program(
    kernel: mgx.KernelOp,
    target: Target,
    schedule: PointwiseSchedule | TransposedSchedule | None = None,
) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None where the kernel holds other work. Without a `schedule` the cost model chooses one.
    """

    def made(elements: Elements, types: Types, name: str) -> Generated[GpuProgram]:
        chosen = schedule or transposed_schedule(elements, target) or choose(elements, target)
        return Generated(generate(elements, types, chosen, target, name), chosen.describe())

    return program_of(kernel, match_elements, made)


FAMILY = Family("pointwise", 60, pointwise_program)
