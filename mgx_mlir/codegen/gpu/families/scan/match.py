"""Matches kernels that are running sums or products of rows, or searches for non-zeros."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.family import anchor_of
from mgx_mlir.codegen.gpu.families.rows.match import result_of, source_of
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import is_named, shape_of


@dataclass(frozen=True)
class Scan:
    """Running sums, or `product`s, of `rows` rows of `columns` elements.

    Operands have the rows as outer index and the columns as inner one. `reverse`: from the end
    on. `exclusive`: without the element itself.
    """

    rows: int
    columns: int
    source: MemoryOperand
    target: MemoryOperand
    exclusive: bool
    reverse: bool
    product: bool

    @property
    def name(self) -> str:
        kind = mgx.PrefixScanProdOp if self.product else mgx.PrefixScanSumOp
        return str(kind.OPERATION_NAME)


@dataclass(frozen=True)
class NonZero:
    """The indices, in `shape`, of the elements that are not zero, in order: element [d, i] of
    the result is index d of the i-th one, and 0 where there are fewer than `columns`."""

    shape: Sequence[int]
    source: MemoryOperand
    target: MemoryOperand
    columns: int
    name: ClassVar[str] = mgx.NonzeroOp.OPERATION_NAME

    @property
    def size(self) -> int:
        """The number of elements that are looked at."""
        return math.prod(self.shape)


def match_scan(kernel: mgx.KernelOp) -> Scan | Refusal | None:
    """The kernel as running sums or products, or why it does not match; None for other work."""
    op = anchor_of(kernel, mgx.PrefixScanSumOp, mgx.PrefixScanProdOp)
    if op is None or isinstance(op, Refusal):
        return op
    shape = shape_of(op.y.type)
    axis = op.axis.value % len(shape)
    source = _source(op.OPERATION_NAME, op.x, [axis])
    if isinstance(source, Refusal):
        return source
    target = result_of(0, source.element, shape, [axis])
    rows, columns = math.prod(n for d, n in enumerate(shape) if d != axis), shape[axis]
    product = isinstance(op, mgx.PrefixScanProdOp)
    return Scan(rows, columns, source, target, op.exclusive.value, op.reverse.value, product)


def match_nonzero(kernel: mgx.KernelOp) -> NonZero | Refusal | None:
    """The kernel as a search for elements that are not zero, or why it does not match."""
    op = anchor_of(kernel, mgx.NonzeroOp)
    if op is None or isinstance(op, Refusal):
        return op
    shape, type_ = shape_of(op.x.type), op.indices.type
    source = _source(NonZero.name, op.x, range(len(shape)))
    if isinstance(source, Refusal):
        return source
    if not is_named(type_):
        return Refusal(f"{NonZero.name}: a result of unknown size")
    made = shape_of(type_)
    return NonZero(shape, source, result_of(0, element_of(type_), made, [1]), made[1])


def _source(
    name: str, value: ir.Value[ir.RankedTensorType], axes: Sequence[int]
) -> MemoryOperand | Refusal:
    """The operand of the op `name`, with rows along `axes`."""
    source = source_of(value, axes)
    if not isinstance(source, MemoryOperand):
        return Refusal(f"{name}: an input that is no strided view")
    if 0 in value.type.shape or source.element.is_byte_float:
        return Refusal(
            f"{name}: {math.prod(value.type.shape)} elements of type {source.element.name}"
        )
    return source
