"""mgx-merge-convolutions: a convolution and a 1x1 convolution in a row become one."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    broadcast_source,
    definition,
    element_type,
    erase_dead,
    fused_location,
    group_of,
    has_one_use,
    is_along,
    is_constant,
    op_name,
    replace,
    shape,
    splat,
)


@dataclass(frozen=True)
class MergeConvolutions(Pass):
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

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if op.operation.name != "mgx.convolution":
                    continue
                pair = _pair(op, context.weights)
                if pair is None:
                    continue
                node = node_name(op)
                with ir.InsertionPoint(op), fused_location([pair.inner.op, op]):
                    value = _merged(pair, context.weights)
                if value is not None:
                    context.note("1x1", node)
                    replace(op, [value])
            erase_dead(block)


@dataclass(frozen=True)
class _Convolution:
    """A convolution with its constant weights (M, C / group, ...)."""

    op: ir.OpView
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
        result = shape(self.op.operation.results[0])
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


def _pair(op: ir.OpView, weights: WeightStore) -> _Pair | None:
    """The convolution, and the convolution that makes its input."""
    value, bias = op.operation.operands[0], None
    producer = definition(value)
    if op_name(producer) == "mgx.add" and has_one_use(value):
        assert producer is not None
        a, b = producer.operation.operands
        value, constant = (a, b) if is_constant(b) else (b, a)
        bias = _by_channel(constant, weights)
        producer = definition(value)
        if bias is None:
            return None
    if op_name(producer) != "mgx.convolution" or not has_one_use(value):
        return None
    assert producer is not None
    inner, outer = _convolution(producer, weights), _convolution(op, weights)
    return None if inner is None or outer is None else _Pair(inner, bias, outer)


def _by_channel(value: ir.Value, weights: WeightStore) -> np.ndarray | None:
    """A constant that differs by channel only, in one dimension."""
    number = splat(value)
    if number is not None:
        return np.full(shape(value)[1], number, np.float64)
    array = _array(broadcast_source(value), weights)
    if array is None or not is_along(value, 1):
        return None
    return np.broadcast_to(array.reshape(-1), (shape(value)[1],)).astype(np.float64)


def _array(value: ir.Value, weights: WeightStore) -> np.ndarray | None:
    op = definition(value)
    if op_name(op) == "mgx.constant":
        assert op is not None
        return mgx.constant_array(op)
    if op_name(op) == "mgx.literal":
        assert op is not None
        key = ir.StringAttr(op.operation.attributes["key"]).value
        return weights[key].array() if key in weights else None
    return None


def _convolution(op: ir.OpView, weights: WeightStore) -> _Convolution | None:
    operation, attributes = op.operation, op.operation.attributes
    array = _array(operation.operands[1], weights)
    if array is None or not all(
        ir.RankedTensorType(v.type).has_static_shape
        for v in [*operation.operands, *operation.results]
    ):
        return None
    strides, pads, dilations = (
        list(ir.DenseI64ArrayAttr(attributes[key])) for key in ("strides", "pads", "dilations")
    )
    return _Convolution(op, array, group_of(op), strides, pads, dilations)


def _merged(pair: _Pair, weights: WeightStore) -> ir.Value | None:
    inner, outer = pair.inner, pair.outer
    window = outer if inner.is_pointwise else inner
    if inner.is_pointwise:
        if any(step != 1 for step in inner.strides) or (pair.bias is not None and any(outer.pads)):
            return None
    elif not outer.is_pointwise:
        return None
    group = inner.group if inner.group == outer.group else 1
    _, outputs, *image = shape(outer.op.operation.results[0])
    inputs = inner.weights.shape[1] * inner.group // group
    products = outputs * inputs * prod(window.weights.shape[2:]) * prod(image)
    if products > inner.products + outer.products:
        return None
    product = _product(inner.whole, outer.whole)
    type_ = ir.RankedTensorType(outer.op.operation.results[0].type)
    element = element_type(inner.op.operation.operands[1])
    rows, columns = product.shape[0] // group, product.shape[1] // group
    own = [
        product[i * rows : (i + 1) * rows, i * columns : (i + 1) * columns] for i in range(group)
    ]
    array = np.concatenate(own).astype(mgx.numpy_dtype(element))
    literal = mgx.literal(weights.add_array(array), ir.RankedTensorType.get(array.shape, element))
    strides = [a * b for a, b in zip(inner.strides, outer.strides, strict=True)]
    value = mgx.convolution(
        inner.op.operation.operands[0], literal, window.pads, strides, window.dilations, group
    )
    if pair.bias is None:
        return value
    taps = outer.whole.sum(axis=tuple(range(2, outer.weights.ndim)))
    bias = (taps @ pair.bias).astype(mgx.numpy_dtype(type_.element_type))
    by_channel = mgx.constant(bias.reshape(1, -1, *[1] * (type_.rank - 2)))
    return mgx.add(value, mgx.multibroadcast(by_channel, type_.shape))


def _product(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """The weights of the convolution that replaces both, one of which has a single tap."""
    if prod(inner.shape[2:]) == 1:
        return np.einsum("om...,mi->oi...", outer, inner.reshape(inner.shape[:2]))
    return np.einsum("om,mi...->oi...", outer.reshape(outer.shape[:2]), inner)
