"""mgx-simplify-quantized: contractions of quantized tensors multiply 8-bit numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import ClassVar, TypeAlias

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.elements import BYTE_FLOATS
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    broadcast_source,
    broadcast_to,
    common_sizes,
    create_like,
    definition,
    element_bits,
    element_type,
    erase_dead,
    group_of,
    has_sizes,
    is_constant,
    replace,
    shape,
    splat,
    users,
)
from mgx_mlir.rewriting.views import trace

_Convolution: TypeAlias = mgx.ConvolutionOp | mgx.QuantConvolutionOp

_INTEGERS = frozenset({"i8", "ui8"})


@dataclass(frozen=True)
class SimplifyQuantized(Pass):
    """Moves scales and zero points behind the products of 8-bit tensors.

    Before:  %a = mgx.dequantizelinear %x scale %s zero_point %z : tensor<2x3xui8>, ...
             %b = mgx.dequantizelinear %w scale %t : tensor<3x4xi8>, ...
             %y = mgx.dot %a, %b : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
    After:   %i = ... %x - 128                     // as signed numbers
             %p = mgx.quant_dot %i, %w : tensor<2x3xi8>, tensor<3x4xi8> -> tensor<2x4xi32>
             %c = ... (%z - 128) * sums of %w      // constant where %z and %w are
             %y = ... (%p - %c) * (%s * %t)

    Dots and convolutions of integers less their zero points (MatMulInteger, QLinearConv)
    lose the wide subtractions in the same way. No operand need be constant. Scales and zero
    points may differ by row and column of a dot, or by output channel of a convolution; where w
    has a zero point, it is multiplied by the sums of x. Sums of integers are exact; float
    results differ from the original by its rounding.

    A convolution with one channel a group and a zero point of w multiplies the differences instead,
    as integers of 32 bits: no matrix instruction is lost, and no sums are added. An x whose zero
    point is known is padded with it, so that the offset of a channel is one number: see
    mgx-fold-pad-values.

    In a program for CPUs alone x keeps numbers without a sign where they have no zero point, as
    those behind a ReLU have none: a CPU multiplies them as they are.

    8-bit floats stay as they are, constant or not, where they have no zero points: their
    products are summed in f32.
    """

    cleanup: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-simplify-quantized"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            if context.kind == "cpu":
                _drop_signs(block)
            for op in list(block.operations):
                if not isinstance(op, (*mgx.DOTS, *mgx.CONVOLUTIONS)) or not has_sizes(op):
                    continue
                node = node_name(op)
                with ir.InsertionPoint(op), op.location:
                    value = _integer_contraction(op, context.kind == "cpu")
                if value is not None:
                    context.note(op.operation.name, node)
                    replace(op, [value])
            erase_dead(block)


def _drop_signs(block: ir.Block) -> None:
    """Gives tensors that are quantized with the zero point -128 numbers without a sign, and 0."""
    for op in list(block.operations):
        if not isinstance(op, mgx.QuantizelinearOp) or not has_sizes(op):
            continue
        if not _is_least(op.zero_point):
            continue
        found = users(op.y)
        readers = [x for x in found if isinstance(x, mgx.DequantizelinearOp) and x.x == op.y]
        if len(readers) < len(found) or not all(_is_least(x.zero_point) for x in readers):
            continue
        unsigned = ir.IntegerType.get_unsigned(8)
        with ir.InsertionPoint(op), op.location:
            zero = mgx.splat(0, mgx.tensor_type(shape(op.y), unsigned))
            made = _with_zero(op, op.x, zero, unsigned)
            for reader in readers:
                with ir.InsertionPoint(reader), reader.location:
                    replace(reader, [_with_zero(reader, made, zero, element_type(reader.y))])


def _is_least(zero: ir.Value | None) -> bool:
    """Whether a zero point is the least of signed bytes."""
    return zero is not None and str(element_type(zero)) == "i8" and _number(zero) == -128


def _with_zero(
    op: mgx.QuantizelinearOp | mgx.DequantizelinearOp,
    x: ir.Value,
    zero: ir.Value,
    element: ir.Type,
) -> ir.Value:
    """The result of a quantization, or of its inverse, with another x and zero point."""
    return create_like(op, [x, op.scale, zero], shape(op.y), element)


@dataclass(frozen=True)
class _Quantized:
    """(value - zero) * scale; a zero or a scale that is None is 0 or 1.

    Both have the value's rank, with sizes of 1 along the dimensions where they do not differ.
    """

    value: ir.Value
    zero: ir.Value | None
    scale: ir.Value | None

    @property
    def element(self) -> str:
        return str(element_type(self.value))

    @property
    def is_float(self) -> bool:
        return self.element in BYTE_FLOATS


def _integer_contraction(op: ir.OpView, unsigned: bool) -> ir.Value | None:
    """The op's result by a product of 8-bit numbers; None unless its operands are quantized.

    `unsigned`: x may have numbers without a sign.
    """
    if isinstance(op, mgx.CONVOLUTIONS) and op.channels_last:
        return None
    x, w = (_quantized(value) for value in op.operands)
    if x is None or w is None or (x.scale is None) != (w.scale is None):
        return None
    if x.is_float or w.is_float:
        kinds = x.is_float and w.is_float and isinstance(op, mgx.DOTS)
        if not (kinds or x.element == w.element) or x.zero is not None or w.zero is not None:
            return None
    unsigned &= x.element == "ui8" and x.zero is None
    if [x.value, w.value] == list(op.operands) and (x.element == w.element or unsigned):
        return None  # the op is an integer contraction already
    if not all(map(partial(_may_leave, op), (0, 0, 1, 1), (x.zero, x.scale, w.zero, w.scale))):
        return None
    if x.is_float:
        total = _product(op, x.value, w.value)
    else:
        w = _signed(w)
        if x.scale is None and _takes_differences(op, w):
            return None
        total = _total(op, x if unsigned else _signed(x), w)
    result = element_type(op.result)
    if x.scale is None or w.scale is None:
        return _as(total, result)
    f32 = ir.F32Type.get()
    pairs = enumerate((x.scale, w.scale))
    scales = [_as(_behind(op, number, scale), f32) for number, scale in pairs]
    floats = _as(total, f32)
    for factor in _factors(scales, all(map(is_constant, scales))):
        floats = mgx.mul(floats, broadcast_to(factor, shape(total)))
    return _as(floats, result)


def _factors(values: Sequence[ir.Value], is_known: bool) -> Sequence[ir.Value]:
    """The values, as one product where it is constant or small; the epilogue multiplies others."""
    dims = common_sizes(*map(shape, values))
    if not is_known and any(size != 1 for size in dims):
        return values
    return [mgx.mul(*(broadcast_to(value, dims) for value in values))]


# Operands --------------------------------------------------------------------------------


def _quantized(value: ir.Value) -> _Quantized | None:
    """The 8-bit tensor behind a value: dequantized, shifted by a zero point, or as it is."""
    op = definition(value)
    if isinstance(op, mgx.DequantizelinearOp):
        return _quantized_parts(op.x, op.zero_point, op.scale)
    if isinstance(op, mgx.SubOp):
        source = definition(op.a)
        if not isinstance(source, mgx.ConvertOp) or str(element_type(op.a)) != "i32":
            return None
        return _quantized_parts(source.x, op.b, None)
    if isinstance(op, mgx.ConvertOp):
        kinds = _INTEGERS if str(element_type(value)) == "i32" else BYTE_FLOATS
        floats = isinstance(element_type(value), (ir.F16Type, ir.BF16Type, ir.F32Type))
        if str(element_type(op.x)) in kinds and (floats or kinds is _INTEGERS):
            return _quantized_parts(op.x, None, None)
    return _quantized_parts(value, None, None)


def _quantized_parts(
    value: ir.Value, zero: ir.Value | None, scale: ir.Value | None
) -> _Quantized | None:
    if str(element_type(value)) not in _INTEGERS | BYTE_FLOATS:
        return None
    if zero is not None and _number(zero) == 0:
        zero = None
    return _Quantized(value, zero and _narrow(zero), scale and _narrow(scale))


def _narrow(value: ir.Value) -> ir.Value:
    """A scale or a zero point with sizes of 1 where it does not differ."""
    dims, number, varying = shape(value), _number(value), _varying(value)
    if number is not None:
        return mgx.splat(number, ir.RankedTensorType.get([1] * len(dims), element_type(value)))
    once = [axis for axis, size in enumerate(dims) if axis not in varying and size != 1]
    return mgx.slice(value, once, [0] * len(once), [1] * len(once)) if once else value


def _number(value: ir.Value) -> np.generic | None:
    """The one number that a constant has everywhere, wider or as it is; or None."""
    value = broadcast_source(value)
    op = definition(value)
    if isinstance(op, mgx.ConvertOp) and element_bits(op.x) < element_bits(value):
        value = op.x
    return splat(value)


def _varying(value: ir.Value) -> set[int]:
    """The dimensions along which a value's elements may differ."""
    if _number(value) is not None:
        return set()
    while isinstance(op := definition(value), mgx.ConvertOp):
        value = op.x
    _, layout, _ = trace(value)
    moving = [any(size != 1 and stride for size, stride in dim) for dim in layout.dims]
    return {number for number, moves in enumerate(moving) if moves}


