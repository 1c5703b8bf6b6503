"""The choice of a schedule for each regime of a product of symbolic sizes: of tiles, or of another
recipe for few rows, or for each image."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from mgx_mlir.artifact.target import Target
from mgx_mlir.capabilities import FEW_ROWS
from mgx_mlir.codegen.gpu.builders.pointers import USUAL, Move, value_of
from mgx_mlir.codegen.gpu.families.contraction.constraints import MAX_BATCH, problem_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.cost import choose, clocks
from mgx_mlir.codegen.gpu.families.contraction.crossing import CrossedImages
from mgx_mlir.codegen.gpu.families.contraction.expanding import expanding_refusal
from mgx_mlir.codegen.gpu.families.contraction.operands import Packed, of_rows
from mgx_mlir.codegen.gpu.families.contraction.plan import OneFunction, Request
from mgx_mlir.codegen.gpu.families.contraction.recipes.broad import as_broad
from mgx_mlir.codegen.gpu.families.contraction.recipes.images import ImageBlocks
from mgx_mlir.codegen.gpu.families.contraction.recipes.resident import as_resident
from mgx_mlir.codegen.gpu.families.contraction.recipes.skinny import Skinny, as_skinny
from mgx_mlir.codegen.gpu.families.contraction.recipes.tiles import tiles_plan
from mgx_mlir.codegen.gpu.families.contraction.results import epilogue_work
from mgx_mlir.codegen.gpu.families.contraction.space import Tiling
from mgx_mlir.codegen.gpu.families.contraction.variants import most_lanes, usual_product
from mgx_mlir.codegen.problem.problem import (
    Axis,
    Contraction,
    Dimension,
    Image,
    Windows,
    vector_width,
)
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.codegen.regimes import Regime, counted, in_ranges
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, Symbol, common_factor

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
MOST, MOST_OF_ROWS = 4, 6
# As so many instructions counts a store of one result: stores of several take as many lines.
SINGLE = 32


@dataclass(frozen=True)
class Other:
    """A plan for up to so many rows, or where that is 0 for each image of any size."""

    rows: int
    plan: OneFunction = field(compare=False)

    def describe(self) -> str:
        rows = f"up to {self.rows} rows" if self.rows > 1 else "one row"
        return f"for {rows} {self.plan.describe()}" if self.rows else self.plan.describe()


def few_rows(request: Request) -> OneFunction | None:
    """The best plan for few rows."""
    plans = [as_skinny(request), as_broad(request)]
    fits = [plan for plan in plans if not isinstance(plan, Refusal)]
    return min(fits, key=lambda plan: plan.clocks, default=None)


def image_blocks(request: Request, image: Image) -> Other | None:
    """The plan for windows of one image of any size."""
    problem = replace(request.match.problem, b=image)
    plan = as_resident(replace(request, match=replace(request.match, problem=problem)))
    return None if isinstance(plan, Refusal) else Other(0, plan)


def block_clocks(plan: ImageBlocks, known: Mapping[str, Symbol], usual: int) -> float:
    """The estimate where symbols have about this value."""

    def dim(x: Dimension) -> Dimension:
        return replace(x, outputs=value_of(x.outputs, known, usual))

    return replace(plan, image=plan.image.with_dims(dim)).clocks


@dataclass
class SymbolicKernel:
    """A kernel: its product of all matrices, `whole`, and that of a work-group's, `product`.

    moves: the tensors of `product`, of which `first` are read. ranges: as `RANGES`. images: where
    tiles cross from image to image, or from row to row; all of them are one matrix then. stored:
    images of any size as they lie in memory.
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
    stored: Image | None = None

    @property
    def counts(self) -> tuple[list[int], list[int]]:
        """The sizes of inputs and results that a request names, which say nothing."""
        return [0] * self.first, [0] * (len(self.moves) - self.first)


@dataclass(frozen=True)
class Choice:
    """The choice of a schedule for a variant of a kernel's product."""

    own: SymbolicKernel
    variant: Product
    aligned: bool
    share: Number
    odd: bool

    @cached_property
    def _request(self) -> Callable[[int], Request | Refusal]:
        """The variant where symbols have about this value."""
        return cache(self._asked)

    @cached_property
    def best(self) -> Callable[[int], Tiling | Other | Refusal]:
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

    def _best(self, usual: int) -> Tiling | Other | Refusal:
        request = self._request(usual)
        if isinstance(request, Refusal):
            return request
        if self.own.ranges is ROWS:
            tiles = tiles_plan(request, fills=self._fills)
            few = few_rows(request) if usual <= FEW_ROWS else None
            if isinstance(tiles, Refusal):
                return Other(usual, few) if few else tiles
            return Other(usual, few) if few and few.clocks < tiles.clocks else tiles.tiling
        if refusal := expanding_refusal(self.variant.match.terms, request.unit.tile_depth):
            return refusal
        given = all(isinstance(term.K, int) for term in self.variant.match.terms)
        terms, work, fills = request.match.terms, self._epilogue(request), self._fills
        schedule = choose(
            terms, request.unit, self.own.target, work, given, near=self.odd, fills=fills
        )
        if schedule is None:
            return Refusal(f"no schedule fits {self.own.target.name}")
        tiling, blocks = Tiling(schedule, request.unit, self.own.target), self._blocks
        if blocks is not None and self.clocks(blocks, usual) < self.clocks(tiling, usual):
            return blocks
        return tiling

    def _epilogue(self, request: Request) -> int:
        """About how many instructions the epilogue takes for one element."""
        place = self.variant.result
        width = vector_width(place.column, place.row, place.batch, offset=place.offset, limit=2)
        return epilogue_work(request.match) + SINGLE * (width == 1)

    @property
    def _fills(self) -> Sequence[int]:
        """Work-groups that split-K makes where there are fewer."""
        units = self.own.target.compute_units
        return units, 2 * units, 4 * units

    @cached_property
    def _blocks(self) -> Other | None:
        """The plan for each of the images as they are stored."""
        own, term = self.own, self.own.product.match.problem
        windows = next((x for x in (term.a, term.b) if isinstance(x, Windows)), None)
        if own.stored is None or windows is None:
            return None
        batch = Axis(tuple((1, stride) for _, stride in windows.batch.factors))
        image = replace(own.stored, argument=windows.argument, batch=batch)
        how = False, own.counts, own.target, own.name
        return image_blocks(Request(own.product.match, own.product, *how), image)

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
        columns, depth = map(common_factor, (match.problem.N, match.problem.K))
        if depth % (plan.lanes if isinstance(plan, Skinny) else plan.depth):
            return None  # it would multiply what lies behind the rows
        if isinstance(plan, Skinny):
            plan = replace(plan, columns=math.gcd(plan.columns, columns))
        elif columns % plan.width:
            return None
        return replace(plan, product=row)

    def clocks(self, way: Tiling | Other, usual: int) -> float:
        """The estimate of a schedule; plans for few rows are for these alone."""
        if isinstance(way, Other):
            if isinstance(way.plan, ImageBlocks):
                return block_clocks(way.plan, self.own.known, usual)
            return way.plan.clocks if usual == way.rows else math.inf
        request = self._request(usual)
        if isinstance(request, Refusal):
            return math.inf
        tiling = way.schedule, way.unit, way.target
        return clocks(request.match.problem, *tiling, self._epilogue(request), cached=True)


def ranges_of(
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
