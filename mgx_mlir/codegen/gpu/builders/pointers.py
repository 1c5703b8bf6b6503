"""Pointers that move on to a work-group's part of tensors whose sizes a run gives.

Pointers advance in 64 bits; within a part offsets have 31 bits. The launch passes the numbers
that depend on sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.capabilities import MAX_BYTES
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders import memory
from mgx_mlir.codegen.gpu.builders.function import (
    MAX_THREADS,
    Frame,
    Tensor,
    block_number,
    function,
)
from mgx_mlir.codegen.meaning.index import symbol_values
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.sizes.arithmetic import Number, Size, Symbol, common_factor, evaluate, symbols

# The size that schedules are chosen for, where no bound is below it: no block of them is whole.
USUAL = 509


@dataclass(frozen=True)
class Move:
    """The offset of a part of a tensor of `size` elements: `offset` + `parts` of its number.

    reach: the span in elements, gaps included, that 32-bit offsets within a part have to reach. at:
    the first byte in scratch memory, of tensors there whose argument does not say it.
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
    """The numbers that a launch passes: those with names first, then the ones that need 64 bits.

    named: the values of symbols that code computes with; of a kernel's own, these themselves.
    """

    def __init__(self, formulas: Formulas, named: Mapping[str, Number]) -> None:
        self.formulas, self.symbols = formulas, tuple(named)
        self.numbers = list(named.values())

    def add(self, *numbers: Number) -> None:
        """Adds numbers to those that a launch passes."""
        for number in numbers:
            if isinstance(number, Size) and number not in self.numbers:
                self.numbers.append(number)

    def arguments(self) -> list[Argument]:
        """The arguments that a launch passes after the tensors."""
        return [Argument("size", self.formulas.number(number)) for number in self.numbers]

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
        rest: ir.Value = arith.subi(self(move.size), start)
        if move.reach != move.size:
            rest = _at_most(rest, MAX_BYTES // move.tensor.bytes)
        return memory.moved(pointer, start, rest)


def _at_most(number: ir.Value, most: int) -> ir.Value:
    """The smaller of two numbers as i64, by words: scalar units compare no more at a time."""
    i32 = ir.IntegerType.get_signless(32)
    limit, zero = arith.constant(i32, most), arith.constant(i32, 0)
    upper: ir.Value = arith.trunci(i32, arith.shrui(number, arith.constant(number.type, 32)))
    upper = memory.opaque_word(upper, "s")
    is_far = arith.cmpi(arith.CmpIPredicate.ne, upper, zero)
    lower = arith.select(is_far, limit, arith.trunci(i32, number))
    return arith.extui(number.type, arith.minui(lower, limit))


@contextmanager
def moved_function(
    block: ir.Block,
    name: str,
    threads: int,
    moves: Sequence[Move],
    counts: Counts,
    lds: Sequence[tuple[int, ir.Type]] = (),
    parts: str | Callable[[], Index] = "x",
) -> Iterator[tuple[Frame, Index]]:
    """A function; ops that are built inside of the context are its body.

    It is given its tensors, moved to the part that its work-group's number names, and that
    number, along dimension `parts` of the grid, or as `parts` computes it.
    """
    tensors, size = [move.tensor for move in moves], len(counts.arguments())
    with (
        function(block, name, tensors, threads, None, lds, size) as frame,
        counts.values(frame.sizes) as values,
    ):
        part = block_number(parts, MAX_THREADS) if isinstance(parts, str) else parts()
        moved = (
            values.moved(pointer, move, part)
            for pointer, move in zip(frame.pointers, moves, strict=True)
        )
        yield frame.buffered(moved), part
