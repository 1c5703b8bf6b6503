"""Times of a HipProgram's steps on its device, between events.

On the emulated device events give time only with MGX_EMULATOR_PROFILE=1; it is modelled.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mgx_mlir.runtime.binding import Place, Repeat, Section
from mgx_mlir.runtime.hip.context import Context
from mgx_mlir.runtime.hip.device import Current
from mgx_mlir.runtime.hip.library import call, release
from mgx_mlir.runtime.hip.ranges import named_range
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
    with StepTimer(program, inputs) as timer:
        for number in range(runs):
            timer.run()
            progress(number + 1, runs)
    return timer.steps


class StepTimer:
    """The times of a program's steps, added up run by run; others may run in between."""

    def __init__(self, program: Any, inputs: Mapping[str, Any]) -> None:
        """Inputs go to the device, and a first run is made, before anything is timed."""
        program.run(inputs)
        self._program = program
        self.steps = steps_of(program.plan)
        with Current(program.device.ordinal):
            self._context = program.pool.acquire()

    def __enter__(self) -> StepTimer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def run(self) -> float:
        """One more run; gives the milliseconds of all its steps."""
        with Current(self._program.device.ordinal):
            _Timed(self._context, self._program, self.steps).run()
        return sum(step.milliseconds[-1] for step in self.steps)

    def close(self) -> None:
        """Frees the context."""
        with Current(self._program.device.ordinal):
            self._program.pool.discard(self._context)


class _Timed:
    """One run on a context, whose inputs are those of the run before, launch by launch."""

    def __init__(self, context: Context, program: Any, times: list[StepTime]) -> None:
        self._context = context
        self._steps = program.prepared.steps
        self._times = times
        # A launch's number, and the events before and after it.
        self._marks: list[tuple[int, Any, Any]] = []

    def run(self) -> None:
        """Adds the run's times to those of the steps."""
        try:
            self._context.launch(self._context.stream, self)
            call("hipStreamSynchronize", self._context.stream)
            self._add()
        finally:
            for _, before, after in self._marks:
                release("hipEventDestroy", before)
                release("hipEventDestroy", after)

    def _add(self) -> None:
        spent = [0.0] * len(self._times)
        for found in self._times:
            found.times = found.launches = 0
        last = -1
        for number, before, after in self._marks:
            step = self._steps[number].step
            spent[step] += float(call("hipEventElapsedTime", before, after))
            self._times[step].launches += 1
            # The next launch of one kernel belongs to the same execution of the step.
            self._times[step].times += not (last == number - 1 and self._is_next(number))
            last = number
        for found, milliseconds in zip(self._times, spent, strict=True):
            found.milliseconds.append(milliseconds)

    def _is_next(self, number: int) -> bool:
        return number > 0 and self._steps[number - 1].step == self._steps[number].step

    def section(self, section: Section) -> None:
        """Gives the stream the section's launches, with an event before and after each."""
        stream = self._context.stream
        for number in range(section.first, section.end):
            before = call("hipEventCreateWithFlags", 0)
            self._marks.append((number, before, call("hipEventCreateWithFlags", 0)))
            call("hipEventRecord", before, stream)
            with named_range(self._times[self._steps[number].step].node or "copy"):
                self._context.submission.submit(number, number + 1, stream)
            call("hipEventRecord", self._marks[-1][2], stream)

    def number(self, place: Place, size: int) -> int:
        """The count or condition, as the context reads it."""
        return self._context.number(place, size)

    def row(self, loop: Repeat, number: int) -> None:
        """Points the copies that fill rows, as the context does."""
        self._context.row(loop, number)


def host_overhead(program: Any, inputs: Mapping[str, np.ndarray], runs: int) -> float:
    """Milliseconds that a run takes beside its HIP calls, in the middle of `runs` runs.

    Tensors are on the device. The time of giving launches and of waiting is not counted.
    Raises DeviceError.
    """
    ordinal = program.device.ordinal
    given = {n: DeviceTensor.from_numpy(np.asarray(a), ordinal) for n, a in inputs.items()}
    found = program.run(given, results="device")
    with Current(ordinal):
        context = program.pool.acquire()
    watch = _Stopwatch()
    section, wait = context.section, context.wait
    context.section, context.wait = watch.around(section), watch.around(wait)  # type: ignore
    program.pool.release(context)
    try:
        program.run(given, found)  # the graph gets its new addresses
        times = []
        for _ in range(runs):
            watch.seconds = 0.0
            started = time.perf_counter()
            program.run(given, found)
            times.append(time.perf_counter() - started - watch.seconds)
    finally:
        context.section, context.wait = section, wait  # type: ignore[method-assign]
    return statistics.median(times) * 1e3


def host_calls(program: Any, inputs: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """The calls of one run from the host's arrays: name, start and duration in milliseconds.

    'inputs' are checked and copied, 'launches' given to the stream, 'wait' is until they are done,
    'results' are handed over. Raises DeviceError.
    """
    program.run(inputs)
    with Current(program.device.ordinal):
        context = program.pool.acquire()
    watch = _Stopwatch()
    launch, wait = context.launch, context.wait
    context.launch, context.wait = watch.around(launch), watch.around(wait)  # type: ignore
    program.pool.release(context)
    try:
        started = time.perf_counter()
        program.run(inputs)
        ended = time.perf_counter()
    finally:
        context.launch, context.wait = launch, wait  # type: ignore[method-assign]
    spans = dict(zip(("launches", "wait"), watch.spans, strict=False))
    first = min((begin for begin, _ in spans.values()), default=ended)
    last = max((end for _, end in spans.values()), default=ended)
    spans = {"inputs": (started, first), **spans, "results": (last, ended)}
    return [
        {"name": name, "start_ms": (begin - started) * 1e3, "ms": (end - begin) * 1e3}
        for name, (begin, end) in spans.items()
    ]


class _Stopwatch:
    """Counts the seconds that functions take, and notes when each call began and ended."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.spans: list[tuple[float, float]] = []

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        def timed(*arguments: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                ended = time.perf_counter()
                self.seconds += ended - started
                self.spans.append((started, ended))

        return timed
