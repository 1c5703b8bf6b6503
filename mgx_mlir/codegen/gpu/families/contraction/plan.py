"""The request to a recipe and the plan that it returns: one function for a product's kernel."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol, TypeAlias

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.function import gpu_module
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.builders.units import Unit, unit_for
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.ending import Ending
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.function import (
    Parameter,
    Tensors,
    WorkGroups,
    add_function,
    outputs_of,
)
from mgx_mlir.codegen.gpu.families.contraction.scaling import exact_match, is_scaled, scaled_match
from mgx_mlir.codegen.problem.match import Match, used_arguments
from mgx_mlir.codegen.refusal import Refusal

# Elements of each of the kernel's inputs, and of each result.
Sizes: TypeAlias = tuple[Sequence[int], Sequence[int]]


class Plan(Protocol):
    """A schedule of a recipe for a kernel, with its estimate in clocks (see `cost`)."""

    @property
    def clocks(self) -> float: ...

    def describe(self) -> str:
        """The schedule in words."""

    def program(self, sizes: Sizes, name: str) -> GpuProgram:
        """The functions `<name>_0` ...; needs an active MLIR context and location."""


class OneFunction(ABC):
    """A plan whose one function computes the results of `product` from the kernel's inputs."""

    product: Product

    @property
    @abstractmethod
    def clocks(self) -> float: ...

    @property
    @abstractmethod
    def groups(self) -> WorkGroups: ...

    @abstractmethod
    def describe(self) -> str: ...

    @abstractmethod
    def emit(self, tensors: Tensors) -> None:
        """Emits the work of a thread."""

    def epilogue(self, tensors: Tensors) -> Epilogue:
        """The epilogue of the function's results."""
        product, inputs = self.product, tensors.inputs
        return Epilogue(product.match, product.result, inputs, tensors.outputs)

    def program(self, sizes: Sizes, name: str, ending: Ending | None = None) -> GpuProgram:
        """The function `<name>_0`; see `Plan`. With `ending`, the last work-group reduces the rows
        of results."""
        match, groups, scratch = self.product.match, self.groups, 0
        used = dict(used_arguments(match)) | dict(ending.inputs if ending else {})
        reads = {
            number: Parameter(used[number], sizes[0][number], Argument("input", number))
            for number in sorted(used)
        }
        results, body = outputs_of(match.result_elements, sizes[1]), self.emit
        if ending is not None:
            block, scratch = self.product.match.problem.M, ending.scratch_bytes(results)
            results = [*ending.parameters(results, 0), Parameter("i32", 1, Argument("counters", 1))]
            arrays = *groups.arrays, *ending.arrays(block, groups.threads)
            groups = replace(groups, arrays=arrays)
            body = partial(self._ended, ending, (block, groups.threads, math.prod(groups.grid)))
        module, functions = gpu_module()
        launch = add_function(functions, f"{name}_0", (reads, results), groups, body)
        return GpuProgram(module, (launch,), scratch, 32)

    def _ended(self, ending: Ending, size: tuple[int, int, int], tensors: Tensors) -> None:
        self.emit(replace(tensors, results=tensors.results[:1]))
        own = len(self.groups.arrays)
        ending.emit(replace(tensors, arrays=tensors.arrays[own:]), (0, 0), size, 0)


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
