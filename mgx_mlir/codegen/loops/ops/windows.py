"""Convolutions, pooling and lrn: windows that read outside their input read a neutral element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.loops.body import Body, Indices, Lazy
from mgx_mlir.codegen.loops.kernel import Kernel, lowers
from mgx_mlir.codegen.loops.ops.contractions import OPERAND_COST, multiply
from mgx_mlir.codegen.loops.ops.movement import word
from mgx_mlir.codegen.loops.ops.reductions import accumulate, rounded
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import change, load, store
from mgx_mlir.codegen.meaning.element import Element, element_of, sizes_of
from mgx_mlir.codegen.meaning.index import Index, index_constant
from mgx_mlir.codegen.meaning.quantize import quotient
from mgx_mlir.codegen.meaning.reducers import SUM, Reducer, lowest, sum_element
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import pad_value_of
from mgx_mlir.sizes.arithmetic import Number


@lowers(mgx.ConvolutionOp, mgx.QuantConvolutionOp)
def convolution(
    kernel: Kernel, op: mgx.ConvolutionOp | mgx.QuantConvolutionOp, operands: Sequence[Lazy]
) -> Lazy:
    """Loops: result; input channel, window positions. Channels are dimension 1, or last."""
    x, w = (kernel.settled(value, OPERAND_COST) for value in operands)
    element, shape = element_of(op.result.type), sizes_of(op.result.type)
    rank = len(shape) - 2
    at = 1 + rank if op.channels_last else 1
    group_channels, group_outputs = w.shape[at], w.shape[0] // op.group.value
    strides, dilations, pads = list(op.strides), list(op.dilations), list(op.pads)
    fill = pad_value_of(op)

    def term(body: Body, dims: Indices) -> ir.Value:
        batch, *position = dims[: 2 + rank]
        channel = position.pop(at - 1)
        inner, window = dims[2 + rank], list(dims[3 + rank :])
        where = [position[d] * strides[d] + window[d] * dilations[d] - pads[d] for d in range(rank)]
        where.insert(at - 1, (channel // group_outputs) * group_channels + inner)
        window.insert(at - 1, inner)
        value = body.guarded(x, (batch, *where), lambda: kernel.scalar(x.element, fill))
        weight = body.at(w, (channel, *window))
        return multiply(body.arithmetic, element.computed(), (x, value), (w, weight))

    taps = list(w.shape[1:])
    extents = [*shape, taps.pop(at - 1), *taps]
    total = accumulate(kernel, extents, rank + 2, element.computed(), term)
    return rounded(total, element)


@lowers(mgx.ConvolutionBackwardsOp)
def convolution_backwards(
    kernel: Kernel, op: mgx.ConvolutionBackwardsOp, operands: Sequence[Lazy]
) -> Lazy:
    """Gathers: each output element sums the inputs whose window reaches it."""
    x, w = (kernel.settled(value, OPERAND_COST) for value in operands)
    element, shape = element_of(op.result.type), sizes_of(op.result.type)
    rank = len(shape) - 2
    group_outputs, group_channels = w.shape[1], w.shape[0] // op.group.value
    strides, dilations, pads = list(op.strides), list(op.dilations), list(op.pads)

    def term(body: Body, dims: Indices) -> ir.Value:
        batch, channel = dims[:2]
        position, inner, window = dims[2 : 2 + rank], dims[2 + rank], dims[3 + rank :]
        source = (channel // group_outputs) * group_channels + inner
        where: list[Index] = []
        aligned: list[ir.Value] = []
        for d in range(rank):
            reach = position[d] + pads[d] - window[d] * dilations[d]
            index, condition = _unstrided(body, reach, strides[d])
            where.append(index)
            aligned += condition
        zero = kernel.scalar(x.element, 0)
        value = body.guarded(x, (batch, source, *where), lambda: zero)
        for exact in aligned:
            value = arith.select(exact, value, zero)
        weight = body.at(w, (source, channel % group_outputs, *window))
        return multiply(body.arithmetic, element.computed(), (x, value), (w, weight))

    extents = [*shape, group_channels, *w.shape[2:]]
    total = accumulate(kernel, extents, rank + 2, element.computed(), term)
    return rounded(total, element)


def _unstrided(body: Body, reach: Index, stride: int) -> tuple[Index, list[ir.Value]]:
    """reach / stride, and the conditions for it to be exact."""
    if stride == 1:
        return reach, []
    low, high = reach.bounds
    value = body.scalar(reach)
    index = arith.floordivsi(value, index_constant(stride))
    rest = arith.subi(value, arith.muli(index, index_constant(stride)))
    exact = arith.cmpi(arith.CmpIPredicate.eq, rest, index_constant(0))
    return Index.runtime(index, low // stride, high // stride), [exact]


@lowers(mgx.PoolingOp)
def pooling(kernel: Kernel, op: mgx.PoolingOp, operands: Sequence[Lazy]) -> Lazy:
    """One parallel loop nest; the window is a sequential nest in its body."""
    x = kernel.settled(operands[0])
    mode, order, rank = word(op.mode), op.lp_order.value, len(x.shape) - 2
    reducer = pooling_reducer(mode, x.element, order)
    lengths, strides = list(op.lengths), list(op.strides)
    dilations, pads = list(op.dilations), list(op.pads)
    neutral = _finite(x.element, reducer.initial)

    def pooled(body: Body, indices: Indices) -> ir.Value:
        a = body.arithmetic
        starts = [indices[2 + d] * strides[d] - pads[d] for d in range(rank)]

        def tap(window: Indices, carried: Sequence[ir.Value]) -> list[ir.Value]:
            where = [starts[d] + window[d] * dilations[d] for d in range(rank)]
            position = (*indices[:2], *where)
            value = body.guarded(x, position, lambda: kernel.scalar(x.element, neutral))
            return [reducer.combine(a, carried[0], reducer.term(a, value))]

        start = a.constant(reducer.initial, reducer.accumulator.storage())
        result = body.nest(lengths, [start], tap)[0]
        count = _counted(body, op, x.shape, starts) if mode == "average" else 0
        return of_window(a, reducer, mode, order, result, count)

    cost = 2 * math.prod(lengths)
    return kernel.result_of(op, pooled, cost)


def _counted(
    body: Body, op: mgx.PoolingOp, shape: Sequence[Number], starts: Sequence[Index]
) -> ir.Value | int:
    """The number of elements that an average divides by. `shape`: that of x."""
    rank, pads = len(starts), list(op.pads)
    if not op.count_include_pad.value:
        pads = [0] * len(pads)
    spans = [
        _span(body, starts[d] + pads[d], length, dilation, shape[2 + d] + pads[d] + pads[rank + d])
        for d, (length, dilation) in enumerate(zip(op.lengths, op.dilations, strict=True))
    ]
    known = math.prod(s for s in spans if isinstance(s, int))
    total: ir.Value | None = None
    for span in (s for s in spans if not isinstance(s, int)):
        total = span if total is None else arith.muli(total, span)
    if total is None:
        return known
    return arith.muli(total, index_constant(known)) if known != 1 else total


def _finite(element: Element, value: float) -> float:
    """A padded element's value: types without infinity have their lowest value instead."""
    if value == float("-inf") and element.is_byte_float:
        return -float(2**20)
    return value


