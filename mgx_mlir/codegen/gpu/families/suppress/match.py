"""Matches kernels that choose among the boxes of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from mgx_mlir.codegen.generic.lowering.element import element_of
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.family import anchor_of
from mgx_mlir.codegen.gpu.families.rows.match import result_of, source_of
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx

# The most boxes that are kept: LDS holds their numbers, two bytes each.
MAX_KEPT = 30000
MAX_BOXES = 1 << 16


@dataclass(frozen=True)
class Suppress:
    """Keeps, in order, up to `most` of `size` boxes in each of `rows` rows. Kept boxes overlap
    each other by at most `threshold`.

    Operands have the rows as outer index; the inner index counts candidates, or the corners of
    all boxes.
    """

    rows: int
    size: int
    boxes: MemoryOperand
    candidates: MemoryOperand
    kept: MemoryOperand
    threshold: float
    most: int
    name: ClassVar[str] = mgx.SuppressOp.OPERATION_NAME


def match_suppress(kernel: mgx.KernelOp) -> Suppress | Refusal | None:
    """The kernel as a choice of boxes, or why it does not match; None where it holds other work."""
    op = anchor_of(kernel, mgx.SuppressOp)
    if op is None or isinstance(op, Refusal):
        return op
    boxes, candidates = op.boxes, op.candidates
    shape = tuple(candidates.type.shape)
    rows, size = math.prod(shape[:-1]), shape[-1]
    last = len(shape) - 1
    corners, flags = source_of(boxes, [last, last + 1]), source_of(candidates, [last])
    if not isinstance(corners, MemoryOperand) or not isinstance(flags, MemoryOperand):
        return Refusal(f"{Suppress.name}: an input that is no strided view")
    most = min(op.most.value, size)
    if most > MAX_KEPT or size > MAX_BOXES:
        return Refusal(
            f"{Suppress.name}: {most} of {size} boxes; {MAX_KEPT} of {MAX_BOXES} fit into LDS"
        )
    result = op.results[0]
    kept = result_of(0, element_of(result.type), shape, [last])
    return Suppress(rows, size, corners, flags, kept, op.threshold.value, most)


def flat(suppress: Suppress) -> MemoryOperand:
    """The result as one row."""
    size = suppress.rows * suppress.size
    return MemoryOperand(0, suppress.kept.element, 0, Axis(()), Axis.of((size, 1)))
