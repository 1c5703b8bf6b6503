"""A plan and its code objects as one list of launches and copies, with the place of each pointer.

libmgx binds them to the sizes of runs, finds whether they fit together, and orders them: these are
its answers (mgx_artifact_bind), for the executor in Python. Control flow cuts the list into
sections.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from ctypes import byref
from dataclasses import dataclass
from typing import Any, TypeAlias

from mgx_mlir.artifact import library
from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.library import call, made
from mgx_mlir.artifact.plan import Plan, TensorSpec
from mgx_mlir.artifact.weights import Weight
from mgx_mlir.runtime.loaded import Shapes, assembled, tensors, weight_keys


@dataclass(frozen=True)
class Place:
    """Where a pointer points.

    kind 'arena' and 'scratch': `index` bytes into that memory. 'input' and 'output': the
    caller's tensor number `index`. 'weight': the weight called `key`. The place has
    `bytes` bytes. 'size': no pointer, the number `index` itself.
    """

    kind: str
    index: int = 0
    key: str = ""
    bytes: int = 0


@dataclass(frozen=True)
class BoundStep:
    """A launch of a function of code object number `kernel`, with its pointers in order.

    Kernel -1 is a copy of `bytes` bytes, at least one, from the first place to the second; where
    `is_row`, to the row of the second place whose number is the loop's trip. `step` is the number
    of the step that it belongs to among the plan's launches and copies.
    """

    step: int
    kernel: int
    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    places: tuple[Place, ...]
    node: str
    bytes: int
    is_row: bool


@dataclass(frozen=True)
class Section:
    """The launches and copies from number `first` to `end`, without a decision between them."""

    first: int
    end: int


@dataclass(frozen=True)
class Choice:
    """One of two lists, as the byte at `condition` says."""

    condition: Place
    then: tuple[Part, ...]
    otherwise: tuple[Part, ...]


@dataclass(frozen=True)
class Repeat:
    """`body` at most as often as the int64 at `trips` says, while a byte is not 0.

    The byte is that at `condition` before the first trip, that at `again` after each.
    `rows` are the numbers of the copies that fill rows; with any, `limit` trips are made,
    no more and no fewer. Another trip after `most` is an error where the int64 is ENDLESS.
    """

    trips: Place
    condition: Place
    again: Place
    body: tuple[Part, ...]
    rows: tuple[int, ...]
    limit: int
    node: str
    most: int = 0


Part: TypeAlias = Section | Choice | Repeat


@dataclass(frozen=True)
class Machine:
    """The figures of a device for estimates: bytes and operations a second, and its units."""

    bytes_per_second: float
    flops_per_second: float
    compute_units: int


@dataclass(frozen=True)
class StreamSchedule:
    """Steps on several streams. Numbers count from the section's first step.

    `before` holds for each step the steps that it waits for, those that others of them wait for
    left out; `streams` the stream of each step, where 0 is the run's own. Each stream has scratch
    memory of its own.
    """

    before: tuple[tuple[int, ...], ...]
    streams: tuple[int, ...]


@dataclass(frozen=True)
class BoundPlan:
    """Every launch and copy of a plan, those of each body once, and the order they run in.

    `schedules` are the sections for which several streams pay. `arena_bytes` are whole lines of
    256; `scratch_bytes` is the memory that kernels use one after another. `counts`: counters end
    it, which are 0 before a launch, and after it.
    """

    plan: Plan
    steps: tuple[BoundStep, ...]
    parts: tuple[Part, ...]
    schedules: dict[Section, StreamSchedule]
    arena_bytes: int
    scratch_bytes: int
    counts: bool


class Binder:
    """A plan for given or symbolic sizes with its code objects, to be bound."""

    def __init__(
        self, plan: Plan, code_objects: Sequence[CodeObject], weights: Mapping[str, Weight]
    ) -> None:
        """Raises ArtifactError where the parts do not fit together."""
        self._plan = plan
        self._keys = sorted(weight_keys(plan) & weights.keys())
        entries = [
            library.Weight(key.encode(), None, weights[key].nbytes, _BYTES, 0, None)
            for key in self._keys
        ]
        self._artifact = assembled(plan, code_objects, entries)

    def bind(self, shapes: Shapes, machine: Machine) -> BoundPlan:
        """The steps of runs with inputs of these shapes; streams are planned for `machine`.

        Raises UsageError where the shapes do not fit the program.
        """
        texts: list[bytes] = []
        take = library.TextFunction(lambda _, text: texts.append(text))
        given = tensors(
            [
                TensorSpec(spec.name, spec.dtype, tuple(shape))
                for spec, shape in zip(self._plan.inputs, shapes, strict=True)
            ]
        )
        rates = made(
            library.Rates, bytes_per_second=machine.bytes_per_second,
            flops_per_second=machine.flops_per_second, compute_units=machine.compute_units,
        )  # fmt: skip
        call("mgx_artifact_bind", self._artifact.value, given, len(given), byref(rates), take, None)
        found = json.loads(texts[0])
        plan = Plan.from_json(found["plan"]) if "plan" in found else self._plan
        return _Reader(self._keys).bound(plan, found)


# The type of weights whose elements nobody looks at: uint8.
_BYTES = 2


class _Reader:
    """Makes a BoundPlan of libmgx's text."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        # One object for all pointers to a place.
        self._places: dict[tuple[str, int, int], Place] = {}

    def bound(self, plan: Plan, found: Mapping[str, Any]) -> BoundPlan:
        steps = tuple(
            BoundStep(
                step, kernel, function, tuple(grid), tuple(block), tuple(map(self.place, places)),
                node, size, bool(is_row),
            )
            for step, kernel, function, grid, block, places, node, size, is_row in found["steps"]
        )  # fmt: skip
        parts = self.parts(found["parts"])
        by_first = {section.first: section for section in sections(parts)}
        schedules = {
            by_first[first]: StreamSchedule(tuple(map(tuple, before)), tuple(streams))
            for first, before, streams in found["schedules"]
        }
        arena, scratch = found["arena"], found["scratch"]
        return BoundPlan(plan, steps, parts, schedules, arena, scratch, bool(found["counts"]))

    def place(self, given: Sequence[Any]) -> Place:
        kind, index, size = given
        found = self._places.get((kind, index, size))
        if found is None:
            key = self._keys[index] if kind == "weight" else ""
            found = Place(kind, 0 if key else index, key, size)
            self._places[kind, index, size] = found
        return found

    def parts(self, given: Sequence[Any]) -> tuple[Part, ...]:
        return tuple(Section(*one) if isinstance(one, list) else self.part(one) for one in given)

    def part(self, given: Mapping[str, Any]) -> Part:
        condition, then = self.place(given["condition"]), self.parts(given["then"])
        if "trips" not in given:
            return Choice(condition, then, self.parts(given["otherwise"]))
        trips, again = self.place(given["trips"]), self.place(given["again"])
        rows, limit = tuple(given["rows"]), given["limit"]
        return Repeat(trips, condition, again, then, rows, limit, given["node"], given["most"])


def decisions(parts: Sequence[Part]) -> Iterator[Place]:
    """The places of all counts and conditions."""
    for part in parts:
        if isinstance(part, Choice):
            yield part.condition
            yield from decisions((*part.then, *part.otherwise))
        elif isinstance(part, Repeat):
            yield from (part.trips, part.condition, part.again)
            yield from decisions(part.body)


def sections(parts: Sequence[Part]) -> Iterator[Section]:
    """Every section, also those of bodies."""
    for part in parts:
        if isinstance(part, Section):
            yield part
        elif isinstance(part, Choice):
            yield from sections((*part.then, *part.otherwise))
        else:
            yield from sections(part.body)
