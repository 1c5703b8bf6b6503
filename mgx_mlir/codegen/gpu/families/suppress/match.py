"""Matches kernels that choose among the boxes of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.family import anchor_of
from mgx_mlir.codegen.gpu.families.rows.match import result_of, source_of
from mgx_mlir.codegen.meaning.element import I32, SIGNED, Element, element_of
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import shape_of

# Bytes of LDS for the numbers of kept boxes.
_MOST_BYTES = 60000


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

    @property
    def number(self) -> Element:
        """The type of the number of a box."""
        fits = isinstance(self.size, int) and self.size <= 1 << 16
        return Element("i16", SIGNED, 16) if fits else I32

    @property
    def is_listed_in_lds(self) -> bool:
        """Whether LDS holds the numbers of the kept boxes."""
        return self.most * self.number.bits // 8 <= _MOST_BYTES


def match_suppress(kernel: mgx.KernelOp) -> Suppress | Refusal | None:
    """The kernel as a choice of boxes, or why it does not match; None where it holds other work."""
    op = anchor_of(kernel, mgx.SuppressOp)
    if op is None or isinstance(op, Refusal):
        return op
    boxes, candidates = op.boxes, op.candidates
    shape = shape_of(candidates.type)
    rows, size = math.prod(shape[:-1]), shape[-1]
    last = len(shape) - 1
    corners, flags = source_of(boxes, [last, last + 1]), source_of(candidates, [last])
    if not isinstance(corners, MemoryOperand) or not isinstance(flags, MemoryOperand):
        return Refusal(f"{Suppress.name}: an input that is no strided view")
    most = min(op.most.value, size if isinstance(size, int) else MAX_BYTES)
    result = op.results[0]
    kept = result_of(0, element_of(result.type), shape, [last])
    return Suppress(rows, size, corners, flags, kept, op.threshold.value, most)


def flat(suppress: Suppress) -> MemoryOperand:
    """The result as one row."""
    size = suppress.rows * suppress.size
    return MemoryOperand.flat(0, suppress.kept.element, size)
