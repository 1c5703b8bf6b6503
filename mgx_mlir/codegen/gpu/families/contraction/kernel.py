"""A kernel of the contraction family: whether the family takes it, and its program."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.choice import Offer, best_offer
from mgx_mlir.codegen.gpu.families.contraction.constraints import direct_refusal, problem_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import (
    Product,
    place_of_results,
    stored_along,
)
from mgx_mlir.codegen.gpu.families.contraction.plan import Sizes
from mgx_mlir.codegen.gpu.families.contraction.recipes.tiles import tiles_plan
from mgx_mlir.codegen.gpu.families.contraction.request import Recipe, Request
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule
from mgx_mlir.codegen.gpu.families.contraction.terms import product_of_terms
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.problem.match import Match, match_contraction, used_arguments
from mgx_mlir.codegen.problem.problem import Image
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.scan import definitions


def contraction_program(
    kernel: mgx.KernelOp, target: Target, schedule: ProductSchedule | None = None
) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None where the kernel holds no contraction. Without a `schedule` the cost model chooses.
    """
    with kernel.context, kernel.location:
        ops = kernel.regions[0].blocks[0].operations
        anchors = [op for op in ops if isinstance(op, (*mgx.CONVOLUTIONS, *mgx.DOTS))]
        if not anchors:
            return None
        anchor = anchors[0].OPERATION_NAME
        match = match_contraction(kernel)
        if match is None:
            return Refusal("types, views or an epilogue that the generator does not match").of(
                anchor
            )
        type_ = ir.FunctionType(kernel.function_type.value)
        inputs, results = ([math.prod(t.shape) for t in x] for x in (type_.inputs, type_.results))
        name = kernel.sym_name.value
        return match_program(match, (inputs, results), target, name, schedule).of(anchor)


def match_program(
    match: Match, sizes: Sizes, target: Target, name: str, schedule: ProductSchedule | None = None
) -> Generated[GpuProgram] | Refusal:
    """The program `<name>_0` .. of a match, and its schedule in words.

    sizes: elements of each input and of each result. Needs an active MLIR context and
    location.
    """
    plain = direct_refusal(match) is None
    product = Product(match, place_of_results(match), {}) if plain else product_of_terms(match)
    if product is None:
        return Refusal("products whose sums are added have unlike columns")
    along = product if plain else stored_along(product)
    bytes_ = {number: packing.bytes for number, packing in along.packings.items()}
    for number, element in used_arguments(along.match):
        if number not in bytes_:
            bytes_[number] = sizes[0][number] * emit.element_bytes(element)
    if refusal := problem_refusal(along.match, bytes_, target):
        return refusal
    request = Request(match, along, along is not product, sizes, target, name)
    offer = best_offer(_variants(request, schedule))
    if isinstance(offer, Refusal):
        return offer
    program = offer.generate()
    return Generated(program, offer.schedule)


def _variants(
    request: Request, schedule: ProductSchedule | None
) -> dict[str, Callable[[], Offer | Refusal]]:
    """A variant for each recipe, by name; with a `schedule`, `tiles` alone."""
    plain = isinstance(request.product.match.problem.b, Image)
    asked = [recipe for recipe in _recipes() if recipe.plain or not plain]
    if schedule is not None and not plain:
        asked = [Recipe("tiles", partial(tiles_plan, schedule=schedule))]
    return {recipe.name: partial(_offer, recipe, request) for recipe in asked}


@cache
def _recipes() -> tuple[Recipe, ...]:
    return tuple(definitions(f"{__package__}.recipes", "RECIPE"))


def _offer(recipe: Recipe, request: Request) -> Offer | Refusal:
    plan = recipe.plan(request)
    if isinstance(plan, Refusal):
        return plan
    generate = partial(plan.program, request.sizes, request.name)
    return Offer(plan.describe(), generate, plan.clocks)


FAMILY = Family("contraction", 40, contraction_program)