def _span(body: Body, start: Index, length: int, dilation: int, size: Number) -> ir.Value | int:
    """The number of positions start, start + dilation, ... in [0, size)."""
    low, high = start.bounds
    if low >= 0 and high + (length - 1) * dilation < size:
        return length

    def edge(limit: Number) -> ir.Value:
        """ceil((limit - start) / dilation) within [0, length]."""
        value = body.scalar(Index.of(limit) - start)
        if dilation != 1:
            value = arith.ceildivsi(value, index_constant(dilation))
        value = arith.maxsi(value, index_constant(0))
        return arith.minsi(value, index_constant(length))

    return arith.subi(edge(size), edge(0))


@dataclass(frozen=True)
class Norm(Reducer):
    """The root of a sum of powers."""

    order: int = 2

    def term(self, a: Arithmetic, value: ir.Value) -> ir.Value:
        return power(a, a.math("absf", super().term(a, value)), self.order)


def pooling_reducer(mode: str, element: Element, order: int) -> Reducer:
    """How the elements of a window are combined."""
    wide = sum_element(element) if mode == "average" else element.computed()
    if mode == "max":
        return Reducer(element, wide, lowest(wide), Arithmetic.maximum)
    return (
        Norm(element, wide, *SUM, order=order) if mode == "lpnorm" else Reducer(element, wide, *SUM)
    )


