"""Whether the scan family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.family import Family, Types, program_of
from mgx_mlir.codegen.gpu.families.scan.generator import generate
from mgx_mlir.codegen.gpu.families.scan.match import NonZero, Scan, match_nonzero, match_scan
from mgx_mlir.codegen.gpu.families.scan.space import ScanSchedule, choose
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def scan_program(
    kernel: mgx.KernelOp, target: Target, schedule: ScanSchedule | None = None
) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None where the kernel holds no running sum.
    """

    def made(work: Scan | NonZero, types: Types, name: str) -> Generated[GpuProgram]:
        chosen = schedule or choose(work, target)
        return Generated(generate(work, types, chosen, target, name), chosen.describe())

    return program_of(kernel, match_scan, made) or program_of(kernel, match_nonzero, made)


FAMILY = Family("scan", 110, scan_program)
