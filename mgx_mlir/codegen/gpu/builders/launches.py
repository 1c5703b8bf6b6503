"""A kernel as functions that are launched one after another, and the memory they share.

Sizes are integers or formulas. In a kernel with symbolic sizes a tensor, and a piece of scratch
memory, has at most 2^31 bytes: a launch beyond that is refused (see artifact.formulas).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from mlir import ir
from mlir.dialects import memref

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.capabilities import MAX_TENSORS
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import function as builder
from mgx_mlir.codegen.gpu.builders.function import Frame, Tensor
from mgx_mlir.codegen.gpu.builders.pointers import Counts, Move, moved_function
from mgx_mlir.codegen.gpu.builders.program import GpuProgram, aligned
from mgx_mlir.codegen.loops.kernel import is_symbolic, kernel_symbols
from mgx_mlir.codegen.meaning.element import I32, Element
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, Size, Symbol, bounds, ceil_div, minimum

BLOCK = 256
# HIP takes fewer threads along one dimension of a grid, and about as many work-groups along y.
MAX_GRID, MAX_LINES = 1 << 32, 1 << 15
OUTPUT = Argument("output", 0)
# Scratch memory of tensors that name their first byte themselves.
SCRATCH = Argument("scratch", 0)


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
    """A work-group of a function, by its number, and its line's.

    `inside`: the conditions under which it has work. Buffers and pointers are by their arguments.
    """

    number: Index
    line: Index
    inside: list[ir.Value]
    buffers: dict[Argument, ir.Value]
    pointers: dict[Argument, ir.Value]
    lds: tuple[ir.Value, ...]


def lines_of(count: Number) -> tuple[Number, Number, Callable[[], Index]]:
    """Sizes y and z of a grid of at least `count` lines of work-groups, and what gives a line's
    number: lines beyond what y takes are along z."""
    low, high = minimum(count, MAX_LINES), ceil_div(count, MAX_LINES)
    along: Callable[..., Index] = builder.block_number
    y = partial(along, "y", MAX_LINES if low != 1 else 1)
    return low, high, lambda: emit.linear(y(), (along("z", high), MAX_LINES))


def numbered(buffers: Sequence[ir.Value], read: int) -> dict[Argument, ir.Value]:
    """The buffers of moved tensors by numbers of their own: of `read` inputs, then of results."""
    inputs = {Argument("input", number): x for number, x in enumerate(buffers[:read])}
    return inputs | {Argument("output", number): x for number, x in enumerate(buffers[read:])}


class Launches:
    """Functions `<name>_0`, `<name>_1`, ... of a kernel, whose sizes are given or symbolic.

    The one result may be the memory of an input among `overwritable`. inputs_first: the order of
    the arguments, with which LLVM's order of instructions varies. limits: numbers of which none
    may be below 0 in a run. formulas: those of a program that this one is a part of. Needs an
    active MLIR context and location.

    Sizes of a kernel with symbolic sizes are arguments of each function, its grids and its scratch
    memory formulas of them; a function of no work-groups is not launched.
    """

    def __init__(
        self,
        kernel: mgx.KernelOp,
        overwritable: frozenset[int] = frozenset(),
        inputs_first: bool = False,
        limits: Sequence[Number] = (),
        formulas: Formulas | None = None,
    ) -> None:
        self._name, types = builder.signature(kernel)
        self._inputs_first = inputs_first
        self._tensors: dict[Argument, Tensor] = {}
        for kind, given in zip(("input", "output"), types, strict=True):
            for number, type_ in enumerate(given):
                shared = number in overwritable if kind == "input" else bool(overwritable)
                tensor = builder.tensor_of(type_, shared=shared)
                self._tensors[Argument(kind, number)] = tensor  # type: ignore[arg-type]
        self.results = [Argument("output", number) for number in range(len(types[1]))]
        self._symbols = kernel_symbols(kernel) if is_symbolic(kernel) else ()
        self._formulas, self._limits = formulas or Formulas(), list(limits)
        self._module, self._block = builder.gpu_module()
        self._launches: list[Launch] = []
        self._bytes: Number = 0
        self._tables, self._share = 0, 1

    @property
    def is_symbolic(self) -> bool:
        """Whether some size of the kernel is known only at run time."""
        return bool(self._symbols)

    def inputs(self, numbers: Iterable[int]) -> list[Argument]:
        return [Argument("input", number) for number in numbers]

    def scratch(self, size: Number, element: Element) -> Argument:
        """Scratch memory for `size` elements, which is not initialised."""
        argument = Argument("scratch", self._formulas.number(self._bytes))
        tensor = self._tensors[argument] = Tensor(size, element)  # type: ignore[arg-type]
        self._bytes = self._bytes + aligned(tensor.bytes)
        return argument

    def counting(self, count: int) -> Argument:
        """So many counters of a kernel of given sizes: see `counters`."""
        argument = Argument("counters", count)
        self._tensors[argument] = Tensor(count, I32)
        return argument

    def reserve(self, size: Number) -> None:
        """Adds bytes to scratch memory, before all that is asked for later."""
        self._bytes = self._bytes + size

    def limit(self, *numbers: Number) -> None:
        """Adds numbers of which none may be below 0 in a run."""
        self._limits += [number for number in numbers if number not in self._limits]

    @contextmanager
    def when(self, share: Number) -> Iterator[None]:
        """Functions that are built inside of the context are launched where `share`, 1 or 0, is
        1."""
        before = self._share
        self._share = before * share  # type: ignore[assignment]
        yield
        self._share = before

    def table(self, numbers: np.ndarray[Any, Any]) -> Callable[[], ir.Value]:
        """Adds a constant table to the code. The result, called in a function, gives its flat
        memref."""
        name = f"{self._name}_table_{self._tables}"
        value = ir.DenseElementsAttr.get(numbers.ravel())
        held = ir.RankedTensorType(value.type)
        self._tables += 1
        space = ir.Attribute.parse("#gpu.address_space<global>")
        type_ = ir.MemRefType.get(held.shape, held.element_type, memory_space=space)
        emit.add_table(name, type_, value, self._block)
        return lambda: memref.get_global(type_, name)

    def _arguments(
        self, read: Sequence[Argument], written: Sequence[Argument]
    ) -> tuple[list[Argument], list[Tensor]]:
        """A function's tensors, in the order of its arguments."""
        ordered = [*read, *written] if self._inputs_first else [*written, *read]
        arguments = list(dict.fromkeys(ordered))
        return arguments, [replace(self._tensors[a], written=a in written) for a in arguments]

    def whole_tensor(self, argument: Argument, tensor: Tensor | None = None) -> Move:
        """A tensor as one part."""
        tensor = tensor or replace(self._tensors[argument], written=argument.kind == "output")
        return Move(argument, replace(tensor, size=1), 0, Axis(()), tensor.size, tensor.size)

    @contextmanager
    def function(
        self,
        read: Sequence[Argument],
        written: Sequence[Argument],
        threads: int,
        grid: tuple[Number, Number, Number],
        lds: Sequence[tuple[int, ir.Type]] = (),
    ) -> Iterator[tuple[dict[Argument, ir.Value], Frame]]:
        """The next function; ops that are built inside of the context are its body."""
        arguments, tensors = self._arguments(read, written)
        if self._symbols:
            moves = [self.whole_tensor(a, t) for a, t in zip(arguments, tensors, strict=True)]
            with self.moved(moves, threads, grid, lds) as (frame, _):
                yield dict(zip(arguments, frame.buffers, strict=True)), frame
            return
        name, (x, y, z) = f"{self._name}_{len(self._launches)}", grid
        assert isinstance(x, int) and isinstance(y, int) and isinstance(z, int)
        self._launches.append(Launch(name, (x, y, z), (threads, 1, 1), tuple(arguments)))
        with builder.function(self._block, name, tensors, threads, (x, y, z), lds) as made:
            frame = made.buffered(made.pointers)
            yield dict(zip(arguments, frame.buffers, strict=True)), frame

    @contextmanager
    def moved(
        self,
        moves: Sequence[Move],
        threads: int,
        grid: tuple[Number, Number, Number],
        lds: Sequence[tuple[int, ir.Type]] = (),
        along: str | Callable[[], Index] = "x",
        named: Mapping[str, Number] | None = None,
    ) -> Iterator[tuple[Frame, Index]]:
        """The next function of a kernel with symbolic sizes: its tensors, moved to the part that
        the number of its work-group names, along a dimension of the grid, or as `along` computes
        it; and that number. named: further symbols that code computes with, and their values."""
        moves = [self._placed(move) for move in moves]
        x, y, z = self._share * grid[0], grid[1], grid[2]
        self.limit(MAX_GRID - 1 - x * threads, *(move.limit for move in moves))
        own = {name: Size.of(Symbol(name)) for name in self._symbols}
        counts = Counts(self._formulas, own | dict(named or {}))
        for move in moves:
            counts.add(*move.numbers)
        name = f"{self._name}_{len(self._launches)}"
        with moved_function(self._block, name, threads, moves, counts, lds, along) as made:
            yield made
        numbers = (self._formulas.number(x), self._formulas.number(y), self._formulas.number(z))
        passed = (*(move.argument for move in moves), *counts.arguments())
        self._launches.append(Launch(name, numbers, (threads, 1, 1), passed))

    def counters(self, count: Number) -> Move:
        """So many counters, which are 0 before a launch and have to be after it."""
        argument = Argument("counters", self._formulas.number(count))
        return Move(argument, Tensor(1, I32, written=True), 0, Axis(()), count, 1)

    def _placed(self, move: Move) -> Move:
        if move.argument != SCRATCH:
            return move
        return replace(move, argument=Argument("scratch", self._formulas.number(move.at)))

    @contextmanager
    def groups(
        self,
        read: Sequence[Argument],
        written: Sequence[Argument],
        threads: int,
        count: Number,
        lds: Sequence[tuple[int, ir.Type]] = (),
        lines: Number = 1,
    ) -> Iterator[Group]:
        """The next function, of `count` work-groups in each of so many lines, or of at least so
        many where they are more than `MAX_LINES`; a kernel of given sizes has one."""
        low, high, numbered = lines_of(lines)
        grid: tuple[Number, Number, Number] = (count, low, high)
        if not self._symbols:
            assert isinstance(count, int) and lines == 1
            grid = builder.grid_of(count)
        with self.function(read, written, threads, grid, lds) as (buffers, frame):
            inside, line = [], cast(Index, 0)
            if self._symbols:
                number = builder.block_number("x", builder.MAX_THREADS)
                line = numbered()
            else:
                number = builder.linear_block(grid)  # type: ignore[arg-type]
                if grid[0] * grid[1] != count:
                    inside.append(emit.compare("slt", number, count))
            pointers = dict(zip(buffers, frame.pointers, strict=True))
            yield Group(number, line, inside, buffers, pointers, frame.lds)

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

    def refusal(self) -> Refusal | None:
        """Why no sizes are within the limits, or a function's tensors are too many."""
        tensors = max(
            sum(a.kind in ("input", "output") for a in x.arguments) for x in self._launches
        )
        if tensors > MAX_TENSORS:
            return Refusal(f"{tensors} tensors")
        if any(not bounds(limit)[1] >= 0 for limit in self._limits):
            return Refusal("places that 31 bits do not reach")
        return None

    def program(self) -> GpuProgram:
        """The program of all functions, launched in the order in which they were built."""
        for limit in self._limits:
            if not limit >= 0:  # a launch is refused where a formula gives less (see formulas)
                self._formulas.number(limit)
        scratch, formulas = self._formulas.number(self._bytes), tuple(self._formulas.texts)
        return GpuProgram(self._module, tuple(self._launches), scratch, 32, formulas)
