"""The variants of a product's kernel: one for each recipe, in the order of preference.

A convolution of one channel a group is plain sums: `depthwise` with channels last, else `direct`.
Every other product is a product of matrices. `broad` and `skinny` are taken wherever they are
legal; `resident` where its estimate is no more than that of `tiles`; `narrow` likewise wherever
it is legal; `tiles` is the general one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial

from mgx_mlir.codegen.gpu.families.choice import Offer
from mgx_mlir.codegen.gpu.families.contraction.recipes.tiles import tiles_plan
from mgx_mlir.codegen.gpu.families.contraction.request import Recipe, Request
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule
from mgx_mlir.codegen.problem.problem import Image
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.scan import definitions


@cache
def recipes() -> tuple[Recipe, ...]:
    """All recipes, those that are asked first in front."""
    found = definitions(f"{__package__}.recipes", "RECIPE")
    return tuple(sorted(found, key=lambda recipe: recipe.priority))


def variants(
    request: Request, schedule: ProductSchedule | None = None
) -> Mapping[str, Callable[[], Offer | Refusal]]:
    """The variants to ask, by name, first ones preferred; with a `schedule`, `tiles` alone."""
    plain = isinstance(request.product.match.problem.b, Image)
    if schedule is not None and not plain:
        given = Recipe("tiles", 0, partial(tiles_plan, schedule=schedule))
        return {given.name: partial(_offer, given, request)}
    asked = [recipe for recipe in recipes() if recipe.plain or not plain]
    return {recipe.name: partial(_offer, recipe, request) for recipe in asked}


def _offer(recipe: Recipe, request: Request) -> Offer | Refusal:
    plan = recipe.plan(request)
    if isinstance(plan, Refusal):
        return plan
    generate = partial(plan.program, request.sizes, request.name)
    return Offer(plan.describe(), generate, plan.clocks)
