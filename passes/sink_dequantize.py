"""mgx-sink-dequantize: ops that move or choose elements do so with the quantized elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import ml_dtypes
import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.reference.meanings import enum
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import (
    blocks,
    broadcast_source,
    broadcast_to,
    create_like,
    definition,
    element_bits,
    element_type,
    has_one_use,
    has_sizes,
    replace,
    shape,
    splat,
    users,
)

# Bits of the largest integers that a float type converts to and back exactly.
_EXACT = {"f16": 8, "f32": 16}

_Linear: TypeAlias = mgx.QuantizelinearOp | mgx.DequantizelinearOp


@rewrites(mgx.QuantizelinearOp)
def quantize_as_it_was(op: mgx.QuantizelinearOp, context: PassContext) -> ir.Value | None:
    """The integers that were dequantized, where they are quantized again in the same way."""
    inner = _dequantize(op.x)
    if inner is None or inner.x.type != op.y.type or not has_sizes(op):
        return None
    element, numbers = element_type(inner.x), _numbers(op)
    if not isinstance(element, ir.IntegerType) or numbers is None or numbers != _numbers(inner):
        return None
    float_type = element_type(inner.y)
    if element.width > _EXACT.get(str(float_type), 0):
        return None
    # Products with the scale must be normal numbers.
    limits = np.finfo(numpy_dtype(float_type))
    most = float(limits.max) / (1 << element.width + 1)
    return inner.x if float(limits.tiny) <= numbers[0] <= most else None


@rewrites(mgx.QuantizelinearOp)
def quantize_before_relu(op: mgx.QuantizelinearOp, context: PassContext) -> ir.Value | None:
    """The quantized operand of a relu, where the lowest integer stands for 0."""
    inner, numbers, zero = definition(op.x), _numbers(op), op.zero_point
    if not isinstance(inner, mgx.ReluOp) or not has_one_use(op.x) or numbers is None:
        return None
    if zero is None or not isinstance(element_type(op.y), ir.IntegerType):
        return None
    scale, point = numbers
    if scale <= 0 or point != ml_dtypes.iinfo(numpy_dtype(element_type(op.y))).min:
        return None
    return create_like(op, [inner.x, op.scale, zero], shape(op.y))


@rewrites(mgx.ConcatOp)
def dequantize_whole_concat(op: mgx.ConcatOp, context: PassContext) -> ir.Value | None:
    """The concat of quantized parts of one scale and one zero point, dequantized."""
    parts = [part for part in map(_dequantize, op.xs) if part is not None]
    if len(parts) < len(op.xs) or not has_sizes(op):
        return None
    numbers, element = _numbers(parts[0]), element_type(parts[0].x)
    alike = all(_numbers(p) == numbers and element_type(p.x) == element for p in parts)
    if numbers is None or not alike:
        return None
    return _dequantized(_like(op, [part.x for part in parts]), parts[0], op)


@rewrites(mgx.GatherOp)
def gather_quantized(op: mgx.GatherOp, context: PassContext) -> ir.Value | None:
    """Quantized elements by their numbers, dequantized."""
    inner = _dequantize(op.x)
    if inner is None or _numbers(inner) is None or not has_sizes(op):
        return None
    return _dequantized(_like(op, [inner.x, op.indices]), inner, op)


@rewrites(mgx.PoolingOp)
def pool_quantized(op: mgx.PoolingOp, context: PassContext) -> ir.Value | None:
    """The maximum of quantized windows, dequantized by a positive scale."""
    inner = _dequantize(op.x)
    if inner is None or enum(op.mode) != "max" or not has_sizes(op):
        return None
    numbers = _numbers(inner)
    if numbers is None or numbers[0] <= 0 or _may_be_empty(op):
        return None
    return _dequantized(_like(op, [inner.x]), inner, op)


@rewrites(*(op for op in mgx.VIEW_OPS if op not in mgx.BROADCASTS))
def view_quantized(op: ir.OpView, context: PassContext) -> ir.Value | None:
    """A view of quantized elements, dequantized. To broadcast after dequantizing is cheaper."""
    inner = _dequantize(op.operands[0])
    if inner is None or not has_sizes(op):
        return None
    x, *scale_and_zero = inner.operands
    if any(shape(value) != shape(x) for value in scale_and_zero):
        return None
    return _dequantized(_like(op, [x]), inner, op)


@rewrites(*(op for op in mgx.VIEW_OPS if op not in mgx.BROADCASTS))
def view_narrow(op: ir.OpView, context: PassContext) -> ir.Value | None:
    """A view of 8-bit integers, widened after it; and of these less their zero points."""
    inner = definition(op.operands[0])
    if not has_sizes(op) or not isinstance(inner, mgx.SubOp | mgx.ConvertOp):
        return None
    if isinstance(inner, mgx.ConvertOp):
        return mgx.convert(_like(op, [inner.x]), element_type(inner.y)) if _widens(inner) else None
    wide = definition(inner.a)
    if not isinstance(wide, mgx.ConvertOp) or not _widens(wide):
        return None
    return mgx.sub(_like(op, [inner.a]), _viewed(op, inner.b))


@dataclass(frozen=True)
class SinkDequantize(PatternPass):
    """Moves dequantizelinear below views, concats, gathers and maxima, or cancels it.

    Conversions of 8-bit integers to i32, and subtractions of their zero points, move below views.

    Before:  %f = mgx.dequantizelinear %x scale %s zero_point %z : ...
             %t = mgx.transpose %f permutation = [1, 0] : ...
             %q = mgx.quantizelinear %t scale %s zero_point %z : ...
    After:   %q = mgx.transpose %x permutation = [1, 0] : tensor<2x3xui8> -> tensor<3x2xui8>

    Tensors stay small, and products see that their operands are quantized. The parts of a concat
    have one scale and one zero point, and so has the operand of a maximum. Elements that are
    quantized again by the same known scale keep their values. Unsigned numbers that are only
    dequantized become signed numbers, less 128, as products take them. A relu before numbers whose
    lowest is the zero point goes: they are kept in range.
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-sink-dequantize"
    patterns: ClassVar = (
        quantize_as_it_was,
        quantize_before_relu,
        dequantize_whole_concat,
        gather_quantized,
        pool_quantized,
        view_quantized,
        view_narrow,
    )

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if isinstance(op, mgx.QuantizelinearOp) and _is_unsigned(op):
                    context.note("signed", node_name(op))
                    _sign(op)
        super().apply(module, context)