def _may_leave(op: ir.OpView, number: int, parameter: ir.Value | None) -> bool:
    """Whether a scale or zero point of an operand is the same for all that are summed up."""
    if parameter is None:
        return True
    differs = {axis for axis, size in enumerate(shape(parameter)) if size != 1}
    if isinstance(op, mgx.CONVOLUTIONS):
        return differs <= ({0} if number else set())
    return len(shape(parameter)) - 1 - number not in differs


def _behind(op: ir.OpView, number: int, parameter: ir.Value) -> ir.Value:
    """A scale or zero point of an operand, with sizes that broadcast to the result."""
    dims = shape(parameter)
    if isinstance(op, mgx.CONVOLUTIONS) and number:  # the filters' first dimension
        return mgx.reshape(parameter, [1, dims[0], *[1] * (len(dims) - 2)])
    return parameter


def _takes_differences(op: ir.OpView, w: _Quantized) -> bool:
    """Whether an op is a convolution of one channel a group whose weights have a zero point."""
    by_channel = isinstance(op, mgx.CONVOLUTIONS) and group_of(op) == shape(op.x)[1] > 1
    return by_channel and w.zero is not None


def _difference(x: _Quantized) -> ir.Value:
    """An operand less its zero point, in i32."""
    i32 = ir.IntegerType.get_signless(32)
    wide = mgx.convert(x.value, i32)
    if x.zero is None:
        return wide
    return mgx.sub(wide, broadcast_to(_as(x.zero, i32), shape(wide)))


