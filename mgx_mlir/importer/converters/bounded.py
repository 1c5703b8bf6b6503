"""Operators whose results have a size that the data decide, at its upper bound.

mgx_mlir.models.staged.bounded replaces such a node by one of this domain. Its results are a
tensor whose last dimension has room for every possible element, and the count of its elements,
[1].
"""

from __future__ import annotations

import math

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import OpenError, UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.sizes.arithmetic import Number, minimum

DOMAIN = "mgx.bounded"


@operator("Compress", (1, 1), "nonzero gather convert reduce_sum", DOMAIN)
def compress(node: Node) -> list[ir.Value]:
    x, wanted = node.tensor(0), node.tensor(1)
    if not node.has_attribute("axis"):
        x = _flat(x)
    axis = tensors.axis_in(node.attribute("axis", 0), tensors.rank(x))
    (given,), size = _sizes(wanted), _sizes(x)[axis]
    if given != size:  # a condition may end early
        if not isinstance(given, int) or not isinstance(size, int):
            raise OpenError(f"a condition of {given} elements for {size}")
        size = min(given, size)
        wanted = emit.take(wanted, 0, 0, size)
    chosen = mgx.gather(x, _flat(_places(wanted)), axis)
    return [emit.moved_to_end(chosen, axis)[0], _count(wanted)]


@operator("NonZero", (1, 1), "nonzero equal not convert reduce_sum", DOMAIN)
def nonzero(node: Node) -> list[ir.Value]:
    x = node.tensor(0)
    hits = x
    if str(tensors.element(x)) != "i1":
        hits = mgx.not_(mgx.equal(x, emit.like(x, 0)))
    return [_places(hits), _count(hits)]


@operator(
    "NonMaxSuppression",
    (1, 1),
    "min max concat topk gathernd greater logical_and suppress nonzero convert reduce_sum",
    DOMAIN,
)
def non_max_suppression(node: Node) -> list[ir.Value]:
    """Boxes in the order of their scores, those that overlap no better one, and their numbers."""
    boxes, scores = node.tensor(0), node.tensor(1)
    given = node.constant(2, "max_output_boxes_per_class").item() if node.given(2) else 0
    threshold = node.constant(3, "iou_threshold").item() if node.given(3) else 0.0
    least = node.constant(4, "score_threshold").item() if node.given(4) else None
    batches, classes, size = _sizes(scores)
    # Exporters write the largest integer for all; formulas have 32 bits.
    most = size if given >= 1 << 31 else minimum(max(given, 0), size)
    if most == 0 or _sizes(boxes) != [batches, size, 4]:
        raise UnsupportedError(f"{most} of boxes {tensors.show(tensors.dims(boxes))}")
    if least is None:  # NaN comes last
        scores = emit.where(mgx.isnan(scores), float("-inf"), scores)
    scores, order = mgx.topk(scores, -1, 2)
    corners = _corners(boxes, bool(node.attribute("center_point_box", 0)))
    rows = emit.reshape(order, tensors.named([batches, classes * size, 1]))
    corners = mgx.gathernd(corners, rows, batch_dims=1)
    corners = emit.reshape(corners, tensors.named([batches, classes, size, 4]))
    wanted = mgx.equal(order, order)
    if least is not None:
        wanted = mgx.greater(scores, emit.like(scores, least))
    kept = mgx.suppress(corners, wanted, threshold, max(given, 0))
    places = _places(kept, batches * classes * most)
    boxes_kept = mgx.gathernd(order, emit.transpose(places, (1, 0)))
    rows = emit.concat([emit.take(places, 0, 0, 2), emit.unsqueeze(boxes_kept, [0])], 0)
    return [rows, _count(kept)]


def _corners(boxes: ir.Value, centred: bool) -> ir.Value:
    """The lower corner and the higher one of boxes, whichever way round they are written."""
    first, second = emit.take(boxes, 2, 0, 2), emit.take(boxes, 2, 2, 4)
    if centred:
        half = emit.div(second, 2)
        first, second = emit.sub(first, half), emit.add(first, half)
    return emit.concat([mgx.min(first, second), mgx.max(first, second)], 2)


def _sizes(x: ir.Value) -> list[Number]:
    sizes = [size for size in tensors.sizes(x) if size is not None]
    if 0 in sizes or len(sizes) != tensors.rank(x) or not sizes:
        raise UnsupportedError(f"a tensor {tensors.show(tensors.dims(x))}")
    return sizes


def _flat(x: ir.Value) -> ir.Value:
    return emit.reshape(x, tensors.named([math.prod(_sizes(x))]))


def _places(hits: ir.Value, most: Number | None = None) -> ir.Value:
    """The indices of the true elements, [dimensions, most], padded with zeros.

    `most`: where there is room for fewer than all elements.
    """
    room = math.prod(_sizes(hits)) if most is None else most
    dims = tensors.named([tensors.rank(hits), room])
    return mgx.nonzero(hits, results=[tensors.tensor_type("i64", dims)])


def _count(hits: ir.Value) -> ir.Value:
    """How many are true, [1]."""
    return mgx.reduce_sum(emit.convert(_flat(hits), "i64"), [0])
