"""mgx-sink-dequantize: ops that move or choose elements do so with the quantized elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    BROADCASTS,
    blocks,
    definition,
    element_type,
    erase_dead,
    is_static,
    op_name,
    replace,
    shape,
    splat,
    users,
)
from mgx_mlir.rewriting.views import is_view

# Bits of the largest integers that a float type converts to and back exactly.
_EXACT = {"f16": 8, "f32": 16}


@dataclass(frozen=True)
class SinkDequantize(Pass):
    """Moves dequantizelinear below views, concats, gathers and maxima; undoes what is done again.

    Before:  %f = mgx.dequantizelinear %x scale %s zero_point %z : ...
             %t = mgx.transpose %f permutation = [1, 0] : ...
             %q = mgx.quantizelinear %t scale %s zero_point %z : ...
    After:   %q = mgx.transpose %x permutation = [1, 0] : tensor<2x3xui8> -> tensor<3x2xui8>

    So tensors stay small, and products see that they are of quantized tensors. What is put
    together has one scale and one zero point, and so has what a maximum is taken of. Elements
    that are quantized again by the same scale, a known one, are as they were.
    Unsigned numbers that are only dequantized become signed ones, less 128, as products take
    them.
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-sink-dequantize"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if _is_unsigned(op):
                    context.note("signed", node_name(op))
                    _sign(op)
            # Operands come first in a block, so one walk sees each chain to its end.
            for op in list(block.operations):
                operation = op.operation
                if not len(operation.results) or not is_static(operation):
                    continue
                with ir.InsertionPoint(op), operation.location:
                    value = _rewritten(op)
                if value is not None:
                    context.note(operation.name, node_name(op))
                    replace(op, [value])
            erase_dead(block)


def _rewritten(op: ir.OpView) -> ir.Value | None:
    name = op.operation.name
    if name == "mgx.quantizelinear":
        return _as_it_was(op)
    if name == "mgx.concat":
        return _concat(op)
    if name == "mgx.pooling" and "max" in str(op.operation.attributes["mode"]):
        return _chosen(op)
    if name == "mgx.gather":
        return _chosen(op)
    # Broadcasting after dequantizing is cheaper.
    return _view(op) if is_view(op) and name not in BROADCASTS else None


def _is_unsigned(op: ir.OpView) -> bool:
    """Whether an op quantizes to ui8, and all its readers dequantize."""
    operation = op.operation
    if operation.name != "mgx.quantizelinear" or not is_static(operation):
        return False
    result = operation.results[0]
    readers = users(result)
    return (
        str(element_type(result)) == "ui8"
        and bool(readers)
        and all(op_name(reader) == "mgx.dequantizelinear" for reader in readers)
        and all(reader.operation.operands[0] == result for reader in readers)
    )


def _sign(op: ir.OpView) -> None:
    """Subtracts 128 from an op's result, and from the zero points of the ops that read it."""
    result = op.operation.results[0]
    with ir.InsertionPoint(op), op.operation.location:
        x, scale, *zero = op.operation.operands
        narrow = ir.RankedTensorType.get(shape(result), ir.IntegerType.get_signless(8))
        attributes = {name: op.operation.attributes[name] for name in op.operation.attributes}
        operands = [x, scale, _less_128(zero, shape(scale))]
        made = ir.Operation.create(op.operation.name, [narrow], operands, attributes)
    for reader in users(result):
        _, scale, *zero = reader.operation.operands
        with ir.InsertionPoint(reader), reader.operation.location:
            point = _less_128(zero, shape(scale))
            element = element_type(reader.operation.results[0])
            replace(reader, [mgx.dequantizelinear(made.results[0], scale, point, to=element)])
    op.operation.erase()


def _less_128(zero: Sequence[ir.Value], dims: Sequence[int]) -> ir.Value:
    """An unsigned zero point (0 where there is none) minus 128, as a signed number."""
    i8 = ir.IntegerType.get_signless(8)
    number = splat(zero[0]) if zero else 0
    if number is not None:
        return mgx.splat(int(number) - 128, ir.RankedTensorType.get(dims, i8))
    wide = mgx.convert(zero[0], "int32")
    return mgx.convert(mgx.sub(wide, mgx.splat(128, wide.type)), i8)


