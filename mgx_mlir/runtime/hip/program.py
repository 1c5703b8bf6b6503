"""A compiled program on an AMD GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.library import Interruptible, RunOptions, call, check, library, made
from mgx_mlir.artifact.plan import Plan, TensorSpec
from mgx_mlir.artifact.weights import Weight
from mgx_mlir.errors import Edge, UsageError
from mgx_mlir.runtime.arrays import device_of
from mgx_mlir.runtime.dlpack import CPU, ROCM
from mgx_mlir.runtime.hip.device import Current, Device
from mgx_mlir.runtime.hip.event import Event, Stream
from mgx_mlir.runtime.hip.outputs import OutputPool
from mgx_mlir.runtime.hip.pending import PendingRun
from mgx_mlir.runtime.hip.profile import step_times
from mgx_mlir.runtime.hip.tensor import DeviceTensor, device_tensor
from mgx_mlir.runtime.loaded import STRIDE, Loaded, Shapes, Table
from mgx_mlir.runtime.program import Program, address_of
from mgx_mlir.runtime.runnable import Progress, check_names, check_results
from mgx_mlir.runtime.step_time import StepTime

# The word of a tensor that says where it lies, and what it says.
_MEMORY, _ON_HOST, _ON_DEVICE = 3, 1, 2


class HipProgram(Program):
    """A plan with its code objects and weights on one device. Any number of threads may run it.

    Inputs are numpy arrays or anything with `__dlpack__`; a tensor on the program's device
    is used in place. Outputs are numpy arrays, or `DeviceTensor`s, which speak DLPack.
    """

    @Edge("loading the program")
    def __init__(
        self,
        plan: Plan,
        code_objects: Sequence[CodeObject],
        weights: Mapping[str, Weight],
        device: Device,
        graph: bool = True,
    ) -> None:
        """Loads the code objects and the weights. `graph`: replay runs as a HIP graph.

        Raises ArtifactError where the parts do not fit together, DeviceError.
        """
        self.device = device
        self.reasons = [code.why for code in code_objects]
        self._graph = graph
        self._results = OutputPool(device.ordinal)
        self._load(plan, Loaded(plan, code_objects, weights, device.handle, shared=True))

    def for_shapes(self, shapes: Shapes) -> HipProgram:
        """As `Program.for_shapes`."""
        program = super().for_shapes(shapes)
        program._results = OutputPool(self.device.ordinal)  # so that addresses seldom change
        return program

    def without_graph(self) -> HipProgram:
        """The same program, on the same weights, with its kernels launched one by one."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        if self.pickled is not None:
            again, (kind, artifact, target, named, carried) = self.pickled
            other.pickled = again, (kind, artifact, target, {**named, "graph": False}, carried)
        other._tables, other._graph = [], False
        other.__dict__.pop("_usual", None)
        return other

    @Edge("running the program")
    def run(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        stream: Any = None,
        results: str = "numpy",
    ) -> dict[str, Any]:
        """The outputs by name. `outputs` may name arrays or device tensors to write into. One may
        be that of an input where the plan lets an output share its memory (`Plan.in_place`).

        `stream`: the caller's HIP stream, as a number or an object that has one. `results`:
        'numpy' or 'device', for outputs that `outputs` does not name. Returns when the
        outputs hold their values; but where a stream is given and every tensor is on the
        device, as soon as the work is given to the stream. Raises UsageError when a tensor is
        missing, unknown, or not of the shape, type and device that the program has, and
        DeviceError. After an error the program runs again.
        """
        run = _Run(self, inputs, outputs, stream, results)
        if self._loops:
            with Interruptible(run.options) as options:
                call("mgx_run", self._loaded.handle, *run.arguments, options)
        elif error := library().mgx_run(self._loaded.handle, *run.arguments, run.reference):
            check(error)
        run.enqueued()
        self._tables.append(run.table)
        return run.results

    @Edge("running the program")
    def run_async(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        stream: Any = None,
        results: str = "numpy",
    ) -> PendingRun:
        """As `run`, but gives a handle at once; its `result()` waits.

        Inputs and outputs must not be changed before. Raises what `run` raises, except for
        failures of the device while it works: `result()` raises those. Where the device decides
        what runs, a thread of the run's own submits the chosen steps.
        """
        run = _Run(self, inputs, outputs, stream, results)
        pending = ctypes.c_void_p()
        call(
            "mgx_run_async", self._loaded.handle, *run.arguments, run.reference,
            ctypes.byref(pending),
        )  # fmt: skip
        if not self._loops:  # else another thread may enqueue it later
            run.enqueued()
        return PendingRun(pending.value, self, run, results=run.results)

    def prepared(
        self, inputs: Mapping[str, Any], results: str, outputs: Mapping[str, Any] | None = None
    ) -> _Run:
        """The tensors of a run, for a caller of libmgx's functions."""
        return _Run(self, inputs, outputs, None, results)

    @property
    def loaded(self) -> Loaded:
        """The program of libmgx."""
        return self._loaded

    @property
    def graph_option(self) -> int:
        """`graph` of mgx_run_options."""
        return 0 if self._graph else -1

    @Edge("timing the program")
    def profile(
        self,
        inputs: Mapping[str, Any],
        runs: int = 1,
        progress: Progress = lambda done, total: None,
    ) -> list[StepTime]:
        """As `Program.profile`, between events of the device."""
        return step_times(self, inputs, runs, progress)

    @cached_property
    def _own_stream(self) -> Stream:
        """A stream that other libraries' work is waited for on, where the caller gives none."""
        with Current(self.device.ordinal):
            return Stream()

    @cached_property
    def _usual(self) -> tuple[Any, Any]:
        """The options of runs without a stream and a loop, and the pointer to them."""
        options = made(RunOptions, graph=self.graph_option)
        return options, ctypes.byref(options)

    def _own_output(self, spec: TensorSpec, value: Any, run: _Run) -> np.ndarray | DeviceTensor:
        """The caller's tensor for an output."""
        found = run.on_device("output", spec, value)
        return self._output(spec, value) if found is None else found


