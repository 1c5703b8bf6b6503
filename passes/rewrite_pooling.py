"""mgx-rewrite-pooling: a window that is the whole image is a reduction, a large one two."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import blocks, erase_dead, replace, shape

# A maximum over this many elements takes longer than the extra passes over memory of its parts.
_LARGE = 64


@dataclass(frozen=True)
class RewritePooling(Pass):
    """Makes a reduction of pooling over all of the spatial dimensions, which fuses.

    Before:  %y = mgx.pooling average %x lengths = [7, 7] pads = [0, 0, 0, 0] ...
                 : tensor<1x64x7x7xf32> -> tensor<1x64x1x1xf32>
    After:   %y = mgx.reduce_mean %x axes = [2, 3] : tensor<1x64x7x7xf32> -> tensor<1x64x1x1xf32>

    The maximum of a large window is that of the maxima of its lines:

    Before:  %y = mgx.pooling max %x lengths = [13, 13] ...
    After:   %a = mgx.pooling max %x lengths = [13, 1] ...
             %y = mgx.pooling max %a lengths = [1, 13] ...
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-rewrite-pooling"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if op.operation.name != "mgx.pooling":
                    continue
                node = node_name(op)
                with ir.InsertionPoint(op), op.operation.location:
                    whole = _is_global(op)
                    value = _reduction(op) if whole else _by_dimension(op)
                if value is not None:
                    context.note("global" if whole else "one dimension after another", node)
                    replace(op, [value])
            erase_dead(block)


def _is_global(op: ir.OpView) -> bool:
    x, y = op.operation.operands[0], op.operation.results[0]
    if not ir.RankedTensorType(x.type).has_static_shape:
        return False
    attributes = op.operation.attributes
    lengths = tuple(ir.DenseI64ArrayAttr(attributes["lengths"]))
    no_padding = not any(ir.DenseI64ArrayAttr(attributes["pads"]))
    return lengths == shape(x)[2:] and no_padding and all(n == 1 for n in shape(y)[2:])


def _reduction(op: ir.OpView) -> ir.Value | None:
    x, attributes = op.operation.operands[0], op.operation.attributes
    axes = list(range(2, len(shape(x))))
    mode = str(attributes["mode"])
    if "average" in mode:
        return mgx.reduce_mean(x, axes)
    if "max" in mode:
        return mgx.reduce_max(x, axes)
    if ir.IntegerAttr(attributes["lp_order"]).value == 1:
        return mgx.reduce_sum(mgx.abs(x), axes)
    if ir.IntegerAttr(attributes["lp_order"]).value == 2:
        return mgx.sqrt(mgx.reduce_sum(mgx.mul(x, x), axes))
    return None


def _by_dimension(op: ir.OpView) -> ir.Value | None:
    """The maximum along one dimension after the other; None where the window is small."""
    value, attributes = op.operation.operands[0], op.operation.attributes
    names = ("lengths", "pads", "strides", "dilations")
    lengths, pads, strides, dilations = (
        list(ir.DenseI64ArrayAttr(attributes[name])) for name in names
    )
    rank, most = len(lengths), math.prod(lengths)
    is_static = ir.RankedTensorType(value.type).has_static_shape
    if "max" not in str(attributes["mode"]) or not is_static:
        return None
    if most < _LARGE or most == max(lengths):
        return None
    sizes = list(shape(op.operation.results[0]))
    element = op.operation.results[0].type.element_type
    for d in range(rank):
        if lengths[d] == 1 and strides[d] == 1 and not (pads[d] or pads[rank + d]):
            continue

        def only(numbers: list[int], other: int, d: int = d) -> list[int]:
            return [n if i % rank == d else other for i, n in enumerate(numbers)]

        dims = [*shape(value)]
        dims[2 + d] = sizes[2 + d]
        value = mgx.pooling(
            value,
            attributes["mode"],
            only(lengths, 1),
            only(pads, 0),
            only(strides, 1),
            only(dilations, 1),
            ceil_mode=attributes["ceil_mode"],
            results=[ir.RankedTensorType.get(dims, element)],
        )
    return value
