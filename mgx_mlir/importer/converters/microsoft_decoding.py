"""GroupQueryAttention of com.microsoft: decoding with a cache of keys and values.

Source of its meaning: onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

from mgx_mlir import advice
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, OpenError, UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.converters.microsoft import contributed
from mgx_mlir.importer.converters.microsoft_attention import (
    attend,
    join_heads,
    lowest,
    scale_of,
    split_heads,
)
from mgx_mlir.importer.converters.microsoft_rotary import rotated
from mgx_mlir.importer.converters.movement import counted
from mgx_mlir.importer.converters.normalization import root_mean_square
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.tensors import Dim
from mgx_mlir.sizes.arithmetic import Number, Size, alone
from mgx_mlir.suggest import listed


@contributed("GroupQueryAttention", "dot mul where softmax scatter_none gather concat")
def group_query_attention(node: Node) -> Any:
    """Inputs: q, k, v, past k and v, last positions, total length, angles, positions, score bias.

    The cache holds each sequence from its position 0 on; new entries follow its old ones.
    """
    _refuse_other_forms(node)
    heads, groups = int(node.required("num_heads")), int(node.required("kv_num_heads"))
    q, k, v = _split(node, heads, groups)
    batch, _, rows, _ = tensors.dims(q)
    size = tensors.size_of(q, 3, "the size of a head")
    for x, what in ((k, "the key, in heads,"), (v, "the value, in heads,")):
        tensors.require(x, (batch, groups, rows, size), what)
    # The first position of the new entries in each sequence: the earlier ones are in the cache.
    ends = emit.convert(emit.reshape(node.tensor(5), (batch, 1)), "i64")
    first = emit.sub(emit.add(ends, 1), emit.size_of(q, 2))
    first = mgx.max(first, emit.like(first, 0))
    places = emit.add(first, emit.unsqueeze(counted(node, rows), [0]))
    q, k = _normalised(node, q, 14), _normalised(node, k, 15)
    if node.attribute("do_rotary", 0):
        angles = _angles(node, places, batch, rows)
        interleaved = bool(node.attribute("rotary_interleaved", 0))
        q, k = (rotated(x, angles, node.tensor(7), node.tensor(8), interleaved) for x in (q, k))
    else:
        node.attribute("rotary_interleaved", 0)
    stored = [
        _cached(node, past, _stored(node, past, new), places) for past, new in ((3, k), (4, v))
    ]
    k, v = (_loaded(node, past, cache, q) for past, cache in ((3, stored[0]), (4, stored[1])))
    total = tensors.dims(k)[2]
    masks = [_visible(node, q, places, ends, total)]
    if node.given(10):
        bias = node.tensor(10)
        masks.append(_bias(node, bias, (batch, heads, rows), total))
    y = attend(
        q,
        _repeated(k, heads // groups),
        _repeated(v, heads // groups),
        scale_of(node, size),
        masks,
        softcap=float(node.attribute("softcap", 0.0)),
        sink=_sink(node, q),
    )
    return [join_heads(y), *stored]


def _refuse_other_forms(node: Node) -> None:
    node.only("sliding_window_cache", 0)
    node.only("qk_output", 0)


# The inputs of the caches, by which errors name them.
_CACHES = {3: "k", 4: "v"}
# The element types of a cache by the bits of a number: two of 4 bits are in a byte.
_CODES = {
    4: (np.dtype("uint8"),),
    8: tuple(map(np.dtype, ("int8", ml_dtypes.float8_e4m3fn))),
}


def _scale(node: Node, past: int, x: ir.Value) -> ir.Value | None:
    """The scales of a cache of 4- or 8-bit numbers, as broadcast to x; None for one of floats."""
    name = _CACHES[past]
    kind, bits = _kind(node, past), _bits(node)
    if kind == "NONE":
        if node.given(past + 9):
            raise ModelError(f"{name}_scale for a cache whose {name}_quant_type is NONE")
        return None
    if bits not in _CODES:
        raise UnsupportedError(f"kv_cache_bit_width = {bits}; 4 and 8 are supported")
    if not node.given(past) or not node.given(past + 9):
        raise UnsupportedError(f"a quantized cache without a past, or without {name}_scale")
    codes = np.dtype(emit.numpy_type(node.tensor(past)))
    if codes not in _CODES[bits]:
        raise UnsupportedError(
            f"a quantized cache of {codes}; numbers of {bits} bits are in "
            f"{listed(map(str, _CODES[bits]))}"
        )
    scale = emit.convert(node.tensor(past + 9), "f32")
    _, heads, _, size = tensors.dims(x)
    shape = (1, heads, 1, size) if kind == "PER_CHANNEL" else (1, 1, 1, 1)
    return emit.broadcast(emit.reshape(scale, shape), tensors.dims(x))


def _stored(node: Node, past: int, new: ir.Value) -> ir.Value:
    """New entries as the cache holds them."""
    scale = _scale(node, past, new)
    if scale is None:
        return new
    to = np.int8 if _bits(node) == 4 else emit.numpy_type(node.tensor(past))
    codes = mgx.quantizelinear(emit.convert(new, "f32"), scale, None, to=to, saturate=True)
    return _packed(codes) if _bits(node) == 4 else codes


def _loaded(node: Node, past: int, cache: ir.Value, q: ir.Value) -> ir.Value:
    """The entries of a cache, in q's type."""
    if _kind(node, past) != "NONE" and _bits(node) == 4:
        cache = _unpacked(node, cache)
    scale = _scale(node, past, cache)
    if scale is None:
        return cache
    return emit.convert(mgx.dequantizelinear(cache, scale), tensors.element(q))


