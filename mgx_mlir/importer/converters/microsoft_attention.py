"""Attention of onnxruntime's domain, com.microsoft.

All of them become one pattern: dot, scale, mask, softmax, dot, on (batch, heads, length, size).
Source of their meaning: onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

from mgx_mlir import advice
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, OpenError, UnsupportedError
from mgx_mlir.importer import budget, emit, tensors
from mgx_mlir.importer.converters.microsoft import contributed
from mgx_mlir.importer.converters.movement import counted
from mgx_mlir.importer.converters.quantization import matmul_to_float
from mgx_mlir.importer.converters.slices import part_of
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.tensors import Dim
from mgx_mlir.sizes.arithmetic import Number, Size

_OPS = "dot mul add softmax concat transpose reshape"


# ===----------------------------------------------------------------------===#
# The pattern
# ===----------------------------------------------------------------------===#


def attend(
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    scale: float,
    masks: list[ir.Value],
    softcap: float = 0,
    sink: ir.Value | None = None,
) -> ir.Value:
    """softmax(q k^T scale + masks) v, of (batch, heads, length, size) each.

    `masks` are added. `softcap` bounds the scores before. `sink` is a score for each head that
    takes part in the softmax and has no value.
    """
    scores = scores_of(q, k, scale, masks, softcap)
    if sink is None:
        return emit.dot(mgx.softmax(scores, 3), v)
    *outer, length = tensors.dims(scores)
    column = emit.broadcast(emit.reshape(sink, (1, outer[1], 1, 1)), (*outer, 1))
    if isinstance(length, int):
        weights = mgx.softmax(emit.concat([scores, column], 3), 3)
        return emit.dot(emit.take(weights, 3, 0, length), v)
    most = mgx.max(mgx.reduce_max(scores, [3]), column)
    raised = mgx.exp(emit.sub(scores, most))
    total = emit.add(mgx.reduce_sum(raised, [3]), mgx.exp(mgx.sub(column, most)))
    return emit.dot(emit.div(raised, total), v)


def scores_of(
    q: ir.Value, k: ir.Value, scale: float, masks: list[ir.Value], softcap: float = 0
) -> ir.Value:
    """q k^T scale + masks, which `attend` takes the softmax of."""
    scores = emit.mul(emit.dot(q, emit.transpose(k, [0, 1, 3, 2])), scale)
    if softcap:
        scores = emit.mul(mgx.tanh(emit.div(scores, softcap)), softcap)
    for mask in masks:
        scores = emit.add(scores, emit.convert(mask, tensors.element(scores)))
    return scores


def split_heads(x: ir.Value, heads: int) -> ir.Value:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    tensors.require(x, (None, None, None), "what has heads")
    batch, length, _ = tensors.dims(x)
    hidden = tensors.size_of(x, 2, "the width of what has heads")
    if heads < 1 or hidden % heads:
        raise ModelError(f"{hidden} hidden units in {heads} heads")
    return emit.transpose(emit.reshape(x, (batch, length, heads, hidden // heads)), [0, 2, 1, 3])


def join_heads(x: ir.Value) -> ir.Value:
    """(batch, heads, length, size) as (batch, length, heads * size)."""
    batch, heads, length, size = tensors.dims(x)
    assert isinstance(heads, int) and isinstance(size, int)
    return emit.reshape(emit.transpose(x, [0, 2, 1, 3]), (batch, length, heads * size))


def scale_of(node: Node, size: int) -> float:
    """The factor of the scores; 0 means the default."""
    return float(node.attribute("scale", 0.0)) or 1 / math.sqrt(size)


def _chosen(node: Node, kept: ir.Value, like: ir.Value, otherwise: float) -> ir.Value:
    """0 where `kept` holds and a number elsewhere, to be added to scores of like's type."""
    dtype = emit.numpy_type(like)
    number = node.make(np.array(otherwise).astype(dtype))
    return emit.where(kept, node.make(np.zeros((), dtype)), number)


def lowest(like: ir.Value) -> float:
    """The lowest number of like's element type."""
    return float(ml_dtypes.finfo(emit.numpy_type(like)).min)


