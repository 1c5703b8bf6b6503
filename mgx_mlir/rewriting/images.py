"""Views of images: whether channels are second or last, and the image behind a value."""

from __future__ import annotations

from math import prod

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import MOST_BEHIND, definition, shape
from mgx_mlir.rewriting.views import is_view, trace, whole
from mgx_mlir.sizes.arithmetic import Size


def to_last(rank: int) -> list[int]:
    """The permutation that puts channels last; `to_second` is its inverse."""
    return [0, *range(2, rank), 1]


def to_second(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]


def origin_of(value: ir.Value) -> ir.Value:
    """The value that a chain of views starts from."""
    op = definition(value)
    while op is not None and is_view(op):
        value = op.operands[0]
        op = definition(value)
    return value


def is_channels_last(value: ir.Value) -> bool:
    """Whether a value is a view that only puts an image's channels last."""
    source, layout, _ = trace(value)
    sizes = shape(source)
    return len(sizes) > 2 and layout.dims == whole(sizes).transposed(to_last(len(sizes))).dims


def is_channels_second(value: ir.Value) -> bool:
    """Whether a value is a view that only puts back the channels of a channels-last image."""
    sizes = shape(value)
    last = whole([sizes[i] for i in to_last(len(sizes))])
    source, layout, _ = trace(value)
    return source != value and layout.dims == last.transposed(to_second(len(sizes))).dims


def keeps_channels(value: ir.Value) -> bool:
    """Whether a view's channels are its source's channels, and its pixels the source's pixels."""
    source, layout, _ = trace(value)
    if source == value:
        return True
    sizes = shape(source)
    pixels = prod(sizes[2:])
    if len(sizes) != len(shape(value)) or pixels == 0:
        return False
    if any(isinstance(n, Size) for dim in layout.dims[1:] for pair in dim for n in (*pair, pixels)):
        return False
    return all(stride % pixels == 0 for _, stride in layout.dims[1]) and all(
        size == 1 or abs(stride) < pixels for dim in layout.dims[2:] for size, stride in dim
    )


def lies_channels_last(value: ir.Value) -> bool:
    """Whether a value is a view of an image whose channels are contiguous in memory."""
    source, layout, _ = trace(value)
    return source != value and layout.dims[1][-1:] == ((shape(value)[1], 1),)


def image_of(value: ir.Value) -> ir.Value:
    """The image whose layout decides how a value lies: its origin, or, where that is a pointwise
    result in rows of another shape, as norms of groups of channels are, the image of those rows."""
    origin = origin_of(value)
    rows, dims = shape(origin), shape(value)
    if rows == dims or not is_reshaped(value, origin):
        return origin
    waiting, seen = [origin], {origin}
    while waiting and len(seen) <= MOST_BEHIND:
        op = definition(waiting.pop())
        if op is None or not mgx.is_pointwise(op):
            continue
        for operand in dict.fromkeys(op.operands):
            image = origin_of(operand)
            if shape(operand) != rows or image in seen:
                continue
            if shape(image) == dims and is_reshaped(operand, image):
                return image
            if image == operand:
                seen.add(operand)
                waiting.append(operand)
    return origin


def is_reshaped(value: ir.Value, origin: ir.Value) -> bool:
    """Whether a view of `origin` has all of its elements in their order."""
    source, layout, _ = trace(value)
    return source == origin and layout.factors == whole(shape(origin)).factors
