"""Whether the rows family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.family import Types, program_of
from mgx_mlir.codegen.gpu.families.rows.cost import choose
from mgx_mlir.codegen.gpu.families.rows.generator import generate
from mgx_mlir.codegen.gpu.families.rows.match import Rows, match_rows
from mgx_mlir.codegen.gpu.families.rows.space import RowSchedule


def rows_program(
    kernel: ir.OpView, target: Target, schedule: RowSchedule | None = None
) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels. The reason is empty where the kernel
    holds no reduction. Without a `schedule` the cost model chooses one.
    """

    def made(rows: Rows, types: Types, name: str) -> tuple[GpuProgram, str] | str:
        chosen = schedule or choose(rows, target)
        if chosen is None:
            return f"no schedule fits {target.name}"
        return generate(rows, types, chosen, target, name), chosen.describe()

    return program_of(kernel, match_rows, made)
