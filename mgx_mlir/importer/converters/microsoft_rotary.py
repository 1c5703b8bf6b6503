"""Rotations of queries and keys by the angles of their positions, of com.microsoft.

Source of their meaning: onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.converters.microsoft import contributed
from mgx_mlir.importer.converters.microsoft_attention import join_heads, split_heads
from mgx_mlir.importer.converters.movement import counted
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.tensors import Dim


def rotated(
    x: ir.Value, places: ir.Value, cosines: ir.Value, sines: ir.Value, interleaved: bool
) -> ir.Value:
    """x (batch, heads, length, size), pairs of elements rotated by the angles of their positions.

    `places` (batch, length) are rows of the tables, which have a column for each pair; elements
    beyond the pairs stay.
    """
    batch, heads, length, _ = tensors.dims(x)
    size = tensors.size_of(x, 3, "the size of a head")
    tensors.require(cosines, (None, None), "the table of cosines")
    tensors.require(sines, tensors.dims(cosines), "the table of sines")
    rows, pairs = tensors.static_dims(cosines, "the table of angles")
    if isinstance(length, int) and rows < length:
        raise ModelError(f"a table of the angles of {rows} places for {length}")
    if 2 * pairs > size:
        raise ModelError(f"{pairs} angles for {size} elements")
    rotated, rest = emit.take(x, 3, 0, 2 * pairs), emit.take(x, 3, 2 * pairs, size)
    # The swap of elements is a view: the rotation is one kernel.
    split, axis = ((pairs, 2), 4) if interleaved else ((2, pairs), 3)
    cos, sin = (
        emit.unsqueeze(mgx.gather(table, places, 0), [1, 4 if interleaved else 3])
        for table in (cosines, sines)
    )
    halves = emit.reshape(rotated, (batch, heads, length, *split))
    numbers = np.array([-1, 1]).astype(emit.numpy_type(x))
    signs = mgx.constant(numbers.reshape((2, 1) if axis == 3 else (2,)))
    cos, sin, signs = (emit.broadcast(v, tensors.dims(halves)) for v in (cos, sin, signs))
    other = mgx.mul(mgx.mul(mgx.reverse(halves, [axis]), sin), signs)
    y = mgx.add(mgx.mul(halves, cos), other)
    y = emit.reshape(y, (batch, heads, length, 2 * pairs))
    return y if 2 * pairs == size else emit.concat([y, rest], 3)


@contributed("RotaryEmbedding", "gather mul reverse add concat")
def rotary_embedding(node: Node) -> ir.Value:
    """x is (batch, length, hidden), or in heads. One position is the first of consecutive ones."""
    x, cosines, sines = node.tensor(0), node.tensor(2), node.tensor(3)
    node.only("is_packed_batching", 0)
    node.only("scale", 1.0)
    heads = int(node.attribute("num_heads", 0))
    partial = int(node.attribute("rotary_embedding_dim", 0))
    interleaved = bool(node.attribute("interleaved", 0))
    split = tensors.rank(x) == 4
    if not split:
        hidden = tensors.size_of(x, 2, "the width of what is rotated")
        width = 2 * tensors.size_of(cosines, 1, "the width of the tables of angles")
        if partial and not heads:
            raise ModelError("rotary_embedding_dim without num_heads")
        x = split_heads(x, heads if partial else hidden // width)
    batch, _, length, _ = tensors.dims(x)
    y = rotated(x, _places(node, 1, batch, length), cosines, sines, interleaved)
    return y if split else join_heads(y)


def _places(node: Node, index: int, batch: Dim, length: Dim) -> ir.Value:
    """Positions (batch, length): those that an input holds, or those from its only element on."""
    places = emit.convert(node.tensor(index), "i64")
    first = tensors.rank(places) == 1
    tensors.require(places, (1,) if first else (batch, length), "what holds the positions")
    if first:
        places = emit.add(emit.reshape(places, (1, 1)), emit.unsqueeze(counted(node, length), [0]))
    return emit.broadcast(places, (batch, length))
