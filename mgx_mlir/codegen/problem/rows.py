"""Products whose rows are a number that a run knows: the match of one row, and strides of rows.

%c = mgx.dot %a, %b : tensor<?x64xf32, #mgx.dims<[batch, _]>>, tensor<64x32xf32>
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from mlir import ir

from mgx_mlir.codegen.meaning.element import sizes_of
from mgx_mlir.codegen.problem.match import Match, mapped, match_contraction, used_arguments
from mgx_mlir.codegen.problem.problem import Axis, Computed, Matrix, in_memory
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, Size


@dataclass(frozen=True)
class Rows:
    """A product with `rows` rows.

    match: that of one row. strides: elements from row to row in each input that has rows, by its
    number. elements: those of each input.
    """

    match: Match
    strides: Mapping[int, int]
    rows: Number
    elements: tuple[Number, ...]


def match_rows(kernel: mgx.KernelOp, anchor: ir.Operation) -> Rows | Refusal:
    """A kernel whose only contraction is `anchor`, a dot, or why rows are not all that is open."""
    *outer, columns = sizes_of(anchor.results[0].type)
    depth = sizes_of(anchor.operands[0].type)[-1]
    rows = math.prod(outer)
    if isinstance(columns, Size) or isinstance(depth, Size):
        return Refusal("a size that is an argument other than its rows")
    whole = match_contraction(kernel)
    if whole is None:
        return Refusal("types, views or an epilogue that the generator does not match")
    tile = _tile(whole, rows)
    if isinstance(tile, Refusal):
        return tile
    match, strides = tile
    if any(isinstance(number, Size) for number in _numbers(match)):
        return Refusal("strides that are arguments")
    type_ = ir.FunctionType(kernel.function_type.value)
    elements = tuple(math.prod(sizes_of(input_)) for input_ in type_.inputs)
    for number, _ in used_arguments(match):
        wanted = rows * strides[number] if number in strides else None
        size = elements[number]
        if str(size) != str(wanted) if wanted is not None else isinstance(size, Size):
            return Refusal(f"input {number} is not of whole rows, or has no size without arguments")
    made = str(rows * whole.columns)
    if any(str(math.prod(sizes_of(result))) != made for result in type_.results):
        return Refusal("results of other sizes")
    return Rows(match, strides, rows, elements)


def with_rows(match: Match, rows: int) -> Match:
    """A match of one row as a match of `rows` rows."""

    def several(x: Matrix) -> Matrix:
        ((_, stride),) = x.row.factors
        return replace(x, row=Axis.of((rows, stride)))

    problem = match.problem
    sources = mapped(match.sources, several)
    return replace(match, problem=replace(problem, M=rows, a=several(problem.a)), sources=sources)


def _tile(match: Match, rows: Number) -> tuple[Match, dict[int, int]] | Refusal:
    """The match of one row, and the stride of rows in each input that has them."""
    problem = match.problem
    a, b = problem.a, problem.b
    if type(a) is not Matrix or not isinstance(b, Matrix) or match.added:
        return Refusal("operands that are not plain matrices")
    if match.place is not None or match.causal is not None or problem.batch * problem.M != rows:
        return Refusal("rows that are not those of the result")
    if not a.column.grows:
        return Refusal("rows along which places do not grow")
    if any(stride for _, stride in b.batch.factors) or any(
        stride
        for read in (b.tensors if isinstance(b, Computed) else ())
        for _, stride in read.matrix.batch.factors
    ):
        return Refusal("a right operand for each of a number of matrices that is an argument")
    strides: dict[int, int] = {}

    def joined(argument: int, batch: Axis, row: Axis) -> Axis | None:
        """Both axes as one row; None where the rows have no common stride."""
        axis = Axis.of(*batch.factors, *row.factors)
        stride = axis.stride
        if isinstance(stride, Size) or stride is None or stride < 0:
            return None
        if stride != strides.setdefault(argument, stride):
            return None
        return Axis(((1, stride),))

    refusal = Refusal("rows that are not evenly apart in memory")
    row = joined(a.argument, a.batch, a.row)
    if row is None or not strides[a.argument]:
        return refusal
    sources = []
    for source in match.sources:
        if isinstance(source, Matrix):
            axis = joined(source.argument, source.batch, source.row)
            if axis is None:
                return refusal
            source = replace(source, batch=Axis(()), row=axis)
        sources.append(source)
    if isinstance(b, Computed):
        reads = tuple(
            x
            if isinstance(x, ir.Attribute)
            else replace(x, matrix=replace(x.matrix, batch=Axis(())))
            for x in b.reads
        )
        b = replace(b, reads=reads)
    problem = replace(
        problem, batch=1, M=1, a=replace(a, batch=Axis(()), row=row), b=replace(b, batch=Axis(()))
    )
    strides = {number: stride for number, stride in strides.items() if stride}
    return replace(match, problem=problem, sources=tuple(sources)), strides


def _numbers(match: Match) -> Iterator[Number]:
    """The sizes, offsets and strides of a match, which must not depend on symbols."""
    problem = match.problem
    yield from (problem.N, problem.K)
    for x in (problem.a, problem.b, *in_memory(problem.b), *match.reads):
        assert isinstance(x, Matrix)
        yield x.offset
        for axis in (x.batch, x.row, x.column):
            yield from (number for factor in axis.factors for number in factor)
