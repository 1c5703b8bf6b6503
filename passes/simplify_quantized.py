"""mgx-simplify-quantized: contractions of quantized tensors multiply 8-bit numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    broadcast_source,
    broadcast_to,
    definition,
    element_type,
    erase_dead,
    is_along,
    is_constant,
    replace,
    shape,
    splat,
)

_INTEGERS = frozenset({"i8", "ui8"})
_FLOATS = frozenset({"f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ"})
# The most bytes of the sums that a zero point adds at each position of a padded result.
MAX_BORDER = 1 << 22


@dataclass(frozen=True)
class SimplifyQuantized(Pass):
    """Moves scales and zero points behind the products of 8-bit tensors and constant weights.

    Before:  %a = mgx.dequantizelinear %x scale %s zero_point %z : tensor<2x3xui8>, ...
             %b = mgx.dequantizelinear %w scale %t : tensor<3x4xi8>, ...
             %y = mgx.dot %a, %b : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
    After:   %i = ... %x - 128                     // as signed numbers
             %p = mgx.quant_dot %i, %w : tensor<2x3xi8>, tensor<3x4xi8> -> tensor<2x4xi32>
             %c = ... (%z - 128) * sums of %w      // constant where %z is
             %y = ... (%p - %c) * (%s * %t)

    Dots and convolutions of integers less their zero points (MatMulInteger, QLinearConv)
    lose the wide subtractions in the same way. x has one scale and one zero point, known or
    not; those of the constant w may differ by output channel, and w less its zero point has
    to fit 8 bits. Two tensors that are no constants may not have zero points. Sums of
    integers are exact; float results differ from the original by its rounding.

    8-bit floats stay as they are, constant or not, where they have no zero points: their
    products are summed in f32.
    """

    cleanup: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-simplify-quantized"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if not isinstance(op, (*mgx.DOTS, *mgx.CONVOLUTIONS)):
                    continue
                node = node_name(op)
                with ir.InsertionPoint(op), op.location:
                    value = _integer_contraction(op)
                if value is not None:
                    context.note(op.operation.name, node)
                    replace(op, [value])
            erase_dead(block)


@dataclass(frozen=True)
class _Quantized:
    """(value - zero) * scale; a zero or a scale that is None is 0 or 1. Both are small
    tensors that broadcast to the value."""

    value: ir.Value
    zero: ir.Value | None
    scale: ir.Value | None


def _integer_contraction(op: ir.OpView) -> ir.Value | None:
    """The op's result by a product of 8-bit numbers; None unless its operands are quantized."""
    x, w = (_quantized(value) for value in op.operands)
    if x is None or w is None or (x.scale is None) != (w.scale is None):
        return None
    same = element_type(x.value) == element_type(w.value)
    kinds = _is_float(x) and _is_float(w) and isinstance(op, mgx.DOTS)
    if (_is_float(x) or _is_float(w)) and not (same or kinds):
        return None
    if x.zero is None and x.scale is None and w.zero is None and not _is_float(x):
        return None  # the op is an integer contraction already
    if [x.value, w.value] == list(op.operands):
        return None
    if not _is_single(x.zero) or not _is_single(x.scale):
        return None
    rank = len(shape(w.value))
    channel = 0 if isinstance(op, mgx.CONVOLUTIONS) else rank - 1
    # The scale may have fewer dimensions than the weights: the last ones.
    if w.scale is not None and not is_along(w.scale, channel - rank + len(shape(w.scale))):
        return None
    if _is_float(x):
        if x.zero is not None or w.zero is not None:
            return None
        total = _product(op, x.value, w.value)
    elif is_constant(w.value):
        weights = _centred(w)
        signed = _signed(x)
        if weights is None or (total := _product(op, signed.value, weights)) is None:
            return None
        if signed.zero is not None:
            offset = _offset(op, signed.zero, weights)
            if offset is None:
                return None
            total = mgx.sub(total, broadcast_to(offset, shape(total)))
    else:
        if x.zero is not None or w.zero is not None or not same:
            return None
        if str(element_type(x.value)) != "i8":
            return None
        total = _product(op, x.value, w.value)
    result = element_type(op.result)
    if x.scale is None or w.scale is None:
        return _as(total, result)
    # One factor for the result's channel.
    dims = [1] * len(shape(total))
    dims[1 if isinstance(op, mgx.CONVOLUTIONS) else -1] = prod(shape(w.scale))
    f32 = ir.F32Type.get()
    by_channel = _as(mgx.reshape(w.scale, dims), f32)
    factor = mgx.mul(broadcast_to(mgx.reshape(_as(x.scale, f32), []), dims), by_channel)
    floats = mgx.mul(_as(total, f32), broadcast_to(factor, shape(total)))
    return _as(floats, result)


# Operands --------------------------------------------------------------------------------