def _signed(x: _Quantized) -> _Quantized:
    """x with its numbers as i8 and its zero point in i32."""
    i32, shift = ir.IntegerType.get_signless(32), 128 if x.element == "ui8" else 0
    dims, number = shape(x.value), 0 if x.zero is None else splat(x.zero)
    zero = x.zero and _as(x.zero, i32)
    if number is not None:
        one = ir.RankedTensorType.get([1] * len(dims), i32)
        zero = mgx.splat(int(number) - shift, one) if number != shift else None
    elif shift and zero is not None:
        zero = mgx.sub(zero, mgx.splat(shift, zero.type))
    if not shift:
        return _Quantized(x.value, zero, x.scale)
    wide = mgx.convert(x.value, i32)
    narrow = mgx.convert(mgx.sub(wide, mgx.splat(shift, wide.type)), "int8")
    return _Quantized(narrow, zero, x.scale)


# Results ---------------------------------------------------------------------------------


def _total(op: ir.OpView, x: _Quantized, w: _Quantized) -> ir.Value:
    """The sums of (x - x.zero) * (w - w.zero), in i32."""
    if _takes_differences(op, w):
        return _product(op, _difference(x), _difference(w))
    parts: Sequence[tuple[int, ir.OpView, _Quantized, _Quantized]]
    if (padded := _padded(op, x)) is None:
        total = _product(op, x.value, w.value)
        parts = ((0, op, w, x), (1, op, _Quantized(x.value, None, None), w))
    else:
        nothing = ir.DenseI64ArrayAttr.get([0] * 2 * (len(shape(padded)) - 2))
        total = _product(op, padded, w.value, pads=nothing)
        whole = total.owner.opview
        parts = ((0, whole, _Quantized(w.value, None, None), x), (1, op, x, w))
    for number, reader, other, part in parts:
        if part.zero is None:
            continue
        factors = [_sums(reader, 1 - number, other), _behind(op, number, part.zero)]
        known = is_constant(other.value) and is_constant(part.zero)
        first, *rest = (broadcast_to(factor, shape(total)) for factor in _factors(factors, known))
        total = mgx.sub(total, mgx.mul(first, *rest) if rest else first)
    return total


