"""Reductions, one nest each, the reduced loops innermost: reduce_*, argmax, argmin, softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import get_args

from mlir import ir

from mgx_mlir.codegen.loops.body import Body, Indices, Lazy
from mgx_mlir.codegen.loops.kernel import Kernel, lowers
from mgx_mlir.codegen.loops.value import Computed, reshape
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import load, store
from mgx_mlir.codegen.meaning.element import Element
from mgx_mlir.codegen.meaning.index import Index
from mgx_mlir.codegen.meaning.reducers import SUM, ArgReducer, Fold, Reduction, lowest, reducer_of
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number


def accumulate(
    kernel: Kernel,
    extents: Sequence[Number],
    parallel: int,
    element: Element,
    term: Callable[[Body, Indices], ir.Value],
    fold: Fold = SUM,
    neighbours: bool = False,
) -> Lazy:
    """Combines terms over the loops after the first `parallel`, whose extents are the result's
    shape.

    term: one term, of the type `element`, which is a type of arithmetic. neighbours: as in
    Kernel.generic.
    """
    initial, combined = fold
    start = kernel.filled(extents[:parallel], element, initial)

    def emit(body: Body, dims: Indices) -> list[ir.Value]:
        return [term(body, dims)]

    def combine(
        a: Arithmetic, total: Sequence[ir.Value], more: Sequence[ir.Value]
    ) -> list[ir.Value]:
        return [combined(a, element, total[0], more[0])]

    return kernel.generic(extents, parallel, [start], emit, combine, neighbours)[0]


def reduce_axes(
    kernel: Kernel,
    source: Lazy,
    axes: Sequence[int],
    fold: Fold = SUM,
) -> Lazy:
    """A reduction along axes, which keep size 1, in the type where the source is computed."""
    shape, element = source.shape, source.element.computed()
    kept = [d for d in range(len(shape)) if d not in set(axes)]
    order = kept + sorted(set(axes))

    def term(body: Body, dims: Indices) -> ir.Value:
        found: dict[int, Index] = dict(zip(order, dims, strict=True))
        value = body.at(source, [found[d] for d in range(len(shape))])
        return load(body.arithmetic, source.element, value)

    extents = [shape[d] for d in order]
    result = accumulate(kernel, extents, len(kept), element, term, fold)
    return reshape(result, [1 if d in set(axes) else n for d, n in enumerate(shape)])


def rounded(source: Lazy, element: Element) -> Lazy:
    """A value in the type where `element` is computed, converted to `element`."""
    if source.element == element:
        return source
    return Computed(
        source.shape,
        element,
        lambda body, indices: store(body.arithmetic, element, body.at(source, indices)),
        source.cost,
    )


@lowers(*get_args(Reduction))
def reduction(kernel: Kernel, op: Reduction, operands: Sequence[Lazy]) -> Lazy:
    source, reducer = operands[0], reducer_of(op)

    def value_of(body: Body, indices: Indices) -> ir.Value:
        a, (value,) = _together(body, body.at(source, indices))
        return reducer.term(a, value)

    terms = Computed(source.shape, reducer.accumulator, value_of, source.cost)
    total = reduce_axes(kernel, terms, list(op.axes), (reducer.initial, reducer.combined))
    if reducer.accumulator == source.element and not reducer.count:
        return total

    def finished(body: Body, indices: Indices) -> ir.Value:
        a, (value,) = _together(body, body.at(total, indices))
        return reducer.finish(a, value)

    return Computed(total.shape, source.element, finished, 1)


def _together(body: Body, *values: ir.Value) -> tuple[Arithmetic, list[ir.Value]]:
    """Values of one shape, and the arithmetic for them: neighbours may share one number."""
    own = body.together(values)
    is_one = not isinstance(own[0].type, ir.VectorType)
    return Arithmetic() if is_one else body.arithmetic, own


@lowers(mgx.ArgmaxOp, mgx.ArgminOp)
def arg(kernel: Kernel, op: mgx.ArgmaxOp | mgx.ArgminOp, operands: Sequence[Lazy]) -> Lazy:
    """Reduces the value and its index together."""
    source, axis, reducer = operands[0], op.axis.value, ArgReducer.of(op)
    target, rank = reducer.index, len(source.shape)
    kept = [d for d in range(rank) if d != axis]
    extents = [*(source.shape[d] for d in kept), source.shape[axis]]
    starts = [
        kernel.filled(extents[:-1], element, start)
        for element, start in zip((source.element.computed(), target), reducer.initial, strict=True)
    ]

    def emit(body: Body, dims: Indices) -> list[ir.Value]:
        where = (*dims[:axis], dims[-1], *dims[axis:-1])
        a, (value,) = _together(body, body.at(source, where))
        return [load(a, source.element, value), body.number(dims[-1], target)]

    def combine(
        a: Arithmetic, best: Sequence[ir.Value], more: Sequence[ir.Value]
    ) -> Sequence[ir.Value]:
        return reducer.combine(a, (best[0], best[1]), (more[0], more[1]))

    results = kernel.generic(extents, len(kept), starts, emit, combine)
    shape = [1 if d == axis else n for d, n in enumerate(source.shape)]
    return reshape(results[1], shape)


@lowers(mgx.SoftmaxOp)
def softmax(kernel: Kernel, op: mgx.SoftmaxOp, operands: Sequence[Lazy]) -> Lazy:
    source, axis = kernel.settled(operands[0]), op.axis.value
    shifted = _shifted(kernel, source, axis)
    powers = kernel.stored(_exponential(shifted))
    total = reduce_axes(kernel, powers, [axis])

    def share(body: Body, indices: Indices) -> ir.Value:
        a, (x, y) = _together(body, body.at(powers, indices), body.at(total, _row(indices, axis)))
        return store(a, source.element, a.share(x, y))

    return Computed(source.shape, source.element, share, 1)


@lowers(mgx.LogsoftmaxOp)
def logsoftmax(kernel: Kernel, op: mgx.LogsoftmaxOp, operands: Sequence[Lazy]) -> Lazy:
    source, axis = kernel.settled(operands[0]), op.axis.value
    shifted = _shifted(kernel, source, axis)
    total = reduce_axes(kernel, _exponential(shifted), [axis])
    logarithm = kernel.stored(_math("log", total))

    def difference(body: Body, indices: Indices) -> ir.Value:
        own = body.at(shifted, indices), body.at(logarithm, _row(indices, axis))
        a, (x, y) = _together(body, *own)
        return store(a, source.element, a.sub(x, y))

    return Computed(source.shape, source.element, difference, 2)


def _shifted(kernel: Kernel, source: Lazy, axis: int) -> Lazy:
    """x - max(x) along the axis, in the type where x is computed: its exponential is at most 1."""
    element = source.element.computed()
    row_maximum = reduce_axes(kernel, source, [axis], (lowest(element), Arithmetic.maximum))

    def difference(body: Body, indices: Indices) -> ir.Value:
        own = body.at(source, indices), body.at(row_maximum, _row(indices, axis))
        a, (x, y) = _together(body, *own)
        return a.sub(load(a, source.element, x), y)

    return Computed(source.shape, element, difference, source.cost + 1)


def _exponential(source: Lazy) -> Lazy:
    return _math("exp", source)


def _math(name: str, source: Lazy) -> Lazy:
    """A function of each element, in the type where it is computed."""

    def value_of(body: Body, indices: Indices) -> ir.Value:
        a, (value,) = _together(body, body.at(source, indices))
        return a.math(name, value)

    return Computed(source.shape, source.element, value_of, source.cost + 4)


def _row(indices: Indices, axis: int) -> Indices:
    """The indices at which a reduction along the axis keeps its result."""
    return tuple(i * 0 if d == axis else i for d, i in enumerate(indices))
