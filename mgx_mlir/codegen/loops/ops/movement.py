"""Views, concat, gather, pad: rules for the operand and the index from which an element is read."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.loops.body import Body, Indices, Lazy
from mgx_mlir.codegen.loops.kernel import Kernel, lowers
from mgx_mlir.codegen.loops.value import LazyView, reshape
from mgx_mlir.codegen.meaning.element import sizes_of
from mgx_mlir.codegen.meaning.index import Index, fixed, index_constant
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.sizes.arithmetic import Number

_ZERO = Index(())


@lowers(mgx.ReshapeOp, mgx.SqueezeOp, mgx.UnsqueezeOp, mgx.FlattenOp, mgx.ReshapeToOp)
def reshaped(kernel: Kernel, op: ir.OpView, operands: Sequence[Lazy]) -> Lazy:
    return reshape(operands[0], sizes_of(op.result.type))


@lowers(mgx.TransposeOp)
def transpose(kernel: Kernel, op: mgx.TransposeOp, operands: Sequence[Lazy]) -> Lazy:
    permutation = list(op.permutation)

    def where(indices: Indices) -> Indices:
        found = dict(zip(permutation, indices, strict=True))
        return tuple(found[d] for d in range(len(permutation)))

    return LazyView(operands[0], sizes_of(op.result.type), where)


@lowers(mgx.MultibroadcastOp, mgx.BroadcastWithDimsOp)
def multibroadcast(
    kernel: Kernel, op: mgx.MultibroadcastOp | mgx.BroadcastWithDimsOp, operands: Sequence[Lazy]
) -> Lazy:
    shape = sizes_of(op.result.type)
    return spread(kernel, operands[0], shape, len(shape) - len(operands[0].shape))


@lowers(mgx.BroadcastOp)
def broadcast(kernel: Kernel, op: mgx.BroadcastOp, operands: Sequence[Lazy]) -> Lazy:
    return spread(kernel, operands[0], sizes_of(op.result.type), op.axis.value)


def spread(kernel: Kernel, source: Lazy, shape: Sequence[Number], axis: int) -> Lazy:
    """Broadcasts: the source's dimensions start at `axis`, and sizes of 1 are repeated.

    An open size whose result has one element is 1 itself.
    """
    rank = len(source.shape)
    placed = shape[axis : axis + rank]
    for size, wanted in zip(source.shape, placed, strict=True):
        if size not in (1, wanted) and wanted != 1:
            raise UnsupportedError(f"whether {size} and {wanted} are equal is not known")
    view = LazyView(
        source,
        shape,
        lambda indices: tuple(
            _ZERO if size == 1 != wanted else i
            for i, size, wanted in zip(
                indices[axis : axis + rank], source.shape, placed, strict=True
            )
        ),
    )
    if view.size != source.size:
        view.source = kernel.settled(source)
        view.cost = view.source.cost
    return view


@lowers(mgx.SliceOp, mgx.StepOp, mgx.ReverseOp)
def strided(
    kernel: Kernel, op: mgx.SliceOp | mgx.StepOp | mgx.ReverseOp, operands: Sequence[Lazy]
) -> Lazy:
    places: Sequence[tuple[int, Number]]  # a factor and a summand of an index along each axis
    if isinstance(op, mgx.SliceOp):
        places = [(1, start) for start in op.starts]
    elif isinstance(op, mgx.StepOp):
        places = [(step, 0) for step in op.steps]
    else:
        places = [(-1, operands[0].shape[axis] - 1) for axis in op.axes]
    moved = dict(zip(op.axes, places, strict=True))

    def where(indices: Indices) -> Indices:
        pairs = (moved.get(d, (1, 0)) for d in range(len(indices)))
        return tuple(i * factor + start for i, (factor, start) in zip(indices, pairs, strict=True))

    return LazyView(operands[0], sizes_of(op.result.type), where)


@lowers(mgx.LayoutOp)
def layout(kernel: Kernel, op: mgx.LayoutOp, operands: Sequence[Lazy]) -> Lazy:
    # Kernel tensors are row-major in memory; transposes alone decide the order.
    return operands[0]


def word(attribute: ir.Attribute) -> str:
    """The word in an attribute of the dialect's enums: `#mgx<pad_mode edge>` is "edge"."""
    return str(attribute).rstrip(">").replace("<", " ").split()[-1]


