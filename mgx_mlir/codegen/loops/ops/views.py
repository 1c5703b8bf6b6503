"""Views: each is a map from its own indices to those of its operand."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from mgx_mlir.codegen.loops.body import Indices, Lazy
from mgx_mlir.codegen.loops.kernel import Kernel, lowers
from mgx_mlir.codegen.loops.value import LazyView, reshape
from mgx_mlir.codegen.meaning.element import sizes_of
from mgx_mlir.codegen.meaning.index import Index
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


@lowers(mgx.SliceOp)
def slice_(kernel: Kernel, op: mgx.SliceOp, operands: Sequence[Lazy]) -> Lazy:
    starts = dict(zip(op.axes, op.starts, strict=True))
    return LazyView(
        operands[0],
        sizes_of(op.result.type),
        lambda indices: tuple(i + starts.get(d, 0) for d, i in enumerate(indices)),
    )


@lowers(mgx.StepOp)
def step(kernel: Kernel, op: mgx.StepOp, operands: Sequence[Lazy]) -> Lazy:
    steps = dict(zip(op.axes, op.steps, strict=True))
    return LazyView(
        operands[0],
        sizes_of(op.result.type),
        lambda indices: tuple(i * steps.get(d, 1) for d, i in enumerate(indices)),
    )


@lowers(mgx.ReverseOp)
def reverse(kernel: Kernel, op: mgx.ReverseOp, operands: Sequence[Lazy]) -> Lazy:
    axes, shape = set(op.axes), operands[0].shape
    return LazyView(
        operands[0],
        shape,
        lambda indices: tuple(
            i * -1 + (shape[d] - 1) if d in axes else i for d, i in enumerate(indices)
        ),
    )


@lowers(mgx.LayoutOp)
def layout(kernel: Kernel, op: mgx.LayoutOp, operands: Sequence[Lazy]) -> Lazy:
    # Kernel tensors are row-major in memory; transposes alone decide the order.
    return operands[0]
