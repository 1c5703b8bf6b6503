"""Whether the scatter family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.family import Family, Types, program_of
from mgx_mlir.codegen.gpu.families.scatter.generator import generate
from mgx_mlir.codegen.gpu.families.scatter.match import Scatter, match_scatter
from mgx_mlir.codegen.gpu.families.scatter.ordered import generate_ordered
from mgx_mlir.codegen.gpu.families.scatter.sums import generate_sums
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def scatter_program(kernel: mgx.KernelOp, target: Target) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None where the kernel holds no scatter.
    """

    def made(scatter: Scatter, types: Types, name: str) -> Generated[GpuProgram] | Refusal:
        # Scratch memory holds up to 8 bytes for each element, or for each point.
        size = max(scatter.size, scatter.points)
        if size * 8 > MAX_BYTES:
            return Refusal(f"{size} elements are more than 31-bit offsets reach")
        into = f"{scatter.points} runs of {scatter.run} into {scatter.slots} slots"
        return _made(scatter, types, name, target).of(into)

    return program_of(kernel, match_scatter, made)


def _made(scatter: Scatter, types: Types, name: str, target: Target) -> Generated[GpuProgram]:
    """The program, and its method in words."""
    if scatter.ordered:
        return Generated(generate_ordered(scatter, types, name, target), "in their order")
    sums = scatter.kind == "add" and scatter.element.is_float
    program = (generate_sums if sums else generate)(scatter, types, name)
    how = "exact sums" if sums else "the last of a slot" if scatter.kind == "none" else "atomics"
    return Generated(program, how)


FAMILY = Family("scatter", 120, scatter_program)
