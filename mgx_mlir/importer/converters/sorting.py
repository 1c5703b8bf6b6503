"""The largest or the smallest elements along an axis, in order."""

from __future__ import annotations

from typing import Any

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.importer import emit, tensors
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
    return [part_of(y, axis, 0, stated[0], size) for y in _sorted(x, axis, largest)]


def _sorted(x: ir.Value, axis: int, largest: bool) -> tuple[ir.Value, ir.Value]:
    """The elements of x in order, equal ones as they stand, and their places along the axis.

    Each goes to the place that the number of elements before it says. NaN is above every number.
    """
    sizes = tensors.dims(x)
    own, other = emit.unsqueeze(x, [axis + 1]), emit.unsqueeze(x, [axis])
    low, high = (own, other) if largest else (other, own)
    above, equal = emit.binary(mgx.greater, high, low), emit.binary(mgx.equal, high, low)
    if tensors.is_float(x):
        no_number, number = mgx.isnan(high), mgx.not_(mgx.isnan(low))
        above = emit.binary(mgx.logical_or, above, emit.binary(mgx.logical_and, no_number, number))
        both = emit.binary(mgx.logical_and, no_number, mgx.isnan(low))
        equal = emit.binary(mgx.logical_or, equal, both)
    places = emit.counted(sizes[axis])
    earlier = emit.binary(mgx.less, emit.unsqueeze(places, [0]), emit.unsqueeze(places, [1]))
    after = tensors.rank(x) - axis - 1
    earlier = emit.unsqueeze(earlier, [2 + i for i in range(after)])
    equal = emit.binary(mgx.logical_and, equal, earlier)
    before = emit.convert(emit.binary(mgx.logical_or, above, equal), "i64")
    ranks = emit.squeeze(mgx.reduce_sum(before, [axis + 1]), [axis + 1])
    along = emit.broadcast(emit.unsqueeze(places, [1 + i for i in range(after)]), sizes)
    return (
        mgx.scatter_none(x, ranks, x, axis),
        mgx.scatter_none(along, ranks, along, axis),
    )
