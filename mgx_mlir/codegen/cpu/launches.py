"""Launches of kernels some of whose sizes are formulas of the run's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.function import Memory
from mgx_mlir.codegen.cpu.nests import Functions
from mgx_mlir.codegen.loops.body import Place
from mgx_mlir.sizes.arithmetic import Number


class Launches:
    """Takes launches as a KernelBuilder does, of sizes that are formulas."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self._places: dict[Argument, Place] = {}
        self._scratches = 0

    def scratch(self, size: int, element: str) -> Memory:
        """`size` elements of scratch memory."""
        self._scratches += 1
        return Memory(Argument("scratch", self._scratches), element, size)

    def add(
        self,
        memories: Sequence[Memory],
        items: Number,
        body: Callable[[Sequence[ir.Value], ir.Value, ir.Value], None],
        kept: int = 0,
    ) -> None:
        """As `KernelBuilder.add`."""
        self.functions.add_on([self.place(m) for m in memories], items, body, kept)

    def place(self, memory: Memory) -> Place:
        """The memory of all functions that has this one's argument."""
        argument = memory.argument
        if argument not in self._places:
            own = None if argument.kind == "scratch" else argument
            place = Place(emit.memory_type(memory.element), memory.size, own)
            self._places[argument] = place
        return self._places[argument]
