"""Functions of a contraction's program: their parameters and their launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import function, memory
from mgx_mlir.codegen.meaning.element import element_named

# A dimension of a grid.
Along: TypeAlias = Literal["x", "y"]


@dataclass(frozen=True)
class Parameter:
    """A buffer of `size` elements that a function reads or writes."""

    element: str
    size: int
    argument: Argument


@dataclass(frozen=True)
class Tensors:
    """A function's inputs by number and its results, as plain pointers, and its LDS.

    Raw buffers, whose bounds the hardware checks, are made of them at their first use.
    first: the work-group's first pixel of those that the pointers begin with (see `crossing`).
    arrays: further arrays in LDS.
    """

    pointers: Mapping[int, ir.Value]
    results: Sequence[ir.Value]
    lds: ir.Value | None
    arrays: Sequence[ir.Value] = ()
    first: Index = 0

    @cached_property
    def inputs(self) -> dict[int, ir.Value]:
        """Raw buffers of the inputs, by number."""
        return {number: memory.buffer(pointer) for number, pointer in self.pointers.items()}

    @cached_property
    def outputs(self) -> list[ir.Value]:
        """Raw buffers of the results."""
        return [memory.buffer(pointer) for pointer in self.results]

    @property
    def tiles(self) -> ir.Value:
        """LDS, of a function that has some."""
        assert self.lds is not None
        return self.lds


@dataclass(frozen=True)
class WorkGroups:
    """How many work-groups a function has, their threads, and their LDS: elements and their type.

    `is_vectors`: the body is vectors already, so that LLVM need not look for more; a body with
    LDS always is. arrays: further arrays in LDS, their elements and types.
    """

    threads: int
    grid: tuple[int, int, int]
    lds: tuple[int, str] | None = None
    is_vectors: bool = False
    arrays: tuple[tuple[int, ir.Type], ...] = ()

    @property
    def local(self) -> tuple[tuple[int, ir.Type], ...]:
        """All arrays in LDS."""
        return *(((self.lds[0], emit.element_type(self.lds[1])),) if self.lds else ()), *self.arrays

    def held(self, lds: Sequence[ir.Value]) -> tuple[ir.Value | None, Sequence[ir.Value]]:
        """`lds` and `arrays` of the body's tensors."""
        return (lds[0], lds[1:]) if self.lds else (None, lds)


def add_function(
    functions: ir.Block,
    name: str,
    parameters: tuple[Mapping[int, Parameter], Sequence[Parameter]],
    groups: WorkGroups,
    body: Callable[[Tensors], None],
) -> Launch:
    """Appends a kernel to a gpu.module's block; parameters: inputs by number, and results."""
    reads, writes = parameters
    both, threads, grid = [*reads.values(), *writes], groups.threads, groups.grid
    arguments = [
        function.Tensor(p.size, element_named(p.element), written=number >= len(reads))
        for number, p in enumerate(both)
    ]
    how = groups.local, 0, groups.is_vectors
    with function.function(functions, name, arguments, threads, grid, *how) as frame:
        inputs = dict(zip(reads, frame.pointers, strict=False))
        body(Tensors(inputs, frame.pointers[len(reads) :], *groups.held(frame.lds)))
    return Launch(name, grid, (threads, 1, 1), tuple(p.argument for p in both))


def outputs_of(elements: Sequence[str], sizes: Sequence[int]) -> list[Parameter]:
    """The kernel's results as parameters."""
    return [
        Parameter(element, size, Argument("output", number))
        for number, (element, size) in enumerate(zip(elements, sizes, strict=True))
    ]
