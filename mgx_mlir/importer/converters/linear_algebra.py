"""Determinants and inverses, by elimination with the largest pivot of each column."""

from __future__ import annotations

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.converters.microsoft import contributed
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator

# Each column becomes ops of its own.
_MAX_SIZE = 64


@operator("Det", (11, 22), "argmax gather_elements where mul sub div reduce_sum")
def det(node: Node) -> ir.Value:
    """The product of the pivots; each swap of rows changes its sign."""
    x = node.tensor(0)
    rank, size = tensors.rank(x), _size(x)
    rows, element = emit.convert(x, "f32"), tensors.element(x)
    total = None
    for place in range(size):
        step = _Step(node, rows, place)
        sign = emit.where(step.swaps, -1, emit.like(step.pivot, 1))
        factor = mgx.mul(step.pivot, sign)
        total = factor if total is None else mgx.mul(total, factor)
        zero = mgx.equal(step.pivot, emit.like(step.pivot, 0))
        rows = step.eliminated(emit.where(zero, 1, step.pivot), step.below)
    assert total is not None
    return emit.convert(emit.squeeze(total, [rank - 2, rank - 1]), element)


@contributed("Inverse", "argmax where mul sub div reduce_sum concat")
def inverse(node: Node) -> ir.Value:
    """Gauss-Jordan elimination on [x, identity]: the right half becomes the inverse."""
    x = node.tensor(0)
    rank, size = tensors.rank(x), _size(x)
    identity = emit.broadcast(node.make(np.eye(size, dtype=np.float32)), tensors.dims(x))
    rows = emit.concat([emit.convert(x, "f32"), identity], rank - 1)
    for place in range(size):
        step = _Step(node, rows, place)
        rows = step.eliminated(step.pivot, step.others)
        here = node.make((np.arange(size) == place)[:, None])
        rows = emit.where(here, emit.div(rows, step.pivot), rows)
    return emit.convert(emit.take(rows, rank - 1, size, 2 * size), tensors.element(x))


def _size(x: ir.Value) -> int:
    rows, columns = (tensors.size_of(x, axis, "the size of its matrices") for axis in (-2, -1))
    if rows != columns or not 1 <= rows <= _MAX_SIZE:
        raise UnsupportedError(
            f"matrices of {rows} by {columns}; up to {_MAX_SIZE} by {_MAX_SIZE} are supported"
        )
    return rows


class _Step:
    """One column: the row with its largest element swapped with row number `place`.

    `swaps` (..., 1, 1) says whether that is another row. `pivot` (..., 1, 1) is the element.
    """

    def __init__(self, node: Node, rows: ir.Value, place: int) -> None:
        rank = tensors.rank(rows)
        self.rows_axis = rank - 2
        size = tensors.size_of(rows, -2, "the size of its matrices")
        numbers = np.arange(size)[:, None]
        self.below = node.make(numbers > place)
        self.others = node.make(numbers != place)
        self._place = place
        column = emit.take(rows, rank - 1, place, place + 1)
        candidates = emit.where(node.make(numbers < place), -1, mgx.abs(column))
        best = mgx.argmax(candidates, self.rows_axis)
        self.swaps = mgx.not_(mgx.equal(best, emit.like(best, place)))
        is_best = emit.binary(mgx.equal, best, node.make(numbers))
        best_row = mgx.reduce_sum(emit.where(is_best, rows, 0), [self.rows_axis])
        row = emit.take(rows, self.rows_axis, place, place + 1)
        swapped = emit.where(is_best, row, rows)
        self._rows = emit.where(self.others, swapped, best_row)
        self._row = best_row
        self.pivot = emit.take(best_row, rank - 1, place, place + 1)

    def eliminated(self, pivot: ir.Value, chosen: ir.Value) -> ir.Value:
        """The rows, with the element in the column eliminated where `chosen`."""
        last = self.rows_axis + 1
        column = emit.take(self._rows, last, self._place, self._place + 1)
        factors = emit.where(chosen, emit.div(column, pivot), 0)
        return mgx.sub(self._rows, emit.mul(factors, self._row))
