"""A kernel of the pointwise family: whether the family takes it, and its program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.codegen.gpu.builder import signature, size_refusal
from mgx_mlir.codegen.gpu.generic import GpuProgram
from mgx_mlir.codegen.gpu.passes import expand_math
from mgx_mlir.codegen.gpu.pointwise.cost import choose
from mgx_mlir.codegen.gpu.pointwise.generator import generate
from mgx_mlir.codegen.gpu.pointwise.match import match_elements
from mgx_mlir.codegen.gpu.pointwise.space import Schedule
from mgx_mlir.codegen.gpu.pointwise.turned import Turned, turned
from mgx_mlir.codegen.gpu.precision import narrow, relax
from mgx_mlir.target import Target


def pointwise_program(
    kernel: ir.OpView, target: Target, schedule: Schedule | Turned | None = None
) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels; an empty reason where the kernel
    holds other work. Without a `schedule` the cost model chooses.
    """
    with kernel.context, kernel.location:
        elements = match_elements(kernel)
        if isinstance(elements, str):
            return None, elements
        name, types = signature(kernel)
        reason = size_refusal([*types[0], *types[1]])
        if reason:
            return None, f"{elements.name}: {reason}"
        schedule = schedule or turned(elements, target) or choose(elements, target)
        program = generate(elements, types, schedule, target, name)
        if narrow(types[1]):
            relax(program.module)
        expand_math(program.module)
        return program, f"{elements.name}: {schedule.describe()}"
