"""The frame of a kernel's functions: what they are added to, and the memory that they touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mlir import ir

from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.nests import Functions
from mgx_mlir.codegen.loops.place import Place
from mgx_mlir.codegen.problem.match import Match
from mgx_mlir.sizes.arithmetic import Number

Memory: TypeAlias = "Mapping[int, ir.Value]"


@dataclass(frozen=True)
class Frame:
    """The functions of a kernel, and the memory of its inputs, by number, and of its results.

    share: 1 where a run takes the functions that are added, 0 where it takes others.
    """

    functions: Functions
    inputs: Mapping[int, Place]
    outputs: Sequence[Place]
    share: Number = 1

    def add(
        self,
        match: Match,
        used: Sequence[int],
        items: Number,
        emit: Callable[[Memory, Sequence[ir.Value], Epilogue, ir.Value, ir.Value], None],
        others: Sequence[Place] = (),
    ) -> None:
        """Adds a function that reads the inputs `used`, and has the results of a match.

        emit: builds the items from one to another; it is given the inputs' memory by number, that
        of `others`, and what stores results.
        """
        count = len(self.outputs)

        def body(pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value) -> None:
            read, rest = dict(zip(used, pointers, strict=False)), pointers[len(used) :]
            emit(read, rest[count:], Epilogue(match, read, rest[:count]), begin, end)

        places = [*(self.inputs[number] for number in used), *self.outputs, *others]
        self.functions.add_on(places, self.share * items, body)


# Adds the functions of a kernel to a frame.
Add = Callable[[Frame], None]
