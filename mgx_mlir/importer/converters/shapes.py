"""Operators that change shapes, or compute with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, OpenError, UnsupportedError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.importer.tensor_data import MAX_ELEMENTS, small_array
from mgx_mlir.importer.tensors import Dim
from mgx_mlir.rewriting import shape_values as shape_values
from mgx_mlir.sizes.arithmetic import Number, Size, exact, maximum

T = TypeVar("T")
# More than any tensor has; a longer shape is a fault, or an attack.
_MOST_DIMENSIONS = 64


@operator("Reshape", (1, 25), "reshape reshape_to")
def reshape(node: Node) -> ir.Value:
    zero_is_zero = bool(node.attribute("allowzero")) if node.version >= 14 else False
    wanted = node.known(1) if node.version >= 5 else np.array(node.required("shape"))
    if wanted is None:
        return _reshape_at_run_time(node)
    x = node.tensor(0)
    return emit.reshape(
        x,
        resolve(tensors.dims(x), [int(d) for d in wanted.reshape(-1)], zero_is_zero, node.require),
    )


def _reshape_at_run_time(node: Node) -> ir.Value:
    x = node.tensor(0)
    stated = node.sizes(1)
    zero_is_zero = bool(node.attribute("allowzero")) if node.version >= 14 else False
    if stated is not None:
        resolved = _resolve_sizes(tensors.sizes(x), stated, zero_is_zero, node.require)
        if resolved is not None:
            return emit.reshape(x, tensors.named(resolved))
        _require_multiple(tensors.dims(x), tensors.named(stated))
    sizes = node.computed_dims()
    if sizes is not None:
        return emit.reshape(x, sizes)
    if stated is not None:
        resolved = _resolve_sizes(tensors.sizes(x), stated, zero_is_zero, node.require, True)
        if resolved is not None:
            return emit.reshape(x, tensors.named(resolved))
    rank = _length(node, 1)
    wanted = emit.convert(node.tensor(1), "i64")
    if not zero_is_zero:
        have = mgx.dimensions_of(x, 0, min(rank, tensors.rank(x)))
        if rank > tensors.rank(x):
            have = emit.concat([have, node.make(np.zeros(rank - tensors.rank(x), np.int64))], 0)
        wanted = emit.where(mgx.equal(wanted, emit.like(wanted, 0)), have, wanted)
    # With one -1 among them, the product of sizes is minus the product of the others.
    total = mgx.reduce_prod(mgx.dimensions_of(x, 0, tensors.rank(x)), [0])
    others = mgx.max(mgx.abs(mgx.reduce_prod(wanted, [0])), mgx.constant([1]))
    is_open = mgx.less(wanted, emit.like(wanted, 0))
    wanted = emit.where(is_open, mgx.div(total, others), wanted)
    return mgx.reshape_to(x, wanted, [None] * rank)


def _require_multiple(have: Sequence[Dim], wanted: Sequence[Dim]) -> None:
    """Raises UnequalError where a size can be left open only if two symbols are one size."""
    left, taken = (
        [d for d in a if isinstance(d, str) and d not in b]
        for a, b in ((have, wanted), (wanted, have))
    )
    if -1 in wanted and left and len(taken) == 1:
        shown = f"{tensors.show(have)} and {tensors.show(wanted)}"
        raise tensors.UnequalError(
            (left[0], taken[0]), f"whether sizes are equal is not known: {shown}"
        )


def _length(node: Node, index: int) -> int:
    """The number of elements of an input that holds a shape."""
    sizes = node.value(index).dims
    if len(sizes) != 1 or not isinstance(sizes[0], int):
        raise OpenError("the number of dimensions of its result is not known")
    if sizes[0] > _MOST_DIMENSIONS:
        raise ModelError(f"a shape of {sizes[0]} dimensions; at most {_MOST_DIMENSIONS} have sense")
    return sizes[0]


def _broadcast_at_run_time(node: Node, x: ir.Value, index: int) -> ir.Value:
    """x broadcast with the shape that input `index` holds."""
    stated = node.sizes(index)
    if stated is not None:
        padded: list[Number | None] = [1] * (tensors.rank(x) - len(stated))
        wide = shape_values.broadcast(tensors.sizes(x), [*padded, *stated])
        if wide is not None and None not in wide:
            return emit.broadcast(x, tensors.named([size for size in wide if size is not None]))
    sizes = node.computed_dims()
    if sizes is not None:
        return emit.broadcast(x, sizes)
    length = _length(node, index)
    rank = max(length, tensors.rank(x))
    wanted = emit.convert(node.tensor(index), "i64")
    if length < rank:
        wanted = emit.concat([node.make(np.ones(rank - length, np.int64)), wanted], 0)
    return mgx.broadcast_with_dims(x, wanted, [None] * rank)


def resolve(
    have: Sequence[Dim],
    wanted: Sequence[int],
    zero_is_zero: bool,
    require: Callable[[Number], None] | None = None,
) -> list[Dim]:
    """The shape by Reshape's rules: 0 copies a size, -1 takes the remaining elements.

    require: `Node.require`, for sizes that a run has to divide.
    """
    result: list[Dim] = []
    for place, size in enumerate(wanted):
        if size == 0 and not zero_is_zero:
            if place >= len(have):
                raise ModelError(f"shape {list(wanted)} copies a dimension that is not there")
            result.append(have[place])
        elif size < -1:
            raise ModelError(f"shape {list(wanted)} holds {size}")
        else:
            result.append(size)
    if -1 not in wanted:
        _check_count(have, result)
        return result
    if wanted.count(-1) > 1:
        raise ModelError(f"shape {list(wanted)} leaves several sizes open")
    open_place = wanted.index(-1)
    kept, taken = _without_copied_zeros(have, wanted, result, zero_is_zero)
    result[open_place] = _what_is_left(kept, [d for d in taken if d != -1], require)
    return result


def _resolve_sizes(
    have: Sequence[Number | None],
    wanted: Sequence[Number],
    zero_is_zero: bool,
    require: Callable[[Number], None],
    rounded: bool = False,
) -> list[Number] | None:
    """As `resolve`, for sizes that are formulas; None where these do not determine the shape.

    rounded: of a size that may be no multiple of other sizes, a run checks that it is one.
    """
    if None in have or any(
        w == 0 and not zero_is_zero and i >= len(have) for i, w in enumerate(wanted)
    ):
        return None
    known = [size for size in have if size is not None]
    result = [known[i] if w == 0 and not zero_is_zero else w for i, w in enumerate(wanted)]
    if result.count(-1) > 1:
        return None
    if -1 in result:
        kept, taken = _without_copied_zeros(known, wanted, result, zero_is_zero)
        left = _part(math.prod(kept), math.prod(n for n in taken if n != -1), require, rounded)
        if left is None:
            return None
        result[result.index(-1)] = left
    return result


def _without_copied_zeros(
    have: Sequence[T], wanted: Sequence[Number], result: Sequence[T], zero_is_zero: bool
) -> tuple[list[T], list[T]]:
    """The sizes before and after without those of 0 that are copied: any rest goes with them."""
    nothing = [n for n, size in enumerate(have[: len(wanted)]) if size == wanted[n] == 0]
    copied = [] if zero_is_zero else nothing
    kept, taken = ([d for n, d in enumerate(x) if n not in copied] for x in (have, result))
    return kept, taken


def _check_count(have: Sequence[Dim], result: Sequence[Dim]) -> None:
    before, after = ([d for d in dims if isinstance(d, int)] for dims in (have, result))
    known = len(before) == len(have) and len(after) == len(result)
    if known and math.prod(before) != math.prod(after):
        raise ModelError(f"cannot reshape {tensors.show(have)} to {tensors.show(result)}")


def _part(
    count: Number,
    divisor: Number,
    require: Callable[[Number], None] | None,
    rounded: bool = False,
) -> Number | None:
    """The quotient of sizes; None where they do not determine it.

    Of a size that may be no multiple of a number, a run checks that it is one; rounded: of a
    size that may be no multiple of others too.
    """
    if divisor == 0:
        return None
    found = exact(count, divisor)
    if found is not None or require is None or not divisor >= 0:
        return found
    if rounded if isinstance(divisor, Size) else divisor > 1:
        found = count // maximum(divisor, 1)
        try:
            require(found * divisor - count)
        except OpenError:
            return None
    return found


def _what_is_left(
    have: Sequence[Dim], taken: Sequence[Dim], require: Callable[[Number], None] | None
) -> Dim:
    if any(isinstance(d, str) for d in (*have, *taken)):
        sizes = [tensors.size(d) for d in (*have, *taken)]
        known_sizes = [size for size in sizes if size is not None]
        if len(known_sizes) < len(sizes):
            return None
        before, after = known_sizes[: len(have)], known_sizes[len(have) :]
        left = _part(math.prod(before), math.prod(after), require)
        return None if left is None else tensors.named([left])[0]
    symbols = [d for d in have if not isinstance(d, int)]
    for symbol in (d for d in taken if not isinstance(d, int)):
        if symbol not in symbols:
            return None
        symbols.remove(symbol)
    count = math.prod(d for d in have if isinstance(d, int))
    known = math.prod(d for d in taken if isinstance(d, int))
    if not symbols:
        if known == 0 or count % known:
            raise ModelError(
                f"cannot reshape {tensors.show(have)}: {count} elements are not a multiple "
                f"of {known}"
            )
        return count // known
    return symbols[0] if len(symbols) == 1 and count == known else None


@operator("Flatten", (1, 25), "flatten")
def flatten(node: Node) -> ir.Value:
    rank = len(node.value(0).dims)
    axis = int(node.attribute("axis"))
    if not -rank <= axis <= rank:
        raise ModelError(f"axis {axis} of a tensor with {rank} dimensions")
    return mgx.flatten(node.tensor(0), axis if axis == rank else axis % max(rank, 1))


@operator("Squeeze", (1, 25), "squeeze")
def squeeze(node: Node) -> ir.Value:
    x = node.tensor(0)
    axes = node.axes("axes", 1, tensors.rank(x))
    if not axes:  # an empty list too, as onnxruntime has it
        axes = [i for i, d in enumerate(tensors.static_dims(x)) if d == 1]
    return emit.squeeze(x, sorted(set(axes)))


@operator("Unsqueeze", (1, 25), "unsqueeze")
def unsqueeze(node: Node) -> ir.Value:
    x = node.tensor(0)
    stated = node.integers(1, "axes") if node.given(1) else node.attribute("axes")
    return emit.unsqueeze(x, node.axes("axes", 1, tensors.rank(x) + len(stated)) or [])


@operator("Transpose", (1, 25), "transpose")
def transpose(node: Node) -> ir.Value:
    x = node.tensor(0)
    order = node.attribute("perm") or list(reversed(range(tensors.rank(x))))
    return emit.transpose(x, order)


@operator("Expand", (8, 13), "multibroadcast broadcast_with_dims")
def expand(node: Node) -> ir.Value:
    x = node.tensor(0)
    wanted = node.known(1)
    if wanted is not None:
        sizes: Sequence[Dim] = tensors.broadcast_dims(
            tensors.dims(x), [int(d) for d in wanted.reshape(-1)]
        )
        return emit.broadcast(x, sizes)
    return _broadcast_at_run_time(node, x, 1)


@operator("Tile", (6, 13), "unsqueeze multibroadcast reshape")
def tile(node: Node) -> ir.Value:
    x = node.tensor(0)
    repeats = node.sizes(1)
    if repeats is None or not all(count >= 0 for count in repeats):
        repeats = list(node.integers(1, "repeats"))  # says that they have to be constant
    return repeat(x, repeats)


def repeat(x: ir.Value, repeats: Sequence[Number]) -> ir.Value:
    """x repeated along each dimension: a new dimension before it, broadcast and merged."""
    sizes = tensors.dims(x)
    if len(repeats) != len(sizes):
        raise ModelError(f"{len(repeats)} repeats for {len(sizes)} dimensions")
    places = [i for i, r in enumerate(repeats) if r != 1]
    if not places:
        return x
    split = emit.unsqueeze(x, [i + n for n, i in enumerate(places)])
    wide: list[Dim] = []
    result: list[Dim] = []
    for place, (size, count) in enumerate(zip(sizes, repeats, strict=True)):
        if place in places:
            wide += tensors.named([count])
            known = tensors.size(size)
            if known is None:
                known = tensors.size_of(x, place, "the repeated size")  # says that it has to be
            result += tensors.named([known * count])
        else:
            result.append(size)
        wide.append(size)
    return emit.reshape(emit.broadcast(split, wide), result)


@operator("Shape", (1, 25), "dimensions_of")
def shape(node: Node) -> Any:
    sizes = node.value(0).dims
    start, end = 0, len(sizes)
    if node.version >= 15:
        start = _bound(int(node.attribute("start")), len(sizes))
        stated = node.attribute("end")
        end = len(sizes) if stated is None else _bound(int(stated), len(sizes))
    chosen = sizes[start:end]
    if all(isinstance(d, int) for d in chosen):
        return np.array(chosen, np.int64)
    return mgx.dimensions_of(node.tensor(0), start, end)


def _bound(place: int, rank: int) -> int:
    return min(max(place + rank if place < 0 else place, 0), rank)


@operator("Size", (1, 25), "dimensions_of reduce_prod")
def size(node: Node) -> Any:
    sizes = node.value(0).dims
    known = [d for d in sizes if isinstance(d, int)]
    if len(known) == len(sizes):
        return np.array(math.prod(known), np.int64)
    each = mgx.dimensions_of(node.tensor(0), 0, len(sizes))
    return emit.squeeze(mgx.reduce_prod(each, [0]), [0])


@operator("Constant", (1, 25), "constant literal")
def constant(node: Node) -> Any:
    for name, dtype in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if node.has_attribute(name):
            return np.array(node.attribute(name), dtype)
    if node.has_attribute("value"):
        return small_array(node.attribute("value"), node.name)
    kind = ", ".join(node.unread())
    raise UnsupportedError(f"a constant that is not a tensor of numbers: {kind}")


@operator("ConstantOfShape", (9, 25), "constant")
def constant_of_shape(node: Node) -> Any:
    tensor = node.attribute("value")
    scalar = np.zeros((), np.float32) if tensor is None else small_array(tensor, node.name)
    if scalar.size != 1:
        raise ModelError(f"its value has {scalar.size} elements; one is possible")
    scalar = scalar.reshape(())
    sizes = node.known(0)
    if sizes is not None:
        wanted = [int(d) for d in sizes.reshape(-1)]
        if min(wanted, default=0) < 0 or math.prod(wanted) > MAX_ELEMENTS:
            raise ModelError(f"a tensor of shape {wanted} is impossible")
        return np.broadcast_to(scalar, wanted)
    return _broadcast_at_run_time(node, mgx.constant(scalar), 0)
