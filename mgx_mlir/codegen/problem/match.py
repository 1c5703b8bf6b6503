"""Which kernels are contractions: from mgx ops to a problem and its epilogue."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.problem.computed import computed_matrix
from mgx_mlir.codegen.problem.convolution import (
    Convolution,
    channels_last,
    channels_second,
    filter_operand,
    image_operand,
    place_of,
    plain_image,
)
from mgx_mlir.codegen.problem.problem import (
    Axis,
    Computed,
    Contraction,
    Image,
    Matrix,
    in_memory,
    transposed,
)
from mgx_mlir.codegen.problem.views import View, element_name, resolve, splat_constant
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.fusing import are_added, half_of
from mgx_mlir.rewriting.queries import definition, element_type
from mgx_mlir.rewriting.symbolic import shape_of
from mgx_mlir.rewriting.views import Layout, row_major

_Dot: TypeAlias = mgx.DotOp | mgx.QuantDotOp

# The accumulator of products, by operand type. Other types take the generic path.
_ACCUMULATORS = {
    "bf16": "f32",
    "f16": "f32",
    "f32": "f32",
    "f64": "f64",
    "i32": "i32",
    "i64": "i64",
    "ui32": "i32",
    "ui64": "i64",
}
_QUANTIZED = frozenset(("i8", "ui8"))
_STORABLE = frozenset(_ACCUMULATORS) | _QUANTIZED | emit.BYTE_FLOATS | {"i1", "i16", "ui16"}


@dataclass(frozen=True)
class Half:
    """Every second column of a contraction's result: the even ones (0) or the odd ones (1)."""

    number: int


# The source of an epilogue's input: memory, addressed by the indices of the kernel's result, a
# constant, the contraction's result (None), or one of its halves.
Source: TypeAlias = Matrix | ir.Attribute | Half | None


@dataclass(frozen=True)
class Match:
    """A kernel that is a contraction: its problem, epilogue and results.

    `sources` are the epilogue's inputs, in order; None is the contraction's result. Where they are
    both halves of it, the kernel's results have a column for two of the contraction's.
    `results` gives, for each result of the kernel, the number of the epilogue's result. With
    `causal`, results of columns after row + causal are -inf, and with `earliest` those before
    row + earliest; not every target supports that.
    `added`: products of the same sizes, except for K, whose sums are added to the first's.
    `place`: the layout of the contraction's [batch, row, column] in each result; None for
    row-major order. `relaxed`: sums may be computed by another formula (`mgx.convolution`).
    """

    problem: Contraction
    result_element: str
    epilogue: ir.OpView | None
    sources: tuple[Source, ...]
    results: tuple[int, ...]
    result_elements: tuple[str, ...]
    causal: int | None = None
    earliest: int | None = None
    added: tuple[Contraction, ...] = ()
    place: Matrix | None = None
    relaxed: bool = False

    @property
    def terms(self) -> tuple[Contraction, ...]:
        """All products, the first product first."""
        return (self.problem, *self.added)

    @property
    def pairs(self) -> bool:
        """Whether two columns of the contraction make one of the results."""
        return any(isinstance(source, Half) for source in self.sources)

    @property
    def columns(self) -> int:
        """Columns of the results."""
        return self.problem.N // 2 if self.pairs else self.problem.N

    @property
    def reads(self) -> list[Matrix]:
        """The epilogue's inputs in memory, in order."""
        return [source for source in self.sources if isinstance(source, Matrix)]

    def as_row(self) -> Match:
        """Transposes a product with one column into one with one row; others stay as they are.

        The memory of the result is the same.
        """
        problem = self.problem
        b = problem.b.matrix() if isinstance(problem.b, Image) else problem.b
        if problem.N != 1 or problem.M == 1 or b is None or self.place is not None:
            return self
        return replace(self, problem=replace(problem, b=b)).transposed()

    def row_major(self) -> Match | None:
        """The match or its transpose, with results in row-major order; None if neither has that."""
        if self.place is None:
            return self
        if any(isinstance(term.b, Image) for term in self.terms):
            return None
        match, problem = self.transposed(), self.problem
        size = problem.M * problem.N
        plain = (
            Axis.of((problem.batch, size)),
            Axis.of((problem.N, problem.M)),
            Axis.of((problem.M, 1)),
        )
        place = match.place
        if place is None or (place.batch, place.row, place.column) != plain:
            return None
        return replace(match, place=None)

    def transposed(self) -> Match:
        """The transposed products, which give the transposed result. No operand is an image."""
        place = self.place and self.place.transposed()
        return replace(self.mapped(transposed, Matrix.transposed), place=place)

    def mapped(
        self, term: Callable[[Contraction], Contraction], read: Callable[[Matrix], Matrix]
    ) -> Match:
        """The match with a change of its terms, and one of what its epilogue reads."""
        problem, *added = map(term, self.terms)
        sources = mapped(self.sources, read)
        return replace(self, problem=problem, added=tuple(added), sources=sources)


