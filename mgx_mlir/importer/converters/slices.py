"""Slice, with sizes that are known, and with sizes that are formulas of the inputs' sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, OpenError
from mgx_mlir.importer import emit, tensors, trips
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.rewriting.symbolic import OPEN_END
from mgx_mlir.sizes.arithmetic import Number, alone, bounds, maximum, minimum
from mgx_mlir.sizes.cases import Case, plain

# A place of a slice, where comparisons of sizes may decide which.
Bound: TypeAlias = "Number | Case"
# Exporters write this for the end of a dimension, where indices have 32 bits.
_INT_MAX = (1 << 31) - 1
# Exporters write this and more for the end of a dimension too, which is shorter (JAX: 1000000000).
_ALL = 1 << 28
# A slice of fewer elements has so many, whatever the dimension's size; one of more is a window,
# and all of a smaller dimension.
_LEAST_WINDOW = 16


@operator("Slice", (1, 13), "slice reverse step")
def slice_(node: Node) -> ir.Value:
    """Starts, ends, axes are attributes before version 10, inputs since."""
    x = node.tensor(0)
    if node.version < 10:
        starts, ends = list(node.attribute("starts")), list(node.attribute("ends"))
        stated = node.attribute("axes")
        steps = [1] * len(starts)
    else:
        if node.known(1) is None or node.known(2) is None:
            return _sliced_by_size(node)
        starts, ends = node.integers(1, "starts"), node.integers(2, "ends")
        stated = node.integers(3, "axes") if node.given(3) else None
        steps = node.integers(4, "steps") if node.given(4) else [1] * len(starts)
    axes = list(range(len(starts))) if stated is None else list(stated)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ModelError("starts, ends, axes and steps differ in length")
    axes = [tensors.axis_in(a, tensors.rank(x)) for a in axes]
    return _sliced(node, x, axes, starts, ends, steps)


def _sliced_by_size(node: Node) -> ir.Value:
    """A slice whose starts or ends are formulas of sizes."""
    x, starts, ends = node.tensor(0), node.cases(1), node.cases(2)
    if starts is None or ends is None:
        if (found := _sliced_by_trip(node)) is not None:
            return found
        node.integers(1 if starts is None else 2, "starts" if starts is None else "ends")
    assert starts is not None and ends is not None
    axes = node.integers(3, "axes") if node.given(3) else list(range(len(starts)))
    steps = node.integers(4, "steps") if node.given(4) else [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        x = _cut(node, x, tensors.axis_in(axis, tensors.rank(x)), start, end, step)
    return x


def _sliced_by_trip(node: Node) -> ir.Value | None:
    """A slice from a place that a loop's counter says on, which has one size in all trips.

    None where it is another, or may reach over an end of the dimension.
    """
    loops = node.conversion.trips
    starts, ends = trips.places(node, 1), trips.places(node, 2)
    steps = node.integers(4, "steps") if node.given(4) else [1]
    if not loops or starts is None or ends is None or {*steps} != {1}:
        return None
    x, axes = node.tensor(0), node.integers(3, "axes") if node.given(3) else range(len(starts))
    for place, (axis, start, end) in enumerate(zip(axes, starts, ends, strict=True)):
        axis = tensors.axis_in(axis, tensors.rank(x))
        have, count = tensors.size(tensors.dims(x)[axis]), trips.same_in_all(end - start, loops)
        if trips.same_in_all(start, loops) is not None and count is not None:
            x = _cut(node, x, axis, start, end, 1)
            continue
        if have is None or count is None:
            return None
        if not all(trips.never_negative(number, loops) for number in (start, count, have - end)):
            return None
        first = emit.convert(emit.take(node.tensor(1), 0, place, place + 1), "i64")
        if count != 1:
            first = emit.add(mgx.iota(tensors.named([count])[0], np.int64), first)
        x = mgx.gather(x, first, axis)
    return x


def _cut(node: Node, x: ir.Value, axis: int, start: Bound, end: Bound, step: Number) -> ir.Value:
    """A slice along one axis, where a size, the start or the end is a formula of sizes.

    A constant bound is within the dimension, or there is no run; but the first or the last so
    many elements, if these are not few, are all of a smaller dimension.
    """
    have = tensors.size(tensors.dims(x)[axis])
    if have is None:
        tensors.size_of(x, axis, "the size of the sliced dimension")  # says that it has to be
    assert have is not None and isinstance(step, int)
    if step == 0:
        raise ModelError(f"a step of 0 along axis {axis}")
    start, end = (_limit(node, bound, have) for bound in (start, end))
    most = have if step > 0 else maximum(have - 1, 0)
    if step < 0:
        # A start before the first element is that one; an end there is behind all.
        x = mgx.reverse(x, [axis])
        start = _from_the_end(node, plain(start), have, most)
        end = _from_the_end(node, plain(end), have, have)
    both = _window(start, end, have)
    if step < 0:
        first, last = (plain(bound) for bound in both)
    else:
        first, last = (_from_the_front(node, bound, have) for bound in both)
    is_empty = first == have or (first == most and last < have)
    if last == 0 or is_empty or bounds(last - first)[1] <= 0:
        first = last
    node.require(last - first)
    x = part_of(x, axis, first, last, have)
    return mgx.step(x, [axis], [abs(step)]) if abs(step) > 1 else x


def _window(start: Bound, end: Bound, have: Number) -> tuple[Bound, Bound]:
    """The bounds of a slice of the first or last so many elements, or all; others as they are."""
    if not isinstance(have, int) and isinstance(start, int) and isinstance(end, int):
        if start == 0 and _LEAST_WINDOW <= end < _INT_MAX:
            end = minimum(end, have)
        elif -_INT_MAX < start <= -_LEAST_WINDOW and end >= _INT_MAX:
            start = maximum(have + start, 0)
    return start, end


def _limit(node: Node, bound: Bound, have: Number) -> Bound:
    """A bound; an end of the dimension where its number is no less than the program's sizes."""
    if isinstance(have, int) or not isinstance(bound, int) or not _ALL <= abs(bound) < _INT_MAX:
        return bound
    try:
        node.require(abs(bound) - have)
    except OpenError:
        return bound
    return _INT_MAX if bound > 0 else -_INT_MAX


