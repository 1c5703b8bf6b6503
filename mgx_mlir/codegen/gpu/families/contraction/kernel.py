"""A kernel of the contraction family: whether the family takes it, and its program."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.choice import Offer, best_offer
from mgx_mlir.codegen.gpu.builders.program import Generated, GpuProgram
from mgx_mlir.codegen.gpu.families.contraction.constraints import direct_refusal, problem_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import (
    Product,
    place_of_results,
    product_of,
    side_by_side,
    stored_along,
)
from mgx_mlir.codegen.gpu.families.contraction.plan import Recipe, Request, Sizes
from mgx_mlir.codegen.gpu.families.contraction.recipes.tiles import tiles_plan
from mgx_mlir.codegen.gpu.families.contraction.space import ProductSchedule
from mgx_mlir.codegen.gpu.families.family import Family
from mgx_mlir.codegen.problem.match import Match, match_contraction, used_arguments
from mgx_mlir.codegen.problem.problem import Image, Matrix
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.scan import definitions

# Numbers of packed operands that a product may use, as arguments.
_NUMBERS = 2


def product_of_terms(match: Match) -> Product | None:
    """The product that a match with any number of terms is.

    None where one has the images of its batch as columns and another cannot.
    """
    products = [product_of(replace(match, problem=term, added=())) for term in match.terms]
    if any(_places(product) != _places(products[0]) for product in products):
        products = [_joined(product) for product in products]
    first, *others = products
    if any(_places(product) != _places(first) for product in others):
        return None
    packings, added = dict(first.packings), []
    start = first.scratch_bytes
    for turn, product in enumerate(others, 1):
        numbers: dict[int, int] = {}
        for number, packing in product.packings.items():
            numbers[number] = number - turn * _NUMBERS
            packings[numbers[number]] = replace(packing, start=packing.start + start)
        start = replace(first, packings=packings).scratch_bytes
        problem = product.match.problem
        assert isinstance(problem.b, Matrix)
        a, b = (
            replace(x, argument=numbers.get(x.argument, x.argument)) for x in (problem.a, problem.b)
        )
        added.append(replace(problem, a=a, b=b))
    return replace(first, match=replace(first.match, added=tuple(added)), packings=packings)


def _places(product: Product) -> tuple[object, ...]:
    """The sizes and the result's layout, which the products of all terms have in common."""
    problem = product.match.problem
    return problem.batch, problem.M, problem.N, product.result


def _joined(product: Product) -> Product:
    problem = product.match.problem
    if problem.batch == 1 or problem.a.batch.stride != 0:
        return product
    return side_by_side(product)


def contraction_program(
    kernel: mgx.KernelOp, target: Target, schedule: ProductSchedule | None = None
) -> Generated[GpuProgram] | Refusal | None:
    """The program of an `mgx.kernel` for a chip, and the schedule in words.

    None where the kernel holds no contraction. Without a `schedule` the cost model chooses.
    """
    with kernel.context, kernel.location:
        request = kernel_request(kernel, target)
        if request is None or isinstance(request, Refusal):
            return request
        made = _program(request, schedule)
        return made.of(anchor_name(kernel))


def anchor_name(kernel: mgx.KernelOp) -> str:
    """The name of a kernel's first product or convolution; '' where it holds none."""
    ops = kernel.regions[0].blocks[0].operations
    anchors = [op for op in ops if isinstance(op, (*mgx.CONVOLUTIONS, *mgx.DOTS))]
    return anchors[0].OPERATION_NAME if anchors else ""


def kernel_request(kernel: mgx.KernelOp, target: Target) -> Request | Refusal | None:
    """The product of a kernel as a request; None where the kernel holds no contraction."""
    anchor = anchor_name(kernel)
    if not anchor:
        return None
    match = match_contraction(kernel)
    if match is None:
        return Refusal(f"{anchor}: types, views or an epilogue that the generator does not match")
    type_ = ir.FunctionType(kernel.function_type.value)
    inputs, results = ([math.prod(t.shape) for t in x] for x in (type_.inputs, type_.results))
    request = match_request(match, (inputs, results), target, kernel.sym_name.value)
    return request.of(anchor) if isinstance(request, Refusal) else request


def match_program(
    match: Match, sizes: Sizes, target: Target, name: str
) -> Generated[GpuProgram] | Refusal:
    """The program `<name>_0` .. of a match, and its schedule in words.

    sizes: elements of each input and of each result. Needs an active MLIR context and
    location.
    """
    request = match_request(match, sizes, target, name)
    return request if isinstance(request, Refusal) else _program(request)


def match_request(match: Match, sizes: Sizes, target: Target, name: str) -> Request | Refusal:
    """The request of a match, or why no kernel serves it."""
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
    return Request(match, along, along is not product, sizes, target, name)


def best_plan(request: Request, schedule: ProductSchedule | None = None) -> Offer | Refusal:
    """The offer of the least clocks of all recipes; with a `schedule`, of `tiles` alone."""
    return best_offer(_variants(request, schedule))


def _program(
    request: Request, schedule: ProductSchedule | None = None
) -> Generated[GpuProgram] | Refusal:
    offer = best_plan(request, schedule)
    return offer if isinstance(offer, Refusal) else Generated(offer.generate(), offer.schedule)


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
    return Offer(plan.describe(), generate, plan.clocks, recipe.name, plan)


FAMILY = Family("contraction", 40, contraction_program)
