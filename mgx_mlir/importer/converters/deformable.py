"""DeformConv: a convolution whose window's elements are read between the pixels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from mgx_mlir.errors import ModelError
from mgx_mlir.importer import budget, emit, tensors
from mgx_mlir.importer.converters.sampling import Sampler
from mgx_mlir.importer.converters.windows import Window, kernel_shape, with_bias
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.sizes.arithmetic import Number


@operator("DeformConv", (19, 22), "gathernd floor mul add dot transpose reshape")
def deform_conv(node: Node) -> ir.Value:
    """Inputs: x, weights, the offset of each element of each window, a bias, a factor of each.

    The windows' elements are gathered, (batch, channels * elements, places), and multiplied
    with the weights as one matrix for each group.
    """
    x, weights = node.tensor(0), node.tensor(1)
    window = Window(node, x, kernel_shape(node, weights))
    batch, _, *image = tensors.known_sizes(x)
    channels = tensors.size_of(x, 1, "the number of channels")
    outputs, per_group, *lengths = tensors.static_dims(weights)
    group, groups = int(node.attribute("group")), int(node.attribute("offset_group"))
    if channels % groups or channels != group * per_group or outputs % group:
        raise ModelError(
            f"{channels} channels in {group} groups of {per_group}, and {groups} of offsets"
        )
    offsets = node.tensor(2)
    places = tensors.known_sizes(offsets, "its offsets")[2:]
    elements = list(itertools.product(*map(range, lengths)))
    count, total = len(elements), math.prod(places)
    budget.check_work(count, "elements of a window, each a step of its own")
    offsets = _reshaped(offsets, batch * groups, count, len(image), *places)
    # The channels of one group of offsets, last: (batch * groups, sizes..., channels / groups).
    parts = _reshaped(x, batch * groups, channels // groups, *image)
    sampler = Sampler(parts, "zeros", True)
    read = []
    for axis in range(len(image)):
        ticks = _ticks(node, offsets, window, elements, axis, places)
        where = emit.add(emit.take(offsets, 2, axis, axis + 1), ticks)
        read.append(_reshaped(where, batch * groups, count * total))
    values = sampler.interpolated(read, "linear")
    if node.given(4):
        values = emit.mul(values, _reshaped(node.tensor(4), batch * groups, count * total, 1))
    values = _reshaped(values, batch * groups, count, total, channels // groups)
    values = emit.transpose(values, [0, 3, 1, 2])
    columns = _reshaped(values, batch, group, per_group * count, total)
    matrix = emit.reshape(weights, (1, group, outputs // group, per_group * count))
    y = _reshaped(emit.dot(matrix, columns), batch, outputs, *places)
    return with_bias(y, node.optional(3))


def _ticks(
    node: Node,
    offsets: ir.Value,
    window: Window,
    elements: Sequence[Sequence[int]],
    axis: int,
    places: Sequence[Number],
) -> ir.Value:
    """The windows' elements without offsets: (1, elements, 1, places along the axis)."""
    ranks, size = len(places), places[axis]
    steps = np.array([e[axis] * window.dilations[axis] - window.pads[axis] for e in elements])
    along: list[Number] = [1] * (3 + ranks)
    along[3 + axis] = size
    dtype = emit.numpy_type(offsets)
    steps = steps.reshape([1, len(elements), 1, *[1] * ranks])
    if isinstance(size, int):
        budget.check_made(len(elements), size)
        starts = np.arange(size) * window.strides[axis]
        starts = starts.reshape([-1 if i == 3 + axis else 1 for i in range(3 + ranks)])
        return node.make((starts + steps).astype(dtype))
    starts = emit.mul(emit.counted(tensors.named([size])[0]), window.strides[axis])
    starts = _reshaped(emit.convert(starts, tensors.element(offsets)), *along)
    return emit.add(starts, node.make(steps.astype(dtype)))


def _reshaped(x: ir.Value, *sizes: Number) -> ir.Value:
    return emit.reshape(x, tensors.named(sizes))