def _causal(node: Node, q: ir.Value, k: ir.Value, first: ir.Value | None = None) -> ir.Value:
    """A mask (1, 1, rows, columns): the last row sees all columns, each row before one less.

    With `first`, a scalar, the first row sees the columns up to it.
    """
    rows, columns = tensors.dims(q)[2], tensors.dims(k)[2]
    if first is None and isinstance(rows, int) and isinstance(columns, int):
        budget.check_made(rows, columns, itemsize=1)
        seen = np.arange(columns) <= np.arange(rows)[:, None] + columns - rows
        return _chosen(node, node.make(seen[None, None]), q, lowest(q))
    if first is None:
        first = emit.sub(emit.size_of(k, 2), emit.size_of(q, 2))
    last = emit.unsqueeze(emit.add(counted(node, rows), first), [1])
    hidden = emit.binary(mgx.greater, emit.unsqueeze(counted(node, columns), [0]), last)
    return _chosen(node, emit.unsqueeze(mgx.not_(hidden), [0, 1]), q, lowest(q))


def _padding(node: Node, mask: ir.Value, q: ir.Value, total: Number) -> ir.Value:
    """The mask of tokens to leave out, in each of its forms, to be added to scores.

    (batch,) holds ends, (2 * batch,) ends and starts, (3 * batch + 2,) ends and sums of lengths;
    (batch, total), (batch, rows, total) and (batch, 1, places, places) hold 1 for kept tokens.
    """
    batch, _, rows, _ = tensors.known_sizes(q)
    sizes = tensors.known_sizes(mask, "the mask")
    (each, length), (images,) = tensors.named([rows, total]), tensors.named([batch])
    filler = float(node.attribute("mask_filter_value", -10000.0))
    forms = (batch, 2 * batch, 3 * batch + 2)
    if len(sizes) == 1 and isinstance(sizes[0], Size) and sizes[0] not in forms:
        tensors.require_equal(tensors.dims(mask), [images])
    if len(sizes) == 1 and sizes[0] in forms:
        places = emit.unsqueeze(emit.convert(counted(node, length), "i32"), [0, 1, 2])
        ends = emit.unsqueeze(part_of(mask, 0, 0, batch, sizes[0]), [1, 2, 3])
        kept = emit.binary(mgx.less, places, ends)
        if sizes[0] == 2 * batch:
            starts = emit.unsqueeze(part_of(mask, 0, batch, 2 * batch, sizes[0]), [1, 2, 3])
            early = emit.binary(mgx.less, places, starts)
            kept = mgx.logical_and(kept, mgx.not_(early))
        return _chosen(node, kept, q, filler)
    wanted: dict[int, list[Dim]] = {
        2: [images, length], 3: [images, each, length], 4: [images, 1, None, None],
    }  # fmt: skip
    if len(sizes) not in wanted:
        raise ModelError(f"a mask of {tensors.show(tensors.dims(mask))} for a batch of {batch}")
    tensors.require(mask, wanted[len(sizes)], "the mask")
    if len(sizes) == 4:  # a mask of all positions: the rows are the last of them
        if any(size < total for size in sizes[2:]):
            raise ModelError(f"a mask of {tensors.show(tensors.dims(mask))} for {total} places")
        for size in sizes[2:]:
            node.require(size - total)
        cut = part_of(mask, 2, total - rows, total, sizes[2])
        mask = part_of(cut, 3, 0, total, sizes[3])
    elif len(sizes) == 3:
        mask = emit.unsqueeze(mask, [1])
    else:
        mask = emit.unsqueeze(mask, [1, 2])
    return _chosen(node, mgx.greater(mask, emit.like(mask, 0)), q, filler)


def _masked(
    node: Node, q: ir.Value, k: ir.Value, *, padding: int, bias: int, first: ir.Value | None = None
) -> list[ir.Value]:
    """The sum to add to the scores: inputs `padding` and `bias`, and the unidirectional mask.

    `first`: the place of the first new entry in k and v, whose later places are empty.
    """
    batch, heads, rows, _ = tensors.dims(q)
    total = tensors.dims(k)[2]
    masks = []
    if node.given(padding) and not _says_nothing(node, padding, batch, total):
        mask = node.tensor(padding)
        if first is not None and tensors.rank(mask) in (2, 3):
            mask = _lengthened(node, mask, total)
        masks.append(_padding(node, mask, q, tensors.known_sizes(k)[2]))
    if node.attribute("unidirectional", 0):
        masks.append(_causal(node, q, k, first))
    elif first is not None:
        masks.append(_filled(node, q, k, first))
    if node.given(bias):
        scores = node.tensor(bias)
        if first is not None:
            scores = _lengthened(node, scores, total)
        have = (*tensors.dims(scores), None, None)
        shape = [1 if d == 1 else n for d, n in zip(have, (batch, heads), strict=False)]
        tensors.require(scores, [*shape, rows, total], "the bias of the scores")
        masks.append(scores)
    return masks


