"""Products of activations of any sizes, and convolutions of images of any: tiles of one matrix.

    %c = mgx.dot %a, %b : tensor<?x?x?xf16, #mgx.dims<[b, m, k]>>, tensor<?x?x?xf16, ...>
    %y = mgx.convolution %x, %w : tensor<?x?x?x16xf32, #mgx.dims<[batch, h, w, _]>>, ...

Pointers advance to the work-group's matrix, or to the first image or row that its tile meets, in
64 bits; from there on offsets have 31 bits.
The loop along a symbolic K has whole turns, and reads zeros behind the last element. There are
functions for few results and for many, also for few rows, and, where vectors divide no symbolic K
or stride for sure, functions for sizes that they divide. A run launches one: the grids of the
others are 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import cast

from mlir import ir

from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import FEW_ROWS
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.function import MAX_THREADS, Tensor, signature
from mgx_mlir.codegen.gpu.builders.launches import SCRATCH, Launches
from mgx_mlir.codegen.gpu.builders.pointers import USUAL, Move, forwards, value_of
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.contraction.constraints import MAX_BATCH, problem_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.cost import choose
from mgx_mlir.codegen.gpu.families.contraction.crossing import CrossedImages, side_by_side
from mgx_mlir.codegen.gpu.families.contraction.expanding import expanding_refusal
from mgx_mlir.codegen.gpu.families.contraction.few import Few, few_rows
from mgx_mlir.codegen.gpu.families.contraction.finish import Shared
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors
from mgx_mlir.codegen.gpu.families.contraction.generator import TilesGenerator
from mgx_mlir.codegen.gpu.families.contraction.operands import (
    Packed,
    Parts,
    SymbolicProduct,
    match_product,
    of_rows,
)
from mgx_mlir.codegen.gpu.families.contraction.plan import OneFunction, Request
from mgx_mlir.codegen.gpu.families.contraction.recipes.skinny import Skinny
from mgx_mlir.codegen.gpu.families.contraction.recipes.tiles import Tiles, tiles_plan
from mgx_mlir.codegen.gpu.families.contraction.results import epilogue_work
from mgx_mlir.codegen.gpu.families.contraction.space import Tiling
from mgx_mlir.codegen.gpu.families.contraction.variants import (
    matrices,
    most_lanes,
    usual_product,
    variants,
)
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.problem.problem import Axis, Contraction
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.codegen.regimes import Regime, counted, in_ranges, scheduled
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import named_symbols
from mgx_mlir.sizes.arithmetic import Number, Symbol, ceil_div, common_factor, is_more, symbols

# Runs of up to as many results as with all symbols of the first value have a schedule for symbols
# of the second one. Symbols of images are their heights and widths.
RANGES = ((256, 125), (1024, USUAL), (math.inf, 2048))
USUAL_OF_ROW = 2048
_SIDES = (8, 14, 20, 28, 40, 56, 79, 112, 158, 224, 317, 448, 896)
IMAGES = tuple((int(1.19 * side) if side < _SIDES[-1] else math.inf, side) for side in _SIDES)
# Runs of up to so many images of a given size, and the number that their schedules are chosen for.
BATCHES = ((2, 1), (16, 8), (math.inf, 32))
# Likewise of rows, where nothing else is open.
ROWS = (
    (1, 1), (FEW_ROWS, FEW_ROWS), (16, 8), (128, 64), (384, 256), (1024, 512), (math.inf, 2048)
)  # fmt: skip
_MANY = 1 << 40
# Schedules of a kernel: each is a function, which takes time to compile.
_MOST, _MOST_OF_ROWS = 3, 6


def _program(
    kernel: mgx.KernelOp, problem: SymbolicProduct, target: Target
) -> Generated[GpuProgram] | Refusal:
    found = product_kernel(kernel, problem, target)
    return found if isinstance(found, Refusal) else found.generated()


def product_kernel(
    kernel: mgx.KernelOp, problem: SymbolicProduct, target: Target
) -> ProductKernel | Refusal:
    """A kernel whose product is `problem`, which `generated` gives the program of."""
    name, (inputs, results) = signature(kernel)
    match, place = problem.product.match, problem.product.result
    whole, parts = match.problem, Parts((inputs, results), problem)
    own = match.mapped(parts.term, parts.read)
    first = len(parts.moves)
    places = [parts.written(place, number) for number in range(len(results))]
    product = Product(replace(own, place=None), places[0], {})
    if not forwards(*(axis for x in matrices(product) for axis in (x.row, x.column))):
        return Refusal("rows or columns that are read backwards")
    known = named_symbols([*inputs, *results])
    is_dot = problem.name.endswith("dot")
    moves, images = parts.moves[: first + len(results)], None
    if problem.along is not None:
        images = CrossedImages(problem.along, product, whole.batch)
        moves = [images.across(move) for move in moves]
        joined = side_by_side(product, moves, problem.along).match.problem
        whole = replace(whole, batch=1, M=joined.M, N=joined.N)
    before: tuple[Packed, ...] = ()
    if problem.image is not None:
        if not forwards(problem.image.row, problem.image.column, problem.image.batch):
            return Refusal("images that are read backwards")
        parts.read(problem.image)
        before = (Packed(problem, parts.moves[-1], parts),)
    ranges = (RANGES if images is None else ROWS) if is_dot else IMAGES
    # Pixels of many images are as those of large ones.
    batch = {s.name: replace(s, high=1) for s in symbols(problem.batch)}
    if batch and {s.name for s in symbols(whole.batch * whole.M * whole.N)} <= set(batch):
        ranges = BATCHES
    else:
        known |= batch
    found = (kernel, target, name, whole, product, moves, first, known, ranges, before, images)
    return ProductKernel(*found)


@dataclass(frozen=True)
class _Way:
    """A schedule of a kernel, and the product of a work-group.

    share: its launches in a run, 1 or 0. sums: scratch memory for the partial sums of split-K.
    """

    variant: Product
    tiling: Tiling
    share: Number
    sums: Move | None


@dataclass
class ProductKernel:
    """A kernel: its product of all matrices, `whole`, and that of a work-group's, `product`.

    moves: the tensors of `product`, of which `first` are read. ranges: as `RANGES`. images: where
    tiles cross from image to image, or from row to row; all of them are one matrix then.
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
    images: CrossedImages | None = None

    @cached_property
    def choices(self) -> list[_Choice]:
        """The choice for each variant of the product."""
        both, found = list(variants(self.product, self.moves)), []
        for number, (one, moves, share) in enumerate(both):
            variant = side_by_side(one, moves, self.images.along) if self.images else one
            found.append(_Choice(self, variant, number > 0, share, number < len(both) - 1))
        return found

    def clocks(self, schedule: int, usual: int) -> float:
        """The estimate of the schedule for some size for another one."""
        choice = self.choices[-1]
        way = choice.best(schedule)
        return math.inf if isinstance(way, Refusal) else choice.clocks(way, usual)

    def generated(
        self, regimes: Sequence[Regime] = (), formulas: Formulas | None = None
    ) -> Generated[GpuProgram] | Refusal:
        """The program, and its schedules in words. regimes: those that have a schedule each, of all
        runs of the program; by default those of `ranges`."""
        ways: list[_Way] = []
        rows: list[tuple[Few, Number]] = []
        share = sum((regime.share for regime in regimes), 0) if regimes else 1
        for choice in self.choices:
            # Single elements make long code: no large tiles, and one schedule, of short loops.
            own = _ranges(self.whole, self.known, self.ranges[: len(self.ranges) - choice.odd])
            most = 1 if choice.odd else _MOST_OF_ROWS if self.ranges is ROWS else _MOST
            clocks, part = None if regimes else choice.clocks, choice.share
            found: list[tuple[Tiling | Few, Regime]] | Refusal
            found = scheduled(regimes or own, choice.best, clocks, most)
            if isinstance(found, Refusal):
                return found
            row = choice.row() if self.ranges is RANGES else None
            if row is not None:
                rows.append((Few(1, row), part - part * is_more(self.whole.M, 1)))
                part = part * is_more(self.whole.M, 1)
            for plan, regime in found:
                if isinstance(plan, Few):
                    rows.append((plan, regime.share * part))
                else:
                    ways.append(_Way(choice.variant, plan, regime.share * part, self._sums(plan)))
        bytes_ = sum(
            (way.share * way.sums.size * way.sums.tensor.bytes for way in ways if way.sums), 0
        )
        columns = [way.tiling.schedule.columns(way.tiling.unit) for way in ways]
        limits = [MAX_BATCH - ceil_div(self.whole.N, min(columns))] if columns else []
        if self.images is None:
            limits.append(MAX_BATCH - self.whole.batch)
        else:
            limits.append(MAX_THREADS - self.whole.M - self.whole.N)
        used = [way.sums for way in ways if way.sums]
        start = self._start
        used += [packed.image for packed in self.packed]
        launches = Launches(self.kernel, limits=limits, formulas=formulas)
        launches.limit(*(move.limit for move in (*self.moves, *used)))
        launches.reserve(start + bytes_)
        for packed in self.packed:
            packed.emit(launches, self.images.count if self.images else self.whole.batch, share)
        for way in ways:
            self._emit(launches, way)
        for few, share in rows:
            self._emit_few(launches, few.plan, share)
        words = dict.fromkeys(way.tiling.schedule.describe(way.tiling.unit) for way in ways)
        words |= dict.fromkeys(few.describe() for few, _ in rows)
        if refusal := launches.refusal():
            return refusal
        sizes = "number of rows" if self.ranges is ROWS else "sizes"
        return Generated(launches.program(), f"any {sizes}, {', or '.join(words)}")

    @property
    def counts(self) -> tuple[list[int], list[int]]:
        """The sizes of inputs and results that a request names, which say nothing."""
        return [0] * self.first, [0] * (len(self.moves) - self.first)

    def _sums(self, tiling: Tiling) -> Move | None:
        """Scratch memory for the partial sums of split-K."""
        shared = Shared(tiling, self.product.match.problem.accumulator)
        if tiling.schedule.splits == 1:
            return None
        element = element_of(ir.RankedTensorType.get([1], emit.element_type(shared.element)))
        size = math.prod(self._tiles(tiling)) * shared.elements
        tensor = Tensor(1, element, written=True)
        return Move(SCRATCH, tensor, 0, Axis(()), size, shared.elements, self._start)

    def _tiles(self, tiling: Tiling) -> tuple[Number, Number, Number]:
        """The tiles along each dimension of the grid."""
        schedule, unit, whole = tiling.schedule, tiling.unit, self.whole
        x, y = ceil_div(whole.M, schedule.rows(unit)), ceil_div(whole.N, schedule.columns(unit))
        return x, y, whole.batch

    @property
    def _start(self) -> Number:
        """The bytes of packed operands, before partial sums."""
        return sum((packed.parts.end for packed in self.packed), start=0)

    def _emit(self, launches: Launches, way: _Way) -> None:
        schedule, unit = way.tiling.schedule, way.tiling.unit
        size = schedule.rows(unit), schedule.columns(unit)
        x, y, z = self._tiles(way.tiling)
        images = self.images
        parts: str | Callable[[], Index] = "z"
        if images is not None:
            parts = partial(images.image, size, schedule.splits)
        along = images.along if images else None
        generator = TilesGenerator(way.variant, self.counts, way.tiling, self.name, along)
        generator.cut = schedule.splits
        generator.beside = cast(Index, y), cast(Index, z)
        first, moves = self.first, list(self.moves)
        if way.sums:
            count = way.share * x * y * z * generator.shared.counters
            moves += [way.sums, launches.counters(count)]
        grid = way.share * x * schedule.splits, y, z
        lds = generator.lds()
        with launches.moved(moves, way.tiling.threads, grid, lds, parts) as (frame, part):
            inputs: dict[int, ir.Value] = dict(enumerate(frame.pointers[:first]))
            pixel = images.first(size, schedule.splits, part) if images else 0
            generator.emit(Tensors(inputs, frame.pointers[first:], frame.lds[0], pixel))

    def _emit_few(self, launches: Launches, plan: OneFunction, share: Number) -> None:
        groups, first = plan.groups, self.first
        grid = (share * groups.grid[0], 1, self.whole.batch)
        parts: str | Callable[[], Index] = "z" if self.images is None else lambda: 0
        lds = [(groups.lds[0], emit.element_type(groups.lds[1]))] if groups.lds else []
        with launches.moved(self.moves, groups.threads, grid, lds, parts) as (frame, _):
            inputs: dict[int, ir.Value] = dict(enumerate(frame.pointers[:first]))
            local = frame.lds[0] if lds else None
            plan.emit(Tensors(inputs, frame.pointers[first:], local))


