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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import cast

from mlir import ir

from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.function import MAX_THREADS, Tensor, signature
from mgx_mlir.codegen.gpu.builders.launches import SCRATCH, Launches
from mgx_mlir.codegen.gpu.builders.pointers import Move, forwards
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.contraction.choices import (
    BATCHES,
    IMAGES,
    MOST,
    MOST_OF_ROWS,
    RANGES,
    ROWS,
    Choice,
    Other,
    SymbolicKernel,
    ranges_of,
)
from mgx_mlir.codegen.gpu.families.contraction.constraints import MAX_BATCH
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.crossing import CrossedImages, side_by_side
from mgx_mlir.codegen.gpu.families.contraction.function import Tensors
from mgx_mlir.codegen.gpu.families.contraction.generator import TilesGenerator
from mgx_mlir.codegen.gpu.families.contraction.operands import (
    Packed,
    Parts,
    SymbolicProduct,
    match_product,
)
from mgx_mlir.codegen.gpu.families.contraction.plan import OneFunction
from mgx_mlir.codegen.gpu.families.contraction.recipes.images import ImageBlocks
from mgx_mlir.codegen.gpu.families.contraction.space import Tiling
from mgx_mlir.codegen.gpu.families.contraction.split_k import SplitK
from mgx_mlir.codegen.gpu.families.contraction.variants import matrices, variants
from mgx_mlir.codegen.gpu.families.family import Family, Matched
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.codegen.regimes import Regime, scheduled
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import named_symbols
from mgx_mlir.sizes.arithmetic import Number, ceil_div, is_more, symbols


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
    return ProductKernel(*found, problem.stored if ranges is IMAGES else None)


@dataclass(frozen=True)
class _Way:
    """A schedule of a kernel, and the product of a work-group.

    share: its launches in a run, 1 or 0. sums: scratch memory for the partial sums of split-K.
    """

    variant: Product
    tiling: Tiling
    share: Number
    split: SplitK
    sums: Move | None


