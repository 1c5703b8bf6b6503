"""Slots that indices name: each point of the indices names one slot of a tensor.

A slot is a run of neighbours of a tensor; its first dimensions number the slots:

    mgx.gathernd %x[%i] : tensor<9x4xf32>, tensor<5x1xi64>

has 5 points, 9 slots, and runs of 4 elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.problem.views import View
from mgx_mlir.rewriting.views import row_major


@dataclass(frozen=True)
class Coordinate:
    """One coordinate of a point, read from `indices`: one of `size`, which lie `step` slots
    apart."""

    indices: MemoryOperand
    size: int
    step: int


@dataclass(frozen=True)
class Places:
    """The slots of `points`: the sum of `base` and of the `coordinates`.

    depth: the number of the tensor's first dimensions that number the slots.
    """

    points: int
    base: Axis
    coordinates: tuple[Coordinate, ...]
    depth: int

    @property
    def argument(self) -> int:
        """The number of the input that the indices are in."""
        return self.coordinates[0].indices.argument

    def slot(self, indices: ir.Value, point: Index) -> Index:
        """The slot that a point names; `indices` is their buffer."""
        slot = self.base.offset(point)
        for coordinate in self.coordinates:
            operand = coordinate.indices
            read = operand.load_one(indices, operand.offset_of(operand.start(0), point))
            chosen = emit.named_index(read, coordinate.size)
            slot = emit.add(slot, emit.mul(chosen, coordinate.step))
        return slot


def by_element(indices: View, type_: ir.Type, shape: Sequence[int], axis: int) -> Places:
    """Indices along `axis`, one for each element of their own shape.

    Dimensions after the axis that are whole, and have one index for all elements, make runs.
    """
    depth = len(shape)
    while depth > axis + 1:
        repeated = all(stride == 0 for size, stride in indices.dims[depth - 1] if size != 1)
        if not repeated or indices.shape[depth - 1] != shape[depth - 1]:
            break
        depth -= 1
    steps = row_major(shape[:depth])
    own = [(n, 0 if d == axis else steps[d]) for d, n in enumerate(indices.shape[:depth])]
    operand = _operand(indices, type_, indices.offset, indices.axis(0, depth))
    coordinate = Coordinate(operand, shape[axis], steps[axis])
    return Places(math.prod(indices.shape[:depth]), Axis.of(*own), (coordinate,), depth)


def by_tuple(indices: View, type_: ir.Type, shape: Sequence[int], batch: int = 0) -> Places:
    """Index tuples: the last dimension of the indices has one index for each dimension of the
    tensor after the `batch` ones."""
    *outer, count = indices.shape
    depth = batch + count
    steps = row_major(shape[:depth])
    own = [(n, steps[d] if d < batch else 0) for d, n in enumerate(outer)]
    points, last = indices.axis(0, len(outer)), indices.axis(len(outer), len(outer) + 1)
    places = [indices.offset + last.distance(number) for number in range(count)]
    coordinates = tuple(
        Coordinate(_operand(indices, type_, place, points), shape[batch + n], steps[batch + n])
        for n, place in enumerate(places)
    )
    return Places(math.prod(outer), Axis.of(*own), coordinates, depth)


def by_slice(indices: View, type_: ir.Type, shape: Sequence[int], axis: int) -> Places:
    """Indices along `axis`, combined with all positions of the dimensions before it."""
    before, chosen = math.prod(shape[:axis]), math.prod(indices.shape)
    factors = indices.axis(0, len(indices.shape)).factors
    operand = _operand(indices, type_, indices.offset, Axis.of((before, 0), *factors))
    base = Axis.of((before, shape[axis]), (chosen, 0))
    return Places(before * chosen, base, (Coordinate(operand, shape[axis], 1),), axis + 1)


def _operand(indices: View, type_: ir.Type, offset: int, points: Axis) -> MemoryOperand:
    return MemoryOperand(indices.argument, element_of(type_), offset, Axis(()), points)
