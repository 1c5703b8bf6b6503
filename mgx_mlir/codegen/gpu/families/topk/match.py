"""Matches kernels that are a topk of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.family import anchor_of
from mgx_mlir.codegen.gpu.families.rows.match import result_of, source_of
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import shape_of

# The most elements of one sort: their keys and indices take 8 bytes each of LDS.
MOST = 2048
_RUNS = (512, 1024, MOST)


@dataclass(frozen=True)
class Topk:
    """The first `k` of `columns` elements of each of `rows` rows; `values` and `indices` are
    results. Operands have the rows as outer index and the columns as inner one."""

    rows: int
    columns: int
    k: int
    largest: bool
    source: MemoryOperand
    values: MemoryOperand
    indices: MemoryOperand
    name: ClassVar[str] = mgx.TopkOp.OPERATION_NAME


def run_of(numbers: int, units: int) -> int:
    """The size of a sorted piece, out of `numbers` in all, before pieces are merged: the least
    one with at most one work-group for each compute unit, up to `MOST`."""
    fewest = next((n for n in _RUNS if numbers <= n * units), MOST)
    return min(fewest, max(2, 1 << (numbers - 1).bit_length()))


def match_topk(kernel: mgx.KernelOp) -> Topk | Refusal | None:
    """The kernel as a topk, or why it does not match; None where it holds other work."""
    op = anchor_of(kernel, mgx.TopkOp)
    if op is None or isinstance(op, Refusal):
        return op
    value, results = op.x, (op.values, op.indices)
    shape, made = shape_of(value.type), shape_of(op.values.type)
    axis = op.axis.value % len(shape)
    source = source_of(value, [axis])
    if not isinstance(source, MemoryOperand):
        return Refusal(f"{Topk.name}: an input that is no strided view")
    k, columns = made[axis], shape[axis]
    if math.prod(shape) * 16 > MAX_BYTES:
        return Refusal(
            f"{Topk.name}: {math.prod(shape)} elements are more than 31-bit offsets reach"
        )
    if source.element.is_byte_float:
        return Refusal(f"{Topk.name}: elements of type {source.element.name}")
    values, indices = (
        result_of(n, element_of(r.type), made, [axis]) for n, r in enumerate(results)
    )
    rows = math.prod(n for d, n in enumerate(shape) if d != axis)
    return Topk(rows, columns, k, bool(op.largest.value), source, values, indices)
