"""A kernel of the scatter family: whether the family takes it, and its program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.codegen.gpu.builder import MAX_BYTES
from mgx_mlir.codegen.gpu.family import Types, program_of
from mgx_mlir.codegen.gpu.generic import GpuProgram
from mgx_mlir.codegen.gpu.scatter.generator import generate
from mgx_mlir.codegen.gpu.scatter.match import Scatter, match_scatter
from mgx_mlir.codegen.gpu.scatter.sums import generate_sums
from mgx_mlir.target import Target


def scatter_program(kernel: ir.OpView, target: Target) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels; an empty reason where the kernel
    holds no scatter.
    """
    return program_of(kernel, match_scatter, _made)


def _made(scatter: Scatter, types: Types, name: str) -> tuple[GpuProgram, str] | str:
    # What is held of an element beside the result.
    if scatter.size * 8 > MAX_BYTES:
        return f"{scatter.size} elements are more than 31-bit offsets reach"
    sums = scatter.kind == "add" and scatter.element.is_float
    program = (generate_sums if sums else generate)(scatter, types, name)
    how = "exact sums" if sums else "the last of a slot" if scatter.kind == "none" else "atomics"
    return program, f"{scatter.points} runs of {scatter.run} into {scatter.slots} slots, {how}"
