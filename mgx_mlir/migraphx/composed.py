"""MIGraphX's operators that several ops of mgx compute. Parameters are MIGraphX's attributes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.constants import constant_array
from mgx_mlir.migraphx.shape import dtype_of
from mgx_mlir.migraphx.tensors import as_type, rank_of, sizes_of, sizes_together, zeros
from mgx_mlir.rewriting.queries import element_type

_DIRECTIONS = ("forward", "reverse", "bidirectional")


def _same(number: float, like: ir.Value) -> ir.Value:
    """The number in each element of a tensor of this type."""
    return mgx.splat(number, like.type)


def _part(x: ir.Value, axis: int, start: int, end: int) -> ir.Value:
    return mgx.slice(x, [axis % rank_of(x)], [start], [end])


# Sizes -----------------------------------------------------------------------------------


def broadcast_for_dot(a: ir.Value, b: ir.Value) -> ir.Value:
    """a [..., M, K] with the outer dimensions that both have together."""
    *outer, rows, columns = sizes_of(a)
    dims = sizes_together(outer, sizes_of(b)[:-2])
    return mgx.multibroadcast(a, [*dims, rows, columns])


def broadcast_with_dims(x: ir.Value, dims: ir.Value) -> ir.Value:
    """x in the sizes of a constant, or in those that both have together where they are larger."""
    made = None if isinstance(dims.owner, ir.Block) else dims.owner.opview
    if not isinstance(made, mgx.ConstantOp):
        raise ValueError("the sizes are to be a literal")
    wanted = tuple(int(n) for n in constant_array(made))
    return mgx.multibroadcast(x, sizes_together(sizes_of(x), wanted))


def fill(value: ir.Value, like: ir.Value) -> ir.Value:
    """A value of one element in the shape of another tensor."""
    return mgx.multibroadcast(mgx.reshape(value, []), sizes_of(like))


def fixed_pad(x: ir.Value, *, output_lens: Sequence[int]) -> ir.Value:
    """x with zeros after its elements, up to these sizes."""
    more = [size - n for size, n in zip(output_lens, sizes_of(x), strict=True)]
    if min(more, default=0) < 0:
        raise ValueError(f"{list(output_lens)} are smaller sizes")
    return mgx.pad(x, [0] * len(more), more)


def im2col(
    x: ir.Value,
    w: ir.Value,
    *,
    padding: Sequence[int] = (0, 0),
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
) -> ir.Value:
    """Windows of x [1, C, H, W] as large as the weights': [places, C * height * width]."""
    batch, channels, *_ = sizes_of(x)
    if batch != 1:
        raise ValueError(f"a batch of {batch}; im2col takes one image")
    low, high = list(padding[:2]), list(padding[-2:])
    x = mgx.pad(x, [0, 0, *low], [0, 0, *high])
    kernel = sizes_of(w)[2:]
    reach = [1 + d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    counts = [
        max(1, (n - r) // s + 1) for n, r, s in zip(sizes_of(x)[2:], reach, stride, strict=True)
    ]
    columns = []
    for place in np.ndindex(*kernel):
        first = [d * k for d, k in zip(dilation, place, strict=True)]
        last = [f + (c - 1) * s + 1 for f, c, s in zip(first, counts, stride, strict=True)]
        window = mgx.step(mgx.slice(x, [2, 3], first, last), [2, 3], list(stride))
        columns.append(mgx.reshape(window, [channels, 1, math.prod(counts)]))
    rows = mgx.reshape(mgx.concat(columns, 1), [channels * len(columns), math.prod(counts)])
    return mgx.transpose(rows, [1, 0])


# Pairs of four-bit numbers in bytes, the first in the low bits -----------------------------


def pack_int4(x: ir.Value, *, axis: int = -1) -> ir.Value:
    """Two numbers along a dimension in each byte, of x's type."""
    element = element_type(x)
    size = sizes_of(x)[axis]
    if size % 2 or element.width != 8:
        raise ValueError(f"{size} elements of {element} are no pairs of bytes")
    bits = mgx.bit_cast(x, np.uint8)
    even, odd = (
        mgx.step(_part(bits, axis, start, size), [axis % rank_of(x)], [2]) for start in (0, 1)
    )
    low = mgx.bitwise_and(even, _same(15, even))
    packed = mgx.bitwise_or(low, mgx.shift_left(odd, _same(4, odd)))
    return mgx.bit_cast(packed, element)


def pack_fp4(x: ir.Value, *, axis: int = -1) -> ir.Value:
    """Floats as fp4 (E2M1), two along a dimension in each byte."""
    y = mgx.convert(mgx.convert(x, _fp4()), np.float32)
    size = mgx.abs(y)
    # 0, 0.5, 1, 1.5, 2, 3, 4, 6 are numbers 0 to 7: three lines, the least of which counts.
    number = mgx.add(size, size)
    for factor, first in ((1.0, 2.0), (0.5, 4.0)):
        line = mgx.add(mgx.mul(size, _same(factor, size)), _same(first, size))
        number = mgx.min(number, line)
    number = mgx.where(mgx.less(y, _same(0, y)), mgx.add(number, _same(8, number)), number)
    return pack_int4(mgx.convert(number, np.uint8), axis=axis)


def unpack_fp4(x: ir.Value, *, axis: int = -1) -> ir.Value:
    """The numbers of fp4 (E2M1), two in a byte along a dimension, as fp8 (E4M3)."""
    order = [*range(rank_of(x))]
    order[axis], order[-1] = order[-1], order[axis]
    packed = mgx.bit_cast(mgx.transpose(x, order), np.uint8)
    found = mgx.convert(mgx.unpack(packed, _fp4()), ir.Float8E4M3FNType.get())
    return mgx.transpose(found, order)


def _fp4() -> ir.Type:
    return ir.Float4E2M1FNType.get()


# Random numbers --------------------------------------------------------------------------


def random_uniform(seed: ir.Value, like: ir.Value) -> ir.Value:
    """Floats from 0 up to 1 in the shape and type of `like`: a hash of the seed and the place."""
    if not str(element_type(like)).startswith(("f", "bf")):
        raise ValueError(f"random_uniform makes floats, not {element_type(like)}")
    dims = sizes_of(like)
    place = mgx.convert(mgx.iota(math.prod(dims), np.int64), np.uint32)
    first = mgx.multibroadcast(as_type(mgx.reshape(seed, []), np.uint32), [math.prod(dims)])
    bits = mgx.add(_mixed(first), place)
    for _ in range(2):
        bits = _mixed(bits)
    # 24 bits: each is a float of its own.
    numbers = mgx.convert(mgx.shift_right(bits, _same(8, bits)), np.float32)
    numbers = mgx.mul(numbers, _same(2**-24, numbers))
    return mgx.reshape(mgx.convert(numbers, element_type(like)), dims)


def _mixed(bits: ir.Value) -> ir.Value:
    """32-bit numbers, one to one, each bit of which depends on all: two odd factors, two folds."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        bits = mgx.bitwise_xor(bits, mgx.shift_right(bits, _same(shift, bits)))
        bits = mgx.mul(bits, _same(factor, bits))
    return mgx.bitwise_xor(bits, mgx.shift_right(bits, _same(16, bits)))


# Sequences of their own lengths: [steps, ..., rows, width] and the lengths [rows] ---------


def rnn_var_sl_shift_sequence(x: ir.Value, lengths: ir.Value) -> ir.Value:
    """Each row's steps moved to the end, after zeros."""
    step, length = _steps(x, lengths)
    place = mgx.sub(mgx.add(step, length), _same(sizes_of(x)[0], step))
    kept = mgx.not_(mgx.less(place, _same(0, place)))
    return mgx.where(kept, _step_of(x, place), zeros(sizes_of(x), x))


def rnn_var_sl_shift_output(
    x: ir.Value, lengths: ir.Value, *, output_name: str = "", direction: int | str = "forward"
) -> ir.Value:
    """Each row's steps moved to the start where the layer went backward; zeros after them."""
    del output_name
    step, length = _steps(x, lengths)
    moved = mgx.sub(mgx.add(step, _same(sizes_of(x)[0], step)), length)
    place = mgx.where(_is_backward(x, direction), moved, step)
    return mgx.where(mgx.less(step, length), _step_of(x, place), zeros(sizes_of(x), x))


def rnn_var_sl_last_output(
    x: ir.Value, lengths: ir.Value, *, direction: int | str = "forward"
) -> ir.Value:
    """The result of each row's last step: the first one where the layer went backward."""
    step, length = _steps(x, lengths)
    last = mgx.sub(length, _same(1, length))
    place = mgx.where(_is_backward(x, direction), _same(0, step), last)
    return mgx.reshape(_part(_step_of(x, place), 0, 0, 1), sizes_of(x)[1:])


def _steps(x: ir.Value, lengths: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Each element's step, and the length of its row."""
    dims = sizes_of(x)
    flat = as_type(mgx.reshape(lengths, [dims[-2]]), np.int64)
    step = mgx.broadcast(mgx.iota(dims[0], np.int64), dims, 0)
    return step, mgx.broadcast(flat, dims, len(dims) - 2)


def _step_of(x: ir.Value, place: ir.Value) -> ir.Value:
    """The elements of x at other steps; a step before the first or after the last is that one."""
    last = sizes_of(x)[0] - 1
    return mgx.gather_elements(x, mgx.min(mgx.max(place, _same(0, place)), _same(last, place)), 0)


def _is_backward(x: ir.Value, direction: int | str) -> ir.Value:
    """True for the elements of the direction that goes backward, of [steps, directions, ...]."""
    name = direction if isinstance(direction, str) else _DIRECTIONS[direction]
    found = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[name]
    return mgx.broadcast(mgx.constant(np.array(found)), sizes_of(x), 1)


def scan_slice(x: ir.Value, index: ir.Value, *, axis: int = 0, direction: int = 0) -> ir.Value:
    """One element along a dimension; direction 1 counts from the end."""
    place = as_type(mgx.reshape(index, [1]), np.int64)
    if direction:
        place = mgx.sub(_same(sizes_of(x)[axis] - 1, place), place)
    return mgx.gather(x, place, axis % rank_of(x))


# Caches of attention ----------------------------------------------------------------------


def concat_past_present(
    present: ir.Value, lengths: ir.Value, past: ir.Value, *, kv_num_heads: int = 0
) -> ir.Value:
    """`past` [B, heads, T, W] with the new steps: at the start, or one step after `lengths`."""
    batch, heads, steps, _ = sizes_of(present)
    room = sizes_of(past)[2]
    if kv_num_heads not in (0, heads) or steps > room:
        raise ValueError(f"{heads} heads, kv_num_heads {kv_num_heads}; {steps} steps for {room}")
    if steps > 1:
        return present if steps == room else mgx.concat([present, _part(past, 2, steps, room)], 2)
    step = mgx.broadcast(mgx.iota(room, np.int64), sizes_of(past), 2)
    flat = as_type(mgx.reshape(lengths, [batch]), np.int64)
    hit = mgx.equal(step, mgx.broadcast(flat, sizes_of(past), 0))
    return mgx.where(hit, mgx.multibroadcast(present, sizes_of(past)), past)


def gqa_rotary_embedding(
    qkv: ir.Value,
    lengths: ir.Value,
    cos: ir.Value,
    sin: ir.Value,
    *,
    num_heads: int = 1,
    kv_num_heads: int = 1,
    interleaved: bool = False,
) -> ir.Value:
    """Queries and keys of [B, num_heads + 2 * kv_num_heads, L, W] turned by their positions.

    Values stay. One step stands at `lengths` [B]; several start at 0. Caches: [positions, R / 2].
    """
    batch, heads, steps, width = sizes_of(qkv)
    turned, half = num_heads + kv_num_heads, sizes_of(cos)[1]
    if heads != turned + kv_num_heads or 2 * half > width:
        raise ValueError(f"{heads} heads of {width} for {num_heads} and twice {kv_num_heads}")
    flat = as_type(mgx.reshape(lengths, [batch]), np.int64)
    dims = [batch, turned, steps, half]

    def at_positions(cache: ir.Value) -> ir.Value:
        if steps > 1:
            return mgx.multibroadcast(_part(cache, 0, 0, steps), dims)
        return mgx.multibroadcast(
            mgx.reshape(mgx.gather(cache, flat, 0), [batch, 1, 1, half]), dims
        )

    x = _part(qkv, 1, 0, turned)
    pairs = _part(x, 3, 0, 2 * half)
    pairs = mgx.reshape(pairs, [*dims, 2] if interleaved else [*dims[:3], 2, half])
    axis = 4 if interleaved else 3
    a, b = (mgx.reshape(_part(pairs, axis, i, i + 1), dims) for i in (0, 1))
    c, s = at_positions(cos), at_positions(sin)
    both = (mgx.sub(mgx.mul(a, c), mgx.mul(b, s)), mgx.add(mgx.mul(b, c), mgx.mul(a, s)))
    apart = [*dims, 1] if interleaved else [*dims[:3], 1, half]
    joined = mgx.concat([mgx.reshape(y, apart) for y in both], axis)
    parts = [mgx.reshape(joined, [batch, turned, steps, 2 * half])]
    if 2 * half < width:
        parts = [mgx.concat([*parts, _part(x, 3, 2 * half, width)], 3)]
    return mgx.concat([*parts, _part(qkv, 1, turned, heads)], 1)


def rotary_embedding(x: ir.Value, *given: ir.Value, interleaved: bool = False) -> ir.Value:
    """x [B, heads, L, W] turned. `given`: cosines and sines that fit x's shape together; or the
    position of each step, or of the first, and both for each position [positions, W / 2]."""
    *outer, width = sizes_of(x)
    if len(given) == 3:
        rows = (_rows_at(cache, given[0], outer[0], outer[2]) for cache in given[1:])
        given = tuple(_doubled(row, width, interleaved) for row in rows)
    if len(given) != 2:
        raise ValueError(f"{1 + len(given)} operands; there are 3, or 4 with positions")
    pairs = mgx.reshape(x, [*outer, width // 2, 2] if interleaved else [*outer, 2, width // 2])
    axis = len(outer) + interleaved
    first, second = (_part(pairs, axis, i, i + 1) for i in (0, 1))
    turned = mgx.reshape(mgx.concat([mgx.neg(second), first], axis), sizes_of(x))
    cos, sin = (mgx.multibroadcast(y, sizes_of(x)) for y in given)
    return mgx.add(mgx.mul(x, cos), mgx.mul(turned, sin))


def _rows_at(cache: ir.Value, positions: ir.Value, batch: int, steps: int) -> ir.Value:
    """The rows of a cache for each step: [B, 1, L, W / 2]."""
    count = math.prod(sizes_of(positions))
    apart = count // batch if count > 1 else 1
    places = mgx.reshape(as_type(positions, np.int64), [count // apart, apart])
    places = mgx.multibroadcast(places, [batch, steps])
    if apart == 1:
        places = mgx.add(places, mgx.broadcast(mgx.iota(steps, np.int64), [batch, steps], 1))
    return mgx.reshape(mgx.gather(cache, places, 0), [batch, 1, steps, sizes_of(cache)[1]])


def _doubled(rows: ir.Value, width: int, interleaved: bool) -> ir.Value:
    """Each number for both of a pair: side by side, or half a row apart."""
    *outer, half = sizes_of(rows)
    apart = mgx.reshape(rows, [*outer, half, 1] if interleaved else [*outer, 1, half])
    return mgx.reshape(mgx.concat([apart, apart], len(outer) + interleaved), [*outer, width])


# Boxes -----------------------------------------------------------------------------------


def padded_rows(found: Sequence[ir.Value], operands: Sequence[ir.Value]) -> ir.Value:
    """nonmaxsuppression's rows [batches * boxes, 3], zeros after the last; at most so many.

    `found`: columns [3, most] and their count; the first operand is the boxes.
    """
    columns, count = found
    batches, boxes, _ = sizes_of(operands[0])
    most, wanted = sizes_of(columns)[1], batches * boxes
    place = mgx.broadcast(mgx.iota(most, np.int64), [3, most], 1)
    inside = mgx.less(place, mgx.multibroadcast(as_type(count, np.int64), [3, most]))
    rows = mgx.transpose(mgx.where(inside, columns, zeros([3, most], columns)), [1, 0])
    if most >= wanted:
        return rows if most == wanted else _part(rows, 0, 0, wanted)
    return mgx.pad(rows, [0, 0], [wanted - most, 0])


# Indices ---------------------------------------------------------------------------------


def nonzero(x: ir.Value) -> ir.Value:
    """The indices, then zeros: MIGraphX's result has a column for each element of x."""
    rank, count = rank_of(x), int(np.prod(sizes_of(x)))
    flat = mgx.reshape(x, [count])
    if str(element_type(flat)) != "i1":
        flat = mgx.convert(flat, np.bool_)
    # Elements that are not zero come first, in order: the sum before each is its column.
    number = mgx.convert(flat, np.int64)
    column = mgx.prefix_scan_sum(number, 0, exclusive=True)
    outside = mgx.constant(np.full(count, count))
    target = mgx.where(flat, column, outside)
    order = mgx.constant(np.indices(tuple(sizes_of(x))).reshape(rank, count).astype(np.int64))
    empty = mgx.constant(np.zeros((rank, count + 1), np.int64))
    places = mgx.multibroadcast(mgx.reshape(target, [1, count]), [rank, count])
    filled = mgx.scatter_none(empty, places, order, 1)
    return mgx.slice(filled, [1], [0], [count])


def multinomial(cdf: ir.Value, random: ir.Value, *, dtype: Any = "int32") -> ir.Value:
    """The first class of each row of sums whose share is above the random number from 0 to 1."""
    (rows, classes), (_, count) = sizes_of(cdf), sizes_of(random)
    shape = [rows, count, classes]
    total = mgx.multibroadcast(mgx.slice(cdf, [1], [classes - 1], [classes]), [rows, count])
    wanted = mgx.reshape(mgx.mul(random, total), [rows, count, 1])
    sums = mgx.multibroadcast(mgx.reshape(cdf, [rows, 1, classes]), shape)
    below = mgx.not_(mgx.greater(sums, mgx.multibroadcast(wanted, shape)))
    found = mgx.reduce_sum(mgx.convert(below, dtype_of(dtype)), [2])
    return mgx.reshape(found, [rows, count])


TABLE = {
    function.__name__: function
    for function in (
        broadcast_for_dot, broadcast_with_dims, concat_past_present, fill, fixed_pad,
        gqa_rotary_embedding, im2col, multinomial, nonzero, pack_fp4, pack_int4, random_uniform,
        rnn_var_sl_last_output, rnn_var_sl_shift_output,
        rnn_var_sl_shift_sequence, scan_slice, unpack_fp4,
    )
}  # fmt: skip
