"""The builders of mgx ops whose generated form asks for more than it must.

Each has the name of its op; the others are taken as TableGen wrote them (see mgx.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy.typing as npt
from mlir import ir

from mgx_mlir._native import _mgx_ops_gen as gen
from mgx_mlir.dialects.types import Dim, dims_of, element_type, scalar_type, tensor_type

Element: TypeAlias = "ir.Type | npt.DTypeLike"


# ===----------------------------------------------------------------------===#
# Types of results
# ===----------------------------------------------------------------------===#


def _element(element: Element, context: ir.Context) -> ir.Type:
    return element if isinstance(element, ir.Type) else element_type(element, context)


def _with_element(type_: ir.Type, element: Element) -> ir.Type:
    """The tensor or scalar type with another element type, in the same shape."""
    wanted = _element(element, type_.context)
    return tensor_type(dims_of(type_), wanted) if isinstance(type_, ir.ShapedType) else wanted


def _shaped(x: ir.Value, shape: ir.Type | Sequence[Dim]) -> ir.RankedTensorType:
    """The type given, or the one with the dimensions given and the elements of x."""
    if isinstance(shape, ir.Type):
        return ir.RankedTensorType(shape)
    return tensor_type(shape, ir.RankedTensorType(x.type).element_type)


def _rank(x: ir.Value) -> int:
    return int(ir.RankedTensorType(x.type).rank)


def _each(value: int | Sequence[int] | None, default: int, count: int) -> Sequence[int]:
    if isinstance(value, ir.Attribute):
        return value
    if value is None or isinstance(value, int):
        return [default if value is None else value] * count
    return list(value)


# ===----------------------------------------------------------------------===#
# Pointwise
# ===----------------------------------------------------------------------===#


def convert(
    x: ir.Value, to: Element, *, saturate: bool | ir.Attribute | None = None, **at: Any
) -> ir.Value:
    """x in another element type, given as an MLIR type or a dtype."""
    return gen.convert(_with_element(x.type, to), x, saturate=saturate, **at)


def bit_cast(x: ir.Value, to: Element, **at: Any) -> ir.Value:
    """The bits of x as another element type of the same width."""
    return gen.bit_cast(_with_element(x.type, to), x, **at)


def iota(size: Dim, to: Element, **at: Any) -> ir.Value:
    """The numbers 0, 1, 2, ... of type `to`, as many as `size` says."""
    element = _element(to, ir.Context.current)
    return gen.iota(tensor_type([size], element), **at)


def unpack(x: ir.Value, to: Element, **at: Any) -> ir.Value:
    """The numbers of type `to`, of 4 or 2 bits, that bytes hold, low bits first."""
    element = _element(to, x.context)
    *outer, last = dims_of(x.type)
    width = (element if isinstance(element, ir.IntegerType) else ir.FloatType(element)).width
    count = last * 8 // width if isinstance(last, int) else last
    return gen.unpack(tensor_type([*outer, count], element), x, **at)


def quantizelinear(
    x: ir.Value,
    scale: ir.Value,
    zero_point: ir.Value | None = None,
    *,
    to: Element | None = None,
    saturate: bool | None = None,
    precision: Element | None = None,
    **at: Any,
) -> ir.Value:
    """x quantized to the zero point's element type, to `to`, or to ui8.

    `precision` is the type of the division.
    """
    if to is None:
        to = scalar_type(zero_point.type) if zero_point is not None else "uint8"
    type_ = _with_element(x.type, to)
    divided = None if precision is None else ir.TypeAttr.get(_element(precision, x.context))
    return gen.quantizelinear(
        type_, x, scale, zero_point=zero_point, saturate=saturate, precision=divided, **at
    )


def dequantizelinear(
    x: ir.Value,
    scale: ir.Value,
    zero_point: ir.Value | None = None,
    *,
    to: Element | None = None,
    **at: Any,
) -> ir.Value:
    """x in the element type of the scale, or in `to`."""
    type_ = _with_element(x.type, scalar_type(scale.type) if to is None else to)
    return gen.dequantizelinear(type_, x, scale, zero_point=zero_point, **at)


# ===----------------------------------------------------------------------===#
# Views
# ===----------------------------------------------------------------------===#


def reshape(x: ir.Value, dims: ir.Type | Sequence[Dim], **at: Any) -> ir.Value:
    """x in another shape; one dimension may be -1, and takes the remaining elements."""
    if not isinstance(dims, ir.Type) and -1 in dims:
        total = math.prod(ir.RankedTensorType(x.type).shape)
        others = math.prod(d for d in dims if isinstance(d, int) and d != -1)
        if not ir.RankedTensorType(x.type).has_static_shape or others == 0 or total % others:
            raise ValueError(f"{x.type} has no reshape to {list(dims)}")
        dims = [total // others if d == -1 else d for d in dims]
    return gen.reshape(_shaped(x, dims), x, **at)


def multibroadcast(x: ir.Value, dims: ir.Type | Sequence[Dim], **at: Any) -> ir.Value:
    """x broadcast to the dimensions by numpy's rule."""
    return gen.multibroadcast(_shaped(x, dims), x, **at)


