"""Several products whose sums are added, as one: the loop along k takes their operands in turn.

    C[batch, m, n] = epilogue(sum over k of A B + sum over l of D E)

Each may be a product of matrices or a convolution; rows and columns are those of all.
"""

from __future__ import annotations

from dataclasses import replace

from mgx_mlir.codegen.gpu.families.contraction.convolution import Product, product_of, side_by_side
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.problem.problem import Matrix

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
