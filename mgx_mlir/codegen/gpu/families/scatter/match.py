"""Matches kernels that are scatters: from mgx ops to updates of slots, runs of elements."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.builders.places import Places, by_element, by_tuple
from mgx_mlir.codegen.gpu.families.family import anchor_of
from mgx_mlir.codegen.gpu.families.rows.match import Source
from mgx_mlir.codegen.loops.ops.sequential import SCATTER_ELEMENTS, SCATTER_SLICES
from mgx_mlir.codegen.meaning.element import Element, element_of
from mgx_mlir.codegen.problem.views import resolve, splat_constant
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.in_place import overwritable
from mgx_mlir.rewriting.symbolic import shape_of

# Sums of up to this number of points keep more bits than f32 has (see sums).
MAX_POINTS = 1 << 30


@dataclass(frozen=True)
class Scatter:
    """A copy of `x`, `slots` runs of `run` elements, with `updates` of `points` in it.

    kind: none, add, mul, min or max. `x` has elements as its inner index. `updates` has points as
    its outer index, and the elements of a run as its inner one. The result may be written over
    the inputs `overwritable`: only over x. single: along the axis there is one update, for each
    element of the other dimensions.
    """

    name: str
    kind: str
    element: Element
    places: Places
    slots: int
    run: int
    x: Source
    updates: MemoryOperand
    overwritable: frozenset[int]
    single: bool

    @property
    def points(self) -> int:
        return self.places.points

    @property
    def size(self) -> int:
        return self.slots * self.run

    @property
    def ordered(self) -> bool:
        """Whether updates are combined one after another: no integer atomic combines them."""
        element = self.element
        if self.kind == "none":
            return False
        wide = element.is_float and element.bits > 32
        return self.kind == "mul" or wide or element.is_byte_float or element.bits < 8


def match_scatter(kernel: mgx.KernelOp) -> Scatter | Refusal | None:
    """The kernel as a scatter, or why it does not match; None where it holds other work."""
    op = anchor_of(kernel, *SCATTER_ELEMENTS, *SCATTER_SLICES)
    if op is None or isinstance(op, Refusal):
        return op
    name, result = op.OPERATION_NAME, op.results[0]
    x, *others = op.operands
    views = [resolve(value) for value in others]
    shape, element = shape_of(result.type), element_of(result.type)
    source: Source | None = splat_constant(x)
    view = resolve(x)
    if view is not None:
        source = MemoryOperand.row(view, element)
    if source is None or None in views:
        return Refusal(f"{name}: an input that is no strided view")
    indices, updates = (view for view in views if view is not None)
    if 0 in updates.shape or 0 in indices.shape:
        return Refusal(f"{name}: no elements")
    single = False
    if isinstance(op, SCATTER_ELEMENTS):
        axis = op.axis.value % len(shape)
        places = by_element(indices, others[0].type, shape, axis)
        split = places.depth
        single = tuple(updates.shape) == (*shape[:axis], 1, *shape[axis + 1 :])
    else:
        places = by_tuple(indices, others[0].type, shape)
        split = len(indices.shape) - 1
    made = MemoryOperand.row(updates, element, split)
    slots, run = math.prod(shape[: places.depth]), math.prod(shape[places.depth :])
    over = overwritable(kernel)
    kind = name.rpartition("_")[2]
    found = Scatter(name, kind, element, places, slots, run, source, made, over, single)
    refusal = _refusal(found)
    return refusal.of(name) if refusal else found


def _refusal(scatter: Scatter) -> Refusal | None:
    if scatter.points * scatter.run >= MAX_POINTS:
        return Refusal(f"{scatter.points * scatter.run} updates")
    return None
