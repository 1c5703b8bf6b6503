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
from dataclasses import dataclass, fields, replace
from typing import cast

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.function import (
    Tensor,
    signature,
)
from mgx_mlir.codegen.gpu.builders.parts import (
    USUAL,
    Move,
    OpenProgram,
    forwards,
    value_of,
)
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.contraction import finish
from mgx_mlir.codegen.gpu.families.contraction.constraints import MAX_BATCH, problem_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import (
    Product,
)
from mgx_mlir.codegen.gpu.families.contraction.cost import choose
from mgx_mlir.codegen.gpu.families.contraction.function import (
    Tensors,
)
from mgx_mlir.codegen.gpu.families.contraction.generator import TilesGenerator, epilogue_work
from mgx_mlir.codegen.gpu.families.contraction.operands import (
    SCRATCH,
    Packed,
    Parts,
    SymbolicProduct,
    match_product,
    matrices,
    most_lanes,
    of_one_row,
)
from mgx_mlir.codegen.gpu.families.contraction.plan import OneFunction
from mgx_mlir.codegen.gpu.families.contraction.recipes.broad import as_broad
from mgx_mlir.codegen.gpu.families.contraction.recipes.skinny import Skinny, as_skinny
from mgx_mlir.codegen.gpu.families.contraction.recipes.tiles import Tiles
from mgx_mlir.codegen.gpu.families.contraction.request import Request
from mgx_mlir.codegen.gpu.families.contraction.space import Tiling
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.problem.match import mapped
from mgx_mlir.codegen.problem.problem import (
    Axis,
    Contraction,
    Edge,
    Matrix,
    Windows,
)
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.codegen.regimes import Regime, in_ranges, scheduled
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import named_symbols
from mgx_mlir.sizes.arithmetic import (
    Number,
    Symbol,
    ceil_div,
    common_factor,
    is_more,
)

# Runs of up to as many results as with all symbols of the first value have a schedule for symbols
# of the second one. Symbols of images are their heights and widths.
RANGES = ((256, 125), (1024, USUAL), (math.inf, 2048))
USUAL_OF_ROW = 2048
IMAGES = ((28, 14), (112, 56), (448, 224), (math.inf, 896))


def _program(
    kernel: mgx.KernelOp, problem: SymbolicProduct, target: Target
) -> Generated[GpuProgram] | Refusal:
    name, (inputs, results) = signature(kernel)
    match, place = problem.product.match, problem.product.result
    whole, parts = match.problem, Parts((inputs, results), problem)
    one, *added = (parts.term(term) for term in match.terms)
    sources = mapped(match.sources, parts.read)
    first = len(parts.moves)
    places = [parts.written(place, number) for number in range(len(results))]
    own = replace(match, problem=one, added=tuple(added), sources=sources, place=None)
    product = Product(own, places[0], {})
    if not forwards(*(axis for x in matrices(product) for axis in (x.row, x.column))):
        return Refusal("rows or columns that are read backwards")
    known = named_symbols([*inputs, *results])
    ranges = RANGES if problem.name.endswith("dot") else IMAGES
    moves = parts.moves[: first + len(results)]
    before: tuple[Packed, ...] = ()
    if problem.image is not None:
        if not forwards(problem.image.row, problem.image.column, problem.image.batch):
            return Refusal("images that are read backwards")
        parts.read(problem.image)
        before = (Packed(problem, parts.moves[-1], parts),)
    found = _Kernel(kernel, target, name, whole, product, moves, first, known, ranges, before)
    return found.generated()


