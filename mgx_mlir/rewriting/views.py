"""The algebra of views: the elements of a tensor that a chain of view ops gives, and their order.

A view of a tensor in row-major order is an offset and, for each dimension, the strides with
which it moves through the tensor's elements:

    %t = mgx.transpose %x permutation = [1, 0] : tensor<4x5xf32> -> tensor<5x4xf32>

moves by 1 along its first dimension and by 5 along its second. A dimension may have several
factors, each a size and a stride, slowest first; a stride of 0 repeats elements. Views
compose by applying op after op. Two views are equal if their canonical forms are.
mgx_mlir.rewriting.view_chains writes a view as ops.

Sizes of named dimensions (see mgx_mlir.sizes) may replace numbers, though types say int. A view
holds for all values of these sizes; where that cannot be proven, there is no view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeVar

from mlir import ir
from typing_extensions import Self

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import is_named, shape_of
from mgx_mlir.sizes.arithmetic import ceil_div, exact

# (size, stride) of a part of one dimension.
Factor = tuple[int, int]
Factors = tuple[Factor, ...]

L = TypeVar("L", bound="Layout")


@dataclass(frozen=True)
class Layout:
    """Element [0, ...] is element `offset` of the source; `dims` has each dimension's factors."""

    offset: int
    dims: tuple[Factors, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(prod(size for size, _ in dim) for dim in self.dims)

    @property
    def factors(self) -> Factors:
        """The factors of all dimensions, as few as possible: reshapes do not change them."""
        flat = [factor for dim in self.dims for factor in dim if factor[0] != 1]
        merged: list[Factor] = []
        for size, stride in flat:
            if merged and merged[-1][1] == size * stride:
                merged[-1] = (merged[-1][0] * size, stride)
            else:
                merged.append((size, stride))
        return tuple(merged)

    def reshaped(self, shape: Sequence[int]) -> Self | None:
        """The elements in row-major order in another shape; None where that needs a copy."""
        if 0 in shape:  # no elements, in any order
            return replace(self, dims=tuple(((size, 0),) for size in shape))
        rest = list(reversed(self.factors))
        dims: list[Factors] = []
        for size in shape:
            dim: list[Factor] = []
            while size != 1:
                if not rest:
                    return None
                have, stride = rest.pop()
                if (left := exact(size, have)) is not None:
                    dim.append((have, stride))
                    size = left
                elif (more := exact(have, size)) is not None:
                    dim.append((size, stride * more))
                    rest.append((more, stride))
                    size = 1
                else:
                    return None
            dims.append(tuple(dim) or ((size, 0),))
        return replace(self, dims=tuple(dims))

    def transposed(self, permutation: Sequence[int]) -> Self:
        return replace(self, dims=tuple(self.dims[i] for i in permutation))

    def expanded(self, shape: Sequence[int], at: int) -> Self | None:
        """The view with its dimensions as dimensions `at` .. of `shape`, repeated as needed.

        None where it is not known whether a size is 1.
        """
        dims: list[Factors] = [((size, 0),) for size in shape]
        for i, (have, dim) in enumerate(zip(self.shape, self.dims, strict=True)):
            if have == shape[at + i]:
                dims[at + i] = dim
            elif have != 1:
                return None
        return replace(self, dims=tuple(dims))

    def sliced(self, axis: int, start: int, end: int, step: int = 1) -> Self | None:
        """Elements start, start + step, ... before `end` of one dimension."""
        dim = self.dims[axis]
        inner = prod(size for size, _ in dim[1:])
        if start == 0 and step == 1 and end == inner * dim[0][0]:
            return self
        # With several factors, only whole blocks of the slowest one can be taken.
        first, last = exact(start, inner), exact(end, inner)
        if first is None or last is None or (len(dim) > 1 and step != 1):
            return None
        (_, stride), *others = dim
        part = (ceil_div(last - first, step), stride * step)
        dims = (*self.dims[:axis], (part, *others), *self.dims[axis + 1 :])
        return replace(self, offset=self.offset + first * stride, dims=dims)

    def picked(self, axis: int, places: Sequence[int]) -> Self | None:
        """The elements at the indices `places` of one dimension; None without strides for them."""
        factors = _nest(places)
        if len(self.dims[axis]) > 1 or factors is None:
            return None
        ((_, stride),) = self.dims[axis]
        dim = tuple((size, step * stride) for size, step in factors)
        dims = (*self.dims[:axis], dim or ((1, 0),), *self.dims[axis + 1 :])
        return replace(self, offset=self.offset + places[0] * stride, dims=dims)

    def reversed(self, axis: int) -> Self:
        dim = self.dims[axis]
        offset = self.offset + sum((size - 1) * stride for size, stride in dim)
        negated = tuple((size, -stride) for size, stride in dim)
        return replace(
            self, offset=offset, dims=(*self.dims[:axis], negated, *self.dims[axis + 1 :])
        )


def whole(shape: Sequence[int]) -> Layout:
    """The layout of a contiguous tensor itself."""
    strides = row_major(shape)
    return Layout(0, tuple(((size, step),) for size, step in zip(shape, strides, strict=True)))


def _nest(places: Sequence[int]) -> list[Factor] | None:
    """Factors whose strides visit the indices in order, from the first one; None without."""
    factors: list[Factor] = []
    while len(places) > 1:
        step = places[1] - places[0]
        runs = (n for n in range(2, len(places)) if places[n] - places[n - 1] != step)
        size = next(runs, len(places))
        starts = places[::size]
        if len(places) % size:
            return None
        if any(place != starts[n // size] + n % size * step for n, place in enumerate(places)):
            return None
        factors.insert(0, (size, step))
        places = starts
    return factors


def row_major(shape: Sequence[int]) -> list[int]:
    """The strides of a contiguous tensor."""
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    return strides


def is_view(op: ir.OpView | ir.Operation | None) -> bool:
    """Whether an op is a view of a tensor whose sizes have values or names."""
    if op is None:
        return False
    view = op.opview
    if not isinstance(view, mgx.RESHAPES) and type(view) not in _APPLY:
        return False
    return is_named(view.operands[0].type) and is_named(view.results[0].type)


def apply(layout: L, op: ir.OpView | ir.Operation) -> L | None:
    """The layout of a view op's result, given its operand's; None where strides cannot give it."""
    view = op.opview
    shape = shape_of(view.results[0].type)
    if isinstance(view, mgx.RESHAPES):
        return layout.reshaped(shape)
    found: L | None = _APPLY[type(view)](layout, view, shape)
    return found


def trace(value: ir.Value) -> tuple[ir.Value, Layout, list[type[ir.OpView]]]:
    """The source of a chain of views, the layout of `value` in it, and the classes of its ops.

    The chain goes up as far as strides can express it.
    """
    chain: list[ir.OpView] = []
    top = value
    while not isinstance(top.owner, ir.Block) and is_view(top.owner):
        chain.insert(0, top.owner.opview)
        top = chain[0].operands[0]
    while True:
        layout = whole(shape_of(top.type))
        for number, op in enumerate(chain):
            after = apply(layout, op)
            if after is None:
                # The operand of this op must be in memory; or its result, where strides cannot
                # express a view of the whole tensor.
                top = op.operands[0] if number else op.results[0]
                chain = chain[number or 1 :]
                break
            layout = after
        else:
            return top, layout, [type(op) for op in chain]


def _transpose(layout: L, op: mgx.TransposeOp, _: Sequence[int]) -> L | None:
    return layout.transposed(list(op.permutation))


def _multibroadcast(layout: L, op: mgx.MultibroadcastOp, shape: Sequence[int]) -> L | None:
    return layout.expanded(shape, len(shape) - len(layout.dims))


def _broadcast(layout: L, op: mgx.BroadcastOp, shape: Sequence[int]) -> L | None:
    return layout.expanded(shape, op.axis.value)


def _slice(layout: L, op: mgx.SliceOp, shape: Sequence[int]) -> L | None:
    found: L | None = layout
    for axis, start in zip(op.axes, op.starts, strict=True):
        found = found and found.sliced(axis, start, start + shape[axis]) if start >= 0 else None
    return found


def _step(layout: L, op: mgx.StepOp, _: Sequence[int]) -> L | None:
    found: L | None = layout
    for axis, step in zip(op.axes, op.steps, strict=True):
        found = found and found.sliced(axis, 0, layout.shape[axis], step)
    return found


def _reverse(layout: L, op: mgx.ReverseOp, _: Sequence[int]) -> L | None:
    for axis in op.axes:
        layout = layout.reversed(axis)
    return layout


_APPLY: dict[type[ir.OpView], Callable[..., Any]] = {
    mgx.BroadcastOp: _broadcast,
    mgx.MultibroadcastOp: _multibroadcast,
    mgx.ReverseOp: _reverse,
    mgx.SliceOp: _slice,
    mgx.StepOp: _step,
    mgx.TransposeOp: _transpose,
}
