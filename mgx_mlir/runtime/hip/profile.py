"""Times of a HipProgram's steps on its device, between events.

On the emulated device events give time only with MGX_EMULATOR_PROFILE=1; it is modelled.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mgx_mlir.artifact.library import ProfileFunction, RunOptions, SpanFunction, call, made
from mgx_mlir.runtime.hip.tensor import DeviceTensor
from mgx_mlir.runtime.step_time import StepTime, steps_of

Progress = Callable[[int, int], None]


def step_times(
    program: Any,
    inputs: Mapping[str, Any],
    runs: int,
    progress: Progress = lambda done, total: None,
) -> list[StepTime]:
    """The steps in order, timed in `runs` runs, launch by launch and so without a graph.

    Raises DeviceError.
    """
    timer = StepTimer(program, inputs)
    for number in range(runs):
        timer.run()
        progress(number + 1, runs)
    return timer.steps


class StepTimer:
    """The times of a program's steps, added up run by run; others may run in between."""

    def __init__(self, program: Any, inputs: Mapping[str, Any]) -> None:
        """Inputs go to the device, and a first run is made, before anything is timed."""
        self._loaded, self._launches = program.loaded, program.launches
        self._run = program.prepared(_on_device(program, inputs), "device")
        call("mgx_run", self._loaded.handle, *self._run.arguments, None)
        self.steps = steps_of(program.plan)
        self._take = ProfileFunction(self._note)

    def run(self) -> float:
        """One more run; gives the milliseconds of all its steps."""
        for step in self.steps:
            step.launches = 0
            step.milliseconds.append(0.0)
        call("mgx_profile", self._loaded.handle, *self._run.arguments, self._take, None)
        for number, step in enumerate(self.steps):
            step.times = step.launches // max(self._launches.count(number), 1)
        return sum(step.milliseconds[-1] for step in self.steps)

    def _note(self, _: Any, row: Any) -> None:
        step = self.steps[row[0].step]
        step.milliseconds[-1] += 1e3 * row[0].seconds
        step.launches += 1


def host_overhead(program: Any, inputs: Mapping[str, np.ndarray], runs: int) -> float:
    """Milliseconds that a run takes beside its HIP calls, in the middle of `runs` runs.

    Tensors are on the device. The time of giving launches and of waiting is not counted.
    Raises DeviceError.
    """
    given = _on_device(program, inputs)
    found = program.run(given, results="device")
    program.run(given, found)  # the graph gets its new addresses
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        spans = _spans(program, given, found)[1]
        spent = time.perf_counter() - started
        times.append(spent - sum(end - start for start, end in spans[1:]))
    return statistics.median(times) * 1e3


def host_calls(program: Any, inputs: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """The calls of one run from the host's arrays: name, start and duration in milliseconds.

    'inputs' are checked and copied, 'launches' given to the stream, 'wait' is until they are done,
    'results' are handed over. Raises DeviceError.
    """
    program.run(inputs)
    started = time.perf_counter()
    called, (_, launches, wait) = _spans(program, inputs, None)
    ended = time.perf_counter()
    marks = [started, called + launches[0], called + launches[1], called + wait[1], ended]
    return [
        {"name": name, "start_ms": (begin - started) * 1e3, "ms": (end - begin) * 1e3}
        for name, begin, end in zip(
            ("inputs", "launches", "wait", "results"), marks[:-1], marks[1:], strict=True
        )
    ]


def _spans(
    program: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None
) -> tuple[float, list[tuple[float, float]]]:
    """The time at which libmgx is called for a run, and its spans, in seconds since then."""
    found: list[tuple[float, float]] = []
    note = SpanFunction(lambda _, span: found.append((span[0].start, span[0].end)))
    run = program.prepared(inputs, "numpy", outputs)
    options = made(RunOptions, span=note, graph=program.graph_option)
    called = time.perf_counter()
    call("mgx_run", program.loaded.handle, *run.arguments, ctypes.byref(options))
    return called, found


def _on_device(program: Any, inputs: Mapping[str, Any]) -> dict[str, DeviceTensor]:
    """The inputs of a run, checked as a run checks them, on the program's device."""
    tensors = program.prepared(inputs, "numpy").tensors
    ordinal = program.device.ordinal
    return {
        spec.name: x if isinstance(x, DeviceTensor) else DeviceTensor.from_numpy(x, ordinal)
        for spec, x in zip(program.inputs, tensors, strict=False)
    }