def _is_unsigned(op: mgx.QuantizelinearOp) -> bool:
    """Whether an op quantizes to ui8, and all its readers dequantize."""
    readers = users(op.y)
    return (
        has_sizes(op)
        and str(element_type(op.y)) == "ui8"
        and bool(readers)
        and all(isinstance(r, mgx.DequantizelinearOp) and r.x == op.y for r in readers)
    )


def _sign(op: mgx.QuantizelinearOp) -> None:
    """Subtracts 128 from an op's result, and from the zero points of the ops that read it."""
    with ir.InsertionPoint(op), op.location:
        narrow = mgx.tensor_type(shape(op.y), ir.IntegerType.get_signless(8))
        attributes = {name: op.attributes[name] for name in op.attributes}
        operands = [op.x, op.scale, _less_128(op)]
        made = ir.Operation.create(op.operation.name, [narrow], operands, attributes)
    for reader in users(op.y):
        assert isinstance(reader, mgx.DequantizelinearOp)
        with ir.InsertionPoint(reader), reader.location:
            x, element = made.results[0], element_type(reader.y)
            signed = mgx.dequantizelinear(x, reader.scale, _less_128(reader), to=element)
        replace(reader, [signed])
    op.erase()


def _less_128(op: _Linear) -> ir.Value:
    """An unsigned zero point (0 where there is none) minus 128, as a signed number."""
    i8 = ir.IntegerType.get_signless(8)
    number = 0 if op.zero_point is None else splat(op.zero_point)
    if op.zero_point is None or number is not None:
        type_ = mgx.tensor_type(shape(op.scale), i8)
        return mgx.splat(int(number or 0) - 128, type_)
    # Below the broadcast, so that products see that it is one number.
    wide = mgx.convert(broadcast_source(op.zero_point), "int32")
    narrow = mgx.convert(mgx.sub(wide, mgx.splat(128, wide.type)), i8)
    return broadcast_to(narrow, shape(op.zero_point))


def _dequantize(value: ir.Value) -> mgx.DequantizelinearOp | None:
    op = definition(value)
    return op if isinstance(op, mgx.DequantizelinearOp) else None


def _numbers(op: _Linear) -> tuple[float, int] | None:
    """The one scale and the one zero point of a (de)quantizing op; None where they vary."""
    number = splat(op.scale)
    point = 0 if op.zero_point is None else splat(op.zero_point)
    if number is None or point is None:
        return None
    return float(number), int(point)


def _may_be_empty(pooling: mgx.PoolingOp) -> bool:
    """Whether dilated taps could step over the image, and read padding alone."""
    return any(pooling.pads) and any(step != 1 for step in pooling.dilations)


def _dequantized(x: ir.Value, inner: mgx.DequantizelinearOp, op: ir.OpView) -> ir.Value:
    """x with the scale and the zero point of `inner`: one number each, or in the order of `op`."""
    same = [_viewed(op, value) for value in list(inner.operands)[1:]]
    return mgx.dequantizelinear(x, *same, to=element_type(inner.y))


def _viewed(op: ir.OpView, value: ir.Value) -> ir.Value:
    """A scale or zero point in the order of `op`."""
    number, type_ = splat(value), mgx.tensor_type(shape(op.result), element_type(value))
    return _like(op, [value]) if number is None else mgx.splat(number, type_)


def _widens(op: mgx.ConvertOp) -> bool:
    return str(element_type(op.y)) == "i32" and element_bits(op.x) == 8


def _like(op: ir.OpView, operands: Sequence[ir.Value]) -> ir.Value:
    """The op on operands of another element type."""
    return create_like(op, operands, shape(op.result), element_type(operands[0]))
