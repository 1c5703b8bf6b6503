"""A kernel of the rows family: whether the family takes it, and its program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.codegen.gpu.builder import signature, size_refusal
from mgx_mlir.codegen.gpu.generic import GpuProgram
from mgx_mlir.codegen.gpu.passes import expand_math
from mgx_mlir.codegen.gpu.precision import narrow, relax
from mgx_mlir.codegen.gpu.rows.cost import choose
from mgx_mlir.codegen.gpu.rows.generator import generate
from mgx_mlir.codegen.gpu.rows.match import match_rows
from mgx_mlir.codegen.gpu.rows.space import Schedule
from mgx_mlir.target import Target


def rows_program(
    kernel: ir.OpView, target: Target, schedule: Schedule | None = None
) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels; an empty reason where the kernel
    holds no reduction. Without a `schedule` the cost model chooses.
    """
    with kernel.context, kernel.location:
        rows = match_rows(kernel)
        if isinstance(rows, str):
            return None, rows
        name, types = signature(kernel)
        reason = size_refusal([*types[0], *types[1]])
        if reason:
            return None, f"{rows.name}: {reason}"
        schedule = schedule or choose(rows, target)
        if schedule is None:
            return None, f"{rows.name}: no schedule fits {target.name}"
        program = generate(rows, types, schedule, target, name)
        if narrow(types[1]):
            relax(program.module)
        expand_math(program.module)
        return program, f"{rows.name}: {schedule.describe()}"