class ProductKernel(SymbolicKernel):
    """A kernel and its program."""

    @cached_property
    def choices(self) -> list[Choice]:
        """The choice for each variant of the product."""
        both, found = list(variants(self.product, self.moves)), []
        for number, (one, moves, share) in enumerate(both):
            variant = side_by_side(one, moves, self.images.along) if self.images else one
            found.append(Choice(self, variant, number > 0, share, number < len(both) - 1))
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
        others: list[tuple[Other, Number]] = []
        share = sum((regime.share for regime in regimes), 0) if regimes else 1
        for choice in self.choices:
            # Single elements make long code: no large tiles, and one schedule, of short loops.
            own = ranges_of(self.whole, self.known, self.ranges[: len(self.ranges) - choice.odd])
            most = 1 if choice.odd else MOST_OF_ROWS if self.ranges is ROWS else MOST
            clocks, part = None if regimes else choice.clocks, choice.share
            found: list[tuple[Tiling | Other, Regime]] | Refusal
            found = scheduled(regimes or own, choice.best, clocks, most)
            if isinstance(found, Refusal):
                return found
            row = choice.row() if self.ranges is RANGES else None
            if row is not None:
                others.append((Other(1, row), part - part * is_more(self.whole.M, 1)))
                part = part * is_more(self.whole.M, 1)
            for plan, regime in found:
                if isinstance(plan, Other):
                    others.append((plan, regime.share * part))
                else:
                    ways.append(self._way(choice.variant, plan, regime.share * part))
        used = [way.sums for way in ways if way.sums]
        bytes_ = sum((move.size * move.tensor.bytes for move in used), self._start)
        columns = sorted(way.tiling.schedule.columns(way.tiling.unit) for way in ways)[:1]
        limits: list[Number] = [MAX_BATCH - ceil_div(self.whole.N, n) for n in columns]
        if self.images is None:
            limits.append(MAX_BATCH - self.whole.batch)
            cut = (way for way in ways if way.tiling.schedule.splits > 1)
            limits += [MAX_BATCH - way.share * way.split.most * self.whole.batch for way in cut]
        else:
            limits.append(MAX_THREADS - self.whole.M - self.whole.N)
        used += [packed.image for packed in self.packed]
        launches = Launches(self.kernel, limits=limits, formulas=formulas)
        launches.limit(*(move.limit for move in (*self.moves, *used)))
        launches.reserve(bytes_)
        for packed in self.packed:
            packed.emit(launches, self.images.count if self.images else self.whole.batch, share)
        for way in ways:
            self._emit(launches, way)
        for other, share in others:
            self._emit_other(launches, other.plan, share)
        words = dict.fromkeys(way.tiling.schedule.describe(way.tiling.unit) for way in ways)
        words |= dict.fromkeys(other.describe() for other, _ in others)
        if refusal := launches.refusal():
            return refusal
        sizes = "number of rows" if self.ranges is ROWS else "sizes"
        return Generated(launches.program(), f"any {sizes}, {', or '.join(words)}")

    def _way(self, variant: Product, tiling: Tiling, share: Number) -> _Way:
        schedule, unit, problem = tiling.schedule, tiling.unit, variant.match.problem
        steps, tiles = ceil_div(problem.K, schedule.depth(unit)), math.prod(self._tiles(tiling))
        split = SplitK.of(schedule, steps, tiles)
        if split.count == 1:
            return _Way(variant, tiling, share, split, None)
        groups = tiles * split.most
        if split.named:
            # The most that runs with several parts have; others have no partial sums.
            groups = schedule.fill - schedule.fill * is_more(tiles, schedule.fill // 2)
        element = element_of(ir.RankedTensorType.get([1], emit.element_type(problem.accumulator)))
        each = schedule.rows(unit) * schedule.columns(unit)
        size, reach = share * groups * each, split.most * each
        how = Tensor(1, element, written=True), 0, Axis(()), size, reach, self._start
        return _Way(variant, tiling, share, split, Move(SCRATCH, *how))

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
        along = images.along if images else None
        how = way.variant, self.counts, way.tiling, self.name, along, None, way.split
        generator = TilesGenerator(*how)
        generator.beside = cast(Index, y), cast(Index, z)
        number = partial(images.image, size) if images else lambda: way.split.place(z)[0]
        first, moves = self.first, list(self.moves)
        if way.sums:
            tiles = schedule.fill // 2 if way.split.named else way.share * x * y * z
            moves += [way.sums, launches.counters(tiles * generator.shared.counters)]
        grid, threads = (way.share * x, y, z * way.split.in_run), way.tiling.threads
        lds = generator.lds()
        with launches.moved(moves, threads, grid, lds, number, way.split.named) as (frame, part):
            inputs: dict[int, ir.Value] = dict(enumerate(frame.pointers[:first]))
            pixel = images.first(size, part) if images else 0
            generator.emit(Tensors(inputs, frame.pointers[first:], frame.lds[0], first=pixel))

    def _emit_other(self, launches: Launches, plan: OneFunction, share: Number) -> None:
        groups, first = plan.groups, self.first
        grid = share * groups.grid[0], 1, self.whole.batch
        parts: str | Callable[[], Index] = "z" if self.images is None else lambda: 0
        if self.images is not None and isinstance(plan, ImageBlocks):
            grid, parts = (share * self.images.count, *groups.grid[1:]), "x"
            launches.limit(*(MAX_BATCH - share * n for n in grid[1:]))
        with launches.moved(self.moves, groups.threads, grid, groups.local, parts) as (frame, _):
            inputs: dict[int, ir.Value] = dict(enumerate(frame.pointers[:first]))
            plan.emit(Tensors(inputs, frame.pointers[first:], *groups.held(frame.lds)))


FAMILY = Family("products", 25, Matched(match_product, _program), symbolic=True, given=False)
