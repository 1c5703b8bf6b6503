"""A compiled program on an AMD GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.plan import Plan, TensorSpec
from mgx_mlir.artifact.weights import Weight
from mgx_mlir.errors import Edge, UsageError
from mgx_mlir.runtime.binding import Binder
from mgx_mlir.runtime.hip.context import Context
from mgx_mlir.runtime.hip.device import Current, Device
from mgx_mlir.runtime.hip.event import Event
from mgx_mlir.runtime.hip.library import call, hip_python
from mgx_mlir.runtime.hip.outputs import OutputPool
from mgx_mlir.runtime.hip.pending import PendingRun
from mgx_mlir.runtime.hip.pool import ContextPool
from mgx_mlir.runtime.hip.prepared import Prepared
from mgx_mlir.runtime.hip.profile import step_times
from mgx_mlir.runtime.hip.tensor import DeviceTensor, device_tensor
from mgx_mlir.runtime.loaded import Shapes
from mgx_mlir.runtime.memory import check_memory
from mgx_mlir.runtime.program import Program
from mgx_mlir.runtime.runnable import Progress, check_names, check_results
from mgx_mlir.runtime.step_time import StepTime


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
        self.plan = plan
        self._name_tensors(plan.inputs, plan.outputs)
        self._code_objects, self._weights, self._graph = code_objects, weights, graph
        self.device = device
        self._binder = Binder(plan, code_objects, weights)
        if not plan.dims:  # else made for the sizes of a run
            self._prepare([spec.shape for spec in plan.inputs])

    def _prepare(self, shapes: Shapes) -> None:
        """Makes ready for runs with inputs of these shapes, which the plan is then for."""
        device = self.device
        bound = self._binder.bind(shapes, device.machine)
        plan = self.plan = bound.plan
        weight_bytes = {b.key: b.bytes for b in plan.buffers if b.kind == "weight"}
        needed = bound.arena_bytes + bound.scratch_bytes + sum(weight_bytes.values())
        check_memory(plan, needed, device.memory_bytes, str(device))
        with Current(device.ordinal):
            self.prepared = Prepared(bound, self._code_objects, self._weights, device.ordinal)
        self.pool = ContextPool(self.prepared, self._graph)
        self._results = OutputPool(device.ordinal)

    def for_shapes(self, shapes: Shapes) -> HipProgram:
        """As `Program.for_shapes`; code and weights are shared."""
        program = object.__new__(type(self))
        for name in ("device", "_binder", "_code_objects", "_weights", "_graph"):
            setattr(program, name, getattr(self, name))
        program.plan = self.plan
        program._prepare(shapes)
        program._name_tensors(program.plan.inputs, program.plan.outputs)
        return program

    @property
    def launches(self) -> list[int]:  # type: ignore[override]
        """As `Program.launches`."""
        return [step.step for step in self.prepared.steps]

    def without_graph(self) -> HipProgram:
        """The same program, on the same weights, with its kernels launched one by one."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        if self.pickled is not None:
            again, (kind, artifact, target, named, carried) = self.pickled
            other.pickled = again, (kind, artifact, target, {**named, "graph": False}, carried)
        other.pool = ContextPool(self.prepared, False)
        return other

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Device memory in bytes: the weights', and the arena's of each execution context."""
        return {"weights": self.prepared.weight_bytes, "arena": self.prepared.memory_bytes}

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
        pending, on_device = self._submit(inputs, outputs, stream, results, False)
        if on_device:
            return pending.detach()
        return pending.result()

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
        return self._submit(inputs, outputs, stream, results, True)[0]

    @Edge("timing the program")
    def profile(
        self,
        inputs: Mapping[str, Any],
        runs: int = 1,
        progress: Progress = lambda done, total: None,
    ) -> list[StepTime]:
        """As `Program.profile`, between events of the device."""
        return step_times(self, inputs, runs, progress)

    def _submit(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None,
        stream: Any,
        results: str,
        at_once: bool,
    ) -> tuple[PendingRun, bool]:
        """The run, and whether all of it is on the device, and follows a stream of the caller.

        `at_once`: waits for nothing.
        """
        check_results(results)
        if not isinstance(inputs, dict) or inputs.keys() != self._input_names:
            check_names([spec.name for spec in self.inputs], inputs)
        if outputs is None:
            outputs = {}
        elif not isinstance(outputs, dict) or outputs.keys() != self._output_bytes.keys():
            check_names(self._output_bytes, outputs, "output", complete=False)
        handle = None if stream is None else _stream_handle(stream)
        with Current(self.device.ordinal):
            context = self.pool.acquire()
            stream = context.stream if handle is None else handle
            pending = PendingRun(self.pool, context, stream)
            try:
                given, found = self._begin(pending, context, inputs, outputs, handle, results)
                rest = partial(self._enqueue, pending, context, given, found, outputs, handle)
                if at_once and context.decides():
                    pending.continue_on(context.worker(), self.device.ordinal, rest)
                else:
                    rest()
                on_device = handle is not None and not any(
                    isinstance(value, np.ndarray) for value in (*given, *found.values())
                )
                return pending, on_device
            except BaseException as error:
                pending.fail(error)
                raise

    def _begin(
        self,
        pending: PendingRun,
        context: Context,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        handle: int | None,
        results: str,
    ) -> tuple[list[Any], dict[str, Any]]:
        """Points the context to the inputs and outputs, which it gives back, outputs by name."""
        stream = context.stream if handle is None else handle
        ordinal = self.device.ordinal
        given = [self._tensor("input", s, inputs[s.name], stream) for s in self._inputs]
        if self.plan.limits:
            self._check_limits(given)
        found: dict[str, Any] = {}
        for spec in self._outputs:
            if spec.name in outputs:
                found[spec.name] = self._own_output(spec, outputs[spec.name], stream)
            elif results == "device":
                dtype = self._dtypes[spec.dtype]
                found[spec.name] = DeviceTensor.of_pool(
                    self._results, spec.shape, dtype, ordinal, stream
                )
            else:
                found[spec.name] = self._output(spec, None)
        if outputs:
            self._check_overlaps(given, found, outputs)
        pending.keep((given, found))
        context.begin(stream)
        for index, value in enumerate(given):
            self._point(context, ("input", index), value, stream)
        for index, value in enumerate(found.values()):
            self._point(context, ("output", index), value, stream)
        return given, found

    def _enqueue(
        self,
        pending: PendingRun,
        context: Context,
        given: Sequence[Any],
        found: Mapping[str, Any],
        outputs: Mapping[str, Any],
        handle: int | None,
    ) -> None:
        """Gives the stream everything after the copies of inputs."""
        stream = context.stream if handle is None else handle
        context.launch(stream)
        for index, value in enumerate(found.values()):
            if isinstance(value, np.ndarray) and value.nbytes:
                self._copy_back(context, index, value, stream)
        event = None if handle is None else Event(stream)
        if handle is not None:
            for value in found.values():
                if isinstance(value, DeviceTensor):
                    value.written_by(event)
            for value in (*given, *found.values()):
                if isinstance(value, DeviceTensor):
                    value.used_until(event)
        if outputs:
            found = {name: outputs.get(name, value) for name, value in found.items()}
        pending.submitted(dict(found), event)

    def _point(
        self, context: Context, tensor: tuple[str, int], value: np.ndarray | DeviceTensor,
        stream: Any,
    ) -> None:  # fmt: skip
        """Makes the context's arguments point to the tensor, or to its copy on the device."""
        if isinstance(value, DeviceTensor):
            context.point(tensor, value.address)
            return
        address = context.staging(tensor)
        context.point(tensor, address, value if tensor[0] == "input" else None)
        if tensor[0] == "input" and value.nbytes:
            hip = hip_python()
            kind = hip.hipMemcpyKind.hipMemcpyHostToDevice
            name = f"input '{self.inputs[tensor[1]].name}'"
            source = value.ctypes.data
            call("hipMemcpyAsync", address, source, value.nbytes, kind, stream, purpose=name)

    def _copy_back(self, context: Context, index: int, value: np.ndarray, stream: Any) -> None:
        hip = hip_python()
        kind = hip.hipMemcpyKind.hipMemcpyDeviceToHost
        source = context.staging(("output", index))
        name = f"output '{self.outputs[index].name}'"
        target = value.ctypes.data
        call("hipMemcpyAsync", target, source, value.nbytes, kind, stream, purpose=name)

    def _tensor(
        self, what: str, spec: TensorSpec, value: Any, stream: Any
    ) -> np.ndarray | DeviceTensor:
        found = self._on_device(what, spec, value, stream)
        return self._input(spec, value) if found is None else found

    def _on_device(
        self, what: str, spec: TensorSpec, value: Any, stream: Any
    ) -> DeviceTensor | None:
        """A tensor of the program's device, ready for the stream; None for one on the host."""
        found: DeviceTensor | None
        if type(value) is DeviceTensor and value.is_ready(self.device.ordinal):
            found = value
        else:
            found = device_tensor(value, f"{what} '{spec.name}'", self.device.ordinal, stream)
        if found is not None:
            self._check(what, spec, found)
        return found

    def _own_output(self, spec: TensorSpec, value: Any, stream: Any) -> np.ndarray | DeviceTensor:
        """The caller's tensor for an output."""
        found = self._on_device("output", spec, value, stream)
        return self._output(spec, value) if found is None else found

    def _check_limits(self, given: Sequence[Any]) -> None:
        """Raises UsageError where an array in the host's memory exceeds its input's limit."""
        for number, most in self.plan.limits:
            if isinstance(given[number], np.ndarray) and given[number].item() > most:
                raise UsageError(
                    f"input '{self.inputs[number].name}' is {given[number].item()}, and the "
                    f"program's cache has {most} places; give longer caches, or compile for such"
                )

    def _check_overlaps(
        self, given: Sequence[Any], found: Mapping[str, Any], own: Mapping[str, Any]
    ) -> None:
        """Kernels do not check whether they read and write the same memory.

        A kernel that writes an output over an input is the exception: both may be exactly equal.
        """
        seen = [
            (spec.name, _range(value), number)
            for number, (spec, value) in enumerate(zip(self._inputs, given, strict=True))
        ]
        for number, spec in enumerate(self._outputs):
            if spec.name not in own:
                continue
            begin, end = _range(found[spec.name])
            for other, (first, last), source in seen:
                if begin >= last or first >= end:
                    continue
                may = (number, source) in self.plan.in_place
                if may and (begin, end) == (first, last):
                    continue
                raise UsageError(
                    f"the tensor for output '{spec.name}' overlaps that of '{other}'; give it "
                    f"memory of its own{', or all of that memory' if may else ''}"
                )
            seen.append((spec.name, (begin, end), -1))


def _range(value: Any) -> tuple[int, int]:
    """The addresses of a tensor; the device's and the host's never meet."""
    start = value.address if isinstance(value, DeviceTensor) else int(value.ctypes.data)
    return start, start + int(value.nbytes)


def _stream_handle(stream: Any) -> int:
    """The number of a stream: itself, or the handle in an object of hip-python, torch or cupy."""
    for name in ("cuda_stream", "ptr"):
        if isinstance(getattr(stream, name, None), int):
            return int(getattr(stream, name))
    try:
        return int(stream)
    except (TypeError, ValueError) as error:
        raise UsageError(f"a {type(stream).__name__} is not a HIP stream") from error