@dataclass(frozen=True)
class _Choice:
    """The choice of a schedule for a variant of a kernel's product."""

    own: ProductKernel
    variant: Product
    aligned: bool
    share: Number
    odd: bool

    @cached_property
    def _request(self) -> Callable[[int], Request | Refusal]:
        """The variant where symbols have about this value."""
        return cache(self._asked)

    @cached_property
    def best(self) -> Callable[[int], Tiling | Few | Refusal]:
        """The best schedule for a size; k is cut where it is given."""
        return cache(self._best)

    def _asked(self, usual: int) -> Request | Refusal:
        own = self.own
        usual += self.aligned * (-usual % most_lanes(self.variant))
        if own.ranges is ROWS:
            common = of_rows(self.variant, usual)
        else:
            common = usual_product(self.variant, own.known, usual)
        if refusal := problem_refusal(common.match, None, own.target):
            return refusal
        return Request(common.match, common, False, own.counts, own.target, own.name)

    def _best(self, usual: int) -> Tiling | Few | Refusal:
        request = self._request(usual)
        if isinstance(request, Refusal):
            return request
        if self.own.ranges is ROWS:
            tiles = tiles_plan(request)
            few = few_rows(request) if usual <= FEW_ROWS else None
            if isinstance(tiles, Refusal):
                return Few(usual, few) if few else tiles
            return Few(usual, few) if few and few.clocks < tiles.clocks else tiles.tiling
        if refusal := expanding_refusal(self.variant.match.terms, request.unit.tile_depth):
            return refusal
        given = all(isinstance(term.K, int) for term in self.variant.match.terms)
        terms, work = request.match.terms, epilogue_work(request.match)
        schedule = choose(terms, request.unit, self.own.target, work, given, near=self.odd)
        if schedule is None:
            return Refusal(f"no schedule fits {self.own.target.name}")
        return Tiling(schedule, request.unit, self.own.target)

    def row(self) -> OneFunction | None:
        """The function for one row, where sizes are those that vectors divide."""
        match = self.variant.match
        if isinstance(self.own.whole.M, int) or match.pairs or match.added:
            return None
        row = of_rows(self.variant, 1)
        request = replace(self, variant=row)._request(USUAL_OF_ROW)
        if isinstance(request, Refusal):
            return None
        plan = few_rows(request)
        if plan is None:
            return None
        columns = common_factor(match.problem.N)
        if isinstance(plan, Skinny):
            plan = replace(plan, columns=math.gcd(plan.columns, columns))
        elif columns % plan.width:
            return None
        return replace(plan, product=row)

    def clocks(self, way: Tiling | Few, usual: int) -> float:
        """The estimate of a schedule; plans for few rows are for these alone."""
        if isinstance(way, Few):
            return way.plan.clocks if usual == way.rows else math.inf
        request = self._request(usual)
        if isinstance(request, Refusal):
            return math.inf
        return Tiles(request.product, way).work


def _ranges(
    problem: Contraction, known: Mapping[str, Symbol], ranges: Sequence[tuple[float, int]]
) -> Iterator[Regime]:
    """The regimes of a product: few rows or results to many, and the value of symbols, or rows,
    for each."""
    if ranges is ROWS:
        yield from counted(problem.M, ROWS, value_of(problem.M, known, _MANY))
        return
    results = problem.M * problem.N
    if isinstance(results, int):
        yield Regime(1, USUAL)
        return
    ends = [value_of(results, known, int(min(end, MAX_BATCH))) for end, _ in ranges]
    for share, number in in_ranges(problem.batch * results, ends):
        yield Regime(share, ranges[number][1])


FAMILY = Family("products", 25, Matched(match_product, _program), symbolic=True, given=False)
