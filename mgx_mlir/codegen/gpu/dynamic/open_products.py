"""Products of activations of any sizes, and convolutions of images of any: tiles of one matrix.

    %c = mgx.dot %a, %b : tensor<?x?x?xf16, #mgx.dims<[b, m, k]>>, tensor<?x?x?xf16, ...>
    %y = mgx.convolution %x, %w : tensor<?x?x?x16xf32, #mgx.dims<[batch, h, w, _]>>, ...

Pointers advance to the work-group's matrix, or image, in 64 bits; within it offsets have 31 bits.
The loop along a symbolic K has whole turns, and reads zeros behind the last element. There are
functions for few results and for many, and, where vectors divide no symbolic K or stride for
sure, functions for sizes that they divide. A run launches one: the grids of the others are 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import cast

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import CHUNK_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.generic.lowering.element import element_of, sizes_of
from mgx_mlir.codegen.gpu.builders.function import Tensor, signature
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.pointers import (
    USUAL,
    Move,
    OpenProgram,
    forwards,
    one_part,
    reach,
    value_of,
)
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.contraction.constraints import MAX_BATCH, problem_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product, in_place, stored_along
from mgx_mlir.codegen.gpu.families.contraction.cost import choose
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors
from mgx_mlir.codegen.gpu.families.contraction.generator import TilesGenerator
from mgx_mlir.codegen.gpu.families.contraction.request import Request
from mgx_mlir.codegen.gpu.families.contraction.space import Tiling
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.problem.match import mapped, match_contraction
from mgx_mlir.codegen.problem.problem import Axis, Contraction, Edge, Matrix, Windows
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import named_symbols
from mgx_mlir.sizes.arithmetic import (
    Number,
    Symbol,
    ceil_div,
    common_factor,
    is_more,
)

# Runs of few results have no more than with all symbols of the first value; their schedules are
# chosen for symbols of the second one, those of others for `USUAL`.
_FEW, _USUAL_OF_FEW = 256, 125


@dataclass(frozen=True)
class _Problem:
    """A product, or a convolution as one, by the name of its op."""

    name: str
    product: Product


def _match(kernel: mgx.KernelOp) -> _Problem | Refusal | None:
    operations = kernel.regions[0].blocks[0].operations
    anchors = [op for op in operations if isinstance(op, (*mgx.DOTS, *mgx.CONVOLUTIONS))]
    if not anchors:
        return None
    name = anchors[0].OPERATION_NAME
    match = match_contraction(kernel)
    if match is None:
        return Refusal(f"{name}: types, views or an epilogue that the generator does not match")
    product = in_place(match)
    if isinstance(product, Refusal):
        return product.of(name)
    product = stored_along(product)
    operands = [x for term in product.match.terms for x in (term.a, term.b)]
    if not {type(x) for x in operands} <= {Matrix, Windows}:
        return Refusal(f"{name}: operands that are not plain matrices or images")
    return _Problem(name, product)


@dataclass
class _Parts:
    """The matrices of one work-group: `moves` advance pointers to them, in order."""

    types: tuple[Sequence[ir.Type], Sequence[ir.Type]]
    moves: list[Move] = field(default_factory=list)

    def read(self, x: Matrix) -> Matrix:
        return self._moved(x, Argument("input", x.argument), self.types[0][x.argument])

    def written(self, x: Matrix, number: int) -> Matrix:
        return self._moved(x, Argument("output", number), self.types[1][number])

    def term(self, x: Contraction) -> Contraction:
        assert isinstance(x.b, Matrix)  # as `_match` gives it
        return replace(x, batch=1, a=self.read(x.a), b=self.read(x.b))

    def _moved(self, x: Matrix, argument: Argument, type_: ir.Type) -> Matrix:
        number, size = len(self.moves), math.prod(sizes_of(type_))
        tensor = Tensor(1, element_of(type_), written=argument.kind == "output")
        # The first windows begin before the image.
        start, inner = (0, x.offset) if isinstance(x, Windows) else (x.offset, 0)
        self.moves.append(Move(argument, tensor, start, x.batch, size, reach(x.row, x.column)))
        return replace(x, argument=number, offset=inner, batch=one_part(start, x.batch))


def _program(
    kernel: mgx.KernelOp, problem: _Problem, target: Target
) -> Generated[DynamicProgram] | Refusal:
    name, (inputs, results) = signature(kernel)
    match, place = problem.product.match, problem.product.result
    whole, parts = match.problem, _Parts((inputs, results))
    one, *added = (parts.term(term) for term in match.terms)
    sources = mapped(match.sources, parts.read)
    first = len(parts.moves)
    places = [parts.written(place, number) for number in range(len(results))]
    own = replace(match, problem=one, added=tuple(added), sources=sources, place=None)
    product = Product(own, places[0], {})
    if not forwards(*(axis for x in _matrices(product) for axis in (x.row, x.column))):
        return Refusal("rows or columns that are read backwards")
    counts = [0] * first, [0] * len(results)
    known = named_symbols([*inputs, *results])
    shares: dict[tuple[bool, Tiling], tuple[Product, Number]] = {}
    for share, usual in _ranges(whole, known):
        for aligned, (variant, part) in enumerate(_variants(product, parts.moves, share)):
            common = _usual(variant, known, usual + aligned * (-usual % _most_lanes(product)))
            if refusal := problem_refusal(common.match, dict.fromkeys(range(first), 0), target):
                return refusal
            request = Request(common.match, common, False, counts, target, name)
            schedule = choose(common.match.terms, request.unit, target, lambda _: True)
            if schedule is None:
                return Refusal(f"no schedule fits {target.name}")
            key = bool(aligned), Tiling(schedule, request.unit, target)
            _, before = shares.get(key, (variant, 0))
            shares[key] = variant, before + part
    program = OpenProgram(kernel, parts.moves, [MAX_BATCH - n for n in (whole.N, whole.batch)])
    if refusal := program.refusal():
        return refusal
    for (_, tiling), (variant, share) in shares.items():
        rows, columns = tiling.schedule.rows(tiling.unit), tiling.schedule.columns(tiling.unit)
        grid = (share * ceil_div(whole.M, rows), ceil_div(whole.N, columns), whole.batch)
        generator = TilesGenerator(variant, counts, tiling, name, None, None)
        with program.function(tiling.threads, grid, generator.lds(), parts="z") as (frame, _):
            pointers: Sequence[ir.Value] = frame.pointers
            inputs_of_part = dict(enumerate(pointers[:first]))
            generator.emit(Tensors(inputs_of_part, pointers[first:], frame.lds[0]))
    words = dict.fromkeys(tiling.schedule.describe(tiling.unit) for _, tiling in shares)
    return Generated(program.program(), f"any sizes, {', or '.join(words)}")


def _ranges(problem: Contraction, known: Mapping[str, Symbol]) -> Iterator[tuple[Number, int]]:
    """The value of symbols to choose a schedule for, each with its launches in a run: 1 or 0."""
    bound = value_of(problem.M * problem.N, known, _FEW)
    many = is_more(problem.batch * problem.M * problem.N, bound)
    for share, usual in ((1 - many, _USUAL_OF_FEW), (many, USUAL)):
        if share != 0:
            yield share, usual


def _variants(
    product: Product, moves: Sequence[Move], share: Number
) -> Iterator[tuple[Product, Number]]:
    """The product, and where that is another one, that of sizes which vectors divide: each
    with its launches."""
    lanes = _most_lanes(product)
    odd: list[Number] = []

    def aligned(size: int) -> int:
        if common_factor(size) % lanes == 0 or size == 1:
            return size
        odd.append(size)
        return size // lanes * lanes

    def axis(x: Axis) -> Axis:
        last = len(x.factors) - 1
        inner = bool(x.factors) and x.factors[-1][1] == 1
        return Axis(
            tuple(
                (aligned(n) if inner and i == last else n, aligned(s))
                for i, (n, s) in enumerate(x.factors)
            )
        )

    def matrix(x: Matrix) -> Matrix:
        batch = Axis(tuple((n, math.lcm(s, lanes)) for n, s in x.batch.factors))
        return replace(x, batch=batch, row=axis(x.row), column=axis(x.column))

    if any(isinstance(x, Windows) for x in _matrices(product)):
        yield product, share
        return
    match = product.match
    terms = [
        replace(t, N=aligned(t.N), K=aligned(t.K), a=matrix(t.a), b=matrix(t.b))
        for t in match.terms
        if isinstance(t.b, Matrix)
    ]
    own = replace(
        match, problem=terms[0], added=tuple(terms[1:]), sources=mapped(match.sources, matrix)
    )
    found = Product(own, matrix(product.result), {})
    for move in moves:
        aligned(cast(int, move.offset))
        for _, stride in move.parts.factors:
            aligned(stride)
    if not odd or any(isinstance(size, int) for size in odd):
        yield product, share
        return
    rest: Number = sum((size - size // lanes * lanes for size in dict.fromkeys(odd)), 0)
    yield product, share * is_more(rest, 0)
    yield found, share - share * is_more(rest, 0)


def _most_lanes(product: Product) -> int:
    """Elements of a vector of 16 bytes, of the operand that has most."""
    operands = [x for term in product.match.terms for x in (term.a, term.b)]
    return CHUNK_BYTES // min(emit.element_bytes(x.element) for x in operands)


def _matrices(product: Product) -> list[Matrix]:
    """The matrices that are read and written."""
    match = product.match
    operands = [x for term in match.terms for x in (term.a, term.b) if isinstance(x, Matrix)]
    return [*operands, *match.reads, product.result]


def _usual(product: Product, known: Mapping[str, Symbol], usual: int) -> Product:
    """The product of the sizes that a schedule is chosen for."""

    def at(size: Number) -> int:
        return value_of(size, known, usual)

    def axis(x: Axis) -> Axis:
        return Axis(tuple((max(1, at(n)), at(s)) for n, s in x.factors))

    def static(x: Matrix) -> Matrix:
        found = replace(x, offset=at(x.offset), row=axis(x.row), column=axis(x.column))
        if isinstance(found, Windows):
            edges = tuple(
                Edge(*(at(getattr(edge, f.name)) for f in fields(Edge))) for edge in found.edges
            )
            return replace(found, edges=edges)
        return found

    def term(x: Contraction) -> Contraction:
        assert isinstance(x.b, Matrix)
        M, N, K = (max(1, at(size)) for size in (x.M, x.N, x.K))
        return replace(x, M=M, N=N, K=K, a=static(x.a), b=static(x.b))

    match = product.match
    first, *others = map(term, match.terms)
    sources = mapped(match.sources, static)
    own = replace(match, problem=first, added=tuple(others), sources=sources)
    return Product(own, static(product.result), {})


FAMILY = Family("open_products", 25, Matched(_match, _program))
