"""A kernel of the moves family: whether the family takes it, and its program."""

from __future__ import annotations

from mlir import ir

from mgx_mlir.codegen.gpu.builder import signature, size_refusal
from mgx_mlir.codegen.gpu.generic import GpuProgram
from mgx_mlir.codegen.gpu.moves.generator import Schedule, choose, generate
from mgx_mlir.codegen.gpu.moves.match import match_moves
from mgx_mlir.target import Target

# More parts of a concat take longer to tell apart than they take to copy.
MAX_PARTS = 16


def moves_program(
    kernel: ir.OpView, target: Target, schedule: Schedule | None = None
) -> tuple[GpuProgram | None, str]:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None, and why the family refuses it, for other kernels; an empty reason where the kernel
    moves nothing. Without a `schedule` the widest vectors are chosen.
    """
    with kernel.context, kernel.location:
        moves = match_moves(kernel)
        if isinstance(moves, str):
            return None, moves
        name, types = signature(kernel)
        reason = size_refusal([*types[0], *types[1]])
        if len(moves.parts) > MAX_PARTS:
            reason = f"{len(moves.parts)} parts are more than {MAX_PARTS}"
        if reason:
            return None, f"{moves.name}: {reason}"
        schedule = schedule or choose(moves, target.compute_units)
        return generate(moves, types, schedule, name), f"{moves.name}: {schedule.describe()}"
