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
    x, c = _in_blocks(node, x, 1, c, b * b)
    if node.version >= 11 and node.attribute("mode") == "CRD":
        y = _reordered(x, (n, c, b, b, h, w), [0, 1, 4, 2, 5, 3])
    else:
        y = _reordered(x, (n, b, b, c, h, w), [0, 3, 4, 1, 5, 2])
    return emit.reshape(y, tensors.named([n, c, h * b, w * b]))


@operator("SpaceToDepth", (1, 28), "reshape transpose")
def space_to_depth(node: Node) -> ir.Value:
    x, (n, c, h, w), b = _image(node)
    x, rows = _in_blocks(node, x, 2, h, b)
    x, columns = _in_blocks(node, x, 3, w, b)
    order = [0, 3, 5, 1, 2, 4]
    if node.declares("mode") and node.attribute("mode") == "CRD":
        order = [0, 1, 3, 5, 2, 4]
    y = _reordered(x, (n, c, rows, b, columns, b), order)
    return emit.reshape(y, tensors.named([n, c * b * b, rows, columns]))


def _in_blocks(
    node: Node, x: ir.Value, axis: int, size: Number, block: int
) -> tuple[ir.Value, Number]:
    """x with whole blocks along an axis, as a run's sizes have to give, and how many they are."""
    if isinstance(size, int) and size % block:
        what = "channels" if axis == 1 else "pixels along an axis"
        raise ModelError(f"{size} {what} in blocks of {block}")
    count = size // block
    node.require(count * block - size)
    return part_of(x, axis, 0, count * block, size), count


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
