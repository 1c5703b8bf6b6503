"""Products of matrices of any shape: tiles through LDS, by the best schedule (see generator)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.cost import choose, clocks, packing_clocks
from mgx_mlir.codegen.gpu.families.contraction.expanding import expanding_refusal
from mgx_mlir.codegen.gpu.families.contraction.generator import Beside, generate
from mgx_mlir.codegen.gpu.families.contraction.plan import Recipe, Request, Sizes
from mgx_mlir.codegen.gpu.families.contraction.results import epilogue_work
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule, Tiling
from mgx_mlir.codegen.refusal import Refusal


@dataclass(frozen=True)
class Tiles:
    """A product and the schedule of its tiles; its functions are those of `generator`."""

    product: Product
    tiling: Tiling
    ending: Beside | None = None

    @property
    def clocks(self) -> float:
        tiling, problem = self.tiling, self.product.match.problem
        packed = sum(packing.bytes for packing in self.product.packings.values())
        how = tiling.schedule, tiling.unit, tiling.target, epilogue_work(self.product.match)
        more = self.ending.of_tiling(tiling) if self.ending else 0
        return clocks(problem, *how) + more + packing_clocks(packed, tiling.target)

    def describe(self) -> str:
        words = self.tiling.schedule.describe(self.tiling.unit)
        return words + (", operands packed first" if self.product.packings else "")

    def program(self, sizes: Sizes, name: str, ending: Beside | None = None) -> GpuProgram:
        return generate(self.product, sizes, self.tiling, name, ending=ending)


def tiles_plan(
    request: Request,
    schedule: ProductSchedule | None = None,
    ending: Beside | None = None,
    fills: Sequence[int] = (),
) -> Tiles | Refusal:
    """The plan by a schedule, or by the best one. ending: what becomes of the rows of results.
    fills: as of `cost.choose`."""
    if refusal := expanding_refusal(request.exact.match.terms, request.unit.tile_depth):
        return refusal
    product, unit, target = request.exact, request.unit, request.target
    chosen = schedule or choose(
        product.match.terms,
        unit,
        target,
        epilogue=epilogue_work(product.match),
        ending=lambda x: ending.of_tiling(Tiling(x, unit, target)) if ending else 0,
        fills=fills,
    )
    if chosen is None:
        return Refusal(f"no schedule fits {target.name}")
    return Tiles(product, Tiling(chosen, unit, target), ending)


RECIPE = Recipe("tiles", tiles_plan)
