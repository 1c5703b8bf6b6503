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
from mgx_mlir.errors import ArtifactError
from mgx_mlir.runtime.binding import (
    BoundCopy,
    BoundLaunch,
    Place,
    Section,
    arena_bytes,
    bind,
    counters,
    decisions,
    scratch_bytes,
    sections,
)
from mgx_mlir.runtime.hip.memory import aligned
from mgx_mlir.runtime.hip.module import load_module
from mgx_mlir.runtime.hip.weights import device_weight
from mgx_mlir.runtime.ordering import Machine, StreamSchedule, schedule

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
        plan: Plan,
        code_objects: Sequence[CodeObject],
        weights: Mapping[str, Weight],
        ordinal: int,
        machine: Machine,
    ) -> None:
        """`machine` is the device that streams are planned for.

        Raises ArtifactError where the parts do not fit together, DeviceError.
        """
        self.ordinal = ordinal
        self.reasons = [code.why for code in code_objects]
        self.arena_bytes = arena_bytes(plan)
        self._scratch_bytes = aligned(scratch_bytes(code_objects))
        self.counts = counters(code_objects) > 0
        self.steps: list[PreparedLaunch | PreparedCopy] = []
        self.entries: dict[Tensor, list[int]] = {}
        self.touching: dict[Tensor, list[int]] = {}
        bound = bind(plan, code_objects)
        # A kernel whose results have no elements has no functions, and no bytes either.
        self._modules = {
            number: load_module(ordinal, code)
            for number, code in enumerate(code_objects)
            if code.launches
        }
        self._weights = {
            b.key: device_weight(ordinal, _weight(weights, b.key, b.bytes))
            for b in plan.buffers
            if b.kind == "weight"
        }
        self.schedules = {
            section: found
            for section in sections(bound.parts)
            if (found := schedule(bound.steps[section.first : section.end], machine))
        }
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
            if isinstance(step, BoundCopy) and step.is_row
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
        self.staging, self.staging_bytes = _staging(plan)

    def _add(self, step: BoundLaunch | BoundCopy, lane: int) -> None:
        """Adds a step, whose scratch memory is that of stream `lane`, and its pointers."""
        first = len(self._values)
        if isinstance(step, BoundCopy):
            name = f"copy of '{step.node}'"
            self.steps.append(PreparedCopy(step.bytes, first, name, step.step))
        else:
            launch = step.launch
            function = self._modules[step.kernel].function(launch.function)
            name = f"{launch.function} of '{step.node}' (kernel {step.kernel})"
            grid, block = launch.grid, launch.block
            self.steps.append(PreparedLaunch(function, grid, block, first, name, step.step))
        for place in step.places:
            self._touch(place)
            self._point(place, lane)

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


def _weight(weights: Mapping[str, Weight], key: str, size: int) -> Weight:
    if key not in weights:
        raise ArtifactError(f"the plan needs weight '{key}', which is missing")
    if weights[key].nbytes != size:
        raise ArtifactError(f"weight '{key}' has {weights[key].nbytes} bytes; the plan says {size}")
    return weights[key]
