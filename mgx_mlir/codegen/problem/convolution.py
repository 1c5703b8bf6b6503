"""The operands of a convolution, as a product of matrices reads them."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TypeAlias, TypeGuard

from mlir import ir

from mgx_mlir.codegen.problem.computed import computed_by, computed_matrix
from mgx_mlir.codegen.problem.problem import (
    Axis,
    ComputedImage,
    Dimension,
    Image,
    Matrix,
    pixels,
)
from mgx_mlir.codegen.problem.views import View, element_name, resolve
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import pad_value_of
from mgx_mlir.rewriting.symbolic import shape_of
from mgx_mlir.sizes.arithmetic import Size

Convolution: TypeAlias = mgx.ConvolutionOp | mgx.QuantConvolutionOp

_INTEGERS = ("i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64")
# Element types from which pixels of an image may be computed.
_COMPUTABLE = frozenset(("bf16", "f16", "f32", "f64", *_INTEGERS))


def channels_last(op: ir.OpView) -> TypeGuard[Convolution]:
    """Whether a contraction is a convolution of tensors with channels last."""
    return isinstance(op, mgx.CONVOLUTIONS) and op.channels_last


def place_of(op: Convolution) -> Matrix:
    """The layout of [(image, group), channel, position] in the result of such a convolution."""
    count, *outputs, channels = shape_of(op.y.type)
    group = op.group.value
    own, size = channels // group, math.prod(outputs)
    batch = Axis.of((count, size * channels), (group, own))
    return Matrix(0, "", 0, batch, Axis.of((own, 1)), Axis.of((size, channels)))


def channels_second(view: View, op: ir.OpView) -> View:
    """A tensor of a convolution, or of its shape, with channels after the batch."""
    rank = len(view.dims)
    return view.transposed([0, rank - 1, *range(1, rank - 1)]) if channels_last(op) else view


def filter_operand(op: Convolution) -> Matrix | None:
    """The filters as matrices [(image, group), filter, (channel, window)]."""
    count, value = shape_of(op.y.type)[0], op.w

    def matrix(view: View) -> Matrix | None:
        grouped = channels_second(view, op).split(0, op.group.value)
        if grouped is None:
            return None
        batch = Axis.of((count, 0), *grouped.dims[0])
        column = grouped.axis(2, len(grouped.dims))
        return Matrix(view.argument, view.element, view.offset, batch, grouped.axis(1, 2), column)

    view = resolve(value)
    return computed_matrix(value, matrix) if view is None else matrix(view)


def image_operand(op: Convolution) -> Image | None:
    """The images of a convolution, whose windows are its right operand."""
    view = resolve(op.x)
    if view is not None:
        return _image(view, op)
    found = computed_by(op.x)
    if found is None:
        return None
    pointwise, operands = found
    reads: list[Image | ir.Attribute] = []
    for operand in operands:
        if isinstance(operand, ir.Attribute):
            reads.append(operand)
            continue
        image = _image(operand, op)
        # Other types share bytes or have no form in memory.
        if image is None or image.element not in _COMPUTABLE:
            return None
        reads.append(image)
    images = [read for read in reads if isinstance(read, Image)]
    if not images:
        return None
    most = max(
        images, key=lambda image: (sum(dim.stride != 0 for dim in image.dims), image.element)
    )
    own = {f.name: getattr(most, f.name) for f in fields(Image)}
    own["element"] = element_name(op.x.type)
    return ComputedImage(**own, op=pointwise, reads=tuple(reads))


def _image(view: View, op: Convolution) -> Image | None:
    """A view as the images of a convolution; None where a dimension has more than one stride."""
    x, group = channels_second(view, op), op.group.value
    grouped = x.split(1, group)
    if grouped is None:
        return None
    places = grouped.dims[3:]
    if any(len(place) != 1 for place in places):
        return None
    outputs = list(shape_of(op.y.type)[1:])
    outputs.pop(-1 if op.channels_last else 0)
    window = list(shape_of(op.w.type)[1:])
    window.pop(-1 if op.channels_last else 0)
    if any(isinstance(size, Size) for size in window):
        return None
    moves = op.strides, op.dilations, list(op.pads)[: len(outputs)]
    dims = zip(x.shape[2:], [place[0][1] for place in places], outputs, window, *moves, strict=True)
    axes = grouped.axis(0, 2), grouped.axis(2, 3), tuple(Dimension(*dim) for dim in dims)
    return Image(x.argument, x.element, x.offset, *axes, fill=pad_value_of(op))


def plain_image(image: Image) -> Matrix | None:
    """The image as a matrix, where a window is one element and each element is used once."""
    if image.taps != 1 or any(
        (dim.step, dim.pad, dim.outputs) != (1, 0, dim.size) for dim in image.dims
    ):
        return None
    return image.computed(pixels) if isinstance(image, ComputedImage) else pixels(image)
