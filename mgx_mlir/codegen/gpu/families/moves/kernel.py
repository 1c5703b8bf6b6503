"""Whether the moves family takes a kernel, and the kernel's program."""

from __future__ import annotations

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.family import Family, Types, program_of
from mgx_mlir.codegen.gpu.families.moves.generator import MoveSchedule, choose, generate
from mgx_mlir.codegen.gpu.families.moves.match import Moves, match_moves
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def moves_program(
    kernel: mgx.KernelOp, target: Target, schedule: MoveSchedule | None = None
) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None where the kernel moves nothing. Without a `schedule` the widest vectors are chosen.
    """

    def made(moves: Moves, types: Types, name: str) -> Generated[GpuProgram]:
        chosen = schedule or choose(moves, target.compute_units)
        return Generated(generate(moves, types, chosen, name), chosen.describe())

    return program_of(kernel, match_moves, made, together=False)


FAMILY = Family("moves", 70, moves_program)
