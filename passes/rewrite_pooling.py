"""mgx-rewrite-pooling: a window that is the whole image is a reduction, a large one two."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.reference.meanings import enum
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import element_type, has_sizes, shape

# A maximum over this many elements takes longer than the extra passes over memory of its parts.
_LARGE = 64


@rewrites(mgx.PoolingOp)
def reduce_whole_image(op: mgx.PoolingOp, context: PassContext) -> ir.Value | None:
    """A reduction over the spatial dimensions, where the window is all of them."""
    if any(op.pads):
        return None
    if tuple(op.lengths) != shape(op.x)[2:] or any(n != 1 for n in shape(op.y)[2:]):
        return None
    axes = list(range(2, len(shape(op.x))))
    match enum(op.mode), op.lp_order.value:
        case "average", _:
            return mgx.reduce_mean(op.x, axes)
        case "max", _:
            return mgx.reduce_max(op.x, axes)
        case _, 1:
            return mgx.reduce_sum(mgx.abs(op.x), axes)
        case _, 2:
            return mgx.sqrt(mgx.reduce_sum(mgx.mul(op.x, op.x), axes))
    return None


@rewrites(mgx.PoolingOp)
def pool_one_dimension_after_another(op: mgx.PoolingOp, context: PassContext) -> ir.Value | None:
    """The maximum of a large window, as one of its lines' maxima."""
    lengths, strides = list(op.lengths), list(op.strides)
    value: ir.Value = op.x
    rank, most = len(lengths), math.prod(lengths)
    if enum(op.mode) != "max" or not has_sizes(op):
        return None
    if most < _LARGE or most == max(lengths):
        return None
    for d in range(rank):
        if lengths[d] == 1 and strides[d] == 1 and not (op.pads[d] or op.pads[rank + d]):
            continue

        def only(numbers: Iterable[int], other: int, d: int = d) -> list[int]:
            return [n if i % rank == d else other for i, n in enumerate(numbers)]

        dims = [*shape(value)]
        dims[2 + d] = shape(op.y)[2 + d]
        value = mgx.pooling(
            value,
            op.mode,
            only(lengths, 1),
            only(op.pads, 0),
            only(strides, 1),
            only(op.dilations, 1),
            ceil_mode=op.ceil_mode,
            results=[mgx.tensor_type(dims, element_type(op.y))],
        )
    return value


@dataclass(frozen=True)
class RewritePooling(PatternPass):
    """Makes a reduction of pooling over all of the spatial dimensions, which fuses.

    Before:  %y = mgx.pooling average %x lengths = [7, 7] pads = [0, 0, 0, 0] ...
                 : tensor<1x64x7x7xf32> -> tensor<1x64x1x1xf32>
    After:   %y = mgx.reduce_mean %x axes = [2, 3] : tensor<1x64x7x7xf32> -> tensor<1x64x1x1xf32>

    The maximum of a large window is the maximum of its lines' maxima:

    Before:  %y = mgx.pooling max %x lengths = [13, 13] ...
    After:   %a = mgx.pooling max %x lengths = [13, 1] ...
             %y = mgx.pooling max %a lengths = [1, 13] ...
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-rewrite-pooling"
    patterns: ClassVar = (reduce_whole_image, pool_one_dimension_after_another)