def _kind(node: Node, past: int) -> str:
    name, kinds = f"{_CACHES[past]}_quant_type", ("NONE", "PER_TENSOR", "PER_CHANNEL")
    return str(node.choice(name, *kinds, default="NONE"))


def _bits(node: Node) -> int:
    return int(node.attribute("kv_cache_bit_width", 0)) or 8


def _packed(codes: ir.Value) -> ir.Value:
    """Numbers from -8 to 7 as bytes of two, the first in the low bits, each with 8 added."""
    outer = tensors.dims(codes)[:3]
    size = tensors.size_of(codes, 3, "the size of a head")
    if size % 2:
        raise UnsupportedError(f"a cache of 4 bits for heads of {size} elements; it is even")
    codes = emit.convert(emit.add(emit.clip(codes, -8, 7), 8), "ui8")
    pairs = emit.reshape(codes, (*outer, size // 2, 2))
    low, high = (emit.squeeze(emit.take(pairs, 4, n, n + 1), [4]) for n in (0, 1))
    return emit.add(low, emit.mul(high, 16))


def _unpacked(node: Node, cache: ir.Value) -> ir.Value:
    """The numbers of bytes that `_packed` made."""
    outer = tensors.dims(cache)[:3]
    size = 2 * tensors.size_of(cache, 3, "the bytes of a head")
    shifts = node.make(np.array([0, 4], np.uint8))
    pairs = emit.binary(mgx.shift_right, emit.unsqueeze(cache, [4]), shifts)
    codes = emit.convert(emit.binary(mgx.bitwise_and, pairs, 15), "i8")
    return emit.reshape(emit.sub(codes, 8), (*outer, size))


def _split(node: Node, heads: int, groups: int) -> list[ir.Value]:
    """q, k and v in heads; one input may hold all of them."""
    q = node.tensor(0)
    if groups < 1 or heads % groups:
        raise ModelError(f"{heads} heads of queries for {groups} of keys")
    apart = [node.given(i) and len(node.value(i).dims) > 1 for i in (1, 2)]
    if any(apart):  # a key and a value of one dimension are placeholders beside packed ones
        return [split_heads(x, n) for x, n in ((q, heads), (node.tensor(1), groups),
                                               (node.tensor(2), groups))]  # fmt: skip
    packed = split_heads(q, heads + 2 * groups)
    ends = (0, heads, heads + groups, heads + 2 * groups)
    return [emit.take(packed, 1, ends[i], ends[i + 1]) for i in range(3)]


def _normalised(node: Node, x: ir.Value, index: int) -> ir.Value:
    """x (batch, heads, length, size) over its root mean square, times input `index` if given."""
    epsilon = node.attribute("qk_norm_epsilon", 1e-6)
    if not node.given(index):
        return x
    y, _ = root_mean_square(emit.convert(x, "f32"), [3], epsilon)
    return emit.mul(emit.convert(y, tensors.element(x)), node.tensor(index))


def _angles(node: Node, places: ir.Value, batch: Dim, rows: Dim) -> ir.Value:
    """The positions of the rotations: input 9 where it is given, else those in the cache."""
    if not node.given(9):
        return places
    return emit.broadcast(emit.convert(node.tensor(9), "i64"), (batch, rows))


def _bias(node: Node, bias: ir.Value, scores: tuple[Dim, ...], total: Dim) -> ir.Value:
    """attention_bias for `scores` (batch, heads, rows) and all places of the cache."""
    pairs = zip(tensors.dims(bias), scores[:2], strict=False)
    wanted = [1 if d == 1 else n for d, n in pairs]
    tensors.require(bias, [*wanted, scores[2], None], "attention_bias")
    width = tensors.dims(bias)[3]
    if width == total:
        return bias
    known, seen = (tensors.size_of(bias, 3, "the width of attention_bias"), _total(node))
    if seen is None or isinstance(seen, Size) or not isinstance(total, int):
        raise OpenError("whether attention_bias is for all places of the cache is not known")
    if known < seen:
        raise ModelError(f"attention_bias for {known} of {seen} places")
    missing = total - known
    return mgx.pad(bias, [0] * 4, [0, 0, 0, missing]) if missing > 0 else bias


def _total(node: Node) -> Number | None:
    """total_sequence_length, where it is known or follows from the inputs' sizes."""
    found = node.sizes(6)
    return found[0] if found else None


def _length(node: Node, before: Dim, rows: Dim) -> tuple[Dim, int | Size]:
    """The places of the cache with the new entries, and how many are more than `before`.

    A cache of open length is either as long as the total length, or grows by the new entries.
    Where a run computes the total length, the cache has all places already.
    """
    total, had, new = _total(node), tensors.size(before), tensors.size(rows)
    if had is None or new is None:
        raise OpenError(f"the length of the cache or of the query; {advice.GIVE_SIZES}")
    if isinstance(total, int) and isinstance(new, int) and total < new:
        raise ModelError(f"total_sequence_length = {total} and {new} new entries")
    if total is None and had == 0:
        raise OpenError("total_sequence_length is computed when the model runs")
    if total is None:
        node.at_most(6, had)
    if total is None or total == had or total <= had:
        return before, 0
    if isinstance(had, int) and isinstance(total, int):
        return total, total - had
    grown = had + new
    if total == grown or had == 0:
        return tensors.named([total])[0], total - had
    symbol = alone(total)
    if isinstance(had, int) and symbol is not None:
        limits = node.conversion.limits
        limits[symbol.name] = min(limits.get(symbol.name, had), had)
        return before, 0
    wanted = (tensors.named([total])[0], tensors.named([grown])[0])
    raise tensors.UnequalError(wanted, f"total_sequence_length is {total}, the cache has {grown}")


def _cached(node: Node, past: int, new: ir.Value, places: ir.Value) -> ir.Value:
    """The cache (batch, heads, length, size) with new entries at their positions."""
    batch, heads, rows, size = tensors.dims(new)
    before: Dim = 0
    if node.given(3) or node.given(4):
        what = "the past key" if past == 3 else "the past value"
        tensors.require(node.tensor(past), (batch, heads, None, size), what)
        before = tensors.dims(node.tensor(past))[2]
    length, more = _length(node, before, rows)
    if before == 0:
        if length == rows:
            return new  # the first entries: shorter sequences are filled up at the end
        zero = np.zeros((), emit.numpy_type(new))
        cache = emit.filled(zero, (batch, heads, length, size))
    else:
        cache = _longer(node.tensor(past), (batch, heads, more, size), length)
    where = emit.broadcast(emit.reshape(places, (batch, 1, rows, 1)), tensors.dims(new))
    return mgx.scatter_none(cache, where, new, 2)


def _longer(cache: ir.Value, more: tuple[Dim | Size, ...], length: Dim) -> ir.Value:
    """The cache with zeros `more` behind its entries, which are `length` then."""
    if more[2] == 0:
        return cache
    if isinstance(more[2], int):
        return mgx.pad(cache, [0] * 4, [0, 0, more[2], 0])
    sizes = [tensors.named([n])[0] if isinstance(n, Size) else n for n in more]
    zeros = emit.filled(np.zeros((), emit.numpy_type(cache)), sizes)
    return emit.concat([cache, zeros], 2)


def _visible(node: Node, q: ir.Value, places: ir.Value, ends: ir.Value, total: Dim) -> ir.Value:
    """A mask (batch, 1, rows, total) of the entries that each position sees, to be added."""
    batch, _, rows, _ = tensors.dims(q)
    window = int(node.attribute("local_window_size", -1))
    shape = (batch, 1, rows, total)
    columns = emit.broadcast(emit.reshape(counted(node, total), (1, 1, 1, total)), shape)
    if not node.attribute("causal", 1):
        last = emit.broadcast(emit.reshape(ends, (batch, 1, 1, 1)), shape)
        hidden = mgx.greater(columns, last)
    else:
        last = emit.broadcast(emit.reshape(places, (batch, 1, rows, 1)), shape)
        hidden = mgx.greater(columns, last)
        if window > 0:
            early = mgx.less(columns, emit.add(last, 1 - window))
            hidden = mgx.logical_or(hidden, early)
    dtype = emit.numpy_type(q)
    masked = node.make(np.array(lowest(q)).astype(dtype))
    return emit.where(hidden, masked, node.make(np.zeros((), dtype)))


def _repeated(x: ir.Value, times: int) -> ir.Value:
    """Each head of (batch, heads, length, size) repeated `times` times, one after another."""
    if times == 1:
        return x
    batch, heads, length, size = tensors.dims(x)
    assert isinstance(heads, int)
    wide = emit.broadcast(emit.unsqueeze(x, [2]), (batch, heads, times, length, size))
    return emit.reshape(wide, (batch, heads * times, length, size))


def _sink(node: Node, q: ir.Value) -> ir.Value | None:
    """A score for each head that only the softmax sees."""
    if node.given(11):
        tensors.require(node.tensor(11), [tensors.dims(q)[1]], "head_sink")
        return node.tensor(11)
    if not node.attribute("smooth_softmax", 0):
        return None
    return emit.filled(np.zeros((), emit.numpy_type(q)), tensors.dims(q)[1:2])
