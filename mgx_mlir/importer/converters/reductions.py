"""Operators that reduce along axes, and those that need a whole axis: softmax, sort, scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.converters.movement import counted
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator

Unary = Callable[[ir.Value], ir.Value]
Reduction = Callable[[ir.Value, list[int]], ir.Value]


def _same(x: ir.Value) -> ir.Value:
    return x


def _square(x: ir.Value) -> ir.Value:
    return mgx.mul(x, x)


def _maximum(x: ir.Value, axes: list[int]) -> ir.Value:
    return (mgx.reduce_any if emit.numpy_type(x) == np.bool_ else mgx.reduce_max)(x, axes)


def _minimum(x: ir.Value, axes: list[int]) -> ir.Value:
    return (mgx.reduce_all if emit.numpy_type(x) == np.bool_ else mgx.reduce_min)(x, axes)


def _log_sum_exp(x: ir.Value, axes: list[int]) -> ir.Value:
    """log(sum(exp(x))), with the maximum subtracted so that exp does not overflow."""
    largest = mgx.reduce_max(x, axes)
    shift = emit.where(mgx.isinf(largest), 0, largest)
    return mgx.add(mgx.log(mgx.reduce_sum(mgx.exp(emit.sub(x, shift)), axes)), shift)


# On integers, these are computed in f64 and rounded down; on narrow floats in f32.
_IN_FLOATS = ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp")

# ONNX name, oldest and newest version, ops, the work before, the reduction, the work after.
_REDUCTIONS: tuple[tuple[str, int, int, str, Unary, Reduction, Unary], ...] = (
    ("ReduceL1", 1, 18, "abs reduce_sum", mgx.abs, mgx.reduce_sum, _same),
    ("ReduceL2", 1, 18, "mul reduce_sum sqrt", _square, mgx.reduce_sum, mgx.sqrt),
    ("ReduceLogSum", 1, 28, "reduce_sum log", _same, mgx.reduce_sum, mgx.log),
    ("ReduceLogSumExp", 1, 28, "reduce_max exp reduce_sum log", _same, _log_sum_exp, _same),
    ("ReduceMax", 1, 20, "reduce_max reduce_any", _same, _maximum, _same),
    ("ReduceMean", 1, 18, "reduce_mean", _same, mgx.reduce_mean, _same),
    ("ReduceMin", 1, 20, "reduce_min reduce_all", _same, _minimum, _same),
    ("ReduceProd", 1, 18, "reduce_prod", _same, mgx.reduce_prod, _same),
    ("ReduceSum", 1, 13, "reduce_sum", _same, mgx.reduce_sum, _same),
    ("ReduceSumSquare", 1, 18, "mul reduce_sum", _square, mgx.reduce_sum, _same),
)


def _reduction(before: Unary, reduction: Reduction, after: Unary) -> Callable[[Node], ir.Value]:
    def convert(node: Node) -> ir.Value:
        x = node.tensor(0)
        rank = tensors.rank(x)
        axes = node.axes("axes", 1, rank)
        if not axes:
            keep = bool(node.attribute("noop_with_empty_axes"))
            axes = [] if keep else list(range(rank))
        elif node.declares("noop_with_empty_axes"):
            node.attribute("noop_with_empty_axes")
        axes = sorted(set(axes))
        kept = node.attribute("keepdims")
        element = tensors.element(x)
        if node.op_type in _IN_FLOATS:
            x = emit.widened(x) if tensors.is_float(x) else emit.convert(x, "f64")
        y = before(x)
        y = emit.convert(after(reduction(y, axes) if axes else y), element)
        return y if kept else emit.squeeze(y, axes)

    return convert


for _name, _oldest, _newest, _ops, _before, _reduce, _after in _REDUCTIONS:
    operator(_name, (_oldest, _newest), _ops)(_reduction(_before, _reduce, _after))


def _arg(node: Node, build: Any) -> ir.Value:
    axis = node.axis()
    last = bool(node.attribute("select_last_index")) if node.version >= 12 else False
    y = build(node.tensor(0), axis, select_last_index=last)
    return y if node.attribute("keepdims") else emit.squeeze(y, [axis])


@operator("ArgMax", (1, 13), "argmax")
def argmax(node: Node) -> ir.Value:
    return _arg(node, mgx.argmax)


@operator("ArgMin", (1, 13), "argmin")
def argmin(node: Node) -> ir.Value:
    return _arg(node, mgx.argmin)


def _softmax_like(node: Node, build: Callable[[ir.Value, int], ir.Value]) -> ir.Value:
    """Before version 13, everything from the axis on is one dimension."""
    x = node.tensor(0)
    rank = tensors.rank(x)
    stated = int(node.attribute("axis"))
    if node.version >= 13 or rank == 0:
        return build(x, node.axis()) if rank else emit.reshape(build(emit.reshape(x, [1]), 0), [])
    axis = rank if stated == rank else tensors.axis_in(stated, rank)
    if axis == rank - 1 or (axis < rank and all(d == 1 for d in tensors.dims(x)[axis + 1 :])):
        return build(x, axis)
    flat = mgx.flatten(x, axis)
    tensors.name_dims(flat)
    return emit.reshape(build(flat, 1), tensors.dims(x))


@operator("Softmax", (1, 13), "softmax")
def softmax(node: Node) -> ir.Value:
    return _softmax_like(node, mgx.softmax)


@operator("LogSoftmax", (1, 13), "logsoftmax")
def logsoftmax(node: Node) -> ir.Value:
    return _softmax_like(node, mgx.logsoftmax)


@operator("Hardmax", (1, 13), "argmax equal convert")
def hardmax(node: Node) -> ir.Value:
    def build(x: ir.Value, axis: int) -> ir.Value:
        size = tensors.dims(x)[axis]
        if size is None:
            size = tensors.size_of(x, axis, "the size of its axis")
        if size == 0:
            return x
        after = list(range(1, tensors.rank(x) - axis))
        places = emit.unsqueeze(counted(node, size), after)
        largest = emit.binary(mgx.equal, mgx.argmax(x, axis), places)
        return emit.convert(largest, tensors.element(x))

    return _softmax_like(node, build)


@operator("CumProd", (26, 26), "prefix_scan_prod")
def cumprod(node: Node) -> ir.Value:
    return _scan(node, mgx.prefix_scan_prod)


@operator("CumSum", (11, 14), "prefix_scan_sum")
def cumsum(node: Node) -> ir.Value:
    return _scan(node, mgx.prefix_scan_sum)


def _scan(node: Node, scan: Any) -> Any:
    x = node.tensor(0)
    (axis,) = node.integers(1, "axis")
    return scan(
        x,
        tensors.axis_in(axis, tensors.rank(x)),
        exclusive=bool(node.attribute("exclusive")),
        reverse=bool(node.attribute("reverse")),
    )


@operator("GlobalAveragePool", (1, 22), "reduce_mean")
def global_average_pool(node: Node) -> ir.Value:
    return mgx.reduce_mean(node.tensor(0), _spatial(node))


@operator("GlobalMaxPool", (1, 22), "reduce_max")
def global_max_pool(node: Node) -> ir.Value:
    return mgx.reduce_max(node.tensor(0), _spatial(node))


@operator("GlobalLpPool", (2, 22), "abs pow reduce_sum")
def global_lp_pool(node: Node) -> ir.Value:
    x = node.tensor(0)
    norm = lp_norm(emit.widened(x), node.attribute("p"), _spatial(node))
    return emit.convert(norm, tensors.element(x))


def lp_norm(x: ir.Value, p: float, axes: list[int]) -> ir.Value:
    """The p-norm along axes, which keep size 1."""
    if p < 1:
        raise ModelError(f"p = {p}; numbers from 1 on are defined")
    if p == 1:
        return mgx.reduce_sum(mgx.abs(x), axes)
    if p == 2:
        return mgx.sqrt(mgx.reduce_sum(mgx.mul(x, x), axes))
    total = mgx.reduce_sum(emit.binary(mgx.pow, mgx.abs(x), p), axes)
    return emit.binary(mgx.pow, total, 1 / p)


@operator("LpNormalization", (1, 22), "abs reduce_sum div")
def lp_normalization(node: Node) -> ir.Value:
    """The result is zero where the norm is zero."""
    element = tensors.element(node.tensor(0))
    x = emit.widened(node.tensor(0))
    norm = lp_norm(x, node.choice("p", 1, 2), [node.axis()])
    zero = mgx.equal(norm, emit.like(norm, 0))
    return emit.convert(emit.div(x, emit.where(zero, 1, norm)), element)


def _spatial(node: Node) -> list[int]:
    dims = node.value(0).dims
    if len(dims) < 3:
        raise ModelError(f"an input {tensors.show(dims)}; (batch, channels, ...) is needed")
    return list(range(2, len(node.value(0).dims)))
