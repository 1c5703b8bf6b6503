"""The algebra of views: the elements of a tensor that a chain of view ops gives, and their order.

A view of a tensor in row-major order is an offset and, for each dimension, the strides with
which it moves through the tensor's elements:

    %t = mgx.transpose %x permutation = [1, 0] : tensor<4x5xf32> -> tensor<5x4xf32>

moves by 1 along its first dimension and by 5 along its second. A dimension may have several
factors, each a size and a stride, slowest first; a stride of 0 repeats elements. Views
compose by applying op after op. Two views are equal if their canonical forms are. A view can be
written as the shortest chain of ops that gives it, or undone by another chain.

Sizes of named dimensions (see mgx_mlir.sizes) may replace numbers, though types say int. A view
holds for all values of these sizes; where that cannot be proven, there is no view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cmp_to_key
from itertools import combinations, pairwise
from math import prod
from typing import Any, TypeVar

from mlir import ir
from typing_extensions import Self

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import is_named, shape_of
from mgx_mlir.sizes.arithmetic import Size, ceil_div, exact

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
            elif isinstance(have, Size):
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


# From ops to layouts ---------------------------------------------------------------------


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
    for axis, start, end in zip(op.axes, op.starts, op.ends, strict=True):
        if isinstance(layout.shape[axis], Size):
            if start < 0:
                return None
            end = start + shape[axis]
        found = found and found.sliced(axis, start, end)
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


# From layouts to ops ---------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """One view op to make: its name without 'mgx.', and its argument.

    'reshape' and 'multibroadcast' take a shape, 'transpose' a permutation, 'slice' the start
    and end of each dimension.
    """

    name: str
    argument: tuple[int, ...] | tuple[tuple[int, int], ...]


def changes(layout: Layout, source: Sequence[int]) -> list[Change] | None:
    """The view ops that give `layout` of a contiguous tensor of shape `source`.

    Reshape to the parts that the layout distinguishes, slice, transpose, reshape, broadcast,
    reshape; an op that changes nothing is left out. None where no such chain gives the layout
    (steps that do not divide a dimension, elements that overlap or run backwards).
    """
    if prod(layout.shape) == 0 or prod(source) == 0:
        return None
    few = layout.factors
    chains = [_chain(f, layout, list(source)) for f in (few, _at_dimensions(few, source))]
    return min((chain for chain in chains if chain is not None), key=len, default=None)


def _at_dimensions(factors: Factors, source: Sequence[int]) -> Factors:
    """The factors, split where a dimension of the source ends."""
    parted: list[Factor] = []
    for size, stride in factors:
        for end in row_major(source):
            if not stride >= 1:
                continue
            outer, inner = exact(size * stride, end), exact(end, stride)
            if outer not in (None, 1) and inner not in (None, 1):
                parted.append((outer, end))
                size = inner
        parted.append((size, stride))
    return tuple(parted)


def _chain(factors: Factors, layout: Layout, now: list[int]) -> list[Change] | None:
    """The ops from a tensor of shape `now`, through one dimension for each factor, to `layout`."""
    moving = _falling(f for f in factors if f[1] != 0)
    if moving is None or not all(stride >= 0 for _, stride in moving):
        return None
    parts = _parts(moving, layout.offset, prod(now))
    if parts is None:
        return None
    sizes, starts, counts = parts
    steps: list[Change] = []

    def reshape(shape: Sequence[int]) -> None:
        if list(shape) != now:
            steps.append(Change("reshape", tuple(shape)))
            now[:] = shape

    if counts != sizes:
        sizes, starts, counts = _joined(sizes, starts, counts, now)
        if any(isinstance(n, Size) for n in _bounds_that_cut(sizes, starts, counts)):
            return None
        reshape(sizes)
        bounds = tuple((a, a + n) for a, n in zip(starts, counts, strict=True))
        steps.append(Change("slice", bounds))
        now[:] = counts
    permutation = [moving.index(f) for f in factors if f[1] != 0]
    if permutation != sorted(permutation):
        shape = [size for size, _ in moving]
        wide = [i for i, size in enumerate(now) if size != 1]
        if [now[i] for i in wide] == shape:
            # The tensor already has these dimensions, and some of size 1.
            permutation = _padded([wide[i] for i in permutation], now, layout.shape)
        else:
            reshape(shape)
        steps.append(Change("transpose", tuple(permutation)))
        now[:] = [now[i] for i in permutation]
    spread = _spread(layout.shape, factors)
    if spread is not None:
        narrow, dims = spread
        if narrow != [1] * (len(narrow) - len(now)) + now:  # a broadcast adds dimensions itself
            reshape(narrow)
        steps.append(Change("multibroadcast", tuple(dims)))
        now[:] = dims
    reshape(layout.shape)
    return steps


def _falling(factors: Iterable[Factor]) -> list[Factor] | None:
    """Factors by falling stride; None where it is unknown which stride is larger."""
    found = list(factors)
    if not any(isinstance(stride, Size) for _, stride in found):
        return sorted(found, key=lambda f: -f[1])
    if not all(a[1] >= b[1] or b[1] >= a[1] for a, b in combinations(found, 2)):
        return None

    def order(a: Factor, b: Factor) -> int:
        if a[1] == b[1]:
            return 0
        return -1 if a[1] >= b[1] else 1

    return sorted(found, key=cmp_to_key(order))


def _bounds_that_cut(
    sizes: Sequence[int], starts: Sequence[int], counts: Sequence[int]
) -> Iterator[int]:
    """The starts and ends of a slice along the dimensions that it cuts."""
    for size, start, count in zip(sizes, starts, counts, strict=True):
        if (start, count) != (0, size):
            yield from (start, start + count)


def _parts(
    moving: Sequence[Factor], offset: int, elements: int
) -> tuple[list[int], list[int], list[int]] | None:
    """The sizes of the parts of the source that the factors, by falling stride, move along, with
    the start and the count of elements reached in each; parts without a factor have count 1."""
    sizes, starts, counts = [], [], []
    above = elements
    for size, stride in moving:
        have = exact(above, stride)
        start = 0 if offset < stride else offset // stride
        if have is None or not start + size <= have:
            return None
        sizes.append(have)
        starts.append(start)
        counts.append(size)
        offset -= start * stride
        above = stride
    if above != 1:
        sizes.append(above)
        starts.append(offset)
        counts.append(1)
    return sizes, starts, counts


def _joined(
    sizes: Sequence[int], starts: Sequence[int], counts: Sequence[int], shape: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """The parts with the tensor's own dimensions where both are the same but for ones."""
    wide = [i for i, size in enumerate(shape) if size != 1]
    if [shape[i] for i in wide] != list(sizes):
        return list(sizes), list(starts), list(counts)
    all_starts, all_counts = [0] * len(shape), [1] * len(shape)
    for i, start, count in zip(wide, starts, counts, strict=True):
        all_starts[i], all_counts[i] = start, count
    return list(shape), all_starts, all_counts


