"""mgx-layout-weights: constants are stored as the kernels of products read them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.capabilities import CHUNK_BYTES, PIXEL_CHANNELS
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.kernel_loops import is_in_kernel
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import (
    definition,
    element_type,
    group_of,
    has_one_use,
    new_literal,
    shape,
    stored_array,
    turned_literal,
    with_operand,
)

# The most taps that kernels hold in registers.
_MOST_TAPS = 128


@rewrites(mgx.DotOp, mgx.QuantDotOp)
def store_columns(op: mgx.DotOp | mgx.QuantDotOp, context: PassContext) -> ir.Value | None:
    """The product with a matrix whose columns are stored one after another."""
    source = definition(op.b)
    *batch, K, N = shape(op.b)
    if not isinstance(source, mgx.LiteralOp) or not has_one_use(op.b) or K % CHUNK_BYTES or N == 1:
        return None
    array = stored_array(op.b, context.weights)
    if array is None:
        return None
    if isinstance(op, mgx.DotOp):
        # CPUs pack the weights of several rows; GPUs gain little with wide floats.
        narrow = array.itemsize <= 2 and context.kind != "cpu"
        rows = shape(op.a)[:-1] if not batch else shape(op.a)[-2:-1]
        if not narrow and any(size != 1 for size in rows):
            return None
    if is_in_kernel(op):
        return None  # its threads, or vectors, have neighbouring columns
    order = [*range(len(batch)), len(batch) + 1, len(batch)]
    with ir.InsertionPoint(source), source.location:
        stored = turned_literal(source, order, context.weights)
        columns = mgx.transpose(stored, order)
    return with_operand(op, 1, columns)


@rewrites(mgx.ConvolutionOp)
def store_taps(op: mgx.ConvolutionOp, context: PassContext) -> ir.Value | None:
    """The convolution by filters of three channels, stored as taps of four."""
    source = definition(op.w)
    if not isinstance(source, mgx.LiteralOp) or not has_one_use(op.w) or context.kind == "cpu":
        return None
    if group_of(op) > 1 or op.channels_last or len(shape(op.w)) != 4:
        return None
    filters, channels, *window = shape(op.w)
    if channels != PIXEL_CHANNELS - 1 or not 1 < prod(window) <= _MOST_TAPS:
        return None
    array = stored_array(op.w, context.weights)
    if array is None or array.dtype.itemsize not in (2, 4):
        return None
    wide = np.zeros([*window, filters, PIXEL_CHANNELS], array.dtype)
    wide[..., :channels] = array.transpose(2, 3, 0, 1)
    with ir.InsertionPoint(source), source.location:
        stored = new_literal(wide, element_type(op.w), context.weights)
        taps = mgx.slice(stored, [3], [0], [channels])
        w = mgx.transpose(taps, [2, 3, 0, 1])
    return with_operand(op, 1, w)


@dataclass(frozen=True)
class LayoutWeights(PatternPass):
    """Stores the constant operands of products in the order in which kernels read them.

    Before:  %w = mgx.literal "w" : tensor<32x64xi8>
             %y = mgx.quant_dot %x, %w : tensor<2x32xi8>, tensor<32x64xi8> -> tensor<2x64xi32>
    After:   %v = mgx.literal "..." : tensor<64x32xi8>
             %t = mgx.transpose %v permutation = [1, 0] : tensor<64x32xi8> -> tensor<32x64xi8>
             %y = mgx.quant_dot %x, %t : tensor<2x32xi8>, tensor<32x64xi8> -> tensor<2x64xi32>

    A matrix instruction takes 4 to 32 bytes of a column; to transpose them in registers costs a
    kernel an instruction or two for each four bytes, and narrow writes to LDS. Floats of 8 and 16
    bits are stored so too; for CPUs, and wider floats, those that multiply one row. In a loop that
    is a kernel they stay: its threads, or vectors, have neighbouring columns.

    Filters of three channels get a fourth that nobody reads: each tap is one read, and a tap of
    all filters is contiguous:

    Before:  %w = mgx.literal "w" : tensor<64x3x7x7xf16>
             %y = mgx.convolution %x, %w ...
    After:   %v = mgx.literal "..." : tensor<7x7x64x4xf16>
             %s = mgx.slice %v ... : tensor<7x7x64x4xf16> -> tensor<7x7x64x3xf16>
             %t = mgx.transpose %s permutation = [2, 3, 0, 1] : ... -> tensor<64x3x7x7xf16>
             %y = mgx.convolution %x, %t ...
    """

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-layout-weights"
    patterns: ClassVar = (store_columns, store_taps)
