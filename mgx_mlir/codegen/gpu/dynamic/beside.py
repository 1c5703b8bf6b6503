"""Independent works on tensors of any size: the family's parts, by formulas."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.launches import BLOCK
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.pointers import OpenProgram, whole_tensors
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.beside.generator import (
    choose,
    counts_of,
    emit_parts,
    inputs_of_parts,
)
from mgx_mlir.codegen.gpu.families.beside.match import Beside, match_beside
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def _program(
    kernel: mgx.KernelOp, problem: Beside, target: Target
) -> Generated[DynamicProgram] | Refusal:
    schedule, used = choose(problem, target), inputs_of_parts(problem)
    program = OpenProgram(kernel, whole_tensors(kernel, used), ())
    if refusal := program.refusal():
        return refusal
    grid = (sum(counts_of(problem, schedule)), 1, 1)
    with program.function(BLOCK, grid) as (frame, number):
        emit_parts(problem, schedule, number, used, frame.buffers)
    return Generated(program.program(), f"any sizes, {schedule.describe()}")


FAMILY = Family("beside", 70, Matched(match_beside, _program))
