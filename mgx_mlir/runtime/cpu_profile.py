"""Times of a program's steps on the host's cores."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from mgx_mlir.runtime.binding import Place, Repeat, Section
from mgx_mlir.runtime.control import Machine
from mgx_mlir.runtime.program import Program
from mgx_mlir.runtime.step_time import StepTime, steps_of


def step_times(
    program: Program,
    inputs: Mapping[str, Any],
    runs: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[StepTime]:
    """The steps in order, timed in `runs` runs after a first one, launch by launch.

    A launch's time includes starting it: about two microseconds.
    """
    program.run(dict(inputs))
    steps = steps_of(program.plan)
    for number in range(runs):
        for step in steps:
            step.times = step.launches = 0
            step.milliseconds.append(0.0)
        program.run_on(lambda machine: _Timed(machine, program.launches, steps), dict(inputs))
        progress(number + 1, runs)
    return steps


class _Timed:
    """A machine whose launches are timed, each alone. `launches`: the step of each launch."""

    def __init__(self, machine: Machine, launches: list[int], steps: list[StepTime]) -> None:
        self._machine, self._launches, self._steps = machine, launches, steps

    def section(self, section: Section) -> None:
        """Does the section's work, one launch after another."""
        last = -1
        for number in range(section.first, section.end):
            started = time.perf_counter()
            self._machine.section(Section(number, number + 1))
            step = self._steps[self._launches[number]]
            step.milliseconds[-1] += (time.perf_counter() - started) * 1e3
            step.launches += 1
            # The next launch of one kernel belongs to the same execution of the step.
            step.times += self._launches[number] != last
            last = self._launches[number]

    def number(self, place: Place, size: int) -> int:
        """The count or condition, as the machine reads it."""
        return self._machine.number(place, size)

    def row(self, loop: Repeat, number: int) -> None:
        """Points the copies that fill rows, as the machine does."""
        self._machine.row(loop, number)
