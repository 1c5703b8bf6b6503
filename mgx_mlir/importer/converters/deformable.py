"""DeformConv: a convolution whose window's elements are read between the pixels."""

from __future__ import annotations

import itertools
import math

import numpy as np
from mlir import ir

from mgx_mlir.errors import ModelError
from mgx_mlir.importer import budget, emit, tensors
from mgx_mlir.importer.converters.sampling import Sampler
from mgx_mlir.importer.converters.windows import Window, kernel_shape, with_bias
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator


@operator("DeformConv", (19, 22), "gathernd floor mul add dot transpose reshape")
def deform_conv(node: Node) -> ir.Value:
    """Inputs: x, weights, the offset of each element of each window, a bias, a factor of each.

    The windows' elements are gathered, (batch, channels * elements, places), and multiplied
    with the weights as one matrix for each group.
    """
    x, weights = node.tensor(0), node.tensor(1)
    window = Window(node, x, kernel_shape(node, weights))
    batch, channels = tensors.known_sizes(x)[0], tensors.size_of(x, 1, "the number of channels")
    image = [tensors.size_of(x, d, "the size of its images") for d in range(2, tensors.rank(x))]
    outputs, per_group, *lengths = tensors.static_dims(weights)
    group, groups = int(node.attribute("group")), int(node.attribute("offset_group"))
    if channels % groups or channels != group * per_group or outputs % group:
        raise ModelError(
            f"{channels} channels in {group} groups of {per_group}, and {groups} of offsets"
        )
    offsets = node.tensor(2)
    places = [tensors.size_of(offsets, d, "how many windows there are")
              for d in range(2, tensors.rank(offsets))]  # fmt: skip
    elements = list(itertools.product(*map(range, lengths)))
    count, total = len(elements), math.prod(places)
    # The windows' elements without offsets: (1, elements, dimension, places).
    budget.check_work(count, "elements of a window, each a step of its own")
    budget.check_made(count, len(image), total)
    grid = np.zeros((1, count, len(image), *places))
    for number, element in enumerate(elements):
        for axis, at in enumerate(element):
            steps = np.arange(places[axis]) * window.strides[axis] - window.pads[axis]
            shape = [-1 if i == axis else 1 for i in range(len(image))]
            grid[0, number, axis] = (steps + at * window.dilations[axis]).reshape(shape)
    offsets = emit.reshape_to(offsets, batch * groups, count, len(image), *places)
    where = emit.add(offsets, node.make(grid.astype(emit.numpy_type(offsets))))
    # The channels of one group of offsets, last: (batch * groups, sizes..., channels / groups).
    parts = emit.reshape_to(x, batch * groups, channels // groups, *image)
    sampler = Sampler(parts, "zeros", True)
    read = [
        emit.reshape_to(emit.take(where, 2, axis, axis + 1), batch * groups, count * total)
        for axis in range(len(image))
    ]
    values = sampler.interpolated(read, "linear")
    if node.given(4):
        values = emit.mul(values, emit.reshape_to(node.tensor(4), batch * groups, count * total, 1))
    values = emit.reshape_to(values, batch * groups, count, total, channels // groups)
    values = emit.transpose(values, [0, 3, 1, 2])
    columns = emit.reshape_to(values, batch, group, per_group * count, total)
    matrix = emit.reshape(weights, (1, group, outputs // group, per_group * count))
    y = emit.reshape_to(emit.dot(matrix, columns), batch, outputs, *places)
    return with_bias(y, node.optional(3))
