"""Operators that put windows back into an image: Col2Im and MaxUnpool."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError
from mgx_mlir.importer import budget, emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.sizes.arithmetic import Number


@operator("Col2Im", (18, 18), "convolution_backwards")
def col2im(node: Node) -> ir.Value:
    """A transposed convolution whose weights move each element of a block to its pixel."""
    x = node.tensor(0)
    image, block = node.integers(1, "image_shape"), node.integers(2, "block_shape")
    count = len(block)
    pads = list(node.attribute("pads") or [0] * (2 * count))
    strides = list(node.attribute("strides") or [1] * count)
    dilations = list(node.attribute("dilations") or [1] * count)
    if not len(image) == len(strides) == len(dilations) == count or len(pads) != 2 * count:
        raise ModelError("image_shape, block_shape, pads, strides and dilations do not fit")
    if not count or min(*image, *block) < 1:
        raise ModelError(f"blocks of {block} in an image of {image}")
    batch, channels = tensors.size(tensors.dims(x)[0]), tensors.size_of(x, 1, "its channels")
    if batch is None:
        tensors.static_dims(x)  # says that it has to be known
    assert batch is not None
    places = math.prod(block)
    steps, extra = [], []
    for i in range(count):
        covered = dilations[i] * (block[i] - 1) + 1
        free = image[i] + pads[i] + pads[count + i] - covered
        steps.append(free // strides[i] + 1)
        extra.append(free % strides[i])
    if channels % places:
        raise ModelError(f"{channels} channels do not make blocks of {block}")
    channels //= places
    budget.check_made(places, places)
    weights = np.eye(places, dtype=emit.numpy_type(x)).reshape(places, 1, *block)
    y = mgx.convolution_backwards(
        emit.reshape(x, tensors.named([batch * channels, places, *steps])),
        node.make(weights),
        pads=pads,
        strides=strides,
        dilations=dilations,
        output_pads=extra,
    )
    return emit.reshape(y, tensors.named([batch, channels, *image]))


@operator("MaxUnpool", (9, 22), "scatter_none pad")
def max_unpool(node: Node) -> ir.Value:
    """Zeros, but for the elements that the indices of MaxPool name."""
    x, indices = node.tensor(0), node.tensor(1)
    batch, channels, *sizes = tensors.known_sizes(x)
    lengths = list(node.attribute("kernel_shape"))
    pads = list(node.attribute("pads") or [0] * (2 * len(sizes)))
    strides = list(node.attribute("strides") or [1] * len(sizes))
    whole = [batch, channels]
    for i, size in enumerate(sizes):
        removed = pads[i] + pads[len(sizes) + i]
        whole.append((size - 1) * strides[i] - removed + lengths[i])
    elements, every = (tensors.named([math.prod(n)]) for n in ([batch, channels, *sizes], whole))
    empty = emit.filled(np.zeros((), emit.numpy_type(x)), every)
    flat = emit.reshape(indices, elements)
    y = mgx.scatter_none(empty, flat, emit.reshape(x, elements), 0)
    y = emit.reshape(y, tensors.named(whole))
    return _with_zeros(node, y, whole) if node.given(2) else y


def _with_zeros(node: Node, y: ir.Value, whole: Sequence[Number]) -> ir.Value:
    """y of sizes `whole` with zeros behind it, up to output_shape."""
    wanted = node.sizes(2)
    if wanted is None:
        node.integers(2, "output_shape")  # says that it has to be known
    assert wanted is not None
    more = [n - m for n, m in zip(wanted, whole, strict=True)]
    if any(n < 0 for n in more):
        raise ModelError(f"output_shape is less than what the windows cover, {whole}")
    for axis, count in enumerate(more):
        if isinstance(count, int):
            amounts = [count if number == axis else 0 for number in range(len(more))]
            y = mgx.pad(y, [0] * len(more), amounts) if count else y
        else:
            node.require(count)
            sizes = [*tensors.dims(y)[:axis], *tensors.named([count]), *tensors.dims(y)[axis + 1 :]]
            zeros = emit.filled(np.zeros((), emit.numpy_type(y)), sizes)
            y = emit.concat([y, zeros], axis)
    return y
