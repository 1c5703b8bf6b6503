"""Whether the scan family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.family import Types, program_of
from mgx_mlir.codegen.gpu.families.scan.generator import generate
from mgx_mlir.codegen.gpu.families.scan.match import NonZero, Scan, match_nonzero, match_scan
from mgx_mlir.codegen.gpu.families.scan.space import ScanSchedule, choose


def scan_program(
    kernel: ir.OpView, target: Target, schedule: ScanSchedule | None = None
) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels. The reason is empty where the kernel
    holds no running sum.
    """

    def made(work: Scan | NonZero, types: Types, name: str) -> tuple[GpuProgram, str]:
        chosen = schedule or choose(work, target)
        return generate(work, types, chosen, target, name), chosen.describe()

    program, why = program_of(kernel, match_scan, made)
    if program is not None or why:
        return program, why
    return program_of(kernel, match_nonzero, made)
