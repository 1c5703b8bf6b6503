"""Which kernels are a topk, of which rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir import ir

from mgx_mlir.codegen.gpu.builder import MAX_BYTES
from mgx_mlir.codegen.gpu.operands import Operand
from mgx_mlir.codegen.gpu.rows.match import result_of, source_of
from mgx_mlir.codegen.lowering.element import element_of
from mgx_mlir.views import is_view

# What is sorted at once: its keys and indices take 8 bytes each of LDS.
MOST = 2048


@dataclass(frozen=True)
class Topk:
    """The first `k` of `columns` elements of each of `rows` rows; `values` and `indices` are
    results. Operands have the rows as outer index and the columns as inner one."""

    rows: int
    columns: int
    k: int
    largest: bool
    source: Operand
    values: Operand
    indices: Operand

    @property
    def sorted(self) -> int:
        """Elements that are sorted at a time, a power of two."""
        return min(MOST, max(2, 1 << (self.columns - 1).bit_length()))


def match_topk(kernel: ir.OpView) -> Topk | str:
    """The kernel as a topk, or why it is none; '' where it holds other work."""
    *ops, terminator = kernel.regions[0].blocks[0].operations
    anchors = [op for op in ops if op.operation.name == "mgx.topk"]
    if len(anchors) != 1:
        return ""
    (op,) = anchors
    if any(other != op and not is_view(other) for other in ops):
        return "work beside it"
    results = list(op.operation.results)
    if list(terminator.operation.operands) != results:
        return "results that are views, or one of them only"
    value = op.operation.operands[0]
    shape, made = tuple(value.type.shape), tuple(results[0].type.shape)
    axis = op.axis.value % len(shape)
    source = source_of(value, [axis])
    if not isinstance(source, Operand):
        return "an input that is no strided view"
    k, columns = made[axis], shape[axis]
    if 0 in made:
        return "no elements"
    if math.prod(shape) * 8 > MAX_BYTES:
        return f"{math.prod(shape)} elements are more than 31-bit offsets reach"
    if source.element.bits > 32 or source.element.is_byte_float:
        return f"elements of type {source.element.name}"
    values, indices = (
        result_of(n, element_of(r.type), made, [axis]) for n, r in enumerate(results)
    )
    rows = math.prod(n for d, n in enumerate(shape) if d != axis)
    return Topk(rows, columns, k, bool(op.largest.value), source, values, indices)
