"""Operators that move data: slices, joins, gathers, scatters, padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import budget, emit, tensors
from mgx_mlir.importer.converters.slices import part_of
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.rewriting.queries import splat
from mgx_mlir.sizes.arithmetic import Number, Size, ceil_div


@operator("Concat", (4, 13), "concat")
def concat(node: Node) -> ir.Value:
    return emit.concat(node.tensors(), node.axis())


@operator("Split", (2, 18), "slice")
def split(node: Node) -> list[ir.Value]:
    x = node.tensor(0)
    axis = node.axis()
    size = tensors.size(tensors.dims(x)[axis])
    if size is None:
        size = tensors.size_of(x, axis, "the size of the split dimension")  # says that it has to be
    count = len(node.proto.output)
    if node.version < 13:
        parts = node.attribute("split")
    else:
        parts = (node.sizes(1) or node.integers(1, "split")) if node.given(1) else None
    if node.version >= 18:
        count = node.attribute("num_outputs") or count
    if parts is None:
        each = ceil_div(size, count)
        parts = [each] * (count - 1) + [size - each * (count - 1)]
    total = sum(parts)
    if any(isinstance(n, Size) for n in (size, *parts)):
        tensors.require_equal(tensors.named([total]), tensors.named([size]))
        node.require(parts[-1])
    elif total != size or min(parts) < 0:
        raise ModelError(f"parts of {list(parts)} in a dimension of size {size}")
    ends = [sum(parts[: i + 1]) for i in range(len(parts))]
    return [part_of(x, axis, end - part, end, size) for part, end in zip(parts, ends, strict=True)]


@operator("Gather", (1, 13), "gather slice")
def gather(node: Node) -> ir.Value:
    x = node.tensor(0)
    axis = node.axis()
    chosen = node.known(1)
    size = tensors.dims(x)[axis]
    if chosen is not None and chosen.ndim == 0 and isinstance(size, int):
        place = int(chosen) + (size if chosen < 0 else 0)
        if not 0 <= place < size:
            raise ModelError(f"index {int(chosen)} in a dimension of size {size}")
        return emit.squeeze(emit.take(x, axis, place, place + 1), [axis])
    _check_places(node, size)
    return mgx.gather(x, node.tensor(1), axis)


def _check_places(node: Node, *sizes: tensors.Dim) -> None:
    """Raises ModelError where known indices, input 1, lie outside of dimensions.

    With more than one size, the last dimension of the indices runs over them.
    """
    indices = node.known(1)
    if indices is None or not indices.size:
        return
    columns = [indices] if len(sizes) == 1 else [indices[..., i] for i in range(len(sizes))]
    for column, size in zip(columns, sizes, strict=True):
        if not isinstance(size, int):
            continue
        least, most = int(column.min()), int(column.max())
        if least < -size or most >= size:
            wrong = least if least < -size else most
            raise ModelError(f"index {wrong} in a dimension of size {size}")


@operator("GatherElements", (11, 13), "gather_elements")
def gather_elements(node: Node) -> ir.Value:
    indices = node.tensor(1)
    if not isinstance(tensors.element(indices), ir.IntegerType):
        raise ModelError(f"indices of type {tensors.element(indices)}")
    x, axis = node.tensor(0), node.axis()
    _check_places(node, tensors.dims(x)[axis])
    return mgx.gather_elements(x, indices, axis)


@operator("GatherND", (11, 13), "gathernd")
def gather_nd(node: Node) -> ir.Value:
    batch = int(node.attribute("batch_dims", 0))
    _check_tuples(node, batch)
    return mgx.gathernd(node.tensor(0), node.tensor(1), batch_dims=batch)


def _check_tuples(node: Node, batch: int) -> None:
    """As `_check_places`, for indices of the dimensions after the batch."""
    shape, sizes = node.value(1).dims, node.value(0).dims
    if not shape:
        return
    count = tensors.size_of(node.tensor(1), -1, "the number of indices of a place")
    if not 0 <= batch <= batch + count <= len(sizes) or not count:
        raise ModelError(
            f"indices {tensors.show(shape)} with {batch} dimensions of batch in "
            f"{tensors.show(sizes)}"
        )
    if count > 1:
        _check_places(node, *sizes[batch : batch + count])
    else:
        _check_places(node, sizes[batch])


def _reduction(node: Node) -> str:
    reduction = node.attribute("reduction") if node.version >= 16 else "none"
    if reduction not in ("none", "add", "mul", "min", "max"):
        raise ModelError(f"reduction = {reduction}; none, add, mul, min and max are defined")
    return str(reduction)


def _scatter(node: Node) -> ir.Value:
    build = getattr(mgx, f"scatter_{_reduction(node)}")
    axis = node.axis()
    _check_places(node, node.value(0).dims[axis])
    return build(node.tensor(0), node.tensor(1), node.tensor(2), axis)


operator("Scatter", (9, 9), "scatter_none")(_scatter)
operator(
    "ScatterElements", (11, 18), "scatter_none scatter_add scatter_mul scatter_min scatter_max"
)(_scatter)


@operator(
    "ScatterND",
    (11, 18),
    "scatternd_none scatternd_add scatternd_mul scatternd_min scatternd_max",
)
def scatter_nd(node: Node) -> ir.Value:
    build = getattr(mgx, f"scatternd_{_reduction(node)}")
    _check_tuples(node, 0)
    return build(node.tensor(0), node.tensor(1), node.tensor(2))


@operator("TensorScatter", (24, 24), "scatter_none")
def tensor_scatter(node: Node) -> ir.Value:
    """Writes consecutive entries of a cache, from an offset of its own in each batch."""
    past, update = node.tensor(0), node.tensor(1)
    axis = node.axis()
    rank = tensors.rank(past)
    places = counted(node, tensors.dims(update)[axis])
    places = emit.unsqueeze(places, [i for i in range(rank) if i != axis])
    if node.given(2):
        starts = emit.convert(node.tensor(2), "i64")
        places = emit.add(places, emit.reshape(starts, [tensors.dims(past)[0], *[1] * (rank - 1)]))
    if node.attribute("mode") == "circular":
        places = emit.binary(mgx.mod, places, emit.size_of(past, axis))
    return mgx.scatter_none(past, emit.broadcast(places, tensors.dims(update)), update, axis)


@operator("Pad", (2, 25), "pad slice")
def pad(node: Node) -> ir.Value:
    """Amounts and value are attributes before version 11, inputs since; axes since 18."""
    rank = len(node.value(0).dims)
    axes = list(range(rank))
    if node.version >= 18 and node.given(3):
        axes = [tensors.axis_in(a, rank) for a in node.integers(3, "axes")]
    return padded(node, axes)


def padded(node: Node, axes: list[int]) -> ir.Value:
    """Input 0 padded along those axes; negative amounts cut."""
    x = node.tensor(0)
    rank = tensors.rank(x)
    value, fill = 0.0, None
    if node.declares("pads"):
        amounts = list(node.attribute("pads"))
        value = float(node.attribute("value"))
    else:
        open_amounts = node.sizes(1) if node.known(1) is None else None
        if open_amounts is not None:
            return _padded_by_sizes(node, axes, open_amounts)
        amounts = node.integers(1, "pads")
        known = node.known(2)
        if known is not None:
            value = float(known.reshape(()))
        elif node.given(2):
            fill = emit.reshape(node.tensor(2), [])
    if len(amounts) != 2 * len(axes):
        raise ModelError(f"{len(amounts)} amounts of padding for {len(axes)} dimensions")
    low, high = [0] * rank, [0] * rank
    for place, axis in enumerate(axes):
        low[axis], high[axis] = amounts[place], amounts[len(axes) + place]
    modes = [mode.name for mode in mgx.PadMode]
    mode = mgx.PadMode[node.choice("mode", *modes, default="constant")]
    for axis in axes:
        cut = max(-low[axis], 0), max(-high[axis], 0)
        if any(cut):
            size = tensors.size(tensors.dims(x)[axis])
            if size is None:
                size = tensors.size_of(x, axis, "the size of the cut dimension")
            left = size - sum(cut)
            if left <= -1:
                raise ModelError(f"amounts {cut} cut more than the {size} that are there")
            node.require(left)
            x = part_of(x, axis, cut[0], size - cut[1], size)
    low, high = ([max(amount, 0) for amount in side] for side in (low, high))
    if not any(low) and not any(high):
        return x
    empty = [i for i, d in enumerate(tensors.dims(x)) if d == 0 and (low[i] or high[i])]
    if empty and mode != mgx.PadMode.constant:
        raise ModelError(f"mode = {mode.name} of dimension {empty[0]}, which is empty")
    y = mgx.pad(x, low, high, value=value, mode=mode)
    if fill is None or mode != mgx.PadMode.constant:
        return y
    inside = mgx.pad(emit.filled(np.ones((), np.bool_), tensors.dims(x)), low, high)
    return emit.where(inside, y, fill)


def _padded_by_sizes(node: Node, axes: list[int], amounts: Sequence[Number]) -> ir.Value:
    """Input 0 padded by lengths that are formulas of sizes: blocks of one value, or its own."""
    x = node.tensor(0)
    mode = node.choice("mode", *(mode.name for mode in mgx.PadMode), default="constant")
    if len(amounts) != 2 * len(axes):
        raise ModelError(f"{len(amounts)} amounts of padding for {len(axes)} dimensions")
    if mode != "constant":
        for place, axis in enumerate(axes):
            x = _extended(node, x, axis, mode, place, amounts[place :: len(axes)])
        return x
    zero = node.make(np.zeros((), emit.numpy_type(x)))
    value = emit.reshape(node.tensor(2), []) if node.given(2) else zero
    for place, axis in enumerate(axes):
        parts = [x]
        for amount, at in ((amounts[place], 0), (amounts[len(axes) + place], len(parts))):
            node.require(amount)
            if isinstance(amount, int) and amount < 0:
                raise UnsupportedError(f"{amount} elements of padding beside amounts of open size")
            dims = list(tensors.dims(x))
            dims[axis : axis + 1] = tensors.named([amount])
            if amount != 0:
                parts.insert(at and len(parts), emit.broadcast(value, dims))
        x = emit.concat(parts, axis)
    return x


def _extended(
    node: Node, x: ir.Value, axis: int, mode: str, place: int, amounts: Sequence[Number]
) -> ir.Value:
    """x padded along one axis by its own elements; input 1 has the first amount at `place`."""
    size = tensors.size(tensors.dims(x)[axis])
    if list(amounts) == [0, 0]:
        return x
    if size is None:
        tensors.size_of(x, axis, "the size of the padded dimension")  # it has to be
    assert size is not None
    for amount in amounts:
        node.require(amount)
    (total,) = tensors.named([size + amounts[0] + amounts[1]])
    first = emit.reshape(emit.take(node.tensor(1), 0, place, place + 1), [])
    count = emit.size_of(x, axis)
    places = emit.sub(emit.counted(total), first)
    if mode == "wrap":
        places = emit.binary(mgx.mod, places, count)
    else:
        last = emit.sub(count, 1)
        if mode == "reflect":
            # One element has no period; any gives that element.
            period = mgx.max(emit.mul(last, 2), emit.like(last, 1))
            places = emit.binary(mgx.mod, places, period)
            places = mgx.min(places, emit.add(mgx.neg(places), period))
        places = emit.binary(mgx.min, mgx.max(places, emit.like(places, 0)), last)
    return mgx.gather(x, places, axis)


@operator("OneHot", (9, 28), "equal where")
def one_hot(node: Node) -> ir.Value:
    """Negative indices count from the end; others out of range give off values."""
    depth = int(node.constant(1, "depth").reshape(()))
    indices = emit.convert(node.tensor(0), "i64")
    rank = tensors.rank(indices) + 1
    axis = tensors.axis_in(int(node.attribute("axis")), rank)
    if depth < 1:
        raise ModelError(f"depth = {depth}; it is at least 1")
    budget.check_made(depth)
    if tensors.dims(node.tensor(2)) != (2,):
        raise ModelError(
            f"values {tensors.show(tensors.dims(node.tensor(2)))}; they are off and on"
        )
    negative = mgx.less(indices, emit.like(indices, 0))
    indices = emit.where(negative, emit.add(indices, depth), indices)
    # Indices are compared in the narrowest type that holds them.
    small = np.int16 if depth < 1 << 15 else np.int32 if depth < 1 << 31 else np.int64
    indices = emit.convert(emit.clip(indices, -1, depth), mgx.element_type(small))
    places = np.arange(depth, dtype=small).reshape([-1 if i == axis else 1 for i in range(rank)])
    hot = emit.binary(mgx.equal, emit.unsqueeze(indices, [axis]), node.make(places))
    values = node.tensor(2)
    off, on = (emit.reshape(emit.take(values, 0, i, i + 1), []) for i in range(2))
    return emit.where(hot, on, off)


def counted(node: Node, size: tensors.Dim) -> ir.Value:
    """0, 1, 2, ... as i64, `size` of them."""
    if not isinstance(size, int):
        return emit.counted(size)
    budget.check_made(size)
    return node.make(np.arange(size))


@operator("Trilu", (14, 14), "greater where")
def trilu(node: Node) -> ir.Value:
    x = node.tensor(0)
    rows, columns = tensors.dims(x)[-2:]
    diagonal = int(node.constant(1, "k").reshape(())) if node.given(1) else 0
    row = emit.unsqueeze(emit.add(counted(node, rows), diagonal), [1])
    column = emit.unsqueeze(counted(node, columns), [0])
    row, column = (emit.broadcast(place, (rows, columns)) for place in (row, column))
    drop = mgx.less(column, row) if node.attribute("upper", 1) else mgx.greater(column, row)
    return emit.where(drop, 0, x)


@operator("NonZero", (9, 13), "nonzero unsqueeze")
def nonzero(node: Node) -> ir.Value:
    x = node.tensor(0)
    number = splat(x)
    if number and tensors.rank(x) == 1:  # how exporters count up to a size
        return emit.unsqueeze(counted(node, tensors.dims(x)[0]), [0])
    return mgx.nonzero(x)


@operator("Compress", (9, 28), "gather")
def compress(node: Node) -> ir.Value:
    x = node.tensor(0)
    (chosen,) = np.nonzero(node.constant(1, "condition").reshape(-1))
    if node.has_attribute("axis"):
        axis = node.axis()
    else:
        axis = 0
        x = emit.reshape(x, [int(np.prod(tensors.static_dims(x)))])
    chosen = chosen[chosen < tensors.size_of(x, axis, "the size that the condition chooses of")]
    return mgx.gather(x, node.make(chosen.astype(np.int64)), axis)


@operator("ReverseSequence", (10, 28), "sub where gather_elements")
def reverse_sequence(node: Node) -> ir.Value:
    x = node.tensor(0)
    time, batch = int(node.attribute("time_axis")), int(node.attribute("batch_axis"))
    if {time, batch} != {0, 1}:
        raise UnsupportedError(f"time_axis = {time}, batch_axis = {batch}; they are 0 and 1")
    steps, known = tensors.dims(x)[time], node.known(1)
    most = steps if isinstance(steps, int) else None
    if known is not None and ((known < 0) | (known > (most or known))).any():
        raise ModelError(f"sequence_lens of {known.tolist()} in {steps} steps")
    tensors.require(node.tensor(1), [tensors.dims(x)[batch]], "sequence_lens")
    lengths = emit.unsqueeze(emit.convert(node.tensor(1), "i64"), [time])
    forwards = emit.unsqueeze(counted(node, steps), [batch])
    backwards = emit.add(emit.sub(lengths, forwards), -1)
    past = emit.binary(mgx.less, backwards, emit.like(backwards, 0))
    places = emit.where(past, forwards, backwards)
    places = emit.unsqueeze(places, list(range(2, tensors.rank(x))))
    return mgx.gather_elements(x, emit.broadcast(places, tensors.dims(x)), time)
