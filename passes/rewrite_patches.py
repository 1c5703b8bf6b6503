"""mgx-rewrite-patches: a convolution of adjacent patches is a product of matrices."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from mlir import ir

from mgx_mlir.capabilities import PIXEL_CHANNELS
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import element_type, group_of, is_static, shape

# For smaller patches, the kernels of convolutions read a pixel at a time.
_LEAST_PIXELS = 128


@rewrites(mgx.ConvolutionOp)
def multiply_patches(op: mgx.ConvolutionOp, context: PassContext) -> ir.Value | None:
    """The product of the patches, as rows, and the filters, as columns."""
    if not _has_patches(op):
        return None
    count, filters, *outputs = shape(op.y)
    _, channels, *window = shape(op.w)
    rank, depth = len(window), channels * prod(window)
    parts = [n for pair in zip(outputs, window, strict=True) for n in pair]
    patches = mgx.reshape(op.x, [count, channels, *parts])
    outer, inner = range(2, 2 + 2 * rank, 2), range(3, 3 + 2 * rank, 2)
    patches = mgx.transpose(patches, [0, *outer, 1, *inner])
    rows = mgx.reshape(patches, [count * prod(outputs), depth])
    columns = mgx.transpose(mgx.reshape(op.w, [filters, depth]), [1, 0])
    result = mgx.reshape(mgx.dot(rows, columns), [count, *outputs, filters])
    return mgx.transpose(result, [0, rank + 1, *range(1, rank + 1)])


def _has_patches(op: mgx.ConvolutionOp) -> bool:
    if not is_static(op) or group_of(op) > 1 or op.channels_last:
        return False
    if not isinstance(element_type(op.x), ir.FloatType):
        return False
    _, channels, *window = shape(op.w)
    if channels > PIXEL_CHANNELS or prod(window) < _LEAST_PIXELS:
        return False
    side_by_side = list(op.strides) == window and set(op.dilations) == {1}
    sizes = zip(shape(op.x)[2:], window, strict=True)
    return side_by_side and not any(op.pads) and all(n % k == 0 for n, k in sizes)


@dataclass(frozen=True)
class RewritePatches(PatternPass):
    """Makes a product of a convolution whose large windows neither overlap nor leave gaps.

    Before:  %y = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [16, 16] ...
                 : tensor<1x3x224x224xf16>, tensor<768x3x16x16xf16> -> tensor<1x768x14x14xf16>
    After:   %p = mgx.reshape %x : ... -> tensor<1x3x14x16x14x16xf16>
             %t = mgx.transpose %p permutation = [0, 2, 4, 1, 3, 5] : ...
             %a = mgx.reshape %t : ... -> tensor<196x768xf16>
             %d = mgx.dot %a, (%w as tensor<768x768xf16>) : ... -> tensor<196x768xf16>
             %y = ...                                       -> tensor<1x768x14x14xf16>

    A product reads the patches in place, by strides: it uses every element that it reads, and
    the lines of a patch are contiguous. Images of few channels gain.
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-rewrite-patches"
    patterns: ClassVar = (multiply_patches,)