def parts_of(match: Match, x: ir.Value) -> dict[Half | None, ir.Value]:
    """A vector of the contraction's results, as None, and its halves where a match has pairs."""
    halves = emit.halves(x) if match.pairs else ()
    return {None: x, **{Half(number): half for number, half in enumerate(halves)}}


def mapped(sources: Sequence[Source], change: Callable[[Matrix], Matrix]) -> tuple[Source, ...]:
    """The sources, with a change of those in memory."""
    return tuple(change(x) if isinstance(x, Matrix) else x for x in sources)


def match_contraction(kernel: mgx.KernelOp) -> Match | None:
    """The kernel as a contraction; None where it is none, or none that the generators take."""
    block = kernel.regions[0].blocks[0]
    anchors = [op for op in block.operations if isinstance(op, (*mgx.DOTS, *mgx.CONVOLUTIONS))]
    if not anchors:
        return None
    *others, anchor = anchors
    found = _product(anchor)
    if found is None:
        return None
    added = []
    for other in others:
        term = _product(other)
        if term is None or not _is_summand(term, found):
            return None
        if channels_last(other) != channels_last(anchor):
            return None
        added.append(term)
    match = with_epilogue(block, anchors, found)
    place = place_of(anchor) if channels_last(anchor) else None
    relaxed = all(isinstance(op, mgx.ConvolutionOp) and op.relaxed for op in anchors)
    return match and replace(match, added=tuple(added), place=place, relaxed=relaxed)


def match_convolution(kernel: mgx.KernelOp) -> tuple[str, Match] | None:
    """The name of a kernel's only convolution, and the kernel as a contraction, if it is one."""
    operations = kernel.regions[0].blocks[0].operations
    anchors = [op for op in operations if isinstance(op, mgx.CONVOLUTIONS)]
    match = match_contraction(kernel) if len(anchors) == 1 else None
    return None if match is None else (anchors[0].OPERATION_NAME, match)


def _product(anchor: _Dot | Convolution) -> Contraction | None:
    found = _dot(anchor) if isinstance(anchor, _Dot) else _convolution(anchor)
    if found is None or 0 in (found.batch, found.M, found.N, found.K):
        return None
    return found


def _is_summand(term: Contraction, other: Contraction) -> bool:
    """Whether the sums of two products can be added before they are converted."""

    def kind(x: Contraction) -> tuple[object, ...]:
        return x.batch, x.M, x.N, x.accumulator, x.a.element, x.b.element

    return kind(term) == kind(other)


def _accumulator(a: str, b: str, result: str) -> str | None:
    if a in _QUANTIZED and b in _QUANTIZED and result == "i32":
        return "i32"
    if a in emit.BYTE_FLOATS and b in emit.BYTE_FLOATS and result == "f32":
        return "f32"
    if a == b == result:
        return _ACCUMULATORS.get(a)
    return None


def _dot(op: _Dot) -> Contraction | None:
    a, b = _operand(op.a), _operand(op.b)
    if a is None or b is None:
        return None
    accumulator = _accumulator(a.element, b.element, element_name(op.c.type))
    if accumulator is None:
        return None
    *batch, M, N = shape_of(op.c.type)
    return Contraction(math.prod(batch), M, N, shape_of(op.a.type)[-1], a, b, accumulator)


def _operand(value: ir.Value) -> Matrix | None:
    rank = len(shape_of(value.type)) - 2
    view = resolve(value)
    place = partial(matrix_of, rank=rank)
    return computed_matrix(value, place) if view is None else place(view)


def matrix_of(view: View, rank: int, row: int = 0) -> Matrix:
    """A view with `rank` batch dimensions, then rows up to dimension `row`, by default one, and
    columns, as matrices."""
    row = row or rank + 1
    axes = view.axis(0, rank), view.axis(rank, row), view.axis(row, len(view.dims))
    return Matrix(view.argument, view.element, view.offset, *axes)


def _convolution(op: Convolution) -> Contraction | None:
    x, a = image_operand(op), filter_operand(op)
    if x is None or a is None:
        return None
    accumulator = _accumulator(x.element, a.element, element_name(op.y.type))
    if accumulator is None:
        return None
    b = plain_image(x) or x
    if isinstance(a, Computed) and isinstance(b, Image):
        return None
    depth = x.channel.size * x.taps
    positions = math.prod(x.outputs)
    return Contraction(x.batch.size, a.row.size, positions, depth, a, b, accumulator)


