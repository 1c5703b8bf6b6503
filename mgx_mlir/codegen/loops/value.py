"""Tensors that are not in memory yet: a rule gives each element where it is read.

Views and pointwise ops only compose such rules, so a chain of them costs one loop nest: that of
the op that reads the result. `cost` counts the arithmetic of one read. An op that reads an element
many times puts a costly value into memory first (`Kernel.settled`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from mgx_mlir.codegen.loops.body import Body, Held, Indices, Lazy
from mgx_mlir.codegen.meaning.element import Element
from mgx_mlir.codegen.meaning.index import Index, delinear, linear
from mgx_mlir.sizes.arithmetic import Number, exact


class LazyView(Lazy):
    """A view of another value; `where` maps the view's indices to those of the value."""

    def __init__(
        self, source: Lazy, shape: Sequence[Number], where: Callable[[Indices], Indices]
    ) -> None:
        super().__init__(shape, source.element, source.cost)
        self.source, self.where = source, where

    def read(self, body: Body, indices: Indices) -> ir.Value:
        return body.at(self.source, self.where(indices))


class Reshaped(LazyView):
    """The elements of another value in row-major order, in another shape."""

    def __init__(self, source: Lazy, shape: Sequence[Number]) -> None:
        super().__init__(source, shape, lambda i: _reshaped_indices(i, tuple(shape), source.shape))


class Computed(Lazy):
    """A value whose elements `rule` computes."""

    def __init__(
        self,
        shape: Sequence[Number],
        element: Element,
        rule: Callable[[Body, Indices], ir.Value],
        cost: int,
    ) -> None:
        super().__init__(shape, element, cost)
        self._rule = rule

    def read(self, body: Body, indices: Indices) -> ir.Value:
        with self.location:
            return self._rule(body, indices)


def reshape(source: Lazy, shape: Sequence[Number]) -> Lazy:
    """The same elements in another shape; a tensor in memory keeps its memory."""
    shape = tuple(shape)
    if source.shape == shape:
        return source
    if isinstance(source, Held):
        return Held(source.place, shape, source.element, source.owned)
    if isinstance(source, Reshaped):
        return reshape(source.source, shape)
    return Reshaped(source, shape)


def _groups(a: Sequence[Number], b: Sequence[Number]) -> list[tuple[list[int], list[int]]]:
    """The finest split of two shapes of one size into runs of dimensions of equal size.

    Where sizes are formulas, the split is as fine as can be proven.
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        left, right = [i], [j]
        size_a, size_b = a[i], b[j]
        i, j = i + 1, j + 1
        while size_a != size_b and (i < len(a) or j < len(b)):
            if i < len(a) and (j == len(b) or _is_part(size_a, size_b)):
                size_a = size_a * a[i]
                left.append(i)
                i += 1
            else:
                size_b = size_b * b[j]
                right.append(j)
                j += 1
        groups.append((left, right))
    # A remaining dimension has size 1 and joins the last run.
    if i < len(a) or j < len(b):
        if not groups:
            groups.append(([], []))
        groups[-1][0].extend(range(i, len(a)))
        groups[-1][1].extend(range(j, len(b)))
    return groups


def _is_part(a: Number, b: Number) -> bool:
    """Whether a run of size a must grow to match one of size b."""
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    return exact(b, a) is not None or exact(a, b) is None


def _reshaped_indices(
    indices: Indices, shape: tuple[Number, ...], source: tuple[Number, ...]
) -> Indices:
    if 0 in shape:
        return tuple(Index(()) for _ in source)
    result: list[Index] = []
    for left, right in _groups(source, shape):
        position = linear([indices[d] for d in right], [shape[d] for d in right])
        result.extend(delinear(position, [source[d] for d in left]))
    return tuple(result)
