"""A compiled program that runs: named arrays in, named arrays out. On the host's cores here."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.artifact.plan import Plan, TensorSpec
from mgx_mlir.artifact.plan_binding import signature_text
from mgx_mlir.errors import Edge, ResourceError, UsageError, memory_text
from mgx_mlir.runtime.arrays import host_array, host_output
from mgx_mlir.runtime.control import Machine
from mgx_mlir.runtime.cpu import CpuExecutor, Kept
from mgx_mlir.runtime.memory import host_bytes
from mgx_mlir.settings import available_cores
from mgx_mlir.suggest import instead, listed

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
        weights: Mapping[str, np.ndarray],
        threads: int | None = None,
        kept: Kept | None = None,
    ) -> None:
        """`code_objects` are those of the plan's kernels, by index. `threads`: default all cores.
        `kept`: shared by programs of the same weights.

        Weights are used in place, so that a memory-mapped file stays mapped. Raises
        ArtifactError where the parts do not fit together.
        """
        self._set_plan(plan)
        threads = threads or available_cores()
        self._executor = CpuExecutor(plan, code_objects, weights, threads, kept)
        needed = self._executor.memory_bytes
        _log.info("%d steps, %d bytes of arena, scratch and kept memory", plan.step_count, needed)

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

    def _set_plan(self, plan: Plan) -> None:
        self._plan = plan
        self._dtypes = {s.dtype: numpy_dtype(s.dtype) for s in (*plan.inputs, *plan.outputs)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({signature_text(self._plan)})"

    @property
    def plan(self) -> Plan:
        """The program's steps and buffers."""
        return self._plan

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, element type and shape of each input."""
        return self._plan.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, element type and shape of each output."""
        return self._plan.outputs

    @Edge("running the program")
    def run(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The outputs by name. `outputs` may name arrays to write into, which are then the results.

        Arrays are numpy's, or tensors of other libraries on the host (torch's, by DLPack), or, as
        inputs, lists and numbers. They are contiguous where they are written.
        An array may be that of an input where the plan lets it (`Plan.in_place`), such as a cache
        of keys: unchanged elements are not written. An input that is contiguous and aligned is
        not copied. Raises UsageError when an array is missing, unknown, or not of the shape and
        element type that the program has.
        """
        return self.run_on(None, inputs, outputs)

    @property
    def threads(self) -> int:
        """The threads that a run uses."""
        return self._executor.threads

    @property
    def launches(self) -> list[int]:
        """The step of the plan that each launch and copy belongs to, in order."""
        return self._executor.launches

    def run_on(
        self,
        observed: Callable[[Machine], Machine] | None,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """As `run`; `observed` gives the machine that does the work, by way of the usual one."""
        if not isinstance(inputs, dict) or inputs.keys() != self._input_names:
            self._check_names("input", self.inputs, inputs, complete=True)
        if outputs is None:
            outputs = {}
        else:
            self._check_names("output", self.outputs, outputs, complete=False)
        given = [self._input(spec, inputs[spec.name]) for spec in self._plan.inputs]
        if self._plan.limits:
            self._check_limits(given)
        # Small arrays that cannot be made are numpy's error, without the look at the machine.
        if self._all_output_bytes > _SMALL:
            self._check_outputs([spec for spec in self.outputs if spec.name not in outputs])
        result = {s.name: self._output(s, outputs.get(s.name)) for s in self._plan.outputs}
        if outputs:
            self._check_overlaps(given, result, outputs)
        self._executor.run(given, list(result.values()), observed)
        return result if not outputs else {n: outputs.get(n, array) for n, array in result.items()}

    def _check_names(
        self, what: str, specs: Sequence[TensorSpec], given: Mapping[str, Any], complete: bool
    ) -> None:
        names = [spec.name for spec in specs]
        if not isinstance(given, Mapping):
            raise UsageError(
                f"{what}s are given by name: {{{', '.join(f'{name!r}: ...' for name in names)}}}; "
                f"got a {type(given).__name__}"
            )
        if all(name in names for name in given) and (not complete or len(given) == len(names)):
            return
        there = f"its {what}s: {listed(map(repr, names))}"
        for name in given:
            if name not in names:
                hint = instead(str(name), names, there)
                raise UsageError(f"the program has no {what} '{name}'; {hint}")
        missing = [name for name in names if name not in given]
        if complete and missing:
            raise UsageError(f"{what} '{missing[0]}' is missing; the program's {there[4:]}")

    def _input(self, spec: TensorSpec, value: Any) -> np.ndarray:
        array = value
        if type(array) is not np.ndarray or not array.dtype.isnative:
            array = host_array(value, f"input '{spec.name}'", self._dtypes[spec.dtype])
        self._check("input", spec, array)
        flags = array.flags
        if flags.c_contiguous and flags.aligned:
            return array
        return np.require(array, requirements=("C", "A"))

    def _check_limits(self, given: Sequence[Any]) -> None:
        """Raises UsageError where an array in the host's memory exceeds its input's limit."""
        for number, most in self._plan.limits:
            if isinstance(given[number], np.ndarray) and given[number].item() > most:
                raise UsageError(
                    f"input '{self.inputs[number].name}' is {given[number].item()}, and the "
                    f"program's cache has {most} places; give longer caches, or compile for such"
                )

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

    def _check_overlaps(
        self, given: Sequence[Any], found: Mapping[str, Any], own: Mapping[str, Any]
    ) -> None:
        """Kernels do not check whether they read and write the same memory.

        A kernel that writes an output over an input is the exception: both may be exactly equal.
        """
        seen = [
            (spec.name, self._range(value), number)
            for number, (spec, value) in enumerate(zip(self.inputs, given, strict=True))
        ]
        for number, spec in enumerate(self.outputs):
            if spec.name not in own:
                continue
            begin, end = self._range(found[spec.name])
            for other, (first, last), source in seen:
                if begin >= last or first >= end:
                    continue
                may = (number, source) in self._plan.in_place
                if may and (begin, end) == (first, last):
                    continue
                raise UsageError(
                    f"the tensor for output '{spec.name}' overlaps that of '{other}'; give it "
                    f"memory of its own{', or all of that memory' if may else ''}"
                )
            seen.append((spec.name, (begin, end), -1))

    def _range(self, value: Any) -> tuple[int, int]:
        """The addresses of a row-major tensor, first and end."""
        start = int(value.ctypes.data)
        return start, start + int(value.nbytes)
