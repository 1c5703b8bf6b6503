"""Which kernels are scatters: from mgx ops to points, the slots they name, and runs of elements.

A point names a slot of the result, and updates the run of neighbours there:

    mgx.scatternd_add %x[%i], %u : tensor<9x4xf32>, tensor<5x1xi64>, tensor<5x4xf32>

has 5 points, 9 slots, and runs of 4 elements. Without a last dimension that indices leave
alone, runs have one element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir import ir

from mgx_mlir.codegen.contraction.problem import Axis
from mgx_mlir.codegen.contraction.views import View, resolve, splat_constant
from mgx_mlir.codegen.gpu.family import anchor_of
from mgx_mlir.codegen.gpu.operands import Operand
from mgx_mlir.codegen.gpu.rows.match import Source
from mgx_mlir.codegen.lowering.element import Element, element_of
from mgx_mlir.views import row_major

NAMES = frozenset(
    f"mgx.{op}_{kind}"
    for op in ("scatter", "scatternd")
    for kind in ("none", "add", "mul", "min", "max")
)
# Sums of so many numbers keep more bits than f32 has (see sums).
MAX_POINTS = 1 << 30


@dataclass(frozen=True)
class Coordinate:
    """What `indices` say of a point: one of `size`, each `step` slots further."""

    indices: Operand
    size: int
    step: int


@dataclass(frozen=True)
class Scatter:
    """A copy of `x`, `slots` runs of `run` elements, with `updates` of `points` in it.

    kind: none, add, min or max. A point's slot is that of `base` and of `coordinates`
    together. `x` has elements as its inner index; `updates` has points as its outer one, and
    its inner one runs along.
    """

    name: str
    kind: str
    element: Element
    points: int
    slots: int
    run: int
    base: Axis
    coordinates: tuple[Coordinate, ...]
    x: Source
    updates: Operand

    @property
    def size(self) -> int:
        return self.slots * self.run


def match_scatter(kernel: ir.OpView) -> Scatter | str:
    """The kernel as a scatter, or why it is none; '' where it holds other work."""
    op = anchor_of(kernel, NAMES)
    if isinstance(op, str):
        return op
    name, result = op.operation.name, op.operation.results[0]
    x, *others = op.operation.operands
    views = [resolve(value) for value in others]
    shape = tuple(result.type.shape)
    constant, view = splat_constant(x), resolve(x)
    if (constant is None and view is None) or None in views:
        return f"{name}: an input that is no strided view"
    indices, updates = (view for view in views if view is not None)
    if 0 in updates.shape or 0 in indices.shape:
        return f"{name}: no elements"
    element, kind = element_of(result.type), name.rpartition("_")[2]
    index = element_of(others[0].type)
    if name.startswith("mgx.scatternd"):
        depth = indices.shape[-1]
        base = Axis(())
        steps = row_major(shape[:depth])
        points = indices.axis(0, len(indices.shape) - 1)
        last = indices.axis(len(indices.shape) - 1, len(indices.shape))
        places = [indices.offset + last.offset(number) for number in range(depth)]
        named = zip(places, shape[:depth], steps, strict=True)
        split = len(indices.shape) - 1
    else:
        axis = op.axis.value % len(shape)
        split = depth = _named(indices, shape, axis)
        steps = row_major(shape[:depth])
        base = Axis.of(
            *((n, 0 if d == axis else steps[d]) for d, n in enumerate(indices.shape[:depth]))
        )
        points = indices.axis(0, depth)
        named = zip([indices.offset], [shape[axis]], [steps[axis]], strict=True)
    coordinates = tuple(
        Coordinate(Operand(indices.argument, index, place, Axis(()), points), size, step)
        for place, size, step in named
    )
    source: Source = constant
    if view is not None:
        source = Operand(view.argument, element, view.offset, Axis(()), view.axis(0, len(shape)))
    made = Operand(
        updates.argument,
        element,
        updates.offset,
        updates.axis(0, split),
        updates.axis(split, len(updates.shape)),
    )
    count = math.prod(updates.shape[:split])
    slots, run = math.prod(shape[:depth]), math.prod(shape[depth:])
    found = Scatter(name, kind, element, count, slots, run, base, coordinates, source, made)
    refusal = _refusal(found)
    return f"{name}: {refusal}" if refusal else found


def _named(indices: View, shape: tuple[int, ...], axis: int) -> int:
    """How many dimensions of the result a point names: the others are whole runs."""
    depth = len(shape)
    while depth > axis + 1:
        repeated = all(stride == 0 for size, stride in indices.dims[depth - 1] if size != 1)
        if not repeated or indices.shape[depth - 1] != shape[depth - 1]:
            break
        depth -= 1
    return depth


def _refusal(scatter: Scatter) -> str:
    element, kind = scatter.element, scatter.kind
    if scatter.points * scatter.run >= MAX_POINTS:
        return f"{scatter.points * scatter.run} updates"
    if kind == "none":
        return ""
    if element.is_byte_float or element.bits < 8:
        return f"elements of type {element.name}"
    if kind == "mul":
        return "there is no atomic product"
    if element.is_float and element.bits > 32:
        return "64-bit floats are combined in order"
    return ""
