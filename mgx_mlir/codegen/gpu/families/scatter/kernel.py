"""Whether the scatter family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.gpu.builders.launches import Launches
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.family import Family, Types, program_of
from mgx_mlir.codegen.gpu.families.scatter.generator import Generator, build
from mgx_mlir.codegen.gpu.families.scatter.match import Scatter, match_scatter
from mgx_mlir.codegen.gpu.families.scatter.ordered import build_ordered
from mgx_mlir.codegen.gpu.families.scatter.sums import build_sums
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
        launches = Launches(name, types, scatter.overwritable)
        how = build_scatter(scatter, launches, target)
        return Generated(launches.program(), how).of(into)

    return program_of(kernel, match_scatter, made)


def build_scatter(scatter: Scatter, launches: Launches, target: Target) -> str:
    """Adds the functions to those of `launches`; gives their method in words."""
    generator = Generator(scatter, launches)
    if scatter.ordered:
        build_ordered(generator, target)
        return "in their order"
    if scatter.kind == "add" and scatter.element.is_float:
        build_sums(generator)
        return "exact sums"
    build(generator)
    return "the last of a slot" if scatter.kind == "none" else "atomics"


FAMILY = Family("scatter", 120, scatter_program)
