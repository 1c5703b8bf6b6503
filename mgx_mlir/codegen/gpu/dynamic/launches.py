"""Launches whose work-groups and scratch memory follow sizes: families' functions for any size.

A tensor, and a piece of scratch memory, has at most 2^31 bytes: a launch beyond that is refused
(see formulas).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from mlir import ir

from mgx_mlir.artifact.code_object import Argument, Launch
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.codegen.generic.dynamic.kernel import kernel_symbols
from mgx_mlir.codegen.gpu.builders.function import signature
from mgx_mlir.codegen.gpu.builders.launches import Group, Launches
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.dynamic.pointers import Counts, Move, moved_function
from mgx_mlir.codegen.gpu.dynamic.program import DynamicProgram
from mgx_mlir.codegen.problem.problem import Axis
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.sizes.arithmetic import Number, bounds

# HIP takes fewer threads along one dimension of a grid.
MAX_GRID = 1 << 32


class OpenLaunches(Launches):
    """Functions of a kernel with symbolic sizes.

    limits: numbers of which none may be below 0. A function of no work-groups is not launched.
    """

    def __init__(self, kernel: mgx.KernelOp, limits: Sequence[Number] = ()) -> None:
        name, types = signature(kernel)
        super().__init__(name, types)
        self._kernel, self._formulas = kernel, Formulas()
        self._symbols, self._limits = kernel_symbols(kernel), list(limits)
        self._share: Number = 1

    def _number(self, size: Number) -> int:
        return self._formulas.number(size)

    @contextmanager
    def when(self, share: Number) -> Iterator[None]:
        """Functions that are built inside of the context are launched where `share`, 1 or 0, is
        1."""
        before, self._share = self._share, share
        yield
        self._share = before

    @contextmanager
    def groups(
        self,
        read: Sequence[Argument],
        written: Sequence[Argument],
        threads: int,
        count: Number,
        lds: Sequence[tuple[int, ir.Type]] = (),
    ) -> Iterator[Group]:
        moves = []
        for argument in dict.fromkeys([*written, *read]):
            size = self._tensors[argument].size
            tensor = replace(self._tensors[argument], size=1, written=argument in written)
            moves.append(Move(argument, tensor, 0, Axis(()), size, size))
        count = self._share * count
        own = [MAX_GRID - 1 - count * threads, *(move.limit for move in moves)]
        self._limits += [limit for limit in own if limit not in self._limits]
        counts = Counts(self._formulas, self._limits, self._symbols)
        for move in moves:
            counts.add(*move.numbers)
        name = f"{self._name}_{len(self._launches)}"
        with moved_function(self._block, name, threads, moves, counts, lds) as (frame, number):
            arguments = [move.argument for move in moves]
            buffers, pointers = (
                dict(zip(arguments, values, strict=True))
                for values in (frame.buffers, frame.pointers)
            )
            yield Group(number, [], buffers, pointers, frame.lds)
        grid, passed = (self._number(count), 1, 1), (*arguments, *counts.arguments())
        self._launches.append(Launch(name, grid, (threads, 1, 1), passed))

    def generated(self, schedule: str) -> Generated[DynamicProgram] | Refusal:
        """The program of all functions, and its schedule in words."""
        if any(not bounds(limit)[1] >= 0 for limit in self._limits):
            return Refusal("places that 31 bits do not reach")
        program = DynamicProgram.of(self.program(), self._formulas)
        return Generated(program, schedule)
