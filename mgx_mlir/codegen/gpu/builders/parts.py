"""Programs of contractions of any size: functions that all have the same parts of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.capabilities import MAX_TENSORS
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.builders.emit import Index
from mgx_mlir.codegen.gpu.builders.function import Frame, Tensor, thread_number
from mgx_mlir.codegen.gpu.builders.launches import BLOCK, Launches
from mgx_mlir.codegen.gpu.builders.pointers import (
    USUAL,
    Move,
    forwards,
    one_part,
    reach,
    usual_size,
    value_of,
)
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.meaning.element import I32
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, ceil_div

__all__ = [
    "USUAL",
    "Move",
    "OpenProgram",
    "forwards",
    "one_part",
    "reach",
    "usual_size",
    "value_of",
    "whole_tensors",
]


def whole_tensors(kernel: mgx.KernelOp, used: Sequence[int]) -> list[Move]:
    """The inputs of some numbers, and all results, each as one part."""
    launches = Launches(kernel, inputs_first=True)
    return [launches.whole_tensor(x) for x in [*launches.inputs(used), *launches.results]]


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
        formulas: Formulas | None = None,
    ) -> None:
        self._launches, self._moves = Launches(kernel, limits=limits, formulas=formulas), moves
        self._launches.limit(*(move.limit for move in (*moves, *scratch)))
        self._launches.reserve(bytes_)

    def refusal(self) -> Refusal | None:
        """Why no sizes are within the limits; None where some are."""
        if len(self._moves) > MAX_TENSORS:
            return Refusal(f"{len(self._moves)} tensors")
        return self._launches.refusal()

    @contextmanager
    def function(
        self,
        threads: int,
        grid: tuple[Number, Number, Number],
        lds: Sequence[tuple[int, ir.Type]] = (),
        parts: str | Callable[[], Index] = "x",
        moves: Sequence[Move] | None = None,
    ) -> Iterator[tuple[Frame, Index]]:
        """The next function. grid: work-groups, 0 where a run has no use for it. moves: its
        tensors, where these are others."""
        own = [self._placed(move) for move in (self._moves if moves is None else moves)]
        with self._launches.moved(own, threads, grid, lds, parts) as made:
            yield made

    def _placed(self, move: Move) -> Move:
        if move.argument.kind != "scratch":
            return move
        return replace(move, argument=Argument("scratch", self._launches.number(move.at)))

    def counters(self, count: Number) -> Move:
        """So many counters, which are 0 before a launch and have to be after it."""
        argument = Argument("counters", self._launches.number(count))
        return Move(argument, Tensor(1, I32, written=True), 0, Axis(()), count, 1)

    def add(self, build: Callable[[ir.Block, str], Launch]) -> None:
        """Adds a function of given sizes, which `build` appends to a block by a name."""
        self._launches.add(build)

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

    def program(self) -> GpuProgram:
        """The program of all functions so far."""
        return self._launches.program()
