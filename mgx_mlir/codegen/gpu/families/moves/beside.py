"""Matches kernels of independent works: pointwise ops, concats, gathers and paddings.

A concat may read what a pointwise op of the kernel computes: that is stored where it belongs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mlir import ir

from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.family import Family, Scheduled, inputs_in_front, is_free
from mgx_mlir.codegen.gpu.families.moves.generator import build, choose
from mgx_mlir.codegen.gpu.families.moves.match import Moves, Part, copy_of, move_of, moves_of
from mgx_mlir.codegen.gpu.families.pointwise.match import Result, elements_of
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.problem.match import through_reshapes
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import definition
from mgx_mlir.rewriting.symbolic import shape_of


def match_beside(kernel: mgx.KernelOp) -> Moves | Refusal | None:
    """The kernel as parts, or why it does not match; None where it holds other work."""
    *ops, terminator = kernel.regions[0].blocks[0].operations
    work = [op for op in ops if not is_free(op)]
    pointwise = [op for op in work if isinstance(op, mgx.PointwiseOp)]
    if not all(isinstance(op, (mgx.PointwiseOp, *mgx.MOVERS)) for op in work):
        return None
    made: set[ir.Value] = {value for op in pointwise for value in op.results}
    if any(0 in shape_of(value.type) for value in terminator.operands):
        return Refusal("works beside each other: a result without elements")
    parts: list[Part] = []
    stored: dict[ir.Value, list[Result]] = {}
    for number, value in enumerate(map(through_reshapes, terminator.operands)):
        op = definition(value)
        if value in made:
            stored.setdefault(value, []).append(Result(value, number, element_of(value.type)))
            continue

        def is_made(operand: ir.Value, place: MemoryOperand, number: int = number) -> bool:
            if (own := through_reshapes(operand)) not in made:
                return False
            result = Result(own, number, element_of(own.type), place)
            stored.setdefault(own, []).append(result)
            return True

        moved: Sequence[Part] | Refusal
        if isinstance(op, mgx.ConcatOp):
            moved = moves_of(op, number, is_made)
        else:
            moved = _moved(value, number)
        if isinstance(moved, Refusal):
            return moved
        parts += moved
    for op in pointwise:
        results = [result for value in op.results for result in stored.get(value, ())]
        size = math.prod(shape_of(op.results[0].type))
        if not results or size == 0:
            continue
        found = elements_of(op.operation.name, [op], results, size)
        if isinstance(found, Refusal):
            return found
        parts.append(found)
    return Moves("works beside each other", tuple(parts))


def _moved(value: ir.Value, number: int) -> list[Part] | Refusal:
    """The part that stores a view of an input, or the result of a gather or a padding."""
    op = definition(value)
    size = math.prod(shape_of(value.type))
    if isinstance(op, mgx.MOVERS):
        found = move_of(op)
        if found is None or isinstance(found, Refusal):
            return found or Refusal(f"{op.operation.name}: beside other work")
        return [replace(found, target=replace(found.target, argument=number))]
    copy = copy_of(value, MemoryOperand.flat(number, element_of(value.type), size))
    return copy if isinstance(copy, Refusal) else [copy]


_program = Scheduled(match_beside, choose, build, launches=inputs_in_front)
FAMILY = Family("beside", 80, _program, symbolic=True)