def _padded(op: ir.OpView, x: _Quantized) -> ir.Value | None:
    """x with padding of its zero point, where a convolution pads it and the point is known."""
    if not isinstance(op, mgx.CONVOLUTIONS) or not any(op.pads) or x.zero is None:
        return None
    number, half = splat(x.zero), len(op.pads) // 2
    if number is None:
        return None
    low, high = ([0, 0, *list(op.pads)[i : i + half]] for i in (0, half))
    dims = [sum(sizes) for sizes in zip(shape(x.value), low, high, strict=True)]
    type_ = mgx.tensor_type(dims, element_type(x.value))
    return mgx.PadOp(x.value, low, high, value=float(number), results=[type_]).result


def _product(op: ir.OpView, x: ir.Value, w: ir.Value, **changed: ir.Attribute) -> ir.Value:
    """The op's product of integers, in i32, or of 8-bit floats, in f32."""
    kind = mgx.QuantDotOp if isinstance(op, mgx.DOTS) else mgx.QuantConvolutionOp
    floats = isinstance(element_type(x), ir.FloatType)
    wide = ir.F32Type.get() if floats else ir.IntegerType.get_signless(32)
    created = ir.Operation.create(
        kind.OPERATION_NAME,
        results=[mgx.tensor_type(shape(op.result), wide)],
        operands=[x, w],
        attributes={key: op.attributes[key] for key in op.attributes} | changed,
    )
    value: ir.Value = created.results[0]
    return value


def _sums(op: ir.OpView, number: int, operand: _Quantized) -> ir.Value:
    """The sums of the elements of one operand that each result is made of, in i32.

    They have sizes of 1 where results share them.
    """
    values = _difference(operand)
    rank = len(shape(values))
    if not isinstance(op, mgx.CONVOLUTIONS):
        return mgx.reduce_sum(values, [rank - 1 - number])
    group, (count, channels, *image) = group_of(op), shape(op.x)
    if number == 0:  # each group's channels, below a window of ones
        outputs, filters = shape(op.result)[2:], shape(op.w)[2:]
        parts = mgx.reshape(values, [count, group, channels // group, *image])
        sums = mgx.reshape(mgx.reduce_sum(parts, [2]), [count, group, *image])
        if prod(filters) > 1 or any(op.pads) or list(outputs) != image:
            taps = ir.RankedTensorType.get([group, 1, *filters], element_type(values))
            sums = _convolution(sums, mgx.splat(1, taps), op, outputs, group)
        wide = [count, group, 1 if group == 1 else shape(op.w)[0] // group, *outputs]
        sums = broadcast_to(mgx.reshape(sums, [count, group, 1, *outputs]), wide)
        return mgx.reshape(sums, [count, wide[1] * wide[2], *outputs])
    filter_ = mgx.reduce_sum(values, [1])
    if not any(op.pads):
        total = mgx.reduce_sum(filter_, list(range(2, rank)))
        return mgx.reshape(total, [1, shape(op.w)[0], *[1] * (rank - 2)])
    # Taps that read padding add nothing: a convolution of ones counts the taps that do not.
    ones = mgx.splat(1, mgx.tensor_type([1, 1, *image], element_type(filter_)))
    return _convolution(ones, filter_, op, shape(op.result)[2:])


def _convolution(
    x: ir.Value, w: ir.Value, op: _Convolution, outputs: Sequence[int], group: int = 1
) -> ir.Value:
    """x through w by the window of another convolution, whose results have `outputs` pixels."""
    window = list(op.pads), list(op.strides), list(op.dilations)
    type_ = mgx.tensor_type([shape(x)[0], shape(w)[0], *outputs], element_type(x))
    return mgx.QuantConvolutionOp(x, w, *window, group=group, results=[type_]).result


def _as(value: ir.Value, element: ir.Type) -> ir.Value:
    return value if element_type(value) == element else mgx.convert(value, element)
