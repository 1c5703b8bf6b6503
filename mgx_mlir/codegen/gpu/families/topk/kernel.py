"""Whether the topk family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.family import Family, Types, program_of
from mgx_mlir.codegen.gpu.families.topk.generator import TopKSchedule, generate
from mgx_mlir.codegen.gpu.families.topk.match import Topk, match_topk
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def topk_program(kernel: mgx.KernelOp, target: Target) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None where the kernel holds no topk.
    """

    def made(topk: Topk, types: Types, name: str) -> Generated[GpuProgram]:
        schedule = TopKSchedule.of(topk, target.compute_units)
        return Generated(generate(topk, types, schedule, target, name), schedule.describe())

    return program_of(kernel, match_topk, made)


FAMILY = Family("topk", 90, topk_program)
