"""A compiled program that runs: named arrays in, named arrays out. On the host's cores here."""

from __future__ import annotations

import ctypes
import logging
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.artifact.library import (
    Interruptible,
    ProfileFunction,
    RunOptions,
    SpanFunction,
    call,
    check,
    library,
    made,
)
from mgx_mlir.artifact.plan import Plan, TensorSpec
from mgx_mlir.artifact.plan_binding import signature_text
from mgx_mlir.errors import Edge, ResourceError, UsageError, memory_text
from mgx_mlir.runtime.arrays import host_array, host_output, scalar_of
from mgx_mlir.runtime.loaded import STRIDE, Loaded, Shapes, Table, Weights, cpu, row_major, tensors
from mgx_mlir.runtime.memory import host_bytes
from mgx_mlir.runtime.runnable import Pending, Progress, check_names, check_on_host, started
from mgx_mlir.runtime.step_time import Span, StepTime, steps_of
from mgx_mlir.settings import available_cores

if TYPE_CHECKING:
    from typing_extensions import Self

_log = logging.getLogger(__name__)

_SMALL = 1 << 20


class Program:
    """A plan with its code objects and weights, loaded. Any number of threads may run it."""

    @Edge("loading the program")
    def __init__(
        self,
        plan: Plan,
        code_objects: Sequence[CodeObject],
        weights: Weights,
        threads: int | None = None,
    ) -> None:
        """`code_objects` are those of the plan's kernels, by index. `threads`: default all cores.

        Weights are used in place, so that a memory-mapped file stays mapped. Raises
        ArtifactError where the parts do not fit together.
        """
        self.threads = threads = available_cores() if threads is None else threads
        # For each kernel its schedule and why.
        self.reasons = [code.why for code in code_objects]
        self._load(plan, Loaded(plan, code_objects, weights, cpu(threads)))
        if _log.isEnabledFor(logging.INFO) and not plan.formulas:
            needed = self.memory_bytes["arena"]
            _log.info("%d steps, %d bytes of arena and scratch memory", plan.step_count, needed)

    def _load(self, plan: Plan, loaded: Loaded) -> None:
        self._loaded = loaded
        self._loops = any(p.has_control_flow for p in plan.plans)
        self.plan = plan
        self._name_tensors(plan.inputs, plan.outputs)

    def _name_tensors(
        self, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]
    ) -> None:
        self._inputs, self._outputs = inputs, outputs
        self._dtypes = {s.dtype: numpy_dtype(s.dtype) for s in (*inputs, *outputs)}
        self._tables: list[Table] = []  # those that no run uses

    def for_shapes(self, shapes: Shapes) -> Self:
        """The program for inputs of these shapes; it shares all memory with this one.

        Raises UsageError where these do not fit each other or the sizes that the program is for.
        """
        given = tuple(
            TensorSpec(spec.name, spec.dtype, tuple(map(int, shape)))
            for spec, shape in zip(self.inputs, shapes, strict=True)
        )
        found = self._loaded.outputs(tensors(given), len(self.outputs))
        program = object.__new__(type(self))
        program.__dict__.update(self.__dict__)
        program.__dict__.pop("plan", None)  # made when somebody asks
        for name in ("_input_names", "_output_bytes", "_all_output_bytes", "launches"):
            program.__dict__.pop(name, None)
        program.pickled = None
        program._name_tensors(
            given,
            tuple(
                TensorSpec(spec.name, spec.dtype, shape)
                for spec, shape in zip(self.outputs, found, strict=True)
            ),
        )
        return program

    # What makes the program again elsewhere: a function and its arguments. `compile` sets it.
    pickled: tuple[Any, ...] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """The program by its artifact, whose code is checked where it is read as a file's is."""
        if self.pickled is None:
            raise UsageError(
                f"{self!r} cannot be pickled: it keeps no artifact (a part of another program, or "
                "more weights than the host should hold twice); pickle the artifact, and compile "
                "it where it is read"
            )
        return self.pickled

    def __copy__(self) -> Self:
        """Itself: any number of threads may run it."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({signature_text(self.plan)})"

    @cached_property
    def plan(self) -> Plan:
        """The program's steps and buffers."""
        return self._loaded.plan(tensors(self._inputs))

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, element type and shape of each input."""
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, element type and shape of each output."""
        return self._outputs

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Memory in bytes: the weights', and the arenas' of runs at once."""
        return self._loaded.memory_bytes(tensors(self._inputs))

    @cached_property
    def launches(self) -> list[int]:
        """The step of the plan that each launch and copy belongs to, in order."""
        return self._loaded.launches(tensors(self._inputs))

    @Edge("running the program")
    def run(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        stream: Any = None,
        results: str = "numpy",
    ) -> dict[str, Any]:
        """The outputs by name. `outputs` may name arrays to write into, which are then the results.

        Arrays are numpy's, or tensors of other libraries on the host (torch's, by DLPack), or, as
        inputs, lists and numbers. They are contiguous where they are written.
        An array may be that of an input where the plan lets it (`Plan.in_place`), such as a cache
        of keys: unchanged elements are not written. An input that is contiguous and aligned is
        not copied. Raises UsageError when an array is missing, unknown, or not of the shape and
        element type that the program has.
        """
        if stream is not None or results != "numpy":
            check_on_host(stream, results)
        given, result = self._arrays(inputs, outputs)
        table = self._filled(given, result.values())
        arguments = self._loaded.handle, table.inputs, len(given), table.outputs, len(result)
        if self._loops:
            with Interruptible() as options:
                call("mgx_run", *arguments, options)
        elif error := library().mgx_run(*arguments, None):
            check(error)
        self._tables.append(table)
        return result if not outputs else {n: outputs.get(n, array) for n, array in result.items()}

    @Edge("running the program")
    def run_async(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        stream: Any = None,
        results: str = "numpy",
    ) -> Pending:
        """As `run`, but gives a handle at once; its `result()` waits, and raises what `run` does.

        Inputs and outputs must not be changed before.
        """
        check_on_host(stream, results)
        return started(self.run, inputs, outputs)

    @Edge("timing the program")
    def profile(
        self,
        inputs: Mapping[str, Any],
        runs: int = 1,
        progress: Progress = lambda done, total: None,
    ) -> list[StepTime]:
        """The plan's steps in order, timed in `runs` runs after a first one, launch by launch.

        A launch's time includes starting it.
        """
        given, result = self._arrays(inputs, None)
        table = self._filled(given, result.values())
        steps, launches = steps_of(self.plan), self.launches
        counts = len(given), len(result)

        def noted(_: Any, row: Any) -> None:
            step = steps[row[0].step]
            step.milliseconds[-1] += 1e3 * row[0].seconds
            step.launches += 1

        take = ProfileFunction(noted)
        for number in range(runs + 1):
            for step in steps:
                step.launches = 0
                step.milliseconds.append(0.0)
            call(
                "mgx_profile", self._loaded.handle, table.inputs, counts[0], table.outputs,
                counts[1], take, None,
            )  # fmt: skip
            progress(number, runs)
        for number, step in enumerate(steps):
            del step.milliseconds[0]
            step.times = step.launches // max(launches.count(number), 1)
        return steps

    @Edge("timing the program")
    def spans(self, inputs: Mapping[str, Any]) -> list[Span]:
        """The time that each thread spends on each step of one run, by thread and time."""
        given, result = self._arrays(inputs, None)
        table = self._filled(given, result.values())
        found: list[Span] = []

        def noted(_: Any, row: Any) -> None:
            span = row[0]
            found.append(Span(span.thread, span.step, 1e3 * span.start, 1e3 * span.end))

        options = made(RunOptions, span=SpanFunction(noted))
        call(
            "mgx_run", self._loaded.handle, table.inputs, len(given), table.outputs, len(result),
            ctypes.byref(options),
        )  # fmt: skip
        return found

    def _arrays(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None
    ) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
        """The arrays of a run: inputs in order, and outputs by name."""
        self._check_given(inputs)
        if outputs is None:
            outputs = {}
        else:
            check_names(self._output_bytes, outputs, "output", complete=False)
        given = [self._input(spec, inputs[spec.name]) for spec in self._inputs]
        # Small arrays that cannot be made are numpy's error, without the look at the machine.
        if self._all_output_bytes > _SMALL:
            self._check_outputs([spec for spec in self._outputs if spec.name not in outputs])
        return given, {s.name: self._output(s, outputs.get(s.name)) for s in self._outputs}

    def _check_given(self, inputs: Any) -> None:
        """Raises UsageError where inputs are no mapping, or unknown, or missing."""
        if not isinstance(inputs, dict) or inputs.keys() != self._input_names:
            check_names([spec.name for spec in self._inputs], inputs)

    def _filled(self, given: Sequence[np.ndarray], found: Any) -> Table:
        """A table of tensors that no other run uses, with these arrays."""
        try:
            table = self._tables.pop()
        except IndexError:
            table = Table(self._inputs, self._outputs)
        entries, place = table.entries, 0
        for array in (*given, *found):
            entries[place] = address_of(array)
            place += STRIDE
        return table

    def _input(self, spec: TensorSpec, value: Any) -> np.ndarray:
        array = value
        if type(array) is not np.ndarray or not array.dtype.isnative:
            array = host_array(value, f"input '{spec.name}'", self._dtypes[spec.dtype])
        if not spec.shape:
            array = scalar_of(array)
        self._check("input", spec, array)
        flags = array.flags
        if flags.c_contiguous and flags.aligned:
            return array
        return row_major(array)

    def _check_outputs(self, specs: Sequence[TensorSpec]) -> None:
        """Raises ResourceError where arrays of these outputs cannot be made."""
        sizes = [self._output_bytes[spec.name] for spec in specs]
        if sum(sizes) > _SMALL and sum(sizes) > host_bytes():
            size, spec = max(zip(sizes, specs, strict=True), key=lambda pair: pair[0])
            raise ResourceError(
                f"output '{spec.name}', {spec.dtype}{list(spec.shape)}, needs "
                f"{memory_text(size)}, and this machine has {memory_text(host_bytes())}; "
                "use smaller sizes, or give arrays to write into"
            )

    @cached_property
    def _input_names(self) -> frozenset[str]:
        return frozenset(spec.name for spec in self.inputs)

    @cached_property
    def _output_bytes(self) -> dict[str, int]:
        return {s.name: math.prod(s.shape) * self._dtypes[s.dtype].itemsize for s in self.outputs}

    @cached_property
    def _all_output_bytes(self) -> int:
        return sum(self._output_bytes.values())

    def _output(self, spec: TensorSpec, value: Any) -> np.ndarray:
        if value is None:
            return np.empty(spec.shape, self._dtypes[spec.dtype])
        array = host_output(value, f"output '{spec.name}'")
        self._check("output", spec, array)
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned and flags.writeable):
            raise UsageError(
                f"output '{spec.name}' is to be written into an array that is not contiguous, "
                f"aligned and writeable"
            )
        return array

    def _check(self, what: str, spec: TensorSpec, array: Any) -> None:
        """`array` is anything with a dtype and a shape."""
        dtype = self._dtypes[spec.dtype]
        if array.dtype != dtype or array.shape != spec.shape:
            raise UsageError(
                f"{what} '{spec.name}' is {dtype.name}{list(spec.shape)}; "
                f"got {array.dtype.name}{list(array.shape)}"
            )


_address_of, _element_of = ctypes.addressof, ctypes.c_char.from_buffer


def address_of(array: np.ndarray) -> int:
    """The address of a contiguous array's elements; `ctypes.data` takes twice the time."""
    if not array.flags.writeable:
        return array.ctypes.data
    try:
        return _address_of(_element_of(array))
    except (TypeError, ValueError):  # empty, or of a type that buffers cannot name
        return array.ctypes.data