def with_epilogue(
    block: ir.Block, anchors: Sequence[ir.OpView], problem: Contraction, placed: bool = False
) -> Match | None:
    """The match of a problem, which the last of `anchors` computes, with the ops after it.

    None where these are not pointwise work on the anchors' results that ends the kernel. With
    `placed`, a transpose of the one result may follow: it is the match's `place`.
    """
    anchor = anchors[-1]
    *_, terminator = block.operations
    pointwise = [op for op in block.operations if isinstance(op, mgx.PointwiseOp)]
    # Pointwise ops before the anchor compute operands.
    pointwise = [op for op in pointwise if anchor.operation.is_before_in_block(op.operation)]
    returned = [through_reshapes(value) for value in terminator.operands]
    place = None
    if placed and isinstance(moved := definition(returned[0]), mgx.TransposeOp):
        place = _place_in(moved, (problem.batch, problem.M, problem.N))
        returned[0] = through_reshapes(moved.x)
        if place is None or len(returned) > 1:
            return None
    result = anchor.results[0]
    element = element_name(result.type)
    if not pointwise:
        if (
            len(anchors) > 1
            or any(value != result for value in returned)
            or element not in _STORABLE
        ):
            return None
        count = len(returned)
        numbers = (0,) * count
        return Match(problem, element, None, (), numbers, (element,) * count, place=place)
    epilogue = pointwise[0]
    if len(pointwise) != 1:
        return None
    results: list[ir.Value] = list(epilogue.results)
    if any(value not in results for value in returned):
        return None
    halves: list[int | None] = [None] * len(epilogue.operands)
    dims = list(shape_of(result.type))
    if isinstance(anchor, mgx.DotOp):
        halves = [half_of(value, result) for value in epilogue.operands]
    if any(half is not None for half in halves):
        dims[-1] //= 2
    if list(shape_of(epilogue.results[0].type)) != dims:
        return None
    others = [op.results[0] for op in anchors[:-1]]
    if any(not are_added(epilogue, other, result) for other in others):
        return None
    sources: list[Source] = []
    for value, half in zip(epilogue.operands, halves, strict=True):
        if value == result or half is not None:
            sources.append(None if half is None else Half(half))
            continue
        if value in others:
            # The result contains this anchor's sums already.
            sources.append(emit.zero(element_type(value)))
            continue
        constant = splat_constant(value)
        if constant is not None:
            sources.append(constant)
            continue
        operand = _epilogue_operand(value, anchor, problem)
        if operand is None or operand.element not in _STORABLE:
            return None
        sources.append(operand)
    elements = tuple(element_name(value.type) for value in terminator.operands)
    if any(name not in _STORABLE for name in elements):
        return None
    numbers = tuple(results.index(value) for value in returned)
    return Match(problem, element, epilogue, tuple(sources), numbers, elements, place=place)


def _place_in(op: mgx.TransposeOp, sizes: Sequence[int]) -> Matrix | None:
    """The layout in the result of [batch, row, column] of the operand, which `sizes` count.

    None where these have no strides.
    """
    strides = dict(zip(op.permutation, row_major(shape_of(op.results[0].type)), strict=True))
    dims = tuple(((size, strides[d]),) for d, size in enumerate(shape_of(op.x.type)))
    layout = Layout(0, dims).reshaped(sizes)
    return None if layout is None else Matrix(0, "", 0, *(Axis.of(*dim) for dim in layout.dims))


def through_reshapes(value: ir.Value) -> ir.Value:
    """The value that a chain of reshapes starts from."""
    while isinstance(op := definition(value), mgx.RESHAPES):
        value = op.x
    return value


def _epilogue_operand(value: ir.Value, anchor: ir.OpView, problem: Contraction) -> Matrix | None:
    view = resolve(value)
    if view is None:
        return None
    if isinstance(anchor, mgx.PoolingOp):  # each channel of an image is a row of pixels
        return matrix_of(view, 2, 2)
    if not isinstance(anchor, mgx.CONVOLUTIONS):
        return matrix_of(view, len(view.dims) - 2)
    view = channels_second(view, anchor)
    grouped = view.split(1, view.shape[1] // problem.M)
    return None if grouped is None else matrix_of(grouped, 2)


def used_arguments(match: Match) -> Sequence[tuple[int, str]]:
    """Number and element type of each input that the kernel's functions read, in order."""
    operands = [operand for term in match.terms for operand in (term.a, term.b)]
    found: dict[int, str] = {}
    for x in operands:
        found.update((tensor.argument, tensor.element) for tensor in in_memory(x))
    found.update((source.argument, source.element) for source in match.reads)
    return sorted(found.items())
