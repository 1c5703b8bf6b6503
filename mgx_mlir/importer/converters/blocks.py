"""Operators that move blocks of an image into its channels, and back."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from mgx_mlir.errors import ModelError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.converters.slices import part_of
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.sizes.arithmetic import Number


@operator("DepthToSpace", (1, 28), "reshape transpose")
def depth_to_space(node: Node) -> ir.Value:
    x, (n, c, h, w), b = _image(node)
    if not isinstance(c, int):
        tensors.size_of(x, 1, "the number of channels")  # says that it has to be known
    if c % (b * b):
        raise ModelError(f"{c} channels do not make blocks of {b} by {b}")
    c //= b * b
    if node.version >= 11 and node.attribute("mode") == "CRD":
        y = _reordered(x, (n, c, b, b, h, w), [0, 1, 4, 2, 5, 3])
    else:
        y = _reordered(x, (n, b, b, c, h, w), [0, 3, 4, 1, 5, 2])
    return emit.reshape(y, tensors.named([n, c, h * b, w * b]))


@operator("SpaceToDepth", (1, 28), "reshape transpose")
def space_to_depth(node: Node) -> ir.Value:
    x, (n, c, h, w), b = _image(node)
    rows, columns = h // b, w // b
    for axis, (size, blocks) in enumerate(((h, rows), (w, columns)), 2):
        if isinstance(size, int) and size % b:
            raise ModelError(f"an image of {h} by {w} in blocks of {b} by {b}")
        node.require(blocks * b - size)  # blocks are whole
        x = part_of(x, axis, 0, blocks * b, size)
    order = [0, 3, 5, 1, 2, 4]
    if node.declares("mode") and node.attribute("mode") == "CRD":
        order = [0, 1, 3, 5, 2, 4]
    y = _reordered(x, (n, c, rows, b, columns, b), order)
    return emit.reshape(y, tensors.named([n, c * b * b, rows, columns]))


def _image(node: Node) -> tuple[ir.Value, list[Number], int]:
    """Input 0 (batch, channels, height, width), these sizes, and the node's size of blocks."""
    x, b = node.tensor(0), int(node.required("blocksize"))
    sizes = [size for size in tensors.sizes(x) if size is not None]
    if tensors.rank(x) != 4 or b < 1:
        raise ModelError(f"blocks of {b} by {b} in {tensors.show(tensors.dims(x))}")
    if len(sizes) < 4:
        tensors.static_dims(x)  # says that they have to be known
    return x, sizes, b


def _reordered(x: ir.Value, sizes: Sequence[Number], order: Sequence[int]) -> ir.Value:
    return emit.transpose(emit.reshape(x, tensors.named(sizes)), order)
