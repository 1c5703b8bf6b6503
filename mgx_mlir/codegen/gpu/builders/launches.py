"""A kernel as functions that are launched one after another, and the memory they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import memref

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.generic.lowering.element import Element
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders.function import Dimensions, Frame, Tensor
from mgx_mlir.codegen.gpu.builders.program import GpuProgram, aligned
from mgx_mlir.sizes.arithmetic import Number, ceil_div

BLOCK = 256
OUTPUT = Argument("output", 0)


@dataclass(frozen=True)
class Work:
    """A thread's part of `size` elements: `lanes` of them from `offset` on.

    `inside`: the conditions under which the thread has elements. Buffers and pointers are by
    their arguments.
    """

    offset: Index
    inside: list[ir.Value]
    buffers: dict[Argument, ir.Value]
    pointers: dict[Argument, ir.Value]


@dataclass(frozen=True)
class Group:
    """A work-group of a function.

    `inside`: the conditions under which it has work. Buffers and pointers are by their arguments.
    """

    number: Index
    inside: list[ir.Value]
    buffers: dict[Argument, ir.Value]
    pointers: dict[Argument, ir.Value]
    lds: tuple[ir.Value, ...]


class Launches:
    """Functions `<name>_0`, `<name>_1`, ... of a kernel with inputs and results of `types`.

    The one result may be the memory of an input among `overwritable`. inputs_first: the order of
    the arguments, with which LLVM's order of instructions varies. Needs an active MLIR
    context and location.
    """

    def __init__(
        self,
        name: str,
        types: tuple[Sequence[ir.Type], Sequence[ir.Type]],
        overwritable: frozenset[int] = frozenset(),
        inputs_first: bool = False,
    ) -> None:
        self._name, self._inputs_first = name, inputs_first
        self._tensors: dict[Argument, Tensor] = {}
        for kind, given in zip(("input", "output"), types, strict=True):
            for number, type_ in enumerate(given):
                shared = number in overwritable if kind == "input" else bool(overwritable)
                tensor = builder.tensor_of(type_, shared=shared)
                self._tensors[Argument(kind, number)] = tensor  # type: ignore[arg-type]
        self.results = [Argument("output", number) for number in range(len(types[1]))]
        self._module, self._block = builder.gpu_module()
        self._launches: list[Launch] = []
        self._bytes = self._tables = 0

    def scratch(self, size: int, element: Element) -> Argument:
        """Scratch memory for `size` elements, which is not initialised."""
        argument = Argument("scratch", self._number(self._bytes))
        tensor = self._tensors[argument] = Tensor(size, element)
        self._bytes += aligned(tensor.bytes)
        return argument

    def _number(self, size: int) -> int:
        """A size as launches hold it."""
        return size

    def table(self, numbers: np.ndarray[Any, Any]) -> Callable[[], ir.Value]:
        """Adds a constant table to the code. The result, called in a function, gives its flat
        memref."""
        name = f"{self._name}_table_{self._tables}"
        value = ir.DenseElementsAttr.get(numbers.ravel())
        held = ir.RankedTensorType(value.type)
        self._tables += 1
        space = ir.Attribute.parse("#gpu.address_space<global>")
        type_ = ir.MemRefType.get(held.shape, held.element_type, memory_space=space)
        ir.Operation.create(
            "memref.global",
            attributes={
                "sym_name": ir.StringAttr.get(name),
                "sym_visibility": ir.StringAttr.get("private"),
                "type": ir.TypeAttr.get(type_),
                "initial_value": value,
                "constant": ir.UnitAttr.get(),
            },
            ip=ir.InsertionPoint.at_block_begin(self._block),
        )
        return lambda: memref.get_global(type_, name)

    @contextmanager
    def function(
        self,
        read: Sequence[Argument],
        written: Sequence[Argument],
        threads: int,
        grid: Dimensions,
        lds: Sequence[tuple[int, ir.Type]] = (),
    ) -> Iterator[tuple[dict[Argument, ir.Value], Frame]]:
        """The next function; ops that are built inside of the context are its body."""
        ordered = [*read, *written] if self._inputs_first else [*written, *read]
        arguments = list(dict.fromkeys(ordered))
        tensors = [replace(self._tensors[a], written=a in written) for a in arguments]
        name = f"{self._name}_{len(self._launches)}"
        self._launches.append(Launch(name, grid, (threads, 1, 1), tuple(arguments)))
        with builder.function(self._block, name, tensors, threads, grid, lds) as frame:
            yield dict(zip(arguments, frame.buffers, strict=True)), frame

    @contextmanager
    def whole(
        self,
        used: Sequence[int],
        threads: int,
        grid: Dimensions,
        lds: Sequence[tuple[int, ir.Type]] = (),
    ) -> Iterator[Frame]:
        """The next function, of the inputs `used`, in this order, and of all results. Only for
        `inputs_first`."""
        read = [Argument("input", number) for number in used]
        with self.function(read, self.results, threads, grid, lds) as (_, frame):
            yield frame

    @contextmanager
    def groups(
        self,
        read: Sequence[Argument],
        written: Sequence[Argument],
        threads: int,
        count: Number,
        lds: Sequence[tuple[int, ir.Type]] = (),
    ) -> Iterator[Group]:
        """The next function, of `count` work-groups."""
        assert isinstance(count, int)
        grid = builder.grid_of(count)
        with self.function(read, written, threads, grid, lds) as (buffers, frame):
            number = builder.linear_block(grid)
            inside = []
            if grid[0] * grid[1] != count:
                inside.append(emit.compare("slt", number, count))
            pointers = dict(zip(buffers, frame.pointers, strict=True))
            yield Group(number, inside, buffers, pointers, frame.lds)

    @contextmanager
    def each(
        self, read: Sequence[Argument], written: Sequence[Argument], size: int, lanes: int = 1
    ) -> Iterator[Work]:
        """The next function, with a thread for every `lanes` of `size` elements; `lanes` divides
        `size`."""
        vectors = size // lanes
        count = ceil_div(vectors, BLOCK)
        with self.groups(read, written, BLOCK, count) as group:
            thread = emit.mul(group.number, BLOCK)
            thread = emit.add(thread, builder.thread_number(BLOCK))
            inside = []
            if group.inside or count * BLOCK != vectors:
                inside.append(emit.compare("slt", thread, vectors))
            yield Work(emit.mul(thread, lanes), inside, group.buffers, group.pointers)

    def program(self) -> GpuProgram:
        """The program of all functions, launched in the order in which they were built."""
        scratch = self._number(self._bytes)
        return GpuProgram(self._module, tuple(self._launches), scratch, 32)
