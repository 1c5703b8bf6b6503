"""mgx-layout-weights: constants are stored as the kernels of products read them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.capabilities import CHUNK_BYTES, PIXEL_CHANNELS
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    definition,
    group_of,
    has_one_use,
    op_name,
    replace,
    shape,
)

# The most taps that kernels hold in registers.
_MOST_TAPS = 128


@dataclass(frozen=True)
class LayoutWeights(Pass):
    """Turns the constant second operand of a `mgx.quant_dot`: what is summed lies together.

    Before:  %w = mgx.literal "w" : tensor<32x64xi8>
             %y = mgx.quant_dot %x, %w : tensor<2x32xi8>, tensor<32x64xi8> -> tensor<2x64xi32>
    After:   %v = mgx.literal "..." : tensor<64x32xi8>
             %t = mgx.transpose %v permutation = [1, 0] : tensor<64x32xi8> -> tensor<32x64xi8>
             %y = mgx.quant_dot %x, %t : tensor<2x32xi8>, tensor<32x64xi8> -> tensor<2x64xi32>

    A matrix instruction takes 4 to 32 bytes of a column; a kernel would turn them in registers
    each time, at two instructions for four of them. Filters of three channels get a fourth that
    nobody reads, so that each tap is one read, and the same tap of all is one piece of memory:

    Before:  %w = mgx.literal "w" : tensor<64x3x7x7xf16>
             %y = mgx.convolution %x, %w ...
    After:   %v = mgx.literal "..." : tensor<7x7x64x4xf16>
             %s = mgx.slice %v ... : tensor<7x7x64x4xf16> -> tensor<7x7x64x3xf16>
             %t = mgx.transpose %s permutation = [2, 3, 0, 1] : ... -> tensor<64x3x7x7xf16>
             %y = mgx.convolution %x, %t ...
    """

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-layout-weights"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if op.operation.name == "mgx.quant_dot":
                    self._turn(op, context)
                if op.operation.name == "mgx.convolution":
                    self._widen(op, context)

    def _turn(self, dot: ir.OpView, context: PassContext) -> None:
        value = dot.operation.operands[1]
        source = definition(value)
        *batch, K, N = shape(value)
        if op_name(source) != "mgx.literal" or not has_one_use(value):
            return
        assert source is not None
        key = ir.StringAttr(source.operation.attributes["key"]).value
        if K % CHUNK_BYTES or N == 1 or key not in context.weights:
            return
        order = [*range(len(batch)), len(batch) + 1, len(batch)]
        array = np.ascontiguousarray(context.weights[key].array().transpose(order))
        type_ = ir.RankedTensorType.get(array.shape, ir.RankedTensorType(value.type).element_type)
        with ir.InsertionPoint(source), source.operation.location:
            turned = mgx.literal(context.weights.add_array(array), type_)
            result = mgx.transpose(turned, order)
        context.note("turn", node_name(dot))
        replace(source, [result])

    def _widen(self, convolution: ir.OpView, context: PassContext) -> None:
        value = convolution.operation.operands[1]
        source = definition(value)
        if op_name(source) != "mgx.literal" or not has_one_use(value) or group_of(convolution) > 1:
            return
        assert source is not None
        if "channels_last" in convolution.operation.attributes or len(shape(value)) != 4:
            return
        filters, channels, *window = shape(value)
        key = ir.StringAttr(source.operation.attributes["key"]).value
        if channels != PIXEL_CHANNELS - 1 or key not in context.weights:
            return
        if not 1 < prod(window) <= _MOST_TAPS:
            return
        array = context.weights[key].array()
        if array.dtype.itemsize not in (2, 4):
            return
        wide = np.zeros([*window, filters, PIXEL_CHANNELS], array.dtype)
        wide[..., :channels] = array.transpose(2, 3, 0, 1)
        type_ = ir.RankedTensorType.get(wide.shape, ir.RankedTensorType(value.type).element_type)
        with ir.InsertionPoint(source), source.operation.location:
            stored = mgx.literal(context.weights.add_array(wide), type_)
            taps = mgx.slice(stored, [3], [0], [channels])
            result = mgx.transpose(taps, [2, 3, 0, 1])
        context.note("widen", node_name(convolution))
        replace(source, [result])
