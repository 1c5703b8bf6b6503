"""Matches kernels that are poolings, and their windows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.family import anchor_of
from mgx_mlir.codegen.loops.ops.movement import word
from mgx_mlir.codegen.loops.ops.windows import power
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import Element, element_of
from mgx_mlir.codegen.meaning.reducers import SUM, Reducer, lowest, sum_element
from mgx_mlir.codegen.problem.match import Match, with_epilogue
from mgx_mlir.codegen.problem.problem import Axis, Contraction, Matrix
from mgx_mlir.codegen.problem.views import element_name, resolve
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import shape_of

# Rows of windows up to this width are unrolled, wider ones a loop over parts. Neighbours share
# the elements that they read in unrolled code.
MAX_ROW = 32


@dataclass(frozen=True)
class Window:
    """One spatial dimension: the sizes of x and of the result, and the geometry of windows."""

    size: int
    outputs: int
    length: int
    stride: int
    dilation: int
    low: int
    high: int

    @property
    def reach(self) -> int:
        return (self.length - 1) * self.dilation + 1

    def holds(self, tap: Index) -> bool:
        """Whether element number `tap` of every window is known to lie inside of x."""
        first, last = (tap, tap) if isinstance(tap, int) else (0, self.length - 1)
        end = (self.outputs - 1) * self.stride - self.low + last * self.dilation
        return first * self.dilation >= self.low and bool(end < self.size)


@dataclass(frozen=True)
class Norm(Reducer):
    """The root of a sum of powers."""

    order: int = 2

    def term(self, a: Arithmetic, value: ir.Value) -> ir.Value:
        return power(a, a.math("absf", super().term(a, value)), self.order)


@dataclass(frozen=True)
class Pooling:
    """Windows of images: `images` of x, by the outer index of `source`, whose inner index
    counts the elements of an image.

    mode: 'max'; 'average', which divides by the number of elements inside x, or, if `padded`,
    inside the padding; or 'lpnorm', of the given order. `match`: the result [image, 0, pixel]
    and its epilogue, if any.
    """

    images: int
    source: MemoryOperand
    element: Element
    windows: tuple[Window, ...]
    mode: str
    padded: bool
    order: int
    match: Match
    name: ClassVar[str] = mgx.PoolingOp.OPERATION_NAME

    @property
    def outputs(self) -> int:
        """Results of an image."""
        return math.prod(window.outputs for window in self.windows)

    @property
    def row(self) -> int:
        """Neighbouring elements of a window that are unrolled: a row of it, or a part of one."""
        length = self.windows[-1].length
        return max(n for n in range(1, min(length, MAX_ROW) + 1) if length % n == 0)

    @property
    def rows(self) -> int:
        """The number of such rows, or parts, in a window."""
        return math.prod(window.length for window in self.windows) // self.row

    @property
    def reducer(self) -> Reducer:
        element = self.element
        if self.mode == "max":
            computed = element.computed()
            return Reducer(element, computed, lowest(computed), Arithmetic.maximum)
        if self.mode == "lpnorm":
            return Norm(element, element.computed(), *SUM, order=self.order)
        return Reducer(element, sum_element(element), *SUM)


def match_pooling(kernel: mgx.KernelOp) -> Pooling | Refusal | None:
    """The kernel as a pooling, or why it does not match; None where it holds other work."""
    op = _anchor(kernel)
    if op is None or isinstance(op, Refusal):
        return op
    result = op.y
    mode = word(op.mode)
    view = resolve(op.x)
    if view is None:
        return Refusal(f"{Pooling.name}: an input that is no strided view")
    shape, outputs = view.shape, tuple(shape_of(result.type))
    rank = len(shape) - 2
    pads = list(op.pads)
    windows = tuple(
        Window(
            shape[2 + d],
            outputs[2 + d],
            op.lengths[d],
            op.strides[d],
            op.dilations[d],
            pads[d],
            pads[rank + d],
        )
        for d in range(rank)
    )
    if rank == 0 or 0 in shape:
        return Refusal(f"{Pooling.name}: no elements")
    outer = Axis.of(*(factor for dim in view.dims[:2] for factor in dim))
    inner = Axis.of(*(factor for dim in view.dims[2:] for factor in dim))
    element = element_of(result.type)
    if element.is_byte_float or (mode == "lpnorm" and not element.is_float):
        return Refusal(f"{Pooling.name}: elements of type {element.name}")
    source = MemoryOperand(view.argument, element, view.offset, outer, inner)
    padded = bool(op.count_include_pad.value)
    order = op.lp_order.value
    images, pixels = shape[0] * shape[1], math.prod(window.outputs for window in windows)
    name = element_name(result.type)
    nothing = Matrix(0, name, 0, Axis(()), Axis(()), Axis(()))
    sizes = Contraction(images, 1, pixels, 1, nothing, nothing, name)
    match = with_epilogue(kernel.regions[0].blocks[0], [op], sizes)
    if match is None:
        return Refusal(
            f"{Pooling.name}: types, views or an epilogue that the generator does not match"
        )
    return Pooling(images, source, element, windows, mode, padded, order, match)


def _anchor(kernel: mgx.KernelOp) -> mgx.PoolingOp | Refusal | None:
    """The pooling op of a kernel that else holds views, and pointwise ops on its result."""
    ops = list(kernel.regions[0].blocks[0].operations)
    poolings = [op for op in ops if isinstance(op, mgx.PoolingOp)]
    if len(poolings) != 1 or not any(isinstance(op, mgx.PointwiseOp) for op in ops):
        return anchor_of(kernel, mgx.PoolingOp)
    (pooling,) = poolings
    if 0 in pooling.y.type.shape:
        return Refusal(f"{Pooling.name}: no elements")
    return pooling