@dataclass
class _Kernel:
    """A kernel: its product of all matrices, `whole`, and that of a work-group's, `product`.

    moves: the tensors of `product`, of which `first` are read. ranges: as `RANGES`.
    """

    kernel: mgx.KernelOp
    target: Target
    name: str
    whole: Contraction
    product: Product
    moves: Sequence[Move]
    first: int
    known: Mapping[str, Symbol]
    ranges: Sequence[tuple[float, int]]
    packed: Sequence[Packed] = ()

    def generated(self) -> Generated[GpuProgram] | Refusal:
        ways: list[tuple[Product, Tiling, Number]] = []
        rows: list[tuple[OneFunction, Number]] = []
        variants = list(_variants(self.product, self.moves))
        for number, (variant, part) in enumerate(variants):
            choice = _Choice(self, variant, number > 0)
            # Single elements make long code: sizes that no vector divides have no large tiles.
            few = self.ranges[: len(self.ranges) - (number == 0 and len(variants) > 1)]
            regimes = _ranges(self.whole, self.known, few)
            found = scheduled(regimes, choice.best, choice.clocks)
            if isinstance(found, Refusal):
                return found
            row = choice.row()
            if row is not None:
                rows.append((row, part - part * is_more(self.whole.M, 1)))
                part = part * is_more(self.whole.M, 1)
            ways += [(variant, tiling, regime.share * part) for tiling, regime in found]
        scratch = [self._sums(tiling) for _, tiling, _ in ways]
        bytes_ = sum(
            (share * move.size * move.tensor.bytes
             for (*_, share), move in zip(ways, scratch, strict=True) if move), start=0,
        )  # fmt: skip
        least = min(tiling.schedule.columns(tiling.unit) for _, tiling, _ in ways)
        limits = [MAX_BATCH - n for n in (ceil_div(self.whole.N, least), self.whole.batch)]
        used = [move for move in scratch if move]
        start = self._start
        used += [packed.image for packed in self.packed]
        program = OpenProgram(self.kernel, self.moves, limits, used, start + bytes_)
        if refusal := program.refusal():
            return refusal
        for packed in self.packed:
            packed.emit(program, self.whole.batch)
        for (variant, tiling, share), sums in zip(ways, scratch, strict=True):
            self._emit(program, variant, tiling, share, sums)
        for row, share in rows:
            self._emit_row(program, row, share)
        words = dict.fromkeys(tiling.schedule.describe(tiling.unit) for _, tiling, _ in ways)
        words |= dict.fromkeys(f"for one row {row.describe()}" for row, _ in rows)
        return Generated(program.program(), f"any sizes, {', or '.join(words)}")

    @property
    def counts(self) -> tuple[list[int], list[int]]:
        """The sizes of inputs and results that a request names, which say nothing."""
        return [0] * self.first, [0] * (len(self.moves) - self.first)

    def _sums(self, tiling: Tiling) -> Move | None:
        """Scratch memory for the partial sums of split-K."""
        splits, problem = tiling.schedule.splits, self.product.match.problem
        if splits == 1:
            return None
        size = splits * problem.M * problem.N
        element = element_of(ir.RankedTensorType.get([1], emit.element_type(problem.accumulator)))
        parts = Axis(((self.whole.batch, size),))
        tensor = Tensor(1, element, written=True)
        return Move(SCRATCH, tensor, 0, parts, self.whole.batch * size, size, self._start)

    @property
    def _start(self) -> Number:
        """The bytes of packed operands, before partial sums."""
        return sum((packed.parts.end for packed in self.packed), start=0)

    def _emit(
        self, program: OpenProgram, variant: Product, tiling: Tiling, share: Number,
        sums: Move | None,
    ) -> None:  # fmt: skip
        schedule, unit, whole = tiling.schedule, tiling.unit, self.whole
        x = share * ceil_div(whole.M, schedule.rows(unit)) * schedule.splits
        grid = (x, ceil_div(whole.N, schedule.columns(unit)), whole.batch)
        generator = TilesGenerator(variant, self.counts, tiling, self.name, None, None)
        generator.cut = schedule.splits
        moves = [*self.moves[: self.first], sums] if sums else self.moves
        lds, first = generator.lds(), self.first
        with program.function(tiling.threads, grid, lds, "z", moves) as (frame, _):
            inputs: dict[int, ir.Value] = dict(enumerate(frame.pointers[:first]))
            generator.emit(Tensors(inputs, frame.pointers[first:], frame.lds[0]))
        if sums is None:
            return
        match = variant.match
        grid = (share * finish.blocks(match), 1, whole.batch)
        moves = [*self.moves[:first], sums, *self.moves[first:]]
        with program.function(finish.THREADS, grid, (), "z", moves) as (frame, _):
            inputs = {n: frame.pointers[n] for n in {x.argument for x in match.reads}}
            inputs[finish.PARTS] = frame.pointers[first]
            tensors = Tensors(inputs, frame.pointers[first + 1 :], None)
            finish.emit_finish(match, variant.result, schedule.splits, "x", False, tensors)

    def _emit_row(self, program: OpenProgram, plan: OneFunction, share: Number) -> None:
        groups, first = plan.groups, self.first
        grid = (share * groups.grid[0], 1, self.whole.batch)
        lds = [(groups.lds[0], emit.element_type(groups.lds[1]))] if groups.lds else []
        with program.function(groups.threads, grid, lds, "z") as (frame, _):
            inputs: dict[int, ir.Value] = dict(enumerate(frame.pointers[:first]))
            local = frame.lds[0] if lds else None
            plan.emit(Tensors(inputs, frame.pointers[first:], local))


