"""A program in stages, each on a device of its own: for models larger than one device's memory."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.artifact.plan import TensorSpec
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target, kind_of
from mgx_mlir.errors import DeviceError, Edge, UsageError
from mgx_mlir.loader import compile, hip_device, opened
from mgx_mlir.runtime.arrays import device_of, host_array
from mgx_mlir.runtime.program import Program
from mgx_mlir.runtime.runnable import Progress, check_names, check_results, written
from mgx_mlir.runtime.step_time import StepTime
from mgx_mlir.settings import Settings
from mgx_mlir.suggest import listed

if TYPE_CHECKING:
    from mgx_mlir.runtime.hip.device import Device
    from mgx_mlir.runtime.hip.outputs import OutputPool
    from mgx_mlir.runtime.hip.tensor import DeviceTensor

_log = logging.getLogger("mgx_mlir.hip")

_NON_BLOCKING = 1


@dataclass(frozen=True)
class _Stage:
    """A program on its device. `stream` has its runs, `copies` what comes from the host."""

    program: Program
    ordinal: int
    stream: Any
    copies: Any
    pool: OutputPool


class Chain:
    """Stages that `mgx compile --devices` made, in their order, each on a device.

    A request goes from device to device without the host: copies between devices and kernels wait
    for each other there. While one request is on the second device, another is on the first one.
    Any number of threads may run it.
    """

    @Edge("loading the stages")
    def __init__(
        self,
        stages: Sequence[str | os.PathLike[str] | Artifact],
        target: str | Target = "gpu",
        *,
        devices: Sequence[int] = (),
        in_flight: int = 0,
        settings: Settings | None = None,
        trust_code: bool = False,
    ) -> None:
        """`stages` are all artifacts of one chain. `devices`: default 0, 1, ... `in_flight`: the
        most requests at one time, by default two for each stage.

        Raises UsageError where a stage is missing or the target is a CPU, TargetError where there
        are fewer devices, ResourceError where a stage does not fit into its device's memory.
        """
        artifacts = [opened(stage) for stage in stages]
        _check_whole(artifacts)
        if kind_of(target) == "cpu":
            raise UsageError(
                "stages run on GPUs, each with memory of its own; for a CPU compile the model "
                "without --devices"
            )
        numbers = list(devices) or list(range(len(artifacts)))
        if len(numbers) != len(artifacts):
            raise UsageError(f"{len(artifacts)} stages need as many devices, not {len(numbers)}")
        settings = settings or Settings.from_environment()
        found = [hip_device(target, settings, number) for number in numbers]
        inputs, outputs = _specs(artifacts)
        self.inputs, self.outputs = tuple(inputs.values()), tuple(outputs.values())
        self._stages = []
        for artifact, device in zip(artifacts, found, strict=True):
            program = compile(
                artifact, target, settings=settings, device=device.ordinal, trust_code=trust_code
            )
            self._stages.append(_stage(program, device))
        _allow_peers(numbers)
        self._most = in_flight or 2 * len(artifacts)
        self._pending: deque[ChainRun] = deque()
        self._lock = threading.Lock()

    @Edge("running the stages")
    def run(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        stream: Any = None,
        results: str = "numpy",
    ) -> dict[str, Any]:
        """The outputs by name. `inputs` are arrays, or tensors on the host or a device.

        `outputs` may name arrays to write into. `results`: 'numpy' or 'device', where a result lies
        on the device of its stage. Stages have streams of their own: none is taken. Raises
        UsageError for an input that is missing, unknown or of another shape or type, and
        DeviceError.
        """
        return self.run_async(inputs, outputs, stream=stream, results=results).result()

    @Edge("running the stages")
    def run_async(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        stream: Any = None,
        results: str = "numpy",
    ) -> ChainRun:
        """As `run`, but returns when the devices have the work; `result()` waits for it.

        Waits for the oldest request where as many are in flight as there may be.
        """
        check_results(results)
        if stream is not None:
            raise UsageError("stages run on streams of their own, a device each; give no stream")
        check_names([spec.name for spec in self.inputs], inputs)
        check_names([s.name for s in self.outputs], outputs or {}, "output", complete=False)
        with self._lock:
            while len(self._pending) >= self._most:
                self._pending.popleft().wait()
            values = dict(inputs)
            kept: list[Any] = []
            for stage in self._stages:
                program: Any = stage.program
                given = _given(stage, values, kept)
                values |= program.run(given, stream=stage.stream, results="device")
            found = {spec.name: values[spec.name] for spec in self.outputs}
            run = ChainRun(found, kept, dict(outputs or {}), results)
            self._pending.append(run)
            return run

    @Edge("timing the stages")
    def profile(
        self,
        inputs: Mapping[str, Any],
        runs: int = 1,
        progress: Progress = lambda done, total: None,
    ) -> list[StepTime]:
        """The steps of all stages in order, as `Program.profile` times them, stage by stage.

        The number of a step's kernel is one of its stage's.
        """
        check_names([spec.name for spec in self.inputs], inputs)
        values, steps = dict(inputs), []
        kept: list[Any] = []
        for number, stage in enumerate(self._stages):
            program: Any = stage.program
            given = _given(stage, values, kept)

            def told(done: int, total: int, before: int = number) -> None:
                progress(before * total + done, len(self._stages) * total)

            steps += program.profile(given, runs, told)
            values |= program.run(given, stream=stage.stream, results="device")
        return steps


class ChainRun:
    """A request in flight."""

    def __init__(
        self,
        found: Mapping[str, DeviceTensor],
        kept: Sequence[Any],
        outputs: Mapping[str, Any],
        results: str,
    ) -> None:
        """`kept` lives as long as the run's work. `outputs` and `results` are those of the run."""
        self._found, self._kept = found, kept
        self._outputs, self._results = outputs, results
        self._lock = threading.Lock()

    def done(self) -> bool:
        """Whether `result` returns at once."""
        return all(tensor.is_written() for tensor in self._found.values())

    def wait(self) -> None:
        """Blocks until the results are on their devices. Raises DeviceError."""
        with self._lock:
            for tensor in self._found.values():
                tensor.wait()
            self._kept = ()

    def result(self) -> dict[str, Any]:
        """Waits for the run; its outputs by name. Raises DeviceError where it failed."""
        self.wait()
        on_host = self._results == "numpy"
        found = {
            name: tensor.numpy() if on_host or name in self._outputs else tensor
            for name, tensor in self._found.items()
        }
        return written(found, self._outputs)


