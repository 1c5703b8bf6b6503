"""Whether the rows family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.family import Family, Types, program_of
from mgx_mlir.codegen.gpu.families.rows.cost import choose
from mgx_mlir.codegen.gpu.families.rows.generator import generate
from mgx_mlir.codegen.gpu.families.rows.match import Rows, match_rows
from mgx_mlir.codegen.gpu.families.rows.space import RowSchedule
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def rows_program(
    kernel: mgx.KernelOp, target: Target, schedule: RowSchedule | None = None
) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None where the kernel holds no reduction. Without a `schedule` the cost model chooses one.
    """

    def made(rows: Rows, types: Types, name: str) -> Generated[GpuProgram] | Refusal:
        chosen = schedule or choose(rows, target)
        if chosen is None:
            return Refusal(f"no schedule fits {target.name}")
        return Generated(generate(rows, types, chosen, target, name), chosen.describe())

    return program_of(kernel, match_rows, made)


FAMILY = Family("rows", 50, rows_program)