def _padded(wide: Sequence[int], shape: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """A permutation of dimensions that are not 1, extended by those that are 1: where `wanted`
    has ones, or in front."""
    ones = [i for i, size in enumerate(shape) if size == 1]
    if [size for size in wanted if size != 1] != [shape[i] for i in wide]:
        return [*ones, *wide]
    if len(wanted) != len(shape):
        return [*ones, *wide]
    left, right = iter(ones), iter(wide)
    return [next(left) if size == 1 else next(right) for size in wanted]


def _spread(shape: Sequence[int], factors: Factors) -> tuple[list[int], list[int]] | None:
    """The shapes before and after the broadcast that repeats elements, None without one."""
    if all(stride != 0 for _, stride in factors):
        return None
    # By the result's own dimensions where each of them repeats as a whole or not at all.
    by_dimension = Layout(0, (factors,)).reshaped(shape)
    if by_dimension is not None:
        repeats = [{stride == 0 for size, stride in dim if size != 1} for dim in by_dimension.dims]
        if all(len(kinds) < 2 for kinds in repeats):
            pairs = zip(repeats, shape, strict=True)
            return [1 if True in kinds else size for kinds, size in pairs], list(shape)
    return [size if stride != 0 else 1 for size, stride in factors], [size for size, _ in factors]


def inverse(layout: Layout, source: Sequence[int]) -> Layout | None:
    """The view of `layout`'s result that gives back its source, of that shape.

    None where an element of the source occurs twice or not at all, or where strides cannot
    express how its shape splits the elements.
    """
    if layout.offset or prod(layout.shape) != prod(source):
        return None
    falling = _falling(layout.factors)
    if falling is None or not all(stride >= 1 for _, stride in falling):
        return None  # and so the smallest is 1: the sizes' product is the source's
    if any(outer[1] != inner[0] * inner[1] for outer, inner in pairwise(falling)):
        return None
    steps = row_major([size for size, _ in layout.factors])
    place = dict(zip(layout.factors, steps, strict=True))
    back = Layout(0, tuple(((size, place[size, stride]),) for size, stride in falling))
    return back.reshaped(source)
