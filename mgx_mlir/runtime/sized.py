"""A program for any sizes: the code is loaded once, and bound to the sizes of each run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from mgx_mlir.artifact.formulas import bound, values
from mgx_mlir.artifact.plan import Plan, TensorSpec
from mgx_mlir.errors import Edge
from mgx_mlir.runtime.arrays import host_array
from mgx_mlir.runtime.program import Program


class SizedProgram(Program):
    """Programs for the sizes of the last runs, each with an arena and a graph of its own.

    They share the code and the weights. `inputs` and `outputs` have formulas for sizes: numbers
    below 0 in their shapes (see mgx_mlir.artifact.formulas). Any number of threads may run it.
    """

    def __init__(self, whole: Program, limit: int = 16) -> None:
        """`whole`: a program with symbolic sizes. `limit`: how many combinations are kept."""
        self._whole = whole
        self._limit = limit
        self.plan: Plan = whole.plan
        self._name_tensors(whole.inputs, whole.outputs)
        self._programs: OrderedDict[tuple[tuple[int, ...], ...], Program] = OrderedDict()
        self._lock = threading.Lock()

    @Edge("running the program")
    def run(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        stream: Any = None,
        results: str = "numpy",
    ) -> dict[str, Any]:
        """The outputs by name, as `Program.run` gives them for inputs of these sizes.

        Raises UsageError where the inputs' shapes do not fit each other or the sizes that the
        program is for, and what that program's `run` raises.
        """
        return self.program(inputs).run(inputs, outputs, stream=stream, results=results)

    @Edge("running the program")
    def run_async(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        stream: Any = None,
        results: str = "numpy",
    ) -> Any:
        """As `Program.run_async`."""
        return self.program(inputs).run_async(inputs, outputs, stream=stream, results=results)

    @Edge("timing the program")
    def profile(self, inputs: Mapping[str, Any], *arguments: Any, **named: Any) -> Any:
        """As that of the program for inputs of these sizes."""
        return self.program(inputs).profile(inputs, *arguments, **named)

    def program(self, inputs: Mapping[str, Any]) -> Program:
        """The program for inputs of these sizes; made where the last runs had none."""
        self._check_given(inputs)
        return self._for(tuple([_shape(inputs[s.name], s.name) for s in self._inputs]))

    def for_sizes(self, known: Mapping[str, int]) -> Program:
        """The program for symbols of these sizes. Raises KeyError where one is missing."""
        known = {dim.name: known[dim.name] for dim in self.plan.dims}
        return self._for(tuple(spec.shape for spec in self.specs(known)))

    def _for(self, shapes: tuple[tuple[int, ...], ...]) -> Program:
        with self._lock:
            program = self._programs.get(shapes)
            if program is None:
                program = self._programs[shapes] = self._whole.for_shapes(shapes)
                if len(self._programs) > self._limit:
                    self._programs.popitem(last=False)
            self._programs.move_to_end(shapes)
            return program

    def specs(self, known: Mapping[str, int]) -> tuple[TensorSpec, ...]:
        """The inputs where the symbols have these sizes."""
        found = values(self.plan.formulas, known)
        return tuple(
            TensorSpec(spec.name, spec.dtype, tuple(bound(n, found) for n in spec.shape))
            for spec in self.inputs
        )


def _shape(value: Any, name: str) -> tuple[int, ...]:
    shape = getattr(value, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) else host_array(value, f"input '{name}'").shape
