"""The functions of a product of matrices: tiles over packed blocks, or few rows where B lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from mgx_mlir.codegen.choice import Offer, best_offer
from mgx_mlir.codegen.cpu.contraction import emit_contraction
from mgx_mlir.codegen.cpu.schedule import CpuSchedule, Machine, choose, usual
from mgx_mlir.codegen.cpu.skinny import choose_skinny, emit_skinny, is_direct
from mgx_mlir.codegen.problem.computed import readable
from mgx_mlir.codegen.problem.match import Match, mapped
from mgx_mlir.codegen.problem.problem import Axis, Computed, Contraction, Image, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import Size, is_more

# The most rows of which each reads B where it lies, whose columns or rows are contiguous: for more,
# packing B first costs less.
MOST_ALONG, MOST_ACROSS = 6, 3
# The most rows for which an item expands a block of B: their sums lie on the stack.
MOST_EXPANDED = 512


def clocks(work: float) -> float:
    """The clocks of so many multiply-adds of vectors, of which a core does two at once."""
    return work / 2


def is_given(matrix: Matrix | Image) -> bool:
    """Whether an operand has given sizes: it is most likely a weight, which is packed once."""
    axes = (matrix.batch, matrix.row, matrix.column) if isinstance(matrix, Matrix) else matrix.axes
    factors = (factor for axis in axes for factor in axis.factors if factor[1] != 0)
    return not any(isinstance(number, Size) for factor in factors for number in factor)


@dataclass(frozen=True)
class Way:
    """A function of a product, and the `share` of its work: 1 in the runs that it is for, else 0.

    match: as the function computes it. schedule: that of register tiles.
    """

    match: Match
    items: int
    generate: Callable[..., None]
    schedule: CpuSchedule | None = None
    share: int = 1
    words: str = ""


def ways_of(match: Match, machine: Machine) -> list[Way]:
    """The functions of a product: one for given sizes, for formulas one for each range of rows."""
    problem = match.problem
    if (given := usual(problem)) == problem:
        return [_only_way(match, machine)]
    ways, many = [], 1
    few = rows_as_matrices(match)
    cut = choose_skinny(replace(few.problem, M=1, N=given.N, K=given.K, batch=1), machine)
    if cut is not None and is_direct(problem) and not is_given(problem.b):
        many = _share(problem.M, MOST_ALONG if cut.along_k else MOST_ACROSS)
        generate = partial(emit_skinny, few.problem, cut)
        items = cut.items(few.problem)
        ways.append(Way(few, items, generate, share=1 - many, words=str(cut)))
    if many != 0:
        assert isinstance(problem.b, Matrix)
        if all(stride == 0 for _, stride in problem.b.batch.factors):
            problem = replace(problem, b=replace(problem.b, batch=Axis(())))
            match = replace(match, problem=problem)
        schedule = choose(problem, machine)
        generate = partial(emit_contraction, problem, schedule)
        items = schedule.items(problem)
        ways.append(Way(match, items, generate, schedule, many, str(schedule)))
    return ways


def _share(rows: int, most: int) -> int:
    """1 where there are more rows than `most`; else 0."""
    return cast("int", is_more(rows, most))


def _only_way(match: Match, machine: Machine) -> Way:
    """The function of a product of given sizes, of the generator with the least estimate."""
    offer = best_offer(
        {
            "skinny": partial(_skinny_offer, match, machine),
            "tiles": partial(_tiles_offer, match, machine),
        }
    )
    assert isinstance(offer, Offer)
    way = offer.generate()
    assert isinstance(way, Way)
    return way


def _skinny_offer(match: Match, machine: Machine) -> Offer | Refusal:
    problem = match.problem
    cut = choose_skinny(problem, machine)
    if cut is None:
        return Refusal("too many rows, or operands that are not contiguous")
    items, generate = cut.items(problem), partial(emit_skinny, problem, cut)
    way = Way(match, items, generate, words=str(cut))
    return Offer(str(cut), lambda: way, clocks(cut.work(problem)))


def _tiles_offer(match: Match, machine: Machine) -> Offer | Refusal:
    problem = match.problem
    is_computed = isinstance(problem.b, Computed) or isinstance(problem.a, Computed)
    if is_computed and not expands_once(problem, machine):
        return Refusal("an operand that is computed as it is read")
    plan = choose(problem, machine)
    items, generate = plan.items(problem), partial(emit_contraction, problem, plan)
    way = Way(match, items, generate, plan, words=str(plan))
    return Offer(str(plan), lambda: way, clocks(plan.work(problem)))


def expands_once(problem: Contraction, machine: Machine) -> bool:
    """Whether tiles take a product whose B is computed: an item expands its block for all rows."""
    b, lanes = problem.b, machine.lanes(problem.accumulator)
    if not isinstance(b, Computed) or isinstance(problem.a, Computed) or usual(problem) != problem:
        return False
    return problem.M <= MOST_EXPANDED and problem.K % lanes == 0 and readable(b, True, lanes)


def rows_as_matrices(match: Match) -> Match:
    """A match of matrices of some rows as one of more matrices of one row."""
    problem = match.problem

    def apart(x: Matrix) -> Matrix:
        batch = x.batch.factors or ((problem.batch, 0),)
        row = x.row.factors or ((problem.M, 0),)
        return replace(x, batch=Axis.of(*batch, *row), row=Axis(()))

    b = problem.b
    assert isinstance(b, Matrix)
    batch = b.batch.factors or ((problem.batch, 0),)
    several = replace(b, batch=Axis.of(*batch, (problem.M, 0)))
    own = replace(problem, batch=problem.batch * problem.M, M=1, a=apart(problem.a), b=several)
    place = match.place and apart(match.place)
    return replace(match, problem=own, sources=mapped(match.sources, apart), place=place)