def _filled(node: Node, q: ir.Value, k: ir.Value, first: ir.Value) -> ir.Value:
    """A mask (1, 1, 1, columns) of the places of a buffer up to the last new entry."""
    columns = counted(node, tensors.dims(k)[2])
    kept = emit.binary(mgx.less, columns, emit.add(first, emit.size_of(q, 2)))
    return _chosen(node, emit.unsqueeze(kept, [0, 1, 2]), q, lowest(q))


def _lengthened(node: Node, x: ir.Value, total: Dim) -> ir.Value:
    """x, which ends with the entries of a buffer so far, with zeros for its other places."""
    last = tensors.rank(x) - 1
    have, wanted = tensors.size(tensors.dims(x)[last]), tensors.size(total)
    if have is None or wanted is None:
        raise OpenError(f"the length of the buffer or of its mask; {advice.GIVE_SIZES}")
    missing = wanted - have
    if missing == 0:
        return x
    if isinstance(missing, int) and missing < 0:
        raise ModelError(f"a mask of {have} places for a buffer of {wanted}")
    node.require(missing)
    zeros = emit.filled(
        np.zeros((), emit.numpy_type(x)), [*tensors.dims(x)[:last], *tensors.named([missing])]
    )
    return _named(emit.concat([x, zeros], last), total)


def _named(x: ir.Value, last: Dim) -> ir.Value:
    """x with the name of a size that its last dimension equals."""
    return emit.reshape(x, [*tensors.dims(x)[:-1], last])


def _says_nothing(node: Node, padding: int, batch: Dim, total: Dim) -> bool:
    """Whether the mask is the column that onnxruntime's Attention takes for no mask."""
    sizes = node.value(padding).dims
    column = sizes in ((batch, 1), (1, 1)) and total != 1
    return column and node.op_type != "MultiHeadAttention"


# ===----------------------------------------------------------------------===#
# Attention, MultiHeadAttention
# ===----------------------------------------------------------------------===#


