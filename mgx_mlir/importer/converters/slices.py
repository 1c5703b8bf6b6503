"""Slice, with sizes that are known, and with sizes that are formulas of the inputs' sizes."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, OpenError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.rewriting.symbolic import OPEN_END
from mgx_mlir.sizes.arithmetic import Number, alone

# Exporters write this for the end of a dimension, where indices have 32 bits.
_INT_MAX = (1 << 31) - 1


@operator("Slice", (1, 13), "slice reverse step")
def slice_(node: Node) -> ir.Value:
    """Starts, ends, axes are attributes before version 10, inputs since."""
    x = node.tensor(0)
    if node.version < 10:
        starts, ends = list(node.attribute("starts")), list(node.attribute("ends"))
        stated = node.attribute("axes")
        steps = [1] * len(starts)
    else:
        if node.known(2) is None:
            return _sliced_by_size(node)
        starts, ends = node.integers(1, "starts"), node.integers(2, "ends")
        stated = node.integers(3, "axes") if node.given(3) else None
        steps = node.integers(4, "steps") if node.given(4) else [1] * len(starts)
    axes = list(range(len(starts))) if stated is None else list(stated)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ModelError("starts, ends, axes and steps differ in length")
    axes = [tensors.axis_in(a, tensors.rank(x)) for a in axes]
    return _sliced(x, axes, starts, ends, steps)


def _sliced_by_size(node: Node) -> ir.Value:
    """The first elements along axes, whose ends are formulas of sizes."""
    x, ends = node.tensor(0), node.sizes(2)
    if ends is None:
        node.integers(2, "ends")  # says that they have to be constant
    assert ends is not None
    starts = node.integers(1, "starts")
    axes = node.integers(3, "axes") if node.given(3) else list(range(len(starts)))
    steps = node.integers(4, "steps") if node.given(4) else [1] * len(starts)
    if any(steps[i] != 1 or start < 0 for i, start in enumerate(starts)):
        raise OpenError("ends is computed; steps of 1 and starts from the front go with it")
    axes = [tensors.axis_in(a, tensors.rank(x)) for a in axes]
    sizes = tensors.sizes(x)
    for axis, start, end in zip(axes, starts, ends, strict=True):
        sizes[axis] = _size_of_slice(node, sizes[axis], start, end)
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        raise OpenError(f"ends is computed, of a size that is not known: {ends}")
    return _sized_slice(x, axes, starts, tensors.named(known))


def _sized_slice(
    x: ir.Value, axes: list[int], starts: list[int], sizes: Sequence[tensors.Dim]
) -> ir.Value:
    """A slice from constant indices on, whose result has those dimensions."""
    result = tensors.tensor_type(tensors.element(x), sizes)
    return mgx.SliceOp(x, axes, starts, [OPEN_END] * len(axes), results=[result]).y


def _size_of_slice(node: Node, have: Number | None, start: int, end: Number) -> Number:
    """How many elements a slice to `end` has, of a dimension of size `have`."""
    if have is None:
        raise OpenError("the size of the sliced dimension is not known")
    if end >= have:
        return have - start
    symbol = alone(end)
    if isinstance(have, int) and symbol is not None and start == 0:
        # The model's table is so long; longer inputs would read beyond it.
        limits = node.conversion.limits
        limits[symbol.name] = min(limits.get(symbol.name, have), have)
        return end
    if end <= have and start <= end:
        return end - start
    raise OpenError(f"whether its end {end} is within the size {have} is not known")


def _sliced(
    x: ir.Value, axes: list[int], starts: list[int], ends: list[int], steps: list[int]
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
            x = _sliced_of_formula(x, axis, start, end, step)
            continue
        size = tensors.size_of(x, axis, "the size of the sliced dimension")
        # numpy clamps by the rules that ONNX states.
        first, last, step = slice(start, end if end > -(1 << 62) else None, step).indices(size)
        if step < 0:
            backwards.append(axis)
            first, last, step = size - 1 - first, size - 1 - last, -step
        cut.append((axis, first, max(first, last)))
        if step > 1:
            strides.append((axis, min(step, size)))
    if backwards:
        x = mgx.reverse(x, sorted(backwards))
    cut = [c for c in sorted(cut) if c[1:] != (0, tensors.dims(x)[c[0]])]
    if cut:
        x = mgx.slice(x, *(list(part) for part in zip(*cut, strict=True)))
    if strides:
        x = mgx.step(x, *(list(part) for part in zip(*sorted(strides), strict=True)))
    return x


def _sliced_of_formula(x: ir.Value, axis: int, start: int, end: int, step: int) -> ir.Value:
    """A slice along a dimension whose size is a formula of the inputs' sizes.

    Raises UnsupportedError where the size of the result does not follow.
    """
    have = tensors.size(tensors.dims(x)[axis])
    if have is None:
        tensors.size_of(x, axis, "the size of the sliced dimension")  # says that it has to be
    assert have is not None
    if step < 0 and (start == -1 or start >= _INT_MAX) and end <= -_INT_MAX:
        return mgx.step(mgx.reverse(x, [axis]), [axis], [-step])
    whole = end >= _INT_MAX
    if step > 0 and start < 0 and (whole or end < 0) and have + start >= 0:
        # From the end both are constant.
        x, bounds = mgx.reverse(x, [axis]), (0 if whole else -end, -start)
        x = mgx.reverse(emit.take(x, axis, min(bounds), bounds[1]), [axis])
    else:
        last = have if whole else have + end if end < 0 else end
        if step < 0 or start < 0 or not last >= start or not have >= last:
            shown = f"[{start}:{end}:{step}]"
            raise OpenError(f"how much {shown} leaves of the size {have} is not known")
        if last != have or start:
            sizes = list(tensors.dims(x))
            sizes[axis] = tensors.named([last - start])[0]
            x = _sized_slice(x, [axis], [start], sizes)
    return mgx.step(x, [axis], [step]) if step > 1 else x
