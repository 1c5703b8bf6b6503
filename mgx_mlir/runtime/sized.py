"""A program for any sizes: the code is loaded once, and bound to the sizes of each run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from mgx_mlir.artifact.plan import Plan, TensorSpec
from mgx_mlir.artifact.plan_binding import bind_plan, sizes_of
from mgx_mlir.errors import Edge, UsageError
from mgx_mlir.runtime.arrays import host_array
from mgx_mlir.runtime.program import Program

# Makes the program of a plan whose sizes are known, and of these sizes.
Make = Callable[[Plan, Mapping[str, int]], Program]


class SizedProgram(Program):
    """Programs for the sizes of the last runs, each with an arena and a graph of its own.

    They share the code and the weights. `inputs` and `outputs` have formulas for sizes: numbers
    below 0 in their shapes (see mgx_mlir.artifact.formulas). Any number of threads may run it.
    """

    def __init__(self, plan: Plan, make: Make, limit: int = 16) -> None:
        """`limit`: for how many combinations of sizes a program is kept."""
        self._set_plan(plan)
        self._make = make
        self._limit = limit
        self._programs: OrderedDict[tuple[int, ...], Program] = OrderedDict()
        self._lock = threading.Lock()
        names = [spec.name for spec in plan.inputs]

        def known(*shapes: tuple[int, ...]) -> dict[str, int]:
            return sizes_of(plan, dict(zip(names, shapes, strict=True)))

        self._known = lru_cache(64)(known)

    @Edge("running the program")
    def run(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        """The outputs by name, as `Program.run` gives them for inputs of these sizes.

        Raises UsageError where the inputs' shapes do not fit each other or the sizes that the
        program is for, and what that program's `run` raises.
        """
        return self.program(inputs).run(inputs, outputs, **options)

    @Edge("running the program")
    def run_async(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """As `HipProgram.run_async`, on a GPU."""
        program: Any = self.program(inputs)
        return program.run_async(inputs, outputs, **options)

    def program(self, inputs: Mapping[str, Any]) -> Program:
        """The program for inputs of these sizes; made where the last runs had none."""
        self._check_names("input", self.inputs, inputs, complete=True)
        shapes = (_shape(inputs[s.name], f"input '{s.name}'") for s in self.inputs)
        return self.for_sizes(self._known(*shapes))

    def for_sizes(self, known: Mapping[str, int]) -> Program:
        """The program for symbols of these sizes. Raises KeyError where one is missing."""
        key = tuple(known[dim.name] for dim in self.plan.dims)
        with self._lock:
            program = self._programs.get(key)
            if program is None:
                program = self._make(self._plan_for(known), known)
                self._programs[key] = program
                if len(self._programs) > self._limit:
                    self._programs.popitem(last=False)
            self._programs.move_to_end(key)
            return program

    def _plan_for(self, known: Mapping[str, int]) -> Plan:
        for sizes, plan in self.plan.programs:
            if sizes == known:
                return plan
        if not self.plan.steps:
            there = "; ".join(_listed(sizes) for sizes, _ in self.plan.programs)
            raise UsageError(
                f"the program is not for {_listed(known)}; it is for {there}. Compile it for these "
                "sizes too, or for all (mode='full-dynamic')"
            )
        return bind_plan(self.plan, known)

    def specs(self, known: Mapping[str, int]) -> tuple[TensorSpec, ...]:
        """The inputs where the symbols have these sizes."""
        return bind_plan(self.plan, known).inputs


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())


def _shape(value: Any, what: str) -> tuple[int, ...]:
    shape = getattr(value, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) else host_array(value, what).shape
