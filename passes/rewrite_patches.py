"""mgx-rewrite-patches: a convolution of adjacent patches is a product of matrices."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from mlir import ir

from mgx_mlir.capabilities import PIXEL_CHANNELS
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    element_type,
    erase_dead,
    group_of,
    is_static,
    replace,
    shape,
)

# For smaller patches, the kernels of convolutions read a pixel at a time.
_LEAST_PIXELS = 128


@dataclass(frozen=True)
class RewritePatches(Pass):
    """Makes a product of a convolution whose large windows neither overlap nor leave gaps.

    Before:  %y = mgx.convolution %x, %w pads = [0, 0, 0, 0] strides = [16, 16] ...
                 : tensor<1x3x224x224xf16>, tensor<768x3x16x16xf16> -> tensor<1x768x14x14xf16>
    After:   %p = mgx.reshape %x : ... -> tensor<1x3x14x16x14x16xf16>
             %t = mgx.transpose %p permutation = [0, 2, 4, 1, 3, 5] : ...
             %a = mgx.reshape %t : ... -> tensor<196x768xf16>
             %d = mgx.dot %a, (%w as tensor<768x768xf16>) : ... -> tensor<196x768xf16>
             %y = ...                                       -> tensor<1x768x14x14xf16>

    A product reads the patches where they lie, by strides: all that is summed is used, and
    lines of a patch are neighbours. It is an image of few channels that gains.
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-rewrite-patches"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if op.operation.name == "mgx.convolution" and _has_patches(op):
                    with ir.InsertionPoint(op), op.operation.location:
                        product = _product(op)
                    context.note("patches", node_name(op))
                    replace(op, [product])
            erase_dead(block)


def _has_patches(op: ir.OpView) -> bool:
    attributes = op.operation.attributes
    if not is_static(op) or group_of(op) > 1 or "channels_last" in attributes:
        return False
    x, w = op.operation.operands
    if not isinstance(element_type(x), ir.FloatType):
        return False
    _, channels, *window = shape(w)
    lists = {n: list(ir.DenseI64ArrayAttr(attributes[n])) for n in ("pads", "strides", "dilations")}
    # More channels are neighbours in memory once layouts are chosen, and read together.
    if channels > PIXEL_CHANNELS or prod(window) < _LEAST_PIXELS:
        return False
    side_by_side = lists["strides"] == window and set(lists["dilations"]) == {1}
    sizes = zip(shape(x)[2:], window, strict=True)
    return side_by_side and not any(lists["pads"]) and all(n % k == 0 for n, k in sizes)


def _product(op: ir.OpView) -> ir.Value:
    x, w = op.operation.operands
    count, filters, *outputs = shape(op.operation.results[0])
    _, channels, *window = shape(w)
    rank, depth = len(window), channels * prod(window)
    parts = [n for pair in zip(outputs, window, strict=True) for n in pair]
    patches = mgx.reshape(x, [count, channels, *parts])
    outer, inner = range(2, 2 + 2 * rank, 2), range(3, 3 + 2 * rank, 2)
    patches = mgx.transpose(patches, [0, *outer, 1, *inner])
    rows = mgx.reshape(patches, [count * prod(outputs), depth])
    columns = mgx.transpose(mgx.reshape(w, [filters, depth]), [1, 0])
    result = mgx.reshape(mgx.dot(rows, columns), [count, *outputs, filters])
    return mgx.transpose(result, [0, rank + 1, *range(1, rank + 1)])
