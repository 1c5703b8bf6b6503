"""Bags of an embedding: PyTorch's operator as its exporter wrote it, and its loops over bags."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import bags, emit, tensors
from mgx_mlir.importer.converters.slices import part_of
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator

_OPS = "scatter_add prefix_scan_sum scatternd_add scatternd_max"


@operator("ATen", (1, 1), f"gather where mul reduce_sum reduce_max {_OPS}", "org.pytorch.aten")
def aten(node: Node) -> Any:
    """Inputs of embedding_bag: the table, indices, where each bag starts, factors of indices."""
    name = str(node.attribute("operator", ""))
    if name != "embedding_bag":
        raise UnsupportedError(f"operator = {name}; embedding_bag is supported")
    node.only("overload_name", "")
    for training in ("scale_grad_by_freq", "sparse"):
        node.attribute(training, 0)
    mode = int(node.attribute("mode", 0))
    with_end = bool(node.attribute("include_last_offset", 0))
    padding = int(node.attribute("padding_idx", -1))
    if mode not in (0, 1, 2):
        raise UnsupportedError(f"mode = {mode}; 0 (sum), 1 (mean) and 2 (max) are supported")
    indices = emit.convert(node.tensor(1), "i64")
    rows = mgx.gather(node.tensor(0), indices, 0)
    if node.given(3):
        rows = emit.mul(rows, emit.unsqueeze(node.tensor(3), [tensors.rank(indices)]))
    mode_name = ("sum", "mean", "max")[mode]
    counts = None
    if padding >= 0:
        counts = mgx.not_(mgx.equal(indices, emit.like(indices, padding)))
    if tensors.rank(indices) == 2:
        if counts is None:
            counts = emit.filled(np.ones((), np.bool_), tensors.dims(indices))
        return [_reduced(rows, counts, mode_name), None, None, None]
    offsets = emit.convert(node.tensor(2), "i64")
    offsets = emit.reshape(offsets, [1]) if tensors.rank(offsets) == 0 else offsets
    if not with_end:
        offsets = emit.concat([offsets, emit.unsqueeze(emit.size_of(indices, 0), [0])], 0)
    return [_of_bags(rows, offsets, counts, mode_name, True), None, None, None]


@operator("Bags", (1, 1), _OPS, bags.DOMAIN)
def sums_of_bags(node: Node) -> ir.Value:
    """Rows (points, width), and where each bag begins, and the last one ends."""
    offsets = emit.convert(node.tensor(1), "i64")
    reduction, zeros = str(node.required("reduction")), bool(node.required("zeros"))
    return _of_bags(node.tensor(0), offsets, None, reduction, zeros)


def _of_bags(
    rows: ir.Value, offsets: ir.Value, counts: ir.Value | None, reduction: str, zeros: bool
) -> ir.Value:
    """The sum, mean or maximum of the rows of each bag: (bags, width).

    A row goes to the slot that the number of offsets up to it says. counts: which rows do.
    zeros: whether the maximum of no rows is 0; else it is -inf.
    """
    (points, *_), (ends,) = tensors.known_sizes(rows), tensors.known_sizes(offsets, "the offsets")
    element, rows = tensors.element(rows), emit.widened(rows)
    places = emit.filled(np.zeros((), np.int64), tensors.named([points + 1]))
    begun = mgx.prefix_scan_sum(mgx.scatter_add(places, offsets, emit.like(offsets, 1), 0), 0)
    slots = emit.unsqueeze(part_of(begun, 0, 0, points, points + 1), [1])
    nothing = float("-inf") if reduction == "max" else 0.0
    if counts is not None:
        rows = emit.where(emit.unsqueeze(counts, [1]), rows, nothing)

    def collected(values: ir.Value, empty: float) -> ir.Value:
        dims = (*tensors.named([ends + 1]), *tensors.dims(values)[1:])
        start = emit.filled(np.array(empty, emit.numpy_type(values)), dims)
        collect = mgx.scatternd_max if reduction == "max" else mgx.scatternd_add
        return part_of(collect(start, slots, values), 0, 1, ends, ends + 1)

    total = collected(rows, nothing)
    if reduction == "mean" or (reduction == "max" and zeros):
        ones = emit.filled(np.ones((), emit.numpy_type(rows)), tensors.named([points, 1]))
        if counts is not None:
            ones = emit.where(emit.unsqueeze(counts, [1]), ones, 0)
        count = collected(ones, 0.0)
        if reduction == "mean":
            total = emit.div(total, mgx.max(count, emit.like(count, 1)))
        else:
            total = emit.where(mgx.equal(count, emit.like(count, 0)), 0, total)
    return emit.convert(total, element)


def _reduced(rows: ir.Value, chosen: ir.Value, reduction: str) -> ir.Value:
    """The sum, mean or maximum of the chosen rows (bags, indices, width) of each bag; or zero."""
    mask = emit.unsqueeze(chosen, [2])
    if reduction == "max":
        most = mgx.reduce_max(emit.where(mask, rows, float("-inf")), [1])
        return emit.squeeze(emit.where(mgx.isinf(most), 0, most), [1])
    total = emit.squeeze(mgx.reduce_sum(emit.where(mask, rows, 0), [1]), [1])
    if reduction == "sum":
        return total
    counted = mgx.reduce_sum(emit.convert(chosen, tensors.element(rows)), [1])
    return emit.div(total, mgx.max(counted, emit.like(counted, 1)))
