"""Times and work of the steps of a plan, on any device."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from mgx_mlir.artifact.plan import Plan, Row


@dataclass
class StepTime:
    """One step of the plan: its kernel (-1: a copy), its nodes, and its measurements in a run.

    `bytes` are those of its inputs and outputs, each counted once, `flops` its arithmetic
    operations, both for one execution. `times` counts the executions of the step in one run,
    `launches` the launches that they took. `milliseconds` has one entry a run.
    """

    kernel: int
    node: str
    bytes: int = 0
    flops: int = 0
    times: int = 0
    launches: int = 0
    milliseconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Milliseconds of the run in the middle."""
        return statistics.median(self.milliseconds)


@dataclass(frozen=True)
class Span:
    """The time that a thread spent on a step of the plan, in milliseconds of the run."""

    thread: int
    step: int
    start: float
    end: float


def steps_of(plan: Plan) -> list[StepTime]:
    """The steps in order, without times, of a plan for given sizes."""
    times = []
    for step in plan.work():
        if isinstance(step, Row):
            times.append(StepTime(-1, step.node, 2 * plan.buffers[step.source].bytes))
        else:
            size = sum(plan.buffers[a].bytes for a in set(step.arguments))
            times.append(StepTime(step.kernel, step.node, size, int(step.flops)))
    return times
