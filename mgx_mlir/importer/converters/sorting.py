"""The largest or the smallest elements along an axis, in order."""

from __future__ import annotations

from typing import Any

from mgx_mlir.dialects import mgx
from mgx_mlir.importer import tensors
from mgx_mlir.importer.converters.slices import part_of
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator


@operator("TopK", (1, 24), "topk")
def topk(node: Node) -> Any:
    """Results are always sorted, which sorted = 0 permits."""
    x, axis, largest = node.tensor(0), node.axis(), True
    if node.version >= 11:
        largest = bool(node.attribute("largest"))
        node.attribute("sorted")
    stated = node.sizes(1) if node.version >= 10 else [int(node.attribute("k"))]
    size = tensors.sizes(x)[axis]
    if stated is None or size is None or isinstance(stated[0], int):
        (k,) = node.integers(1, "k") if node.version >= 10 else (int(node.attribute("k")),)
        return mgx.topk(x, k, axis, largest=largest)
    node.require(stated[0])
    node.require(size - stated[0])
    made = mgx.topk(x, -1, axis, largest=largest)
    return [part_of(y, axis, 0, stated[0], size) for y in made]
