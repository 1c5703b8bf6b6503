"""Pointers that move on to a work-group's part of tensors of any size.

Pointers advance in 64 bits; within a part offsets have 31 bits. The launch passes the numbers
that depend on sizes. It is refused where one of its limits is below 0 (see formulas).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.capabilities import MAX_BYTES, MAX_TENSORS
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.generic.dynamic.kernel import kernel_symbols
from mgx_mlir.codegen.generic.lowering.element import element_of, sizes_of
from mgx_mlir.codegen.generic.lowering.index import symbol_values
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import (
    MAX_THREADS,
    Frame,
    Tensor,
    block_number,
    function,
    gpu_module,
    signature,
    thread_number,
)
from mgx_mlir.codegen.gpu.builders.launches import BLOCK
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import (
    Number,
    Size,
    Symbol,
    bounds,
    ceil_div,
    common_factor,
    evaluate,
    symbols,
)

# The size that schedules are chosen for, where no bound is below it: no block of them is whole.
USUAL = 509


@dataclass(frozen=True)
class Move:
    """The offset of a part of a tensor of `size` elements: `offset` + `parts` of its number.

    reach: the span in elements, gaps included, that 32-bit offsets within a part have to reach. at:
    the first byte in scratch memory, of tensors there.
    """

    argument: Argument
    tensor: Tensor
    offset: Number
    parts: Axis
    size: Number
    reach: Number
    at: Number = 0

    @property
    def limit(self) -> Number:
        """Below 0 where offsets do not reach all of a part."""
        return MAX_BYTES - self.reach * self.tensor.bytes

    @property
    def numbers(self) -> list[Number]:
        """The numbers that a function reads to find the part."""
        return [self.size, self.offset, *(n for factor in self.parts.factors for n in factor)]


def reach(*axes: Axis) -> Number:
    """The span of the elements along some axes."""
    return sum((count * stride for axis in axes for count, stride in axis.factors), 0)


def forwards(*axes: Axis) -> bool:
    """Whether no axis is read backwards: offsets count from the first element."""
    return all(stride >= 0 for axis in axes for _, stride in axis.factors)


def whole_tensors(kernel: mgx.KernelOp, used: Sequence[int]) -> list[Move]:
    """The inputs of some numbers, and all results, each as one part."""
    _, (inputs, results) = signature(kernel)
    tensors = [(Argument("input", number), inputs[number]) for number in used]
    tensors += [(Argument("output", number), type_) for number, type_ in enumerate(results)]
    moves = []
    for argument, type_ in tensors:
        size: Number = math.prod(sizes_of(type_))
        tensor = Tensor(1, element_of(type_), written=argument.kind == "output")
        moves.append(Move(argument, tensor, 0, Axis(()), size, size))
    return moves


def one_part(offset: Number, parts: Axis) -> Axis:
    """The axis of parts for code on one part; its stride limits the length of vectors."""
    step = math.gcd(*map(common_factor, (offset, *(stride for _, stride in parts.factors))))
    return Axis(((2, step),)) if step else Axis(())


def usual_size(size: Number, known: Mapping[str, Symbol]) -> int:
    """The size that a schedule is chosen for: the upper bound of `size`, `USUAL` at most."""
    if isinstance(size, int):
        return size
    most = {s.name: known.get(s.name, s).high or USUAL for s in symbols(size)}
    return max(1, min(USUAL, evaluate(size, most)))


def value_of(size: Number, known: Mapping[str, Symbol], usual: int) -> int:
    """A size where symbols have the value `usual`, or their upper bound."""
    most = {s.name: known.get(s.name, s).high or usual for s in symbols(size)}
    return evaluate(size, {name: min(n, usual) for name, n in most.items()})


class Counts:
    """The numbers that a launch passes: symbols first, then the numbers that need 64 bits.

    Limits are numbers that no function reads: if one is below 0, the launch is refused (see
    formulas).
    """

    def __init__(
        self, formulas: Formulas, limits: Sequence[Number], symbols: Sequence[str]
    ) -> None:
        self.formulas, self.symbols = formulas, tuple(symbols)
        self.numbers: list[Number] = [Size.of(Symbol(name)) for name in symbols]
        self._limits = [x for x in limits if isinstance(x, Size) and not x >= 0]

    def add(self, *numbers: Number) -> None:
        """Adds numbers to those that a launch passes."""
        for number in numbers:
            if isinstance(number, Size) and number not in self.numbers:
                self.numbers.append(number)

    def arguments(self) -> list[Argument]:
        """The arguments that a launch passes after the tensors."""
        wanted = [*self.numbers, *self._limits]
        return [Argument("size", self.formulas.number(number)) for number in wanted]

    @contextmanager
    def values(self, sizes: Sequence[ir.Value]) -> Iterator[Values]:
        """The numbers in a function, by the values that its launch passed; inside of the context
        sizes are known."""
        index = ir.IndexType.get()
        short = [arith.index_cast(index, x) for x in sizes[: len(self.symbols)]]
        with symbol_values(dict(zip(self.symbols, short, strict=True))):
            yield Values(dict(zip(self.numbers, sizes, strict=False)))


class Values:
    """Numbers of a launch as i64."""

    def __init__(self, given: Mapping[Number, ir.Value]) -> None:
        self.type = ir.IntegerType.get_signless(64)
        self._given = given

    def __call__(self, number: Number) -> ir.Value:
        if isinstance(number, int):
            return arith.constant(self.type, number)
        return self._given[number]

    def moved(self, pointer: ir.Value, move: Move, part: Index) -> ir.Value:
        """The tensor from the first element of part number `part` on."""
        start = self(move.offset)
        index = arith.index_castui(self.type, emit.value(part))
        for number, (size, stride) in reversed(list(enumerate(move.parts.factors))):
            here = index if number == 0 else arith.remui(index, self(size))
            start = arith.addi(start, arith.muli(here, self(stride)))
            index = arith.divui(index, self(size)) if number else index
        most = self(MAX_BYTES // move.tensor.bytes)
        rest = arith.minui(arith.subi(self(move.size), start), most)
        return memory.moved(pointer, start, rest)


@contextmanager
def moved_function(
    block: ir.Block,
    name: str,
    threads: int,
    moves: Sequence[Move],
    counts: Counts,
    lds: Sequence[tuple[int, ir.Type]] = (),
    parts: str = "x",
) -> Iterator[tuple[Frame, Index]]:
    """A function; ops that are built inside of the context are its body.

    It is given its tensors, moved to the part that its work-group's number names, and that
    number, along dimension `parts` of the grid.
    """
    tensors, size = [move.tensor for move in moves], len(counts.arguments())
    with (
        function(block, name, tensors, threads, (1, 1, 1), lds, size) as frame,
        counts.values(frame.sizes) as values,
    ):
        part = block_number(parts, MAX_THREADS)
        moved = tuple(
            values.moved(pointer, move, part)
            for pointer, move in zip(frame.pointers, moves, strict=True)
        )
        yield Frame(tuple(map(memory.buffer, moved)), frame.lds, moved), part


class OpenProgram:
    """A program under construction whose tensors have any size: its functions and launches.

    moves: the tensors of each function. scratch: other ones, which functions name, in `bytes_` of
    scratch memory. limits: further numbers of which none may be below 0.
    """

    def __init__(
        self,
        kernel: mgx.KernelOp,
        moves: Sequence[Move],
        limits: Sequence[Number],
        scratch: Sequence[Move] = (),
        bytes_: Number = 0,
    ) -> None:
        self._name, _ = signature(kernel)
        self._kernel, self._moves, self._bytes = kernel, moves, bytes_
        self._limits = [*limits, *(move.limit for move in (*moves, *scratch))]
        self._counts = Counts(Formulas(), self._limits, kernel_symbols(kernel))
        for move in (*moves, *scratch):
            self._counts.add(*move.numbers)
        self._module, self._block = gpu_module()
        self._launches: list[Launch] = []

    def refusal(self) -> Refusal | None:
        """Why no sizes are within the limits; None where some are."""
        if len(self._moves) > MAX_TENSORS:
            return Refusal(f"{len(self._moves)} tensors")
        if any(not bounds(limit)[1] >= 0 for limit in self._limits):
            return Refusal("places that 31 bits do not reach")
        return None

    @contextmanager
    def function(
        self,
        threads: int,
        grid: tuple[Number, Number, Number],
        lds: Sequence[tuple[int, ir.Type]] = (),
        parts: str = "x",
        moves: Sequence[Move] | None = None,
    ) -> Iterator[tuple[Frame, Index]]:
        """A `moved_function`. grid: work-groups, 0 where a run has no use for it. moves: its
        tensors, where these are others."""
        name, counts = f"{self._name}_{len(self._launches)}", self._counts
        moves = self._moves if moves is None else moves
        with moved_function(self._block, name, threads, moves, counts, lds, parts) as made:
            yield made
        x, y, z = (counts.formulas.number(size) for size in grid)
        passed = (*map(self._argument, moves), *counts.arguments())
        self._launches.append(Launch(name, (x, y, z), (threads, 1, 1), passed))

    def _argument(self, move: Move) -> Argument:
        if move.argument.kind != "scratch":
            return move.argument
        return Argument("scratch", self._counts.formulas.number(move.at))

    def add(self, build: Callable[[ir.Block, str], Launch]) -> None:
        """Adds a function of given sizes, which `build` appends to a block by a name."""
        self._launches.append(build(self._block, f"{self._name}_{len(self._launches)}"))

    @contextmanager
    def threads(
        self, count: int, share: Number = 1
    ) -> Iterator[tuple[Frame, Index, list[ir.Value]]]:
        """A function of `count` threads: its tensors, a thread's number, whether it has work.

        share: the launches of a run, 1 or 0.
        """
        grid = (share * ceil_div(count, BLOCK), 1, 1)
        with self.function(BLOCK, grid) as (frame, block):
            thread = emit.add(emit.mul(block, BLOCK), thread_number(BLOCK))
            yield frame, thread, [emit.compare("slt", thread, count)]

    def program(self) -> DynamicProgram:
        """The program of all functions so far."""
        formulas = self._counts.formulas
        program = GpuProgram(self._module, tuple(self._launches), formulas.number(self._bytes), 32)
        return DynamicProgram.of(program, formulas)
