"""mgx-merge-convolutions: a convolution and a 1x1 convolution in a row become one."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import (
    broadcast_source,
    definition,
    element_type,
    fused_location,
    group_of,
    has_one_use,
    is_along,
    is_constant,
    is_static,
    new_literal,
    shape,
    splat,
    stored_array,
)


@rewrites(mgx.ConvolutionOp)
def merge_with_producer(op: mgx.ConvolutionOp, context: PassContext) -> ir.Value | None:
    """One convolution for two, and the bias behind it."""
    pair = _pair(op, context.weights)
    if pair is None:
        return None
    with fused_location([pair.inner.op, op]):
        return _merged(pair, context.weights)


@dataclass(frozen=True)
class MergeConvolutions(PatternPass):
    """Multiplies the weights of two convolutions, one of them 1x1, with nothing but a bias between.

    Before:  %a = mgx.convolution %x, %v ...   // 3x3, 8 to 64 channels
             %b = mgx.add %a, %bias ...
             %y = mgx.convolution %b, %w ...   // 1x1, 64 to 16 channels
    After:   %a = mgx.convolution %x, %u ...   // 3x3, 8 to 16 channels
             %y = mgx.add %a, %c ...

    Only where the one does no more multiplications than the two. Groups are kept where both
    have the same; else the merged weights are those of one group. A bias cannot pass below
    padding, nor a stride.
    """

    cleanup: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-merge-convolutions"
    patterns: ClassVar = (merge_with_producer,)


@dataclass(frozen=True)
class _Convolution:
    """A convolution with its constant weights (M, C / group, ...)."""

    op: mgx.ConvolutionOp
    weights: np.ndarray
    group: int
    strides: list[int]
    pads: list[int]
    dilations: list[int]

    @property
    def is_pointwise(self) -> bool:
        return prod(self.weights.shape[2:]) == 1 and not any(self.pads)

    @property
    def products(self) -> int:
        """The number of multiplications for one image."""
        result = shape(self.op.y)
        return prod(self.weights.shape) * prod(result[2:])

    @property
    def whole(self) -> np.ndarray:
        """The weights as float64, with zeros for the channels that a group does not see."""
        outputs, inputs, *kernel = self.weights.shape
        wide = np.zeros((outputs, inputs * self.group, *kernel))
        for i in range(self.group):
            rows = slice(i * outputs // self.group, (i + 1) * outputs // self.group)
            wide[rows, i * inputs : (i + 1) * inputs] = self.weights[rows]
        return wide


@dataclass(frozen=True)
class _Pair:
    inner: _Convolution
    bias: np.ndarray | None
    outer: _Convolution


def _pair(op: mgx.ConvolutionOp, weights: WeightStore) -> _Pair | None:
    """The convolution, and the convolution that makes its input."""
    value: ir.Value = op.x
    bias = None
    add = definition(value)
    if isinstance(add, mgx.AddOp) and has_one_use(value):
        value, constant = (add.a, add.b) if is_constant(add.b) else (add.b, add.a)
        bias = _by_channel(constant, weights)
        if bias is None:
            return None
    producer = definition(value)
    if not isinstance(producer, mgx.ConvolutionOp) or not has_one_use(value):
        return None
    inner, outer = _convolution(producer, weights), _convolution(op, weights)
    return None if inner is None or outer is None else _Pair(inner, bias, outer)


def _by_channel(value: ir.Value, weights: WeightStore) -> np.ndarray | None:
    """A constant that differs by channel only, in one dimension."""
    number = splat(value)
    if number is not None:
        return np.full(shape(value)[1], number, np.float64)
    array = stored_array(broadcast_source(value), weights)
    if array is None or not is_along(value, 1):
        return None
    return np.broadcast_to(array.reshape(-1), (shape(value)[1],)).astype(np.float64)


def _convolution(op: mgx.ConvolutionOp, weights: WeightStore) -> _Convolution | None:
    array = stored_array(op.w, weights)
    if array is None or not is_static(op):
        return None
    return _Convolution(
        op, array, group_of(op), list(op.strides), list(op.pads), list(op.dilations)
    )


def _window(pair: _Pair) -> _Convolution | None:
    """The convolution whose window the merged one has; None where they cannot merge."""
    inner, outer = pair.inner, pair.outer
    if not inner.is_pointwise:
        return inner if outer.is_pointwise else None
    if any(step != 1 for step in inner.strides) or (pair.bias is not None and any(outer.pads)):
        return None
    return outer


def _merged(pair: _Pair, weights: WeightStore) -> ir.Value | None:
    inner, outer, window = pair.inner, pair.outer, _window(pair)
    if window is None:
        return None
    group = inner.group if inner.group == outer.group else 1
    _, outputs, *image = shape(outer.op.y)
    inputs = inner.weights.shape[1] * inner.group // group
    products = outputs * inputs * prod(window.weights.shape[2:]) * prod(image)
    if products > inner.products + outer.products:
        return None
    product = _product(inner.whole, outer.whole)
    element = element_type(inner.op.w)
    rows, columns = product.shape[0] // group, product.shape[1] // group
    own = [
        product[i * rows : (i + 1) * rows, i * columns : (i + 1) * columns] for i in range(group)
    ]
    array = np.concatenate(own).astype(mgx.numpy_dtype(element))
    literal = new_literal(array, element, weights)
    strides = [a * b for a, b in zip(inner.strides, outer.strides, strict=True)]
    value = mgx.convolution(inner.op.x, literal, window.pads, strides, window.dilations, group)
    return value if pair.bias is None else mgx.add(value, _bias(outer, pair.bias))


def _bias(outer: _Convolution, bias: np.ndarray) -> ir.Value:
    """A bias before a convolution, as the one behind it."""
    type_ = outer.op.y.type
    taps = outer.whole.sum(axis=tuple(range(2, outer.weights.ndim)))
    behind = (taps @ bias).astype(mgx.numpy_dtype(type_.element_type))
    by_channel = mgx.constant(behind.reshape(1, -1, *[1] * (type_.rank - 2)))
    return mgx.multibroadcast(by_channel, type_.shape)


def _product(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """The weights of the convolution that replaces both, one of which has a single tap."""
    if prod(inner.shape[2:]) == 1:
        return np.einsum("om...,mi->oi...", outer, inner.reshape(inner.shape[:2]))
    return np.einsum("om,mi...->oi...", outer.reshape(outer.shape[:2]), inner)
