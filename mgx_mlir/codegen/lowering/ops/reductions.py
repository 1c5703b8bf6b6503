"""reduce_*, argmax and argmin, softmax and logsoftmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.lowering.arithmetic import Arithmetic
from mgx_mlir.codegen.lowering.body import Body, GenericBody, generic
from mgx_mlir.codegen.lowering.convert import change, load, store
from mgx_mlir.codegen.lowering.element import Element, element_of
from mgx_mlir.codegen.lowering.integers import integer_divide
from mgx_mlir.codegen.lowering.kernel import Kernel, lowers
from mgx_mlir.codegen.lowering.reduce import (
    Combine,
    add,
    highest,
    lowest,
    maximum,
    reduce_axes,
    rounded,
    sum_element,
)
from mgx_mlir.codegen.lowering.value import Computed, Indices, Lazy, Stored, reshape


def _minimum(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    return a.minimum(element, x, y)


def _product(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    return a.product(element, x, y)


def _or(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    return arith.ori(x, y)


def _and(a: Arithmetic, element: Element, x: ir.Value, y: ir.Value) -> ir.Value:
    return arith.andi(x, y)


def _reduction(kernel: Kernel, op: Any, source: Lazy, initial: float, combine: Combine) -> Lazy:
    return rounded(reduce_axes(kernel, source, op.axes, initial, combine), source.element)


@lowers("mgx.reduce_sum")
def reduce_sum(kernel: Kernel, op: Any, operands: Sequence[Lazy]) -> Lazy:
    return _reduction(kernel, op, operands[0], 0, add)


@lowers("mgx.reduce_prod")
def reduce_prod(kernel: Kernel, op: Any, operands: Sequence[Lazy]) -> Lazy:
    return _reduction(kernel, op, operands[0], 1, _product)


@lowers("mgx.reduce_max")
def reduce_max(kernel: Kernel, op: Any, operands: Sequence[Lazy]) -> Lazy:
    return _reduction(kernel, op, operands[0], lowest(operands[0].element), maximum)


@lowers("mgx.reduce_min")
def reduce_min(kernel: Kernel, op: Any, operands: Sequence[Lazy]) -> Lazy:
    return _reduction(kernel, op, operands[0], highest(operands[0].element), _minimum)


@lowers("mgx.reduce_any")
def reduce_any(kernel: Kernel, op: Any, operands: Sequence[Lazy]) -> Lazy:
    return _reduction(kernel, op, operands[0], 0, _or)


@lowers("mgx.reduce_all")
def reduce_all(kernel: Kernel, op: Any, operands: Sequence[Lazy]) -> Lazy:
    return _reduction(kernel, op, operands[0], 1, _and)


@lowers("mgx.reduce_mean")
def reduce_mean(kernel: Kernel, op: Any, operands: Sequence[Lazy]) -> Lazy:
    source = operands[0]
    wide = sum_element(source.element)

    def value_of(body: Body, indices: Indices) -> ir.Value:
        value = load(body.arithmetic, source.element, body.at(source, indices))
        return change(body.arithmetic, source.element.computed(), wide, value)

    terms = Computed(source.shape, wide, value_of, source.cost)
    total = reduce_axes(kernel, terms, op.axes, 0, add)
    count = math.prod(source.shape[d] for d in op.axes)

    def mean(body: Body, indices: Indices) -> ir.Value:
        a, value = body.arithmetic, body.at(total, indices)
        if wide.is_float:
            result = a.div(value, a.float(count, value))
        else:
            result = integer_divide(a, wide, value, a.int(count, value))
        return store(a, source.element, change(a, wide, source.element.computed(), result))

    return Computed(total.shape, source.element, mean, 1)


@lowers("mgx.argmax", "mgx.argmin")
def arg(kernel: Kernel, op: Any, operands: Sequence[Lazy]) -> Lazy:
    """The value and its index are reduced together. The choice does not depend on the order of
    the loop: of equal values (NaN counts as equal to NaN, and first) the index decides."""
    source, axis = operands[0], op.axis.value
    largest = op.operation.name == "mgx.argmax"
    last = op.select_last_index.value
    element, target = source.element.computed(), element_of(op.results[0].type)
    kept = [d for d in range(len(source.shape)) if d != axis]
    extents = [*(source.shape[d] for d in kept), source.shape[axis]]
    start = lowest(element) if largest else highest(element)
    none = -1 if last else target.highest
    inits = [kernel.filled(extents[:-1], element, start), kernel.filled(extents[:-1], target, none)]

    def emit(body: GenericBody, dims: Indices) -> list[ir.Value]:
        a = body.arithmetic
        where = (*dims[:axis], dims[-1], *dims[axis:-1])
        value = load(a, source.element, body.at(source, where))
        index = arith.index_cast(target.storage(), body.scalar(dims[-1]))
        best, best_index = body.accumulators()
        better = a.less(element, best, value) if largest else a.less(element, value, best)
        equal = a.equal(element, value, best)
        if element.is_float:
            nan, best_nan = a.compare("uno", value, value), a.compare("uno", best, best)
            better = arith.ori(better, arith.andi(nan, a.negate(best_nan)))
            equal = arith.ori(equal, arith.andi(nan, best_nan))
        earlier = a.icompare("sgt" if last else "slt", index, best_index)
        take = arith.ori(better, arith.andi(equal, earlier))
        return [a.select(take, value, best), a.select(take, index, best_index)]

    results = generic(extents, len(kept), [(i, range(len(kept))) for i in inits], emit)
    shape = [1 if d == axis else n for d, n in enumerate(source.shape)]
    return reshape(Stored(results[1], target), shape)


@lowers("mgx.softmax")
def softmax(kernel: Kernel, op: Any, operands: Sequence[Lazy]) -> Lazy:
    source, axis = kernel.settled(operands[0]), op.axis.value
    shifted = _shifted(kernel, source, axis)
    powers = kernel.stored(_exponential(shifted))
    total = reduce_axes(kernel, powers, [axis], 0, add)
    return Computed(
        source.shape,
        source.element,
        lambda body, indices: store(
            body.arithmetic,
            source.element,
            body.arithmetic.div(body.at(powers, indices), body.at(total, _row(indices, axis))),
        ),
        1,
    )


@lowers("mgx.logsoftmax")
def logsoftmax(kernel: Kernel, op: Any, operands: Sequence[Lazy]) -> Lazy:
    source, axis = kernel.settled(operands[0]), op.axis.value
    shifted = _shifted(kernel, source, axis)
    total = reduce_axes(kernel, _exponential(shifted), [axis], 0, add)
    logarithm = kernel.stored(
        Computed(
            total.shape,
            total.element,
            lambda body, indices: body.arithmetic.math("log", body.at(total, indices)),
            4,
        )
    )
    return Computed(
        source.shape,
        source.element,
        lambda body, indices: store(
            body.arithmetic,
            source.element,
            body.arithmetic.sub(body.at(shifted, indices), body.at(logarithm, _row(indices, axis))),
        ),
        2,
    )


def _shifted(kernel: Kernel, source: Lazy, axis: int) -> Lazy:
    """x - max(x) along the axis, in the type where x is computed: its exponential is at most 1."""
    element = source.element.computed()
    peak = reduce_axes(kernel, source, [axis], lowest(element), maximum)

    def difference(body: Body, indices: Indices) -> ir.Value:
        value = load(body.arithmetic, source.element, body.at(source, indices))
        return body.arithmetic.sub(value, body.at(peak, _row(indices, axis)))

    return Computed(source.shape, element, difference, source.cost + 1)


def _exponential(source: Lazy) -> Lazy:
    return Computed(
        source.shape,
        source.element,
        lambda body, indices: body.arithmetic.math("exp", body.at(source, indices)),
        source.cost + 4,
    )


def _row(indices: Indices, axis: int) -> Indices:
    """Where a reduction along the axis keeps the result of these indices."""
    return tuple(i * 0 if d == axis else i for d, i in enumerate(indices))
