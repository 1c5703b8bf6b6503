"""Matches kernels made of reductions: from mgx ops to rows and the computation on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from mlir import ir

from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.meaning.element import Element, element_of
from mgx_mlir.codegen.problem.match import through_reshapes
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.problem.views import resolve, splat_constant
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import shape_of
from mgx_mlir.rewriting.views import row_major

ARGS = (mgx.ArgmaxOp, mgx.ArgminOp)
_FREE = (mgx.ConstantOp, mgx.MultibroadcastOp, mgx.YieldOp)
_COSTLY = (*mgx.COSTLY, mgx.DivOp, mgx.SqrtOp)


def is_reducing(op: ir.OpView) -> bool:
    """Whether an op gives one element for a row: a reduction, or the index of an extremum."""
    return mgx.is_reduction(op) or isinstance(op, ARGS)


def weight(op: ir.OpView, relaxed: bool = False) -> int:
    """About how many instructions an op takes for one element; relaxed: see `precision.relax`."""
    if isinstance(op, mgx.PointwiseOp):
        return sum(weight(inner, relaxed) for inner in op.regions[0].blocks[0].operations)
    if isinstance(op, _FREE):
        return 0
    if relaxed and isinstance(op, (mgx.ExpOp, mgx.SigmoidOp)):
        return 3
    if is_reducing(op):
        return 2
    return 12 if isinstance(op, _COSTLY) else 1


# A source of the body: an operand in memory, or a constant that is the same everywhere.
Source: TypeAlias = "MemoryOperand | ir.Attribute"


@dataclass(frozen=True)
class RowBody:
    """The computation of a kernel: `ops`, in order, from `sources`.

    A value is *whole* where its elements may differ along a row, or, without rows, at all.
    """

    name: str
    ops: tuple[ir.OpView, ...]
    sources: dict[ir.Value, Source]
    wholes: frozenset[ir.Value]

    def is_whole(self, value: ir.Value) -> bool:
        return value in self.wholes

    @cached_property
    def work(self) -> int:
        """About how many instructions the ops take for one element."""
        return sum(map(weight, self.ops))

    @property
    def read(self) -> tuple[MemoryOperand, ...]:
        """The operands that are read with an element for each one of a row, or of the results."""
        return tuple(
            s for v, s in self.sources.items() if isinstance(s, MemoryOperand) and v in self.wholes
        )

    @property
    def used(self) -> list[int]:
        """The numbers of the inputs that the body reads."""
        return sorted({s.argument for s in self.sources.values() if isinstance(s, MemoryOperand)})


@dataclass(frozen=True)
class Result:
    """A result of the kernel: a value of the body, and the operand that it is stored to."""

    value: ir.Value
    operand: MemoryOperand
    whole: bool


@dataclass(frozen=True)
class Rows(RowBody):
    """A kernel that works on `rows` rows of `columns` elements, row after row.

    A value that is not whole has one element for a row. Operands have the rows as their outer
    index and the columns as their inner one.
    """

    rows: int
    columns: int
    results: tuple[Result, ...]

    @cached_property
    def reductions(self) -> tuple[ir.OpView, ...]:
        return tuple(op for op in self.ops if is_reducing(op))

    @cached_property
    def operands(self) -> tuple[MemoryOperand, ...]:
        """The operands that are read or written with an element for each column."""
        return (*self.read, *(r.operand for r in self.results if r.whole))

    @cached_property
    def levels(self) -> dict[ir.Value, int]:
        """The number of reductions, one after another, that a value of the body depends on."""
        found: dict[ir.Value, int] = dict.fromkeys(self.sources, 0)
        for op in self.ops:
            level = max((found[x] for x in op.operands), default=0)
            level += is_reducing(op)
            found.update((result, level) for result in op.results)
        return found


def match_rows(kernel: mgx.KernelOp) -> Rows | Refusal | None:
    """The kernel as rows, or why it does not match; None where it holds no reduction."""
    *ops, terminator = kernel.regions[0].blocks[0].operations
    anchors = [op for op in ops if is_reducing(op) or isinstance(op, mgx.FusedReduceOp)]
    if not anchors:
        return None
    anchor, name = anchors[0], anchors[0].operation.name
    if len(anchors) > 1:
        return Refusal(f"{name}: another reduction in the same kernel")
    axes = _axes(anchor)
    if isinstance(anchor, mgx.FusedReduceOp):
        block = anchor.regions[0].blocks[0]
        *body, last = block.operations
        arguments: list[ir.Value] = list(block.arguments)
        yielded = list(last.operands)
    else:
        before = [op for op in ops if isinstance(op, mgx.PointwiseOp)]
        if [value for op in before for value in op.results] not in ([], list(anchor.operands)):
            return Refusal(f"{name}: other work in the same kernel")
        body = [*before, anchor]
        arguments, yielded = list(body[0].operands), list(anchor.results)
    shape = shape_of(_reduction(body).operands[0].type)
    if 0 in shape:
        return Refusal(f"{name}: no elements")
    sources: dict[ir.Value, Source] = {}
    wholes: set[ir.Value] = set()
    read = anchor.operands if isinstance(anchor, mgx.FusedReduceOp) else arguments
    for argument, value in zip(arguments, read, strict=True):
        source = source_of(value, axes)
        if source is None:
            return Refusal(f"{name}: an input that is no strided view")
        sources[argument] = source
        if isinstance(source, MemoryOperand) and not source.repeated:
            wholes.add(argument)
    for op in body:
        if not is_reducing(op) and any(x in wholes for x in op.operands):
            wholes.update(op.results)
    results = []
    for number, value in enumerate(terminator.operands):
        made = through_reshapes(value)
        position = next((i for i, r in enumerate(anchor.results) if r == made), None)
        if position is None:
            return Refusal(f"{name}: work after the reduction")
        dims = shape_of(made.type)
        operand = result_of(number, element_of(made.type), dims, axes)
        whole = dims == shape or yielded[position] in wholes
        results.append(Result(yielded[position], operand, whole))
    rows, columns = 1, 1
    for dim, size in enumerate(shape):
        if dim in axes:
            columns *= size
        else:
            rows *= size
    return Rows(name, tuple(body), sources, frozenset(wholes), rows, columns, tuple(results))


def _reduction(body: Sequence[ir.OpView]) -> ir.OpView:
    return next(op for op in body if is_reducing(op))


def _axes(anchor: ir.OpView) -> tuple[int, ...]:
    if isinstance(anchor, ARGS):
        return (anchor.axis.value % len(anchor.x.type.shape),)
    return tuple(sorted(ir.DenseI64ArrayAttr(anchor.attributes["axes"])))


def source_of(value: ir.Value, axes: Sequence[int]) -> Source | None:
    """An input with rows along `axes`; None where it has no strides."""
    constant = splat_constant(value)
    if constant is not None:
        return constant
    view = resolve(value)
    if view is None:
        return None
    kept = [dim for d, dim in enumerate(view.dims) if d not in axes]
    reduced = [dim for d, dim in enumerate(view.dims) if d in axes]
    return MemoryOperand(
        view.argument,
        element_of(value.type),
        view.offset,
        Axis.of(*(factor for dim in kept for factor in dim)),
        Axis.of(*(factor for dim in reduced for factor in dim)),
    )


def result_of(
    number: int, element: Element, shape: Sequence[int], axes: Sequence[int]
) -> MemoryOperand:
    """A result in row-major order, with rows along `axes`."""
    dims = list(zip(shape, row_major(shape), strict=True))
    kept = [dim for d, dim in enumerate(dims) if d not in axes]
    reduced = [dim for d, dim in enumerate(dims) if d in axes]
    return MemoryOperand(number, element, 0, Axis.of(*kept), Axis.of(*reduced))