class _Run:
    """The tensors of one run, and what its work waits for."""

    __slots__ = ("_events", "_handle", "_program", "arguments", "options", "reference",
                 "results", "table", "tensors")  # fmt: skip

    def __init__(
        self, program: HipProgram, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None,
        stream: Any, results: str,
    ) -> None:  # fmt: skip
        """Raises what `HipProgram.run` raises for wrong tensors."""
        check_results(results)
        self._program = program
        if not isinstance(inputs, dict) or inputs.keys() != program._input_names:
            check_names([spec.name for spec in program.inputs], inputs)
        if outputs is None:
            outputs = {}
        elif not isinstance(outputs, dict) or outputs.keys() != program._output_bytes.keys():
            check_names(program._output_bytes, outputs, "output", complete=False)
        self._handle = None if stream is None else _stream_handle(stream)
        self._events: list[Any] = []
        self.tensors: list[Any] = []
        for spec in program._inputs:
            value = inputs[spec.name]
            found = self.on_device("input", spec, value)
            self.tensors.append(program._input(spec, value) if found is None else found)
        self.results = {}
        for spec in program._outputs:
            if spec.name in outputs:
                tensor = program._own_output(spec, outputs[spec.name], self)
                self.results[spec.name] = outputs[spec.name]
            else:
                tensor = self.results[spec.name] = self._made(spec, results)
            self.tensors.append(tensor)
        self._fill(len(program._inputs))

    def _made(self, spec: TensorSpec, results: str) -> np.ndarray | DeviceTensor:
        program = self._program
        if results == "numpy":
            return program._output(spec, None)
        with Current(program.device.ordinal):
            return DeviceTensor.of_pool(
                program._results, spec.shape, program._dtypes[spec.dtype],
                program.device.ordinal, self._events.append,
            )  # fmt: skip

    def on_device(self, what: str, spec: TensorSpec, value: Any) -> DeviceTensor | None:
        """A tensor of the program's device, which the run waits for; None for one on the host."""
        program = self._program
        if type(value) is np.ndarray:
            return None
        if type(value) is DeviceTensor and value.is_ready(program.device.ordinal):
            found = value
        elif (tensor := self._when_written(f"{what} '{spec.name}'", value)) is not None:
            found = tensor
        else:
            return None
        program._check(what, spec, found)
        return found

    def _when_written(self, name: str, value: Any) -> DeviceTensor | None:
        """The same for one that work of a stream may still write."""
        if type(value) is not DeviceTensor and (device_of(value, name) or (CPU, 0))[0] != ROCM:
            return None
        ordinal = self._program.device.ordinal
        if self._handle is not None:
            return device_tensor(value, name, ordinal, self._handle)
        stream = self._program._own_stream.handle
        found = device_tensor(value, name, ordinal, stream)
        with Current(ordinal):
            self._events.append(Event(stream))
        return found

    def _fill(self, inputs: int) -> None:
        """Makes the arguments of libmgx's functions of the tensors."""
        program = self._program
        try:
            table = program._tables.pop()
        except IndexError:
            table = Table(program._inputs, program._outputs)
        entries, place = table.entries, 0
        for tensor in self.tensors:
            if type(tensor) is DeviceTensor:
                entries[place], entries[place + _MEMORY] = tensor.address, _ON_DEVICE
            else:
                entries[place], entries[place + _MEMORY] = address_of(tensor), _ON_HOST
            place += STRIDE
        self.table = table
        outputs = len(self.tensors) - inputs
        self.arguments = table.inputs, inputs, table.outputs, outputs
        if self._handle is None and not self._events and not program._loops:
            self.options, self.reference = program._usual
            return
        handles = (ctypes.c_void_p * len(self._events))(*(int(e.handle) for e in self._events))
        self.options = made(
            RunOptions, graph=program.graph_option, stream=self._handle,
            on_stream=int(self._handle is not None), events=ctypes.addressof(handles),
            event_count=len(handles),
        )  # fmt: skip
        self._events.append(handles)  # which outlives the options
        self.reference = ctypes.byref(self.options)

    def enqueued(self) -> None:
        """The caller's stream has all work; others of its tensors wait for that."""
        if self._handle is None:
            return
        on_device = [tensor for tensor in self.tensors if isinstance(tensor, DeviceTensor)]
        if not on_device:
            return
        with Current(self._program.device.ordinal):
            event = Event(self._handle)
        for tensor in on_device:
            tensor.used_until(event)
        for tensor in self.tensors[len(self._program._inputs) :]:
            if isinstance(tensor, DeviceTensor):
                tensor.written_by(event)


def _stream_handle(stream: Any) -> int:
    """The number of a stream: itself, or the handle in an object of hip-python, torch or cupy."""
    for name in ("cuda_stream", "ptr"):
        if isinstance(getattr(stream, name, None), int):
            return int(getattr(stream, name))
    try:
        return int(stream)
    except (TypeError, ValueError) as error:
        raise UsageError(f"a {type(stream).__name__} is not a HIP stream") from error
