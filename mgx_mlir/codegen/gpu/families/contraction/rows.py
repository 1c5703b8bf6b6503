"""Products of dynamic rows: functions for few rows, for some, and for many.

    %c = mgx.dot %a, %b : tensor<?x64xf16, #mgx.dims<[batch, _]>>, tensor<64x32xf16>

Functions for some and for many rows are those of a product with the rows of one tile. Their
pointers advance to the work-group's rows, so that M has no bound but memory. The function for few
rows is that of a product with so many. Raw buffers end with the last row: rows beyond read 0 and
are not stored. Grids are formulas: those of the functions for other numbers of rows are 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.function import signature
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram, append_functions
from mgx_mlir.codegen.gpu.builders.units import Unit
from mgx_mlir.codegen.gpu.families.contraction.constraints import problem_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product, place_of_results
from mgx_mlir.codegen.gpu.families.contraction.function import DynamicRows
from mgx_mlir.codegen.gpu.families.contraction.generator import generate
from mgx_mlir.codegen.gpu.families.contraction.plan import OneFunction
from mgx_mlir.codegen.gpu.families.contraction.recipes.broad import as_broad
from mgx_mlir.codegen.gpu.families.contraction.recipes.skinny import MAX_ROWS, as_skinny
from mgx_mlir.codegen.gpu.families.contraction.recipes.tiles import Tiles, tiles_plan
from mgx_mlir.codegen.gpu.families.contraction.request import Request
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule, Tiling
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.problem.match import Match, used_arguments
from mgx_mlir.codegen.problem.rows import match_rows, with_rows
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.codegen.regimes import Regime, counted, scheduled
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting import symbolic as symbolic
from mgx_mlir.sizes.arithmetic import Number, bounds, ceil_div

# Runs of up to so many rows, and the number that their schedules are chosen for.
RANGES = (
    (1, 1), (MAX_ROWS, MAX_ROWS), (128, 64), (384, 256), (1024, 512), (math.inf, 2048)
)  # fmt: skip


def rows_program(kernel: mgx.KernelOp, target: Target) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` with symbolic sizes, and the schedule in words.

    A Refusal of products whose rows are not all that is symbolic; None where the kernel holds no
    contraction.
    """
    with kernel.context, kernel.location:
        anchor = anchor_of_product(kernel)
        if anchor is None or isinstance(anchor, Refusal):
            return anchor
        return product_of_rows(kernel, anchor, target).of(anchor.name)


def anchor_of_product(kernel: mgx.KernelOp) -> ir.Operation | Refusal | None:
    """The one product of a kernel; None where it holds no contraction."""
    operations = kernel.regions[0].blocks[0].operations
    anchors = [op for op in operations if isinstance(op, (*mgx.CONVOLUTIONS, *mgx.DOTS))]
    if not anchors:
        return None
    anchor = anchors[0].operation
    if len(anchors) > 1 or not anchor.name.endswith("dot"):
        return Refusal(f"{anchor.name}: its sizes are arguments")
    return anchor


def product_of_rows(
    kernel: mgx.KernelOp, anchor: ir.Operation, target: Target
) -> Generated[GpuProgram] | Refusal:
    """The program of a kernel whose product is `anchor`, and the schedule in words."""
    found = match_rows(kernel, anchor)
    if isinstance(found, Refusal):
        return found
    name, (inputs, results) = signature(kernel)
    known = symbolic.named_symbols(inputs)
    counted = symbolic.sizes_of(anchor.results[0].type, known)[:-1]
    most = bounds(math.prod(size for size in counted if size is not None))[1]
    fixed = [size if isinstance(size, int) else 0 for size in found.elements]
    made = _Functions(found.match, target, name, found.rows, fixed, found.strides, len(results))
    refusal = made.add(most)
    words = f"any number of rows, {made.words()}"
    return refusal or Generated(made.program(), words)


@dataclass(frozen=True)
class _Way:
    """A way to compute rows: by tiles, or by a plan for `rows` at most."""

    schedule: ProductSchedule | None = None
    unit: Unit | None = None
    rows: int = 0
    few: OneFunction | None = field(default=None, compare=False)