def _from_the_front(node: Node, bound: Bound, have: Number) -> Number:
    """A bound of a slice as a place from 0 to the size of its dimension."""
    if not isinstance(bound, Case):
        return _place(node, bound, have)
    size, no = bound.test.size, bound.no
    if bound.test.is_zero and size >= 0 and bound.yes == _INT_MAX and not isinstance(no, Case):
        # That many elements are cut off; where it is 0, none.
        found: Number = plain(Case(bound.test, have, _place(node, no, have, size)))
        return found
    return _place(node, plain(bound), have)


def _place(node: Node, bound: Number, have: Number, positive: Number = 1) -> Number:
    """As `_from_the_front`. positive: as in `_wrapped`."""
    place = _wrapped(node, bound, have, positive)
    is_known = isinstance(place, int) or place != bound
    return 0 if is_known and place <= 0 else _inside(node, place, have)


def _from_the_end(node: Node, bound: Number, have: Number, most: Number) -> Number:
    """A bound of a slice with a negative step as a place of the reversed dimension, 0 to most."""
    if isinstance(bound, int) and bound <= -_INT_MAX:
        return most
    place = have - 1 - _wrapped(node, bound, have)
    return 0 if place <= 0 else _inside(node, place, most)


def _wrapped(node: Node, bound: Number, have: Number, positive: Number = 1) -> Number:
    """A bound as a place of a dimension, or beyond it: less than 0, it counts from the end.

    positive: a size that is 1 or more where the bound is this.
    """
    if isinstance(bound, int) and abs(bound) >= _INT_MAX:
        return have if bound > 0 else 0
    if (isinstance(bound, int) and bound < 0) or bounds(bound + positive)[1] <= 0:
        return have + bound
    node.require(bound)
    return bound


def _inside(node: Node, place: Number, most: Number) -> Number:
    """A place, or `most` where it is that or more; asks for what is not known about it."""
    if place >= most:
        return most
    symbol = alone(place)
    if isinstance(most, int) and symbol is not None:
        # The model's table is so long; longer inputs would read beyond it.
        limits = node.conversion.limits
        limits[symbol.name] = min(limits.get(symbol.name, most), most)
    else:
        node.require(most - place)
    node.require(place)
    return place


def part_of(x: ir.Value, axis: int, first: Number, last: Number, have: Number) -> ir.Value:
    """Elements `first` to `last` of `have` along an axis: places within it."""
    if isinstance(first, int) and isinstance(last, int) and isinstance(have, int):
        return emit.take(x, axis, first, last)
    sizes = tensors.sizes(x)

    def cut(x: ir.Value, start: int, size: Number) -> ir.Value:
        dims = [tensors.named([n])[0] if n is not None else None for n in sizes]
        dims[axis] = tensors.named([size])[0]
        return _sized_slice(x, [axis], [start], dims)

    if isinstance(first, int):
        return x if (first, last) == (0, have) else cut(x, first, last - first)
    if last != have:
        x = cut(x, 0, last)
    return mgx.reverse(cut(mgx.reverse(x, [axis]), 0, last - first), [axis])


def _sized_slice(
    x: ir.Value, axes: list[int], starts: list[int], sizes: Sequence[tensors.Dim]
) -> ir.Value:
    """A slice from constant indices on, whose result has those dimensions."""
    result = tensors.tensor_type(tensors.element(x), sizes)
    counts = [sizes[axis] for axis in axes]
    ends = [
        start + count if isinstance(count, int) else OPEN_END
        for start, count in zip(starts, counts, strict=True)
    ]
    return mgx.SliceOp(x, axes, starts, ends, results=[result]).y


def _sliced(
    node: Node, x: ir.Value, axes: list[int], starts: list[int], ends: list[int], steps: list[int]
) -> ir.Value:
    backwards: list[int] = []
    cut: list[tuple[int, int, int]] = []
    strides: list[tuple[int, int]] = []
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step == 0:
            raise ModelError(f"a step of 0 along axis {axis}")
        if step == 1 and start == 0 and end >= _INT_MAX:
            continue  # everything, whatever its size
        if step == -1 and (start == -1 or start >= _INT_MAX) and end <= -_INT_MAX:
            backwards.append(axis)
            continue
        if not isinstance(tensors.dims(x)[axis], int):
            x = _cut(node, x, axis, start, end, step)
            continue
        size = tensors.size_of(x, axis, "the size of the sliced dimension")
        # numpy clamps by the rules that ONNX states, but for one: a start before the first
        # element is the first one for negative steps too.
        start = max(start, -size) if size else start
        first, last, step = slice(start, end, step).indices(size)
        if step < 0:
            backwards.append(axis)
            first, last, step = size - 1 - first, size - 1 - last, -step
        cut.append((axis, first, max(first, last)))
        if step > 1:
            strides.append((axis, min(step, max(size, 1))))
    if backwards:
        x = mgx.reverse(x, sorted(backwards))
    cut = [c for c in sorted(cut) if c[1:] != (0, tensors.dims(x)[c[0]])]
    if cut:
        x = mgx.slice(x, *(list(part) for part in zip(*cut, strict=True)))
    if strides:
        x = mgx.step(x, *(list(part) for part in zip(*sorted(strides), strict=True)))
    return x
