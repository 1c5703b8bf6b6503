"""Operators of PyTorch that its exporter wrote as they are: embedding_bag."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.converters.movement import counted
from mgx_mlir.importer.converters.slices import part_of
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator


@operator("ATen", (1, 1), "gather less where mul reduce_sum reduce_max", "org.pytorch.aten")
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
    if tensors.rank(indices) == 2:
        chosen = emit.filled(np.ones((), np.bool_), tensors.dims(indices))
    else:
        chosen = _bags(node, indices, with_end)
        indices, rows = emit.unsqueeze(indices, [0]), emit.unsqueeze(rows, [0])
    if padding >= 0:
        counts = mgx.not_(mgx.equal(indices, emit.like(indices, padding)))
        chosen = emit.binary(mgx.logical_and, chosen, counts)
    return [_reduced(rows, chosen, mode), None, None, None]


def _bags(node: Node, indices: ir.Value, with_end: bool) -> ir.Value:
    """Which of the indices each bag holds: (bags, indices)."""
    offsets = emit.convert(node.tensor(2), "i64")
    (have,) = tensors.known_sizes(offsets, "what says where bags begin")
    if not with_end:
        offsets = emit.concat([offsets, emit.unsqueeze(emit.size_of(indices, 0), [0])], 0)
        have = have + 1
    starts, ends = (part_of(offsets, 0, i, have - 1 + i, have) for i in range(2))
    places = emit.unsqueeze(counted(node, tensors.dims(indices)[0]), [0])
    before = emit.binary(mgx.less, places, emit.unsqueeze(starts, [1]))
    inside = emit.binary(mgx.less, places, emit.unsqueeze(ends, [1]))
    return mgx.logical_and(mgx.not_(before), inside)


def _reduced(rows: ir.Value, chosen: ir.Value, mode: int) -> ir.Value:
    """The sum, mean or maximum of the rows (bags or 1, indices, width) of each bag; or zero."""
    mask = emit.unsqueeze(chosen, [2])
    if mode == 2:
        most = mgx.reduce_max(emit.where(mask, rows, float("-inf")), [1])
        return emit.squeeze(emit.where(mgx.isinf(most), 0, most), [1])
    total = emit.squeeze(mgx.reduce_sum(emit.where(mask, rows, 0), [1]), [1])
    if mode == 0:
        return total
    counted = mgx.reduce_sum(emit.convert(chosen, tensors.element(rows)), [1])
    return emit.div(total, mgx.max(counted, emit.like(counted, 1)))
