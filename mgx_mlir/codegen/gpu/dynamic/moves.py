"""Gathers, concatenations and padding of tensors of any size: the family's parts, by formulas."""

from __future__ import annotations

from dataclasses import replace

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.launches import BLOCK
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.pointers import OpenProgram, whole_tensors
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.gpu.families.moves.generator import (
    MAX_PARTS,
    blocks_of,
    choose,
    emit_parts,
    inputs_of,
)
from mgx_mlir.codegen.gpu.families.moves.match import Moves, match_moves
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx


def _program(
    kernel: mgx.KernelOp, moves: Moves, target: Target
) -> Generated[DynamicProgram] | Refusal:
    if len(moves.parts) > MAX_PARTS:
        return Refusal(f"{len(moves.parts)} parts")
    schedule = replace(choose(moves, target), times=1)
    parts = list(zip(moves.parts, schedule.lanes, strict=True))
    used = inputs_of(parts)
    program = OpenProgram(kernel, whole_tensors(kernel, used), ())
    if refusal := program.refusal():
        return refusal
    blocks = blocks_of(parts, schedule.times)
    with program.function(BLOCK, (sum(blocks), 1, 1)) as (frame, number):
        buffers = {n: frame.buffers[position] for position, n in enumerate(used)}
        emit_parts(parts, schedule.times, number, buffers, frame.buffers[-1])
    return Generated(program.program(), f"any sizes, {schedule.describe()}")


FAMILY = Family("moves", 60, Matched(match_moves, _program))
