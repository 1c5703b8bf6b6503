"""Sequential work on independent rows: scf.forall over the rows, loops inside.

The rows run in parallel; each owns one slice of every result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir
from mlir.dialects import scf, tensor

from mgx_mlir.codegen.generic.lowering.body import Body, Indices
from mgx_mlir.codegen.generic.lowering.index import Dim, Index, fixed
from mgx_mlir.sizes.arithmetic import Number

# Given the body, the indices of the row and its slices, gives the slices after the work.
# Slices are changed by `Body.insert`.
Work = Callable[[Body, Indices, Sequence[Any]], Sequence[Any]]


def for_rows(
    extents: Sequence[Number],
    results: Sequence[ir.Value],
    axes: Sequence[Sequence[int]],
    work: Work,
) -> list[ir.Value]:
    """The results after `work` on every row.

    extents: the number of rows along each row dimension.
    results: the tensors that the rows change.
    axes: for each result, the dimensions that lie inside a row; the others are the row dimensions,
    in order. A slice has only the dimensions inside.
    """
    loops = [fixed(n) for n in extents] or [1]
    op = scf.ForallOp([0] * len(loops), loops, [1] * len(loops), list(results))
    with ir.InsertionPoint(op.body):
        body = Body(op.body, list(op.induction_variables))
        row = tuple(Index(((Dim(d, n), 1),)) for d, n in enumerate(extents))
        slices = []
        places = []
        for result, inside in zip(op.inner_iter_args, axes, strict=True):
            place = _Place(ir.RankedTensorType(result.type), inside, [body.scalar(i) for i in row])
            places.append(place)
            slices.append(place.extract(result))
        changed = work(body, row, slices)
        end = scf.InParallelOp()
    with ir.InsertionPoint(end.block):
        for place, value, result in zip(places, changed, op.inner_iter_args, strict=True):
            place.insert(value, result)
    return list(op.results)


class _Place:
    """The slice of a tensor that belongs to a row."""

    def __init__(
        self, type_: ir.RankedTensorType, inside: Sequence[int], row: Sequence[ir.Value]
    ) -> None:
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        rank = len(type_.shape)
        self.offsets = [0 if d in inside else dynamic for d in range(rank)]
        self.sizes = [n if d in inside else 1 for d, n in enumerate(type_.shape)]
        self.strides = [1] * rank
        self.row = list(row)
        shape = [n for d, n in enumerate(type_.shape) if d in inside]
        self.type = ir.RankedTensorType.get(shape, type_.element_type)

    def extract(self, source: ir.Value) -> ir.Value:
        return tensor.extract_slice(
            self.type, source, self.row, [], [], self.offsets, self.sizes, self.strides
        )

    def insert(self, value: ir.Value, into: ir.Value) -> None:
        tensor.parallel_insert_slice(
            value, into, self.row, [], [], self.offsets, self.sizes, self.strides
        )