@lowers(mgx.ConcatOp)
def concat(kernel: Kernel, op: mgx.ConcatOp, operands: Sequence[Lazy]) -> Lazy:
    """A branch for each operand: one load for each element; loops over other axes can hoist it."""
    axis = op.axis.value
    parts = [x for x in operands if x.shape[axis]]
    ends: list[Number] = [0]
    for part in parts:
        ends.append(ends[-1] + part.shape[axis])

    def element(body: Body, indices: Indices) -> ir.Value:
        position = indices[axis]

        def choose(first: int, last: int) -> list[ir.Value]:
            """The element, which is in one of parts[first:last]."""
            if last - first == 1:
                local = position - ends[first]
                # The branches around it establish the bounds.
                inside = body.known_within(local, parts[first].shape[axis])
                return [body.at(parts[first], (*indices[:axis], inside, *indices[axis + 1 :]))]
            middle = (first + last) // 2
            return body.branch(
                body.below(position, ends[middle]),
                lambda: choose(first, middle),
                lambda: choose(middle, last),
                [parts[0].element.storage()],
            )

        return choose(0, len(parts))[0]

    return kernel.result_of(op, element, 2 + max(x.cost for x in parts))


@lowers(mgx.GatherOp, mgx.GatherElementsOp)
def gather(
    kernel: Kernel, op: mgx.GatherOp | mgx.GatherElementsOp, operands: Sequence[Lazy]
) -> Lazy:
    x, chosen = operands[0], kernel.settled(operands[1])
    axis, is_each = op.axis.value, isinstance(op, mgx.GatherElementsOp)
    end = axis + (1 if is_each else len(chosen.shape))

    def element(body: Body, indices: Indices) -> ir.Value:
        which = indices if is_each else indices[axis:end]
        index = runtime_index(body.at(chosen, which), x.shape[axis])
        return body.at(x, (*indices[:axis], index, *indices[end:]))

    return kernel.result_of(op, element, x.cost + 2)


@lowers(mgx.GatherndOp)
def gathernd(kernel: Kernel, op: mgx.GatherndOp, operands: Sequence[Lazy]) -> Lazy:
    x, chosen = operands[0], kernel.settled(operands[1])
    batch, depth, outer = op.batch_dims.value, fixed(chosen.shape[-1]), len(chosen.shape) - 1

    def element(body: Body, indices: Indices) -> ir.Value:
        where = [
            runtime_index(body.at(chosen, (*indices[:outer], Index.of(i))), x.shape[batch + i])
            for i in range(depth)
        ]
        return body.at(x, (*indices[:batch], *where, *indices[outer:]))

    return kernel.result_of(op, element, x.cost + 2 * depth)


def runtime_index(value: ir.Value, size: Number) -> Index:
    """An index from a tensor: a negative one counts from the end, and the result is clamped."""
    return Index.runtime(emit.named_index(value, size), 0, size - 1)


@lowers(mgx.PadOp)
def pad(kernel: Kernel, op: mgx.PadOp, operands: Sequence[Lazy]) -> Lazy:
    x, low = operands[0], list(op.low)
    mode = word(op.mode)
    value = op.value.value

    def constant(body: Body, indices: Indices) -> ir.Value:
        where = [i - low[d] for d, i in enumerate(indices)]
        return body.guarded(x, where, lambda: kernel.scalar(x.element, value))

    def other(body: Body, indices: Indices) -> ir.Value:
        where = [_folded(body, mode, i - low[d], x.shape[d]) for d, i in enumerate(indices)]
        return body.at(x, where)

    return kernel.result_of(op, constant if mode == "constant" else other, x.cost + 2)


def _folded(body: Body, mode: str, index: Index, size: Number) -> Index:
    """The index inside the bounds whose element is read for an index beyond them."""
    low, high = index.bounds
    if low >= 0 and high < size:
        return index
    if mode == "edge" or size == 1:
        return body.clamp(index, size)
    if body.inside(index, size) is None:  # where the loops around say so
        return body.known_within(index, size)
    if not isinstance(size, int):
        return _folded_at_run(body, mode, index, size)
    period = size if mode == "wrap" else 2 * (size - 1)
    # Adding a multiple of the period makes the index positive and reads the same element.
    position = (index + (-low // period + 1) * period) % period
    if mode == "wrap":
        return position
    value = body.scalar(position)
    mirrored = arith.minsi(value, arith.subi(index_constant(period), value))
    return Index.runtime(mirrored, 0, size - 1)


def _folded_at_run(body: Body, mode: str, index: Index, size: Number) -> Index:
    """As `_folded`, by wrapping or reflection, for a size that only a run knows."""
    zero, last = index_constant(0), index_constant(size - 1)
    period = index_constant(size if mode == "wrap" else 2 * (size - 1))
    period = arith.maxsi(period, index_constant(1))
    value = arith.remsi(body.scalar(index), period)
    negative = arith.cmpi(arith.CmpIPredicate.slt, value, zero)
    value = arith.select(negative, arith.addi(value, period), value)
    if mode != "wrap":
        value = arith.minsi(value, arith.subi(period, value))
    return Index.runtime(arith.maxsi(arith.minsi(value, last), zero), 0, size - 1)
