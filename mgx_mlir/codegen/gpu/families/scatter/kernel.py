"""Whether the scatter family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.family import Types, program_of
from mgx_mlir.codegen.gpu.families.scatter.generator import generate
from mgx_mlir.codegen.gpu.families.scatter.match import Scatter, match_scatter
from mgx_mlir.codegen.gpu.families.scatter.ordered import generate_ordered
from mgx_mlir.codegen.gpu.families.scatter.sums import generate_sums


def scatter_program(kernel: ir.OpView, target: Target) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels. The reason is empty where the kernel
    holds no scatter.
    """

    def made(scatter: Scatter, types: Types, name: str) -> tuple[GpuProgram, str] | str:
        # Scratch memory holds up to 8 bytes for each element, or for each point.
        size = max(scatter.size, scatter.points)
        if size * 8 > MAX_BYTES:
            return f"{size} elements are more than 31-bit offsets reach"
        program, how = _made(scatter, types, name, target)
        into = f"{scatter.points} runs of {scatter.run} into {scatter.slots} slots"
        return program, f"{into}, {how}"

    return program_of(kernel, match_scatter, made)


def _made(scatter: Scatter, types: Types, name: str, target: Target) -> tuple[GpuProgram, str]:
    """The program, and its method in words."""
    if scatter.ordered:
        return generate_ordered(scatter, types, name, target), "in their order"
    sums = scatter.kind == "add" and scatter.element.is_float
    program = (generate_sums if sums else generate)(scatter, types, name)
    how = "exact sums" if sums else "the last of a slot" if scatter.kind == "none" else "atomics"
    return program, how