@dataclass(frozen=True)
class _Choice:
    """The choice of a schedule for a variant of a kernel's product."""

    own: _Kernel
    variant: Product
    aligned: bool

    def _request(self, usual: int) -> Request | Refusal:
        """The variant where symbols have about this value."""
        own = self.own
        usual += self.aligned * (-usual % most_lanes(self.variant))
        common = _usual(self.variant, own.known, usual)
        if refusal := problem_refusal(common.match, None, own.target):
            return refusal
        return Request(common.match, common, False, own.counts, own.target, own.name)

    def best(self, usual: int) -> Tiling | Refusal:
        """The best schedule; k is cut where it is given."""
        request = self._request(usual)
        if isinstance(request, Refusal):
            return request
        given = all(isinstance(term.K, int) for term in self.variant.match.terms)
        terms, work = request.match.terms, epilogue_work(request.match)
        fits = None if given else lambda _: True
        schedule = choose(terms, request.unit, self.own.target, fits, work)
        if schedule is None:
            return Refusal(f"no schedule fits {self.own.target.name}")
        return Tiling(schedule, request.unit, self.own.target)

    def row(self) -> OneFunction | None:
        """The function for one row, where sizes are those that vectors divide."""
        match = self.variant.match
        if isinstance(self.own.whole.M, int) or match.pairs or match.added:
            return None
        row = of_one_row(self.variant)
        choice = replace(self, variant=row)
        request = choice._request(USUAL_OF_ROW)
        if isinstance(request, Refusal):
            return None
        plans = [as_skinny(request), as_broad(request)]
        fits = [plan for plan in plans if not isinstance(plan, Refusal)]
        plan = min(fits, key=lambda plan: plan.clocks, default=None)
        if plan is None:
            return None
        columns = common_factor(match.problem.N)
        if isinstance(plan, Skinny):
            plan = replace(plan, columns=math.gcd(plan.columns, columns))
        elif columns % plan.width:
            return None
        return replace(plan, product=row)

    def clocks(self, tiling: Tiling, usual: int) -> float:
        """The estimate of a schedule."""
        request = self._request(usual)
        if isinstance(request, Refusal):
            return math.inf
        return Tiles(request.product, tiling).clocks


def _ranges(
    problem: Contraction, known: Mapping[str, Symbol], ranges: Sequence[tuple[float, int]]
) -> Iterator[Regime]:
    """The regimes of a product: few results to many, and the value of symbols for each."""
    results = problem.M * problem.N
    if isinstance(results, int):
        yield Regime(1, USUAL)
        return
    ends = [value_of(results, known, int(min(end, MAX_BATCH))) for end, _ in ranges]
    for share, number in in_ranges(problem.batch * results, ends):
        yield Regime(share, ranges[number][1])


def _variants(product: Product, moves: Sequence[Move]) -> Iterator[tuple[Product, Number]]:
    """The product, and where that is another one, that of sizes which vectors divide: each
    with its launches, 1 or 0."""
    lanes = most_lanes(product)
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

    if any(isinstance(x, Windows) for x in matrices(product)):
        yield product, 1
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
        yield product, 1
        return
    rest: Number = sum((size - size // lanes * lanes for size in dict.fromkeys(odd)), 0)
    yield product, is_more(rest, 0)
    yield found, 1 - is_more(rest, 0)


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


FAMILY = Family("products", 25, Matched(match_product, _program), symbolic=True, given=False)
