"""A kernel of the scatter family: whether the family takes it, and its program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.codegen.gpu.builder import MAX_BYTES, signature, size_refusal
from mgx_mlir.codegen.gpu.generic import GpuProgram
from mgx_mlir.codegen.gpu.passes import expand_math
from mgx_mlir.codegen.gpu.scatter.generator import generate
from mgx_mlir.codegen.gpu.scatter.match import match_scatter
from mgx_mlir.codegen.gpu.scatter.sums import generate_sums
from mgx_mlir.target import Target


def scatter_program(kernel: ir.OpView, target: Target) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels; an empty reason where the kernel
    holds no scatter.
    """
    with kernel.context, kernel.location:
        scatter = match_scatter(kernel)
        if isinstance(scatter, str):
            return None, scatter
        name, types = signature(kernel)
        reason = size_refusal([*types[0], *types[1]])
        # What is held of an element beside the result.
        if not reason and scatter.size * 8 > MAX_BYTES:
            reason = f"{scatter.size} elements are more than 31-bit offsets reach"
        if reason:
            return None, f"{scatter.name}: {reason}"
        sums = scatter.kind == "add" and scatter.element.is_float
        program = (generate_sums if sums else generate)(scatter, types, name)
        expand_math(program.module)
        how = (
            "exact sums" if sums else "the last of a slot" if scatter.kind == "none" else "atomics"
        )
        points = f"{scatter.points} runs of {scatter.run}"
        return program, f"{scatter.name}: {points} into {scatter.slots} slots, {how}"