def _dequantize(value: ir.Value) -> ir.OpView | None:
    op = definition(value)
    return op if op_name(op) == "mgx.dequantizelinear" else None


def _numbers(op: ir.OpView) -> tuple[float, int] | None:
    """The one scale and the one zero point of a (de)quantizing op; None where they vary."""
    _, scale, *zero = op.operation.operands
    number = splat(scale)
    point = splat(zero[0]) if zero else 0
    if number is None or point is None:
        return None
    return float(number), int(point)


def _as_it_was(op: ir.OpView) -> ir.Value | None:
    """The integers that were dequantized, where they are quantized again in the same way."""
    inner = _dequantize(op.operation.operands[0])
    if inner is None:
        return None
    source, numbers = inner.operation.operands[0], _numbers(op)
    if source.type != op.operation.results[0].type or numbers is None:
        return None
    element = element_type(source)
    if not isinstance(element, ir.IntegerType) or numbers != _numbers(inner):
        return None
    float_type = element_type(inner.operation.results[0])
    if element.width > _EXACT.get(str(float_type), 0):
        return None
    # Products with the scale must be normal numbers.
    limits = np.finfo(numpy_dtype(float_type))
    most = float(limits.max) / (1 << element.width + 1)
    return source if float(limits.tiny) <= numbers[0] <= most else None


def _concat(op: ir.OpView) -> ir.Value | None:
    parts = [_dequantize(value) for value in op.operation.operands]
    first = parts[0]
    if first is None or (numbers := _numbers(first)) is None:
        return None
    element = element_type(first.operation.operands[0])
    sources = []
    for part in parts:
        if part is None or _numbers(part) != numbers:
            return None
        sources.append(part.operation.operands[0])
        if element_type(sources[-1]) != element:
            return None
    return _dequantized(_like(op, sources), first, op)


def _chosen(op: ir.OpView) -> ir.Value | None:
    """A maximum of windows, or elements by their numbers."""
    source, *others = op.operation.operands
    inner = _dequantize(source)
    if inner is None or (numbers := _numbers(inner)) is None:
        return None
    if op.operation.name == "mgx.pooling" and (numbers[0] <= 0 or _may_be_empty(op)):
        return None
    return _dequantized(_like(op, [inner.operation.operands[0], *others]), inner, op)


def _may_be_empty(pooling: ir.OpView) -> bool:
    """Whether dilated taps could step over the image, and read padding alone."""
    attributes = pooling.operation.attributes
    dilations, pads = (ir.DenseI64ArrayAttr(attributes[name]) for name in ("dilations", "pads"))
    return any(pads) and any(step != 1 for step in dilations)


def _view(op: ir.OpView) -> ir.Value | None:
    inner = _dequantize(op.operation.operands[0])
    if inner is None:
        return None
    x, *scale_and_zero = inner.operation.operands
    if any(shape(value) != shape(x) for value in scale_and_zero):
        return None
    return _dequantized(_like(op, [x]), inner, op)


def _dequantized(x: ir.Value, inner: ir.OpView, op: ir.OpView) -> ir.Value:
    """x with the scale and the zero point of `inner`: one number each, or in the order of `op`."""
    _, *scale_and_zero = inner.operation.operands
    same = []
    for value in scale_and_zero:
        number, type_ = splat(value), ir.RankedTensorType.get(shape(x), element_type(value))
        same.append(_like(op, [value]) if number is None else mgx.splat(number, type_))
    to = element_type(inner.operation.results[0])
    return mgx.dequantizelinear(x, *same, to=to)


def _like(op: ir.OpView, operands: Sequence[ir.Value]) -> ir.Value:
    """The op on operands of another element type."""
    operation = op.operation
    dims = shape(operation.results[0])
    created = ir.Operation.create(
        operation.name,
        results=[ir.RankedTensorType.get(dims, element_type(operands[0]))],
        operands=operands,
        attributes={name: operation.attributes[name] for name in operation.attributes},
    )
    value: ir.Value = created.results[0]
    return value
