"""Times of a program's steps on its device, between events.

On the emulated device events give time only with MGX_EMULATOR_PROFILE=1; it is modelled.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mgx_mlir.plan import Row
from mgx_mlir.runtime.hip.context import Context
from mgx_mlir.runtime.hip.device import Current
from mgx_mlir.runtime.hip.library import call, release
from mgx_mlir.runtime.hip.program import HipProgram


@dataclass
class StepTime:
    """One step of the plan: its kernel (-1: a copy), its nodes, its launches.

    `bytes` are those of its inputs and outputs, each counted once; `milliseconds` has one
    entry a run.
    """

    kernel: int
    node: str
    launches: int = 0
    bytes: int = 0
    milliseconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Milliseconds of the run in the middle."""
        return statistics.median(self.milliseconds)


def step_times(
    program: HipProgram,
    inputs: Mapping[str, Any],
    runs: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[StepTime]:
    """The steps in order, timed in `runs` runs, launch by launch and so without a graph.

    Raises DeviceError.
    """
    # Inputs go to the device, and a first run is behind us, before anything is timed.
    program.run(inputs)
    with Current(program.device.ordinal):
        context = program.pool.acquire()
        try:
            times = _steps(program)
            for number in range(runs):
                _time_run(program, context, times)
                progress(number + 1, runs)
        finally:
            program.pool.discard(context)
    return times


def _steps(program: HipProgram) -> list[StepTime]:
    plan = program.plan
    times = []
    for step in plan.work():
        if isinstance(step, Row):
            kernel, size = -1, 2 * plan.buffers[step.source].bytes
        else:
            kernel, size = step.kernel, sum(plan.buffers[a].bytes for a in set(step.arguments))
        times.append(StepTime(kernel, step.node, bytes=size))
    for launch in program.prepared.steps:
        times[launch.step].launches += 1
    return times


def _time_run(program: HipProgram, context: Context, times: list[StepTime]) -> None:
    """One run on the context, whose inputs are those of the run before."""
    stream = context.stream
    marks = [call("hipEventCreateWithFlags", 0) for _ in range(len(program.prepared.steps) + 1)]
    try:
        call("hipEventRecord", marks[0], stream)
        for number, mark in enumerate(marks[1:]):
            context.submission.submit(number, number + 1, int(stream))
            call("hipEventRecord", mark, stream)
        call("hipStreamSynchronize", stream)
        spent = [0.0] * len(times)
        for number, step in enumerate(program.prepared.steps):
            spent[step.step] += float(call("hipEventElapsedTime", marks[number], marks[number + 1]))
    finally:
        for mark in marks:
            release("hipEventDestroy", mark)
    for found, milliseconds in zip(times, spent, strict=True):
        found.milliseconds.append(milliseconds)
