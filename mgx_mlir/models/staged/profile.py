"""Times of a model in parts: the steps of its programs, and the nodes that the host runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from mgx_mlir.models.staged.context import Context
from mgx_mlir.models.staged.graph import StagedGraph
from mgx_mlir.models.staged.partition import Step
from mgx_mlir.runtime.runnable import Progress
from mgx_mlir.runtime.step_time import StepTime


def step_times(
    graph: StagedGraph, inputs: Mapping[str, Any], context: Context, runs: int, progress: Progress
) -> list[StepTime]:
    """The steps in order, each timed in `runs` runs after a first one.

    A node of the host is a step without a kernel; one with bodies has the time of all that they do.
    """
    graph.run(inputs, context)  # now all is compiled
    values, found = dict(inputs), []
    plan = graph.plan()
    for number, step in enumerate(plan):
        if step.on_host:
            found.append(_on_host(graph, step, values, context, runs))
        else:
            program, given = graph.island_program(step, values)
            found += program.profile(given, runs)
        values |= graph.done(step, values, context)
        progress(number + 1, len(plan))
    return found


def _on_host(
    graph: StagedGraph, step: Step, values: Mapping[str, Any], context: Context, runs: int
) -> StepTime:
    found = StepTime(-1, graph.name_of(step), times=1, launches=1)
    for _ in range(runs):
        started = time.perf_counter()
        graph.done(step, values, context)
        found.milliseconds.append(1e3 * (time.perf_counter() - started))
    return found