def _given(stage: _Stage, values: Mapping[str, Any], kept: list[Any]) -> dict[str, DeviceTensor]:
    """The inputs of a stage on its device."""
    return {s.name: _there(stage, s, values[s.name], kept) for s in stage.program.inputs}


def _check_whole(artifacts: Sequence[Any]) -> None:
    """Raises UsageError for other things than all stages of one chain, in their order."""
    for artifact in artifacts:
        if not isinstance(artifact, Artifact):
            raise UsageError(f"{artifact!r} is no artifact; mgx compile --devices makes stages")
    found = [artifact.options.get("stage") for artifact in artifacts]
    places = [(stage["number"], stage["of"]) if stage else None for stage in found]
    if not found or places != [(number, len(found)) for number in range(1, len(found) + 1)]:
        said = listed(f"{p[0]} of {p[1]}" if p else "a whole program" for p in places)
        raise UsageError(f"a chain takes all its stages in their order; got {said}")
    for artifact, stage in zip(artifacts, found, strict=True):
        if stage["program"] != found[0]["program"]:
            raise UsageError(f"'{artifact.name}' and '{artifacts[0].name}' are of two programs")


def _specs(artifacts: Sequence[Artifact]) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
    """The inputs and outputs of the whole, by name."""
    made = {spec.name: spec for artifact in artifacts for spec in artifact.plan.outputs}
    inputs = {s.name: s for a in artifacts for s in a.plan.inputs if s.name not in made}
    return inputs, {name: made[name] for name in artifacts[0].options["stage"]["outputs"]}


def _stage(program: Program, device: Device) -> _Stage:
    from mgx_mlir.runtime.hip.device import Current
    from mgx_mlir.runtime.hip.library import call
    from mgx_mlir.runtime.hip.outputs import OutputPool

    with Current(device.ordinal):
        stream, copies = (call("hipStreamCreateWithFlags", _NON_BLOCKING) for _ in range(2))
    return _Stage(program, device.ordinal, stream, copies, OutputPool(device.ordinal))


def _allow_peers(ordinals: Sequence[int]) -> None:
    """Lets the devices copy from each other directly; where they cannot, HIP goes by the host."""
    from mgx_mlir.runtime.hip.device import Current
    from mgx_mlir.runtime.hip.library import call

    for one, other in itertools.permutations(sorted(set(ordinals)), 2):
        if not call("hipDeviceCanAccessPeer", one, other):
            _log.warning("device %d has no access to device %d: copies go by the host", one, other)
            continue
        with Current(one), contextlib.suppress(DeviceError):  # it may be enabled already
            call("hipDeviceEnablePeerAccess", other, 0)


def _there(stage: _Stage, spec: TensorSpec, value: Any, kept: list[Any]) -> DeviceTensor:
    """A tensor on a stage's device: `value` itself, or a copy that the stage's work waits for."""
    from mgx_mlir.runtime.dlpack import ROCM
    from mgx_mlir.runtime.hip.device import Current
    from mgx_mlir.runtime.hip.event import Event
    from mgx_mlir.runtime.hip.library import call, hip_python
    from mgx_mlir.runtime.hip.tensor import DeviceTensor, device_tensor

    what = f"input '{spec.name}'"
    where = device_of(value, what)
    source: Any
    if where is not None and where[0] == ROCM:
        source = device_tensor(value, what, where[1], stage.stream)
        if where[1] == stage.ordinal:
            return source
        stream = stage.stream
    else:
        source = np.require(host_array(value, what, numpy_dtype(spec.dtype)), requirements="C")
        stream = stage.copies
    with Current(stage.ordinal):
        target = DeviceTensor.of_pool(
            stage.pool, source.shape, source.dtype, stage.ordinal, lambda event: event.hold(stream)
        )
        if isinstance(source, DeviceTensor):
            places = (target.address, stage.ordinal, source.address, source.ordinal)
            if source.nbytes:
                call("hipMemcpyPeerAsync", *places, source.nbytes, stream, purpose=what)
            source.used_until(Event(stream))
            return target
        kind = hip_python().hipMemcpyKind.hipMemcpyHostToDevice
        if source.nbytes:
            address = source.ctypes.data
            call(
                "hipMemcpyAsync", target.address, address, source.nbytes, kind, stream, purpose=what
            )
        target.written_by(Event(stream))
    kept.append(source)
    return target
