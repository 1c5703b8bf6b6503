"""A bound plan on a device: functions and weights loaded, arguments laid out.

All execution contexts of a program share it. Arguments are addresses, one after
another in launch order; a context has its own copy of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.plan import Plan
from mgx_mlir.artifact.weights import Weight
from mgx_mlir.runtime.binding import (
    BoundPlan,
    BoundStep,
    Place,
    Section,
    StreamSchedule,
    decisions,
)
from mgx_mlir.runtime.hip.memory import aligned
from mgx_mlir.runtime.hip.module import Module, load_module
from mgx_mlir.runtime.hip.weights import device_weight

# An input or an output: its kind and number.
Tensor = tuple[str, int]


@dataclass(frozen=True)
class PreparedLaunch:
    """One kernel launch; `first` is the index of its first argument among all of them.

    `step` is the number of the step among the plan's launches and copies.
    """

    function: Any
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    first: int
    name: str
    step: int


@dataclass(frozen=True)
class PreparedCopy:
    """A copy on the device: source and target are the arguments `first` and `first + 1`."""

    bytes: int
    first: int
    name: str
    step: int


class Prepared:
    """The steps of a program on device `ordinal`, and the place of each of their pointers.

    `arguments` holds weights' addresses and offsets; those at `in_arena` become addresses
    when a context adds its arena's. `entries` are the arguments that point to a tensor of
    the caller, `touching` the steps that have such arguments. `decisions` are the arguments
    that point to counts and conditions, without those that are `known`. `wholes` are the
    arguments that point to a whole tensor, by the number of the copy that fills its rows.
    `schedules` are the sections for which several streams pay. `reasons` are, for each kernel, its
    schedule, or why a generator refused it.
    """

    def __init__(
        self,
        bound: BoundPlan,
        code_objects: Sequence[CodeObject],
        weights: Mapping[str, Weight],
        ordinal: int,
    ) -> None:
        """Raises ArtifactError where the code has not the functions, DeviceError."""
        self.ordinal = ordinal
        self.reasons = [code.why for code in code_objects]
        self.arena_bytes = bound.arena_bytes
        self._scratch_bytes = aligned(bound.scratch_bytes)
        self.counts = bound.counts
        self.steps: list[PreparedLaunch | PreparedCopy] = []
        self.entries: dict[Tensor, list[int]] = {}
        self.touching: dict[Tensor, list[int]] = {}
        self._code_objects = code_objects
        self._modules: dict[int, Module] = {}
        self._weights = {
            b.key: device_weight(ordinal, weights[b.key])
            for b in bound.plan.buffers
            if b.kind == "weight"
        }
        self.schedules = bound.schedules
        lanes = _streams(self.schedules)
        used = max(lanes.values(), default=0) + 1
        self.memory_bytes = self.arena_bytes + self._scratch_bytes * used
        self._values: list[int] = []
        self._in_arena: list[int] = []
        for number, step in enumerate(bound.steps):
            self._add(step, lanes.get(number, 0))
        self.parts = bound.parts
        self.wholes = {
            number: self._point(step.places[1])
            for number, step in enumerate(bound.steps)
            if step.is_row
        }
        used_places = list(decisions(bound.parts))
        self.known: dict[Place, np.ndarray] = {
            place: weights[place.key].array() for place in used_places if place.kind == "weight"
        }
        self.decisions: dict[Place, int] = {
            place: self._point(place) for place in used_places if place not in self.known
        }
        self.arguments = np.array(self._values, np.uint64)
        self.in_arena = np.array(self._in_arena, np.intp)
        self.staging, self.staging_bytes = _staging(bound.plan)

    def _add(self, step: BoundStep, lane: int) -> None:
        """Adds a step, whose scratch memory is that of stream `lane`, and its pointers."""
        first = len(self._values)
        if step.kernel < 0:
            name = f"copy of '{step.node}'"
            self.steps.append(PreparedCopy(step.bytes, first, name, step.step))
        else:
            function = self._module(step.kernel).function(step.function)
            name = f"{step.function} of '{step.node}' (kernel {step.kernel})"
            launch = PreparedLaunch(function, step.grid, step.block, first, name, step.step)
            self.steps.append(launch)
        for place in step.places:
            self._touch(place)
            self._point(place, lane)

    def _module(self, kernel: int) -> Module:
        """The module of a kernel. One that nothing launches has no functions, and no bytes."""
        if kernel not in self._modules:
            self._modules[kernel] = load_module(self.ordinal, self._code_objects[kernel])
        return self._modules[kernel]

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights, which other programs may share."""
        return sum(memory.size for memory in self._weights.values())

    def _point(self, place: Place, lane: int = 0) -> int:
        """Adds a pointer to a place; returns its number. `lane` chooses scratch."""
        number, value = len(self._values), 0
        if place.kind == "weight":
            value = self._weights[place.key].address
        elif place.kind == "size":
            value = place.index
        elif place.kind in ("arena", "scratch"):
            self._in_arena.append(number)
            value = place.index
            if place.kind == "scratch":
                value += self.arena_bytes + lane * self._scratch_bytes
        else:
            self.entries.setdefault((place.kind, place.index), []).append(number)
        self._values.append(value)
        return number

    def _touch(self, place: Place) -> None:
        """Notes that the last step has a pointer to a place."""
        if place.kind in ("input", "output"):
            steps = self.touching.setdefault((place.kind, place.index), [])
            if steps[-1:] != [len(self.steps) - 1]:
                steps.append(len(self.steps) - 1)


def _streams(schedules: Mapping[Section, StreamSchedule]) -> dict[int, int]:
    """The stream of each step within a schedule; each stream has scratch memory of its own."""
    return {
        section.first + number: stream
        for section, found in schedules.items()
        for number, stream in enumerate(found.streams)
    }


def _staging(plan: Plan) -> tuple[dict[Tensor, int], int]:
    """The offset of each host tensor in the staging memory for copies, and the bytes of that."""
    offsets, end = {}, 0
    for kind, specs in (("input", plan.inputs), ("output", plan.outputs)):
        for index, spec in enumerate(specs):
            offsets[kind, index] = end
            end += aligned(spec.nbytes)
    return offsets, end
