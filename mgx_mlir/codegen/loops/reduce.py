"""Reductions as one nest: parallel loops outside, reduction loops innermost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from mgx_mlir.codegen.loops.body import Body, Indices, Lazy
from mgx_mlir.codegen.loops.kernel import Kernel
from mgx_mlir.codegen.loops.value import Computed, reshape
from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.convert import load, store
from mgx_mlir.codegen.meaning.element import Element
from mgx_mlir.codegen.meaning.index import Index
from mgx_mlir.codegen.meaning.reducers import SUM, Fold
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
    element: Element | None = None,
) -> Lazy:
    """A reduction along axes, which keep size 1, in the type where the source is computed."""
    shape, element = source.shape, element or source.element.computed()
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
