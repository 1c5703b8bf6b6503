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
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.gpu.families.contraction.constraints import problem_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product, place_of_results
from mgx_mlir.codegen.gpu.families.contraction.cost import choose
from mgx_mlir.codegen.gpu.families.contraction.expanding import expanding_refusal
from mgx_mlir.codegen.gpu.families.contraction.function import DynamicRows
from mgx_mlir.codegen.gpu.families.contraction.generator import generate
from mgx_mlir.codegen.gpu.families.contraction.recipes.broad import as_broad
from mgx_mlir.codegen.gpu.families.contraction.recipes.skinny import MAX_ROWS, as_skinny
from mgx_mlir.codegen.gpu.families.contraction.recipes.tiles import Tiles, tiles_plan
from mgx_mlir.codegen.gpu.families.contraction.request import Request
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule, Tiling
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.problem.match import Match, used_arguments
from mgx_mlir.codegen.problem.rows import match_rows, with_rows
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting import symbolic as symbolic
from mgx_mlir.sizes.arithmetic import Number, bounds, ceil_div, is_more

# The most rows of the functions for few.
FEW = (1, MAX_ROWS)
# Rows that the schedules of tiles are chosen for, and the most that each is for.
TILED = ((64, 128), (256, 384), (512, math.inf))


def dynamic_product_program(
    kernel: mgx.KernelOp, target: Target
) -> Generated[DynamicProgram] | Refusal | None:
    """The program of an `mgx.kernel` with symbolic sizes, and the schedule in words.

    A Refusal of products whose rows are not all that is symbolic; None where the kernel holds no
    contraction.
    """
    with kernel.context, kernel.location:
        anchors = [op for op in kernel.regions[0].blocks[0].operations if _is_anchor(op)]
        if not anchors:
            return None
        anchor = anchors[0].operation
        if len(anchors) > 1 or not anchor.name.endswith("dot"):
            return Refusal(f"{anchor.name}: its sizes are arguments")
        return _program(kernel, anchor, target).of(anchor.name)


def _is_anchor(op: ir.OpView) -> bool:
    return isinstance(op, (*mgx.CONVOLUTIONS, *mgx.DOTS))


def _program(
    kernel: mgx.KernelOp, anchor: ir.Operation, target: Target
) -> Generated[DynamicProgram] | Refusal:
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
    return refusal or Generated(made.program(kernel), f"any number of rows, {made.words()}")


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
        rest: Number = 1
        for end in FEW:
            more = is_more(self.rows, end)
            if rest - more != 0 and self._add_few(end, rest - more):
                rest = more
        shares: dict[tuple[ProductSchedule, Unit], tuple[Number, float]] = {}
        for usual, bound in TILED:
            more = is_more(self.rows, int(bound)) if bound < math.inf else 0
            if rest - more != 0:
                chosen = self._schedule(int(min(usual, most)))
                if isinstance(chosen, Refusal):
                    return chosen
                before, _ = shares.get(chosen, (0, 0))
                shares[chosen] = before + rest - more, bound
            rest = more
        for (schedule, unit), (share, bound) in shares.items():
            if refusal := self._add_tiles(share, bound, schedule, unit):
                return refusal
        return None

    def words(self) -> str:
        """The schedules in words."""
        return ", or ".join(words for *_, words in self.made)

    def program(self, kernel: mgx.KernelOp) -> DynamicProgram:
        """All functions as one program."""
        (first, *_), *others = self.made
        for other, *_ in others:
            append_functions(first.module, other.module)
        launches = tuple(launch for one, *_ in self.made for launch in one.launches)
        scratch = self.formulas.number(sum((bytes_ for _, bytes_, _ in self.made), 0))
        program = GpuProgram(first.module, launches, scratch, 32)
        return DynamicProgram.of(program, kernel, self.formulas)

    def _add_few(self, most: int, share: Number) -> bool:
        """Adds the function for few rows, where a recipe for these is better than tiles."""
        request = self._request(most)
        if isinstance(request, Refusal):
            return False
        plans = [recipe(request) for recipe in (tiles_plan, as_skinny, as_broad)]
        fits = [plan for plan in plans if not isinstance(plan, Refusal)]
        plan = min(fits, key=lambda plan: plan.clocks, default=None)
        if plan is None or isinstance(plan, Tiles):
            return False
        rows = replace(self._dynamic(most, lambda x: share * x), several=False)
        program = plan.program(request.sizes, f"{self.name}_{len(self.made)}", rows)
        rows_text = f"up to {most} rows" if most > 1 else "one row"
        self.made.append((program, 0, f"for {rows_text} {plan.describe()}"))
        return True

    def _add_tiles(
        self, share: Number, most: float, schedule: ProductSchedule, unit: Unit
    ) -> Refusal | None:
        own = schedule.rows(unit)
        request = self._request(own)
        if isinstance(request, Refusal):
            return request
        blocks = share * ceil_div(self.rows, own)
        parts = schedule.splits * self.match.problem.N
        rows = self._dynamic(own, lambda _: blocks, parts)
        tiling = Tiling(schedule, unit, self.target)
        name = f"{self.name}_{len(self.made)}"
        program = generate(request.product, request.sizes, tiling, name, rows=rows)
        words = schedule.describe(unit)
        if most < math.inf:
            words = f"for up to {most} rows {words}"
        self.made.append((program, blocks * program.scratch_bytes, words))
        return None

    def _schedule(self, rows: int) -> tuple[ProductSchedule, Unit] | Refusal:
        """The schedule and its unit for about `rows` rows, or why there is none."""
        request = self._request(rows)
        if isinstance(request, Refusal):
            return request
        if refusal := expanding_refusal(request.match.terms, request.unit.tile_depth):
            return refusal
        schedule = choose(request.match.terms, request.unit, self.target)
        if schedule is None:
            return Refusal(f"no schedule fits {self.target.name}")
        return schedule, request.unit

    def _request(self, rows: int) -> Request | Refusal:
        """The product of so many rows."""
        match = with_rows(self.match, rows)
        sizes = [
            self.strides[n] * rows if n in self.strides else x for n, x in enumerate(self.sizes)
        ]
        given = {
            number: sizes[number] * emit.element_bytes(e) for number, e in used_arguments(match)
        }
        if refusal := problem_refusal(match, given, self.target):
            return refusal
        product = Product(match, place_of_results(match), {})
        counts = sizes, [rows * match.columns] * self.results
        return Request(match, product, False, counts, self.target, self.name)

    def _dynamic(self, block: int, grid: Callable[[int], Number], parts: int = 0) -> DynamicRows:
        """The rows of work-groups. parts: partial sums of a row, in scratch memory."""
        steps = {Argument("scratch", 0): parts} if parts else {}
        steps |= {Argument("input", number): stride for number, stride in self.strides.items()}
        columns = self.match.columns
        steps |= {Argument("output", number): columns for number in range(self.results)}
        size = Argument("size", self.formulas.number(self.rows))
        return DynamicRows(size, block, steps, lambda x: self.formulas.number(grid(x)))


FAMILY = Family("product_rows", 20, dynamic_product_program)
