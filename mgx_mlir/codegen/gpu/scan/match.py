"""Which kernels are running sums, and of which rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir import ir

from mgx_mlir.codegen.contraction.match import through_reshapes
from mgx_mlir.codegen.gpu.operands import Operand
from mgx_mlir.codegen.gpu.rows.match import result_of, source_of
from mgx_mlir.codegen.lowering.element import element_of
from mgx_mlir.views import is_view

NAMES = frozenset(("mgx.nonzero", "mgx.prefix_scan_sum"))


@dataclass(frozen=True)
class Scan:
    """Running sums of `rows` rows of `columns` elements.

    Operands have the rows as outer index and the columns as inner one. `reverse`: from the end
    on. `exclusive`: without the element itself.
    """

    rows: int
    columns: int
    source: Operand
    target: Operand
    exclusive: bool
    reverse: bool


@dataclass(frozen=True)
class NonZero:
    """The indices, in `shape`, of the elements that are not zero, in order: element [d, i] of
    the result is index d of the i-th one, and 0 where there are fewer than `columns`."""

    shape: tuple[int, ...]
    source: Operand
    target: Operand
    columns: int


def match_scan(kernel: ir.OpView) -> Scan | NonZero | str:
    """The kernel as running sums, or why it is none; '' where it holds other work."""
    *ops, terminator = kernel.regions[0].blocks[0].operations
    anchors = [op for op in ops if op.operation.name in NAMES]
    if len(anchors) != 1:
        return ""
    (op,) = anchors
    name = op.operation.name
    if any(other != op and not is_view(other) for other in ops):
        return f"{name}: work beside it"
    value, result = op.operation.operands[0], op.operation.results[0]
    if [through_reshapes(value) for value in terminator.operation.operands] != [result]:
        return f"{name}: a result that is a view"
    shape = tuple(value.type.shape)
    if not result.type.has_static_shape or 0 in shape or 0 in result.type.shape:
        return f"{name}: no elements, or a result of unknown size"
    if element_of(value.type).is_byte_float:
        return f"{name}: elements of type {element_of(value.type).name}"
    axes = list(range(len(shape))) if name == "mgx.nonzero" else [op.axis.value % len(shape)]
    source = source_of(value, axes)
    if not isinstance(source, Operand):
        return f"{name}: an input that is no strided view"
    if name == "mgx.nonzero":
        made = tuple(result.type.shape)
        target = result_of(0, element_of(result.type), made, [1])
        return NonZero(shape, source, target, made[1])
    target = result_of(0, element_of(result.type), shape, axes)
    columns = shape[axes[0]]
    rows = math.prod(shape) // columns
    return Scan(rows, columns, source, target, op.exclusive.value, op.reverse.value)
