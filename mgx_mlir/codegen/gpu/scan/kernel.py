"""A kernel of the scan family: whether the family takes it, and its program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.codegen.gpu.builder import signature, size_refusal
from mgx_mlir.codegen.gpu.generic import GpuProgram
from mgx_mlir.codegen.gpu.passes import expand_math
from mgx_mlir.codegen.gpu.scan.generator import generate
from mgx_mlir.codegen.gpu.scan.match import Scan, match_scan
from mgx_mlir.codegen.gpu.scan.space import Schedule, choose
from mgx_mlir.target import Target


def scan_program(
    kernel: ir.OpView, target: Target, schedule: Schedule | None = None
) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels; an empty reason where the kernel
    holds no running sum.
    """
    with kernel.context, kernel.location:
        work = match_scan(kernel)
        if isinstance(work, str):
            return None, work
        what = "mgx.prefix_scan_sum" if isinstance(work, Scan) else "mgx.nonzero"
        name, types = signature(kernel)
        reason = size_refusal([*types[0], *types[1]])
        if reason:
            return None, f"{what}: {reason}"
        schedule = schedule or choose(work, target)
        program = generate(work, types, schedule, target, name)
        expand_math(program.module)
        return program, f"{what}: {schedule.describe()}"
