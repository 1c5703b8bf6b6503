"""A plan: how one function computes all of a product's kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.gpu.builders.function import gpu_module
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.function import (
    Parameter,
    Tensors,
    WorkGroups,
    add_function,
    outputs_of,
)
from mgx_mlir.codegen.problem.match import used_arguments

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
    def clocks(self) -> float:
        """The estimate in clocks."""

    @property
    @abstractmethod
    def groups(self) -> WorkGroups:
        """The work-groups of the function."""

    @abstractmethod
    def describe(self) -> str:
        """The schedule in words."""

    @abstractmethod
    def emit(self, tensors: Tensors) -> None:
        """Emits the work of a thread."""

    def epilogue(self, tensors: Tensors) -> Epilogue:
        """The epilogue of the function's results."""
        product, inputs = self.product, tensors.inputs
        return Epilogue(product.match, product.result, inputs, tensors.outputs)

    def program(self, sizes: Sizes, name: str) -> GpuProgram:
        """The function `<name>_0`; see `Plan`."""
        match = self.product.match
        reads = {
            number: Parameter(element, sizes[0][number], Argument("input", number))
            for number, element in used_arguments(match)
        }
        parameters = reads, outputs_of(match.result_elements, sizes[1])
        module, functions = gpu_module()
        launch = add_function(functions, f"{name}_0", parameters, self.groups, self.emit)
        return GpuProgram(module, (launch,), 0, 32)