def _quantized(value: ir.Value) -> _Quantized | None:
    """The 8-bit tensor behind a value: dequantized, shifted by a zero point, or as it is."""
    op = definition(value)
    if isinstance(op, mgx.DequantizelinearOp):
        return _quantized_parts(op.x, op.zero_point, _narrow(op.scale))
    if isinstance(op, mgx.SubOp):
        source = definition(op.a)
        if not isinstance(source, mgx.ConvertOp) or str(element_type(op.a)) != "i32":
            return None
        return _quantized_parts(source.x, op.b, None)
    if isinstance(op, mgx.ConvertOp):
        kinds = _INTEGERS if str(element_type(value)) == "i32" else _FLOATS
        floats = isinstance(element_type(value), (ir.F16Type, ir.BF16Type, ir.F32Type))
        if str(element_type(op.x)) in kinds and (floats or kinds is _INTEGERS):
            return _quantized_parts(op.x, None, None)
    return _quantized_parts(value, None, None)


def _quantized_parts(
    value: ir.Value, zero: ir.Value | None, scale: ir.Value | None
) -> _Quantized | None:
    if str(element_type(value)) not in _INTEGERS | _FLOATS:
        return None
    if zero is not None and splat(zero) == 0:
        zero = None
    return _Quantized(value, None if zero is None else _narrow(zero), scale)


def _narrow(value: ir.Value) -> ir.Value:
    """A scale or a zero point before its broadcast."""
    number = splat(value)
    if number is not None:
        return mgx.splat(number, ir.RankedTensorType.get([], element_type(value)))
    op = definition(value)
    if not isinstance(op, mgx.ConvertOp):
        return broadcast_source(value)
    return mgx.convert(broadcast_source(op.x), element_type(value))


def _is_float(x: _Quantized) -> bool:
    return str(element_type(x.value)) in _FLOATS


def _is_single(value: ir.Value | None) -> bool:
    return value is None or prod(shape(value)) == 1


def _centred(w: _Quantized) -> ir.Value | None:
    """Constant weights minus their zero point, as i8; None where the differences do not fit."""
    if w.zero is None and str(element_type(w.value)) == "i8":
        return w.value
    if str(element_type(w.value)) == "ui8":
        # Unsigned weights fit where the zero point is in the middle, as quantizers choose it.
        point = None if w.zero is None else splat(w.zero)
        if point is None or int(point) != 128:
            return None
        return _toggled(w.value)
    return None


def _signed(x: _Quantized) -> _Quantized:
    """x with its numbers as i8 and its zero point as one number in i32."""
    zero = x.zero
    if zero is not None:
        zero = _as(mgx.reshape(zero, []), ir.IntegerType.get_signless(32))
    if str(element_type(x.value)) == "i8":
        return _Quantized(x.value, zero, x.scale)
    middle = mgx.constant(np.int32(128))
    zero = mgx.neg(middle) if zero is None else mgx.sub(zero, middle)
    return _Quantized(_toggled(x.value), zero, x.scale)


def _toggled(value: ir.Value) -> ir.Value:
    """Unsigned 8-bit numbers minus 128, as signed numbers."""
    wide = mgx.convert(value, "int32")
    middle = mgx.splat(128, wide.type)
    return mgx.convert(mgx.sub(wide, middle), "int8")


# Results ---------------------------------------------------------------------------------


def _product(op: ir.OpView, x: ir.Value, w: ir.Value) -> ir.Value:
    """The op's product of two i8 tensors, in i32, or of two of 8-bit floats, in f32."""
    kind = mgx.QuantDotOp if isinstance(op, mgx.DOTS) else mgx.QuantConvolutionOp
    floats = isinstance(element_type(x), ir.FloatType)
    wide = ir.F32Type.get() if floats else ir.IntegerType.get_signless(32)
    created = ir.Operation.create(
        kind.OPERATION_NAME,
        results=[ir.RankedTensorType.get(shape(op.result), wide)],
        operands=[x, w],
        attributes={key: op.attributes[key] for key in op.attributes},
    )
    return created.results[0]


def _offset(op: ir.OpView, zero: ir.Value, weights: ir.Value) -> ir.Value | None:
    """The offset of the result by x's zero point: it times the sums of the weights that see x."""
    sums = _as(weights, ir.IntegerType.get_signless(32))
    if not isinstance(op, mgx.CONVOLUTIONS):
        sums = mgx.reduce_sum(sums, [len(shape(weights)) - 2])
        return mgx.mul(sums, broadcast_to(zero, shape(sums)))
    taps = mgx.reduce_sum(sums, [1])
    channels, _, *kernel = shape(taps)
    if not any(op.pads):
        total = mgx.reduce_sum(taps, list(range(2, 2 + len(kernel))))
        total = mgx.reshape(total, [1, channels, *[1] * len(kernel)])
        return mgx.mul(total, broadcast_to(zero, shape(total)))
    # Taps that read padding add nothing: a convolution of ones counts the taps that do not.
    dims = shape(op.y)
    if 4 * prod(dims[1:]) > MAX_BORDER:
        return None
    image = shape(op.x)[2:]
    ones = mgx.splat(1, ir.RankedTensorType.get([1, 1, *image], element_type(taps)))
    border = mgx.quant_convolution(ones, taps, list(op.pads), list(op.strides), list(op.dilations))
    return mgx.mul(border, broadcast_to(zero, shape(border)))


def _as(value: ir.Value, element: ir.Type) -> ir.Value:
    return value if element_type(value) == element else mgx.convert(value, element)