def of_window(
    a: Arithmetic, reducer: Reducer, mode: str, order: int, total: ir.Value, count: emit.Index
) -> ir.Value:
    """The result of a window, as memory holds it. count: of elements that an average divides by."""
    wide = reducer.accumulator
    if mode == "average":
        if isinstance(count, int):
            divisor = a.constant(count, wide.storage())
        elif wide.is_float:
            narrow = arith.index_cast(ir.IntegerType.get_signless(32), emit.value(count))
            divisor = arith.sitofp(wide.storage(), narrow)
        else:
            divisor = arith.index_cast(wide.storage(), emit.value(count))
        total = quotient(a, total, divisor) if wide.is_float else arith.divsi(total, divisor)
    elif mode == "lpnorm":
        total = root(a, total, order)
    return store(a, reducer.element, change(a, wide, reducer.element.computed(), total))


def power(a: Arithmetic, value: ir.Value, order: int) -> ir.Value:
    """A non-negative value to the power of `order`."""
    if order <= 2:
        return value if order == 1 else a.mul(value, value)
    return a.math("powf", value, a.float(order, value))


def root(a: Arithmetic, value: ir.Value, order: int) -> ir.Value:
    """The root of degree `order`: the inverse of `power`."""
    if order <= 2:
        return value if order == 1 else a.math("sqrt", value)
    return a.math("powf", value, a.float(1.0 / order, value))


@lowers(mgx.LrnOp)
def lrn(kernel: Kernel, op: mgx.LrnOp, operands: Sequence[Lazy]) -> Lazy:
    x = kernel.settled(operands[0])
    element, size = x.element.computed(), op.size.value
    alpha, beta, bias = op.alpha.value, op.beta.value, op.bias.value
    before = (size - 1) // 2

    def normalized(body: Body, indices: Indices) -> ir.Value:
        a = body.arithmetic

        def tap(window: Indices, carried: Sequence[ir.Value]) -> list[ir.Value]:
            channel = indices[1] + window[0] - before
            there = (indices[0], channel, *indices[2:])
            value = load(a, x.element, body.guarded(x, there, lambda: kernel.scalar(x.element, 0)))
            return [a.sum(element, carried[0], a.mul(value, value))]

        zero = a.constant(0, element.storage())
        squares = body.nest([size], [zero], tap)[0]
        base = a.add(a.float(bias, squares), a.mul(a.float(alpha / size, squares), squares))
        value = load(a, x.element, body.at(x, indices))
        return store(a, x.element, a.div(value, beta_power(a, base, beta)))

    return kernel.result_of(op, normalized, 2 * size)


def beta_power(a: Arithmetic, base: ir.Value, beta: float) -> ir.Value:
    """The divisor of lrn: `base` to the power of `beta`."""
    if beta == 0.75:  # the value of every published network: two roots instead of pow
        root = a.math("sqrt", base)
        return a.mul(root, a.math("sqrt", root))
    return a.math("powf", base, a.float(beta, base))
