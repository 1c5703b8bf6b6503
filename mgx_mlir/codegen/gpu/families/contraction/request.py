"""A product that asks for a kernel, and the recipes that may answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.units import Unit, unit_for
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.plan import Plan, Sizes
from mgx_mlir.codegen.gpu.families.contraction.scaling import exact_match, is_scaled, scaled_match
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.codegen.refusal import Refusal


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


@dataclass(frozen=True)
class Recipe:
    """A way to compute products: its plan for a request, or why it has none.

    `plain`: whether it computes plain sums, and not products of matrices.
    """

    name: str
    plan: Callable[[Request], Plan | Refusal]
    plain: bool = False
