"""A kernel of the topk family: whether the family takes it, and its program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.codegen.gpu.builder import signature, size_refusal
from mgx_mlir.codegen.gpu.generic import GpuProgram
from mgx_mlir.codegen.gpu.topk.generator import Schedule, generate
from mgx_mlir.codegen.gpu.topk.match import match_topk
from mgx_mlir.target import Target


def topk_program(kernel: ir.OpView, target: Target) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels; an empty reason where the kernel
    holds no topk.
    """
    with kernel.context, kernel.location:
        topk = match_topk(kernel)
        if isinstance(topk, str):
            return None, topk and f"mgx.topk: {topk}"
        name, types = signature(kernel)
        reason = size_refusal([*types[0], *types[1]])
        if reason:
            return None, f"mgx.topk: {reason}"
        schedule = Schedule.of(topk)
        return generate(topk, types, schedule, target, name), f"mgx.topk: {schedule.describe()}"
