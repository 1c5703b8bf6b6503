"""The variants of a product's kernel, in the order of preference.

A convolution of one channel a group is plain sums: `depthwise` with channels last, else `direct`.
Every other product is a product of matrices. `broad` and `skinny` are taken wherever they are
legal; `resident` where its estimate is no more than that of `tiles`; `narrow` likewise wherever
it is legal; `tiles` is the general one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeAlias

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.families.choice import Offer
from mgx_mlir.codegen.gpu.families.contraction.broad import as_broad, generate_broad
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.cost import choose, clocks
from mgx_mlir.codegen.gpu.families.contraction.depthwise import as_depthwise
from mgx_mlir.codegen.gpu.families.contraction.depthwise import choose as choose_depthwise
from mgx_mlir.codegen.gpu.families.contraction.depthwise_function import generate_depthwise
from mgx_mlir.codegen.gpu.families.contraction.direct import Direct, direct_refusal
from mgx_mlir.codegen.gpu.families.contraction.expanding import expanding_refusal
from mgx_mlir.codegen.gpu.families.contraction.generator import generate, generate_direct
from mgx_mlir.codegen.gpu.families.contraction.narrow import as_narrow
from mgx_mlir.codegen.gpu.families.contraction.narrow_block import generate_narrow
from mgx_mlir.codegen.gpu.families.contraction.resident import as_resident, generate_resident
from mgx_mlir.codegen.gpu.families.contraction.scaling import exact_match, is_scaled, scaled_match
from mgx_mlir.codegen.gpu.families.contraction.skinny import as_skinny, generate_skinny
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule, Tiling
from mgx_mlir.codegen.gpu.families.contraction.specs import Unit, unit_for
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import Image
from mgx_mlir.codegen.refusal import Refusal

# Elements of each of the kernel's inputs, and of each result.
Sizes: TypeAlias = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True)
class Request:
    """A product that `constraints.problem_refusal` does not refuse, on a chip.

    match: the kernel as it was matched. product: its form, with windows as matrices, transposed
    where `transposed`. name: the functions are `<name>_0` ...
    """

    match: Match
    product: Product
    transposed: bool
    sizes: Sizes
    target: Target
    name: str

    @cached_property
    def exact(self) -> Product:
        """The product with operands as the matrix instructions take them: scaled, or exact."""
        match = exact_match(scaled_match(self.product.match, self.target))
        return replace(self.product, match=match)

    @cached_property
    def unit(self) -> Unit:
        """The instruction that multiplies."""
        problem = self.exact.match.problem
        a, b = problem.a.element, problem.b.element
        unit = unit_for(self.target, a, problem.accumulator, b)
        assert unit is not None  # or the problem would have been refused
        return replace(unit, scaled=is_scaled(problem))

    @cached_property
    def tiles(self) -> ProductSchedule | Refusal:
        """The best schedule of the general variant."""
        terms = self.exact.match.terms
        if refusal := expanding_refusal(terms, self.unit.tile_depth):
            return refusal
        chosen = choose(terms, self.unit, self.target)
        return chosen or Refusal(f"no schedule fits {self.target.name}")

    @cached_property
    def tiles_clocks(self) -> float:
        """The estimate of the general variant, which has a schedule."""
        assert isinstance(self.tiles, ProductSchedule)
        return clocks(self.exact.match.problem, self.tiles, self.unit, self.target)


def variants(
    request: Request, schedule: ProductSchedule | None = None
) -> Mapping[str, Callable[[], Offer | Refusal]]:
    """The variants to ask, by name, first ones preferred; with a `schedule`, `tiles` alone."""
    if isinstance(request.product.match.problem.b, Image):
        asked: Mapping[str, Callable[[Request], Offer | Refusal]] = {
            "depthwise": _depthwise,
            "direct": _direct,
        }
    elif schedule is not None:
        asked = {"tiles": partial(_tiles, schedule=schedule)}
    else:
        asked = {
            "direct": _direct,
            "broad": _broad,
            "skinny": _skinny,
            "resident": _resident,
            "narrow": _narrow,
            "tiles": _tiles,
        }
    return {name: partial(ask, request) for name, ask in asked.items()}


def _depthwise(request: Request) -> Offer | Refusal:
    found = as_depthwise(request.match)
    if isinstance(found, Refusal):
        return found
    schedule = choose_depthwise(found, request.target)
    generate_ = partial(generate_depthwise, found, schedule, request.sizes, request.name)
    return Offer(schedule.describe(), generate_)


def _direct(request: Request) -> Offer | Refusal:
    if refusal := direct_refusal(request.match):
        return refusal
    assert isinstance(request.match.problem.b, Image)
    direct = Direct(request.match, request.match.problem.b)
    return Offer(direct.describe(), partial(generate_direct, direct, request.sizes, request.name))


def _broad(request: Request) -> Offer | Refusal:
    found = as_broad(request.product, request.target)
    if isinstance(found, Refusal):
        return found
    generate_ = partial(generate_broad, *found, request.sizes, request.target, request.name)
    return Offer(found[1].describe(), generate_)


def _skinny(request: Request) -> Offer | Refusal:
    found = as_skinny(request.product, request.target)
    if isinstance(found, Refusal):
        return found
    generate_ = partial(generate_skinny, *found, request.sizes, request.target, request.name)
    return Offer(found[1].describe(), generate_)


def _resident(request: Request) -> Offer | Refusal:
    if isinstance(request.tiles, Refusal):
        return request.tiles
    found = as_resident(request.match, request.exact, request.unit, request.target)
    if isinstance(found, Refusal):
        return found
    if found.clocks > request.tiles_clocks:
        return Refusal(f"{found.clocks:,.0f} clocks are more than {request.tiles_clocks:,.0f}")
    generate_ = partial(generate_resident, found, request.sizes, request.name)
    return Offer(found.describe(), generate_, found.clocks)


def _narrow(request: Request) -> Offer | Refusal:
    if isinstance(request.tiles, Refusal):
        return request.tiles
    found = as_narrow(
        request.match,
        request.exact,
        request.transposed,
        request.sizes[0],
        request.unit,
        request.target,
    )
    if isinstance(found, Refusal):
        return found
    generate_ = partial(generate_narrow, found, request.sizes, request.name)
    return Offer(found.describe(), generate_, found.clocks(request.target))


def _tiles(request: Request, schedule: ProductSchedule | None = None) -> Offer | Refusal:
    product, unit, target = request.exact, request.unit, request.target
    if refusal := expanding_refusal(product.match.terms, unit.tile_depth):
        return refusal
    chosen = schedule or request.tiles
    if isinstance(chosen, Refusal):
        return chosen
    words = chosen.describe(unit) + (", operands packed first" if product.packings else "")
    tiling = Tiling(chosen, unit, target)
    generate_ = partial(generate, product, request.sizes, tiling, request.name)
    return Offer(words, generate_, clocks(product.match.problem, chosen, unit, target))
