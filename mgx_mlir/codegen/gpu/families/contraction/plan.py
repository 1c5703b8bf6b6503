"""A plan: how one function computes all of a product's kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.gpu.builders.function import gpu_module
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.families.contraction.convolution import Product
from mgx_mlir.codegen.gpu.families.contraction.epilogue import Epilogue
from mgx_mlir.codegen.gpu.families.contraction.function import (
    Parameter,
    WorkGroups,
    add_function,
    outputs_of,
    raw_buffers,
)
from mgx_mlir.codegen.problem.match import used_arguments

# Elements of each of the kernel's inputs, and of each result.
Sizes: TypeAlias = tuple[Sequence[int], Sequence[int]]


class Plan(Protocol):
    """A schedule of a recipe for a kernel.

    clocks: the estimate; None where the recipe has none.
    """

    @property
    def clocks(self) -> float | None: ...

    def describe(self) -> str:
        """The schedule in words."""

    def program(self, sizes: Sizes, name: str) -> GpuProgram:
        """The functions `<name>_0` ...; needs an active MLIR context and location."""


@dataclass(frozen=True)
class Inputs:
    """The inputs by number: raw buffers, and plain pointers for scalar loads."""

    buffers: Mapping[int, ir.Value]
    pointers: Mapping[int, ir.Value]


# Emits a thread's work, from the inputs to the results that the epilogue stores.
Work: TypeAlias = Callable[[Inputs, Epilogue], None]


class OneFunction(ABC):
    """A plan whose one function computes the results of `product` from the kernel's inputs."""

    product: Product

    @property
    def clocks(self) -> float | None:
        """The estimate; see `Plan`."""
        return None

    @property
    @abstractmethod
    def groups(self) -> WorkGroups:
        """The work-groups of the function."""

    @abstractmethod
    def describe(self) -> str:
        """The schedule in words."""

    @abstractmethod
    def begin(self, lds: ir.Value | None) -> Work:
        """Emits what precedes the first use of an input: a thread's offsets. Gives the rest."""

    def program(self, sizes: Sizes, name: str) -> GpuProgram:
        """The function `<name>_0`; see `Plan`."""
        match, result = self.product.match, self.product.result
        read = used_arguments(match)
        parameters = [Parameter(e, sizes[0][n], Argument("input", n)) for n, e in read]
        parameters += outputs_of(match.result_elements, sizes[1])
        module, functions = gpu_module()

        def body(values: Sequence[ir.Value], lds: ir.Value | None) -> None:
            work = self.begin(lds)
            pointers = {number: x for (number, _), x in zip(read, values, strict=False)}
            inputs = raw_buffers(pointers)
            outputs = raw_buffers(dict(enumerate(values[len(read) :])))
            epilogue = Epilogue(match, result, inputs, list(outputs.values()))
            work(Inputs(inputs, pointers), epilogue)

        launch = add_function(functions, f"{name}_0", parameters, self.groups, body)
        return GpuProgram(module, (launch,), 0, 32)