def broadcast(x: ir.Value, dims: ir.Type | Sequence[Dim], axis: int, **at: Any) -> ir.Value:
    """x with its dimensions placed from `axis` on, repeated along the others."""
    type_ = _shaped(x, dims)
    if axis < 0:
        axis += type_.rank
    return gen.broadcast(type_, x, axis, **at)


def transpose(x: ir.Value, permutation: Sequence[int] | None = None, **at: Any) -> ir.Value:
    """Dimension i of the result is dimension permutation[i] of x; None: all reversed."""
    if permutation is None:
        permutation = list(range(_rank(x)))[::-1]
    return gen.transpose(x, permutation, **at)


def squeeze(x: ir.Value, axes: Sequence[int] | None = None, **at: Any) -> ir.Value:
    """x without those dimensions of size 1; None: without all that are."""
    if axes is None:
        axes = [i for i, d in enumerate(dims_of(x.type)) if d == 1]
    return gen.squeeze(x, axes, **at)


def reshape_to(x: ir.Value, dims: ir.Value, shape: ir.Type | Sequence[Dim], **at: Any) -> ir.Value:
    """x in the shape that `dims` holds at run time; `shape` is its known part."""
    return gen.reshape_to(_shaped(x, shape), x, dims, **at)


def broadcast_with_dims(
    x: ir.Value, dims: ir.Value, shape: ir.Type | Sequence[Dim], **at: Any
) -> ir.Value:
    """x broadcast with the shape that `dims` holds at run time; `shape` is its known part."""
    return gen.broadcast_with_dims(_shaped(x, shape), x, dims, **at)


def resize(
    x: ir.Value,
    dims: ir.Type | Sequence[Dim],
    scales: Sequence[float] | None = None,
    **attributes: Any,
) -> ir.Value:
    """x interpolated to the dimensions; without `scales`, those are the ratios of sizes."""
    type_ = _shaped(x, dims)
    if scales is None:
        source = ir.RankedTensorType(x.type)
        if not (type_.has_static_shape and source.has_static_shape):
            raise ValueError(f"resize of {x.type} to {type_} needs scales: sizes are not known")
        scales = [b / a for a, b in zip(source.shape, type_.shape, strict=True)]
    return gen.resize(type_, x, scales, **attributes)


# ===----------------------------------------------------------------------===#
# Windows
# ===----------------------------------------------------------------------===#


def _window(rank: int, pads: Any, strides: Any, dilations: Any) -> tuple[Any, Any, Any]:
    spatial = max(rank - 2, 0)
    return _each(pads, 0, 2 * spatial), _each(strides, 1, spatial), _each(dilations, 1, spatial)


def convolution(
    x: ir.Value,
    w: ir.Value,
    pads: int | Sequence[int] | None = None,
    strides: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    group: int = 1,
    **at: Any,
) -> ir.Value:
    """Convolution of x (N, C, spatial) with w (M, C / group, spatial).

    A number holds for all dimensions; pads are those before, then those after. With
    `channels_last=True`, x, w and the result have their channels last.
    """
    return gen.convolution(x, w, *_window(_rank(x), pads, strides, dilations), group=group, **at)


def quant_convolution(
    x: ir.Value,
    w: ir.Value,
    pads: int | Sequence[int] | None = None,
    strides: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    group: int = 1,
    **at: Any,
) -> ir.Value:
    """`convolution` of 8-bit tensors, summed in i32 or f32."""
    window = _window(_rank(x), pads, strides, dilations)
    return gen.quant_convolution(x, w, *window, group=group, **at)


def convolution_backwards(
    x: ir.Value,
    w: ir.Value,
    pads: int | Sequence[int] | None = None,
    strides: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    output_pads: int | Sequence[int] | None = None,
    group: int = 1,
    **at: Any,
) -> ir.Value:
    """Transposed convolution of x (N, C, spatial) with w (C, M / group, spatial)."""
    window = _window(_rank(x), pads, strides, dilations)
    output = _each(output_pads, 0, max(_rank(x) - 2, 0))
    return gen.convolution_backwards(x, w, *window, output, group=group, **at)


def pooling(
    x: ir.Value,
    mode: Any,
    lengths: int | Sequence[int],
    pads: int | Sequence[int] | None = None,
    strides: int | Sequence[int] | None = None,
    dilations: int | Sequence[int] | None = None,
    **attributes: Any,
) -> ir.Value:
    """The average, max or lpnorm (`mode`) of windows of x (N, C, spatial)."""
    window = _window(_rank(x), pads, strides, dilations)
    return gen.pooling(x, mode, _each(lengths, 1, _rank(x) - 2), *window, **attributes)


# ===----------------------------------------------------------------------===#
# The rest
# ===----------------------------------------------------------------------===#


def literal(key: str, type: ir.Type, **at: Any) -> ir.Value:
    """The weight of that name."""
    return gen.literal(type, key, **at)


def topk(
    x: ir.Value, k: int, axis: int = -1, *, largest: bool | None = None, **at: Any
) -> tuple[ir.Value, ir.Value]:
    """The k largest (or smallest) elements along an axis, sorted, and their indices.

    k: -1 for all elements.
    """
    op = gen.TopkOp(x, k, axis, largest=largest, **at)
    return op.values, op.indices
