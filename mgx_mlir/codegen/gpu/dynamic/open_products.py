"""Products of two activations of any sizes: the tiles of one matrix, for each of any number.

    %c = mgx.dot %a, %b : tensor<?x?x?xf16, #mgx.dims<[b, m, k]>>, tensor<?x?x?xf16, ...>

Pointers advance to the work-group's matrix in 64 bits; within a matrix offsets have 31 bits. The
loop along a symbolic K has whole turns, and reads zeros behind the last element.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.generic.lowering.element import element_of, sizes_of
from mgx_mlir.codegen.gpu.builders.function import Tensor, signature
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.pointers import USUAL, Move, OpenProgram, one_part, reach
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.contraction.constraints import (
    MAX_BATCH,
    problem_refusal,
)
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product, row_major
from mgx_mlir.codegen.gpu.families.contraction.cost import choose
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors
from mgx_mlir.codegen.gpu.families.contraction.generator import TilesGenerator
from mgx_mlir.codegen.gpu.families.contraction.request import Request
from mgx_mlir.codegen.gpu.families.contraction.space import Tiling
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.problem.match import Match, mapped, match_contraction
from mgx_mlir.codegen.problem.problem import Axis, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import named_symbols
from mgx_mlir.sizes.arithmetic import Number, Symbol, ceil_div, evaluate, symbols


class _Problem:
    """A product, by the name of its op."""

    name = "mgx.dot"

    def __init__(self, match: Match) -> None:
        self.match = match


def _match(kernel: mgx.KernelOp) -> _Problem | Refusal | None:
    operations = kernel.regions[0].blocks[0].operations
    if not any(isinstance(op, mgx.DOTS) for op in operations):
        return None
    match = match_contraction(kernel)
    if match is None:
        return Refusal("mgx.dot: types, views or an epilogue that the generator does not match")
    problem = match.problem
    if match.added or type(problem.a) is not Matrix or type(problem.b) is not Matrix:
        return Refusal("mgx.dot: operands that are not plain matrices")
    return _Problem(match)


def _program(
    kernel: mgx.KernelOp, problem: _Problem, target: Target
) -> Generated[DynamicProgram] | Refusal:
    name, (inputs, results) = signature(kernel)
    match = problem.match
    whole, place = match.problem, match.place or row_major(match.problem)
    assert isinstance(whole.b, Matrix)  # as `_match` gives it
    moves: list[Move] = []

    def moved(x: Matrix, argument: Argument, type_: ir.Type) -> Matrix:
        number, size = len(moves), math.prod(sizes_of(type_))
        tensor = Tensor(1, element_of(type_), written=argument.kind == "output")
        span = reach(x.row, x.column)
        moves.append(Move(argument, tensor, x.offset, x.batch, size, span))
        return replace(x, argument=number, offset=0, batch=one_part(x.offset, x.batch))

    def read(x: Matrix) -> Matrix:
        return moved(x, Argument("input", x.argument), inputs[x.argument])

    a, b = read(whole.a), read(whole.b)
    one = replace(
        match,
        problem=replace(whole, batch=1, a=a, b=b),
        sources=mapped(match.sources, read),
        place=None,
    )
    first = len(moves)
    for number, type_ in enumerate(results):
        place_of_one = moved(place, Argument("output", number), type_)
    axes = [axis for x in (a, b, *one.reads) for axis in (x.row, x.column)]
    if not all(stride >= 0 for axis in axes for _, stride in axis.factors):
        return Refusal("rows or columns that are read backwards")
    common = _usual(one, named_symbols([*inputs, *results]))
    if refusal := problem_refusal(common, dict.fromkeys(range(first), 0), target):
        return refusal
    product = Product(one, place_of_one, {})
    counts = [0] * first, [0] * len(results)
    request = Request(common, replace(product, match=common), False, counts, target, name)
    terms = request.match.terms
    schedule = choose(terms, request.unit, target, lambda _: True)
    if schedule is None:
        return Refusal(f"no schedule fits {target.name}")
    tiling = Tiling(schedule, request.unit, target)
    rows, columns = schedule.rows(request.unit), schedule.columns(request.unit)
    grid = (ceil_div(whole.M, rows), ceil_div(whole.N, columns), whole.batch)
    program = OpenProgram(kernel, moves, [MAX_BATCH - size for size in grid[1:]])
    if refusal := program.refusal():
        return refusal
    generator = TilesGenerator(product, counts, tiling, name, None, None)
    with program.function(tiling.threads, grid, generator.lds(), parts="z") as (frame, _):
        pointers: Sequence[ir.Value] = frame.pointers
        generator.emit(Tensors(dict(enumerate(pointers[:first])), pointers[first:], frame.lds[0]))
    words = f"any sizes, {schedule.describe(request.unit)}"
    return Generated(program.program(), words)


def _usual(match: Match, known: Mapping[str, Symbol]) -> Match:
    """The product of the sizes that a schedule is chosen for."""

    def at(size: Number) -> int:
        if isinstance(size, int):
            return size
        most = {s.name: known.get(s.name, s).high or USUAL for s in symbols(size)}
        return max(1, evaluate(size, {name: min(n, USUAL) for name, n in most.items()}))

    def static(x: Matrix) -> Matrix:
        row, column = (
            Axis(tuple((at(n), at(s)) for n, s in axis.factors)) for axis in (x.row, x.column)
        )
        return replace(x, row=row, column=column)

    problem = match.problem
    assert isinstance(problem.b, Matrix)
    M, N, K = map(at, (problem.M, problem.N, problem.K))
    problem = replace(problem, M=M, N=N, K=K, a=static(problem.a), b=static(problem.b))
    return replace(match, problem=problem, sources=mapped(match.sources, static))


FAMILY = Family("open_products", 25, Matched(_match, _program))