def _projected(
    node: Node, projected: ir.Value, *, mask: int, past: int, bias: int
) -> list[ir.Value | None]:
    """Attention of a projection (batch, length, q and k and v), and the state with past."""
    heads = int(node.required("num_heads"))
    width = tensors.size_of(projected, 2, "the width of the projection")
    sizes = list(node.attribute("qkv_hidden_sizes", [width // 3] * 3))
    if len(sizes) != 3 or sum(sizes) != width:
        raise ModelError(f"qkv_hidden_sizes of {sizes} for {width} columns")
    node.only("do_rotary", 0)
    ends = np.cumsum([0, *sizes]).tolist()
    parts = [emit.take(projected, 2, ends[i], ends[i + 1]) for i in range(3)]
    q, k, v = (split_heads(part, heads) for part in parts)
    batch, size = tensors.dims(k)[0], tensors.size_of(k, 3, "the size of a head")
    first = None
    if node.attribute("past_present_share_buffer", 0):
        first = _first(node, past + 2)
    if node.given(past):
        before = node.tensor(past)
        tensors.require(before, (2, batch, heads, None, size), "the past state")
        k, v = (
            _extended(node, emit.squeeze(emit.take(before, 0, i, i + 1), [0]), new, first, past + 2)
            for i, new in enumerate((k, v))
        )
    masks = _masked(node, q, k, padding=mask, bias=bias, first=first)
    y = attend(q, k, v, scale_of(node, size), masks)
    return [join_heads(y), emit.stack([k, v], 0) if node.wanted(1) else None]


def _first(node: Node, index: int) -> ir.Value:
    """The number of entries of a buffer so far, as a scalar."""
    tensors.require(
        node.tensor(index), [1] * tensors.rank(node.tensor(index)), "past_sequence_length"
    )
    return emit.convert(emit.reshape(node.tensor(index), []), "i64")


def _extended(
    node: Node, past: ir.Value, new: ir.Value, first: ir.Value | None, index: int
) -> ir.Value:
    """The past entries (batch, heads, length, size) and the new ones.

    With `first`, which is input `index`, the past is a buffer that has room for the new ones.
    """
    if first is None:
        return emit.concat([past, new], 2)
    room, rows = (tensors.known_sizes(x)[2] for x in (past, new))
    node.at_most(index, room - rows)
    places = emit.add(counted(node, tensors.dims(new)[2]), first)
    where = emit.broadcast(emit.unsqueeze(places, [0, 1, 3]), tensors.dims(new))
    return mgx.scatter_none(past, where, new, 2)


@contributed("Attention", _OPS)
def attention(node: Node) -> Any:
    """Inputs: x, weights and bias of the projection, mask, past, bias of the scores."""
    x = emit.dot(node.tensor(0), node.tensor(1))
    if node.given(2):
        x = emit.add(x, node.tensor(2))
    node.attribute("rotary_embedding_dim", 0)  # counts with do_rotary, which is refused
    return _projected(node, x, mask=3, past=4, bias=5)


@contributed("QAttention", "quant_dot " + _OPS)
def quantized_attention(node: Node) -> Any:
    """Inputs: x, weights, bias, their scales, mask, their zero points, past."""
    x = matmul_to_float(node, 0, 1, 3, 4, 6, 7)
    return _projected(node, emit.add(x, node.tensor(2)), mask=5, past=8, bias=9)


@contributed("MultiHeadAttention", _OPS)
def multi_head_attention(node: Node) -> Any:
    """Inputs: q, k, v (or several in one), bias, padding, bias of scores, past k and v."""
    heads = int(node.required("num_heads"))
    if node.given(9):
        raise UnsupportedError("cache_indirection, the beams of a search")
    q, k, v = _with_bias(node, *_unpacked(node, heads), heads)
    batch, size = tensors.dims(q)[0], tensors.size_of(q, 3, "the size of a head")
    length = tensors.dims(k)[2]
    tensors.require(k, (batch, heads, length, size), "the key, in heads,")
    tensors.require(v, (batch, heads, length, None), "the value, in heads,")
    first = None
    if node.given(6) or node.given(7):
        first = _first(node, 8) if node.given(8) else None
        past = tensors.dims(node.tensor(6))[2]
        parts = []
        for index, new in ((6, k), (7, v)):
            tensors.require(
                node.tensor(index),
                (batch, heads, past, tensors.dims(new)[3]),
                f"the past {'key' if index == 6 else 'value'}",
            )
            parts.append(_extended(node, node.tensor(index), new, first, 8))
        k, v = parts
    node.ignore(8)  # without a past
    masks = _masked(node, q, k, padding=4, bias=5, first=first)
    scale = scale_of(node, size)
    scores = scores_of(q, k, scale, masks) if node.wanted(3) else None
    return [join_heads(attend(q, k, v, scale, masks)), k, v, scores]


def _unpacked(node: Node, heads: int) -> tuple[ir.Value, ir.Value, ir.Value]:
    """q, k and v; (batch, length, hidden) each, or k and v (batch, heads, length, size)."""
    q = node.tensor(0)
    if not node.given(1):
        return _parts(q, 3, heads)  # type: ignore[return-value]
    k = node.tensor(1)
    if not node.given(2):
        return (q, *_parts(k, 2, heads))  # type: ignore[return-value]
    return q, k, node.tensor(2)


def _parts(packed: ir.Value, count: int, heads: int) -> tuple[ir.Value, ...]:
    """The parts of (batch, length, heads, count, size), as (batch, length, heads * size)."""
    tensors.require(packed, (None, None, heads, count, None), "what is packed")
    batch, length, *_ = tensors.dims(packed)
    size = tensors.size_of(packed, 4, "the size of a head")
    return tuple(
        emit.reshape(emit.take(packed, 3, i, i + 1), (batch, length, heads * size))
        for i in range(count)
    )


def _with_bias(node: Node, q: ir.Value, k: ir.Value, v: ir.Value, heads: int) -> list[ir.Value]:
    """q, k and v, each plus its part of input 3, in heads. Operands in heads have their bias."""
    found = []
    start = 0
    widths = [_width(x, w) for x, w in ((q, "query"), (k, "key"), (v, "value"))]
    if node.given(3):
        tensors.require(node.tensor(3), [sum(widths)], "the bias")
    for x, hidden in zip((q, k, v), widths, strict=True):
        split = tensors.rank(x) == 4
        if node.given(3) and not split:
            x = emit.add(x, emit.take(node.tensor(3), 0, start, start + hidden))
        start += hidden
        found.append(x if split else split_heads(x, heads))
    return found


def _width(x: ir.Value, what: str) -> int:
    """The hidden units of (batch, length, hidden), or of (batch, heads, length, size)."""
    axes = {3: (2,), 4: (1, 3)}.get(tensors.rank(x))
    if axes is None:
        shown = tensors.show(tensors.dims(x))
        raise ModelError(f"the {what} is {shown}; 3 dimensions, or 4 in heads, are needed")
    return math.prod(tensors.size_of(x, axis, f"the width of the {what}") for axis in axes)