@dataclass(frozen=True)
class _Functions:
    """The functions of a product. match: that of one row. sizes: the elements of the inputs.

    strides: elements from row to row, of the inputs that have rows; their sizes say nothing.
    """

    match: Match
    target: Target
    name: str
    rows: Number
    sizes: Sequence[int]
    strides: Mapping[int, int]
    results: int
    formulas: Formulas = field(default_factory=Formulas)
    # Programs, each with the bytes of its scratch memory, and its schedule in words.
    made: list[tuple[GpuProgram, Number, str]] = field(default_factory=list)

    def add(self, most: float) -> Refusal | None:
        """Adds the functions for up to `most` rows; or says why there is none."""
        found = scheduled(counted(self.rows, RANGES, most), self._choose, self._clocks)
        if isinstance(found, Refusal):
            return found
        for way, regime in found:
            refusal = None
            if way.few is not None:
                self._add_few(way, regime)
            else:
                refusal = self._add_tiles(way, regime)
            if refusal:
                return refusal
        return None

    def words(self) -> str:
        """The schedules in words."""
        return ", or ".join(words for *_, words in self.made)

    def program(self) -> GpuProgram:
        """All functions as one program."""
        (first, *_), *others = self.made
        for other, *_ in others:
            append_functions(first.module, other.module)
        launches = tuple(launch for one, *_ in self.made for launch in one.launches)
        scratch = self.formulas.number(sum((bytes_ for _, bytes_, _ in self.made), 0))
        program = GpuProgram(first.module, launches, scratch, 32)
        return GpuProgram.of(program, self.formulas)

    def _add_few(self, way: _Way, regime: Regime) -> None:
        rows, plan = way.rows, way.few
        assert plan is not None
        dynamic = self._dynamic(rows, lambda x: regime.share * x)
        dynamic = replace(dynamic, several=False)
        sizes = self._elements(rows), [rows * self.match.columns] * self.results
        program = plan.program(sizes, f"{self.name}_{len(self.made)}", dynamic)
        rows_text = f"up to {rows} rows" if rows > 1 else "one row"
        self.made.append((program, 0, f"for {rows_text} {plan.describe()}"))

    def _add_tiles(self, way: _Way, regime: Regime) -> Refusal | None:
        schedule, unit = way.schedule, way.unit
        assert schedule is not None and unit is not None
        own = schedule.rows(unit)
        request = self._request(own)
        if isinstance(request, Refusal):
            return request
        blocks = regime.share * ceil_div(self.rows, own)
        rows = self._dynamic(own, lambda x: x * blocks)
        tiling = Tiling(schedule, unit, self.target)
        name = f"{self.name}_{len(self.made)}"
        program = generate(request.product, request.sizes, tiling, name, rows)
        words = schedule.describe(unit)
        if regime.most < math.inf:
            words = f"for up to {int(regime.most)} rows {words}"
        self.made.append((program, blocks * program.scratch_bytes, words))
        return None

    def _choose(self, rows: int) -> _Way | Refusal:
        """The best way for runs of so many rows."""
        request = self._request(rows)
        if isinstance(request, Refusal):
            return request
        plans: list[Tiles | OneFunction | Refusal] = [tiles_plan(request)]
        if rows <= MAX_ROWS:
            plans += [as_skinny(request), as_broad(request)]
        fits = [plan for plan in plans if not isinstance(plan, Refusal)]
        plan = min(fits, key=lambda plan: plan.clocks, default=None)
        if plan is None:
            return next(plan for plan in plans if isinstance(plan, Refusal))
        if isinstance(plan, Tiles):
            return _Way(plan.tiling.schedule, plan.tiling.unit)
        return _Way(rows=rows, few=plan)

    def _clocks(self, way: _Way, rows: int) -> float:
        """The estimate of a way for runs of so many rows; few of them keep their own."""
        request = self._request(rows)
        if isinstance(request, Refusal) or way.schedule is None or way.unit is None:
            return math.inf
        return Tiles(request.product, Tiling(way.schedule, way.unit, self.target)).clocks

    def _request(self, rows: int) -> Request | Refusal:
        """The product of so many rows."""
        match = with_rows(self.match, rows)
        if refusal := problem_refusal(match, self._bytes(match, rows), self.target):
            return refusal
        product = Product(match, place_of_results(match), {})
        counts = self._elements(rows), [rows * match.columns] * self.results
        return Request(match, product, False, counts, self.target, self.name)

    def _elements(self, rows: int) -> list[int]:
        """The elements of each input, of so many rows."""
        return [
            self.strides[n] * rows if n in self.strides else x for n, x in enumerate(self.sizes)
        ]

    def _bytes(self, match: Match, rows: int) -> dict[int, int]:
        """The bytes of each input that a match reads, of so many rows."""
        counts = self._elements(rows)
        return {n: counts[n] * emit.element_bytes(e) for n, e in used_arguments(match)}

    def _dynamic(self, block: int, grid: Callable[[int], Number]) -> DynamicRows:
        """The rows of work-groups."""
        steps = {Argument("input", number): stride for number, stride in self.strides.items()}
        steps |= {Argument("output", n): self.match.columns for n in range(self.results)}
        size = Argument("size", self.formulas.number(self.rows))
        return DynamicRows(size, block, steps, lambda x: self.formulas.number(grid(x)))


FAMILY = Family("product_rows", 20, rows_program, symbolic=True, given=False)
