"""A plan and its code objects as one list of launches and copies, with the place of each pointer.

Every executor binds first, whatever the device; binding finds whether plan and code objects
fit together. Control flow cuts the list into sections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mgx_mlir.artifact.code_object import Argument, CodeObject, Launch
from mgx_mlir.artifact.fit import check_code
from mgx_mlir.artifact.plan import AnyStep, Branch, Buffer, Loop, Plan, Row, Step
from mgx_mlir.errors import ArtifactError
from mgx_mlir.sizes.arithmetic import ceil_div

COUNTER_BYTES = 4
WRITTEN = ("output", "scratch", "counters")


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
class BoundLaunch:
    """A function of code object number `kernel`, with its pointers in order.

    `written` says which pointers it writes to; `flops` counts its operations. `step` is the
    number of the step that it belongs to among the plan's launches and copies.
    """

    step: int
    kernel: int
    launch: Launch
    places: tuple[Place, ...]
    written: tuple[bool, ...]
    node: str
    flops: int


@dataclass(frozen=True)
class BoundCopy:
    """A copy of `bytes` bytes, at least one, from the first place to the second.

    Where `is_row`, it goes to the row of the second place whose number is the loop's trip.
    """

    step: int
    bytes: int
    places: tuple[Place, Place]
    node: str
    is_row: bool = False


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


@dataclass
class BoundPlan:
    """Every launch and copy of a plan, those of each body once, and the order they run in."""

    steps: list[BoundLaunch | BoundCopy] = field(default_factory=list)
    parts: tuple[Part, ...] = ()


def bind(plan: Plan, code_objects: Sequence[CodeObject]) -> BoundPlan:
    """The plan's steps in order. Raises ArtifactError where the parts do not fit together."""
    check_code(plan, code_objects)
    binder = _Binder(plan, code_objects)
    binder.bound.parts = binder.parts(plan.steps)
    return binder.bound


def arena_bytes(plan: Plan) -> int:
    """The size of the arena, in whole lines of 256 bytes."""
    return ceil_div(plan.arena_bytes, 256) * 256


def scratch_bytes(code_objects: Sequence[CodeObject]) -> int:
    """The bytes of scratch memory, which kernels use one after another; counters are its end."""
    return counters_at(code_objects) + COUNTER_BYTES * counters(code_objects)


def counters_at(code_objects: Sequence[CodeObject]) -> int:
    """The first byte of counters in scratch memory."""
    return ceil_div(max((code.scratch_bytes for code in code_objects), default=0), 256) * 256


def counters(code_objects: Sequence[CodeObject]) -> int:
    """The most counters of a launch, which all of them use in turn."""
    launches = (launch for code in code_objects for launch in code.launches)
    used = (a.index for launch in launches for a in launch.arguments if a.kind == "counters")
    return max(used, default=0)


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


class _Binder:
    def __init__(self, plan: Plan, code_objects: Sequence[CodeObject]) -> None:
        self.plan = plan
        self.places: dict[int, Place] = {}
        self.code_objects = code_objects
        self.counters_at = counters_at(code_objects)
        self.bound = BoundPlan()
        self.number = 0

    def parts(self, steps: Sequence[AnyStep]) -> tuple[Part, ...]:
        found: list[Part] = []
        first = len(self.bound.steps)
        for step in steps:
            if isinstance(step, Step | Row):
                self.bound.steps += self.work(step)
                self.number += 1
                continue
            if first != len(self.bound.steps):
                found.append(Section(first, len(self.bound.steps)))
            found.append(self.choice(step) if isinstance(step, Branch) else self.repeat(step))
            first = len(self.bound.steps)
        if first != len(self.bound.steps):
            found.append(Section(first, len(self.bound.steps)))
        return tuple(found)

    def choice(self, step: Branch) -> Choice:
        condition = self.place(step.condition)
        return Choice(condition, self.parts(step.then), self.parts(step.otherwise))

    def repeat(self, step: Loop) -> Repeat:
        first = len(self.bound.steps)
        body = self.parts(step.body)
        rows = [
            number
            for number, found in enumerate(self.bound.steps[first:], first)
            if isinstance(found, BoundCopy) and found.is_row
            # Rows that an inner loop fills belong to the inner loop.
            if any(isinstance(p, Section) and p.first <= number < p.end for p in body)
        ]
        size = self.plan.buffers
        counts = {
            size[s.target].bytes // size[s.source].bytes
            for s in step.body
            if isinstance(s, Row) and size[s.source].bytes
        }
        if len(counts) > 1:
            raise ArtifactError(f"plan: the loop of '{step.node}' fills rows of two numbers")
        trips, condition, again = map(self.place, (step.trips, step.condition, step.again))
        limit = max(counts, default=0)
        return Repeat(trips, condition, again, body, tuple(rows), limit, step.node, step.most)

    def work(self, step: Step | Row) -> list[BoundLaunch | BoundCopy]:
        if isinstance(step, Row):
            return self.copy(step.source, step.target, step.node, is_row=True)
        if step.kernel < 0:
            source, target = step.arguments
            return self.copy(source, target, step.node)
        if step.kernel >= len(self.code_objects):
            raise ArtifactError(
                f"plan: the step of '{step.node}' runs kernel {step.kernel}, which is missing"
            )
        code = self.code_objects[step.kernel]
        inputs = len(step.arguments) - _outputs(code)
        return [
            BoundLaunch(
                self.number,
                step.kernel,
                launch,
                tuple(self.argument(step, argument, inputs) for argument in launch.arguments),
                tuple(argument.kind in WRITTEN for argument in launch.arguments),
                step.node,
                step.flops // len(code.launches),
            )
            for launch in code.launches
        ]

    def copy(
        self, source: int, target: int, node: str, is_row: bool = False
    ) -> list[BoundLaunch | BoundCopy]:
        size = self.plan.buffers[source].bytes
        places = self.place(source), self.place(target)
        return [BoundCopy(self.number, size, places, node, is_row)] if size else []

    def argument(self, step: Step, argument: Argument, inputs: int) -> Place:
        if argument.kind == "scratch":
            size = self.code_objects[step.kernel].scratch_bytes - argument.index
            return Place("scratch", argument.index, bytes=size)
        if argument.kind == "counters":
            return Place("scratch", self.counters_at, bytes=COUNTER_BYTES * argument.index)
        if argument.kind == "size":
            return Place("size", argument.index)
        place = argument.index + (inputs if argument.kind == "output" else 0)
        limit = inputs if argument.kind == "input" else len(step.arguments)
        if inputs < 0 or place >= limit:
            raise ArtifactError(
                f"plan: the step of '{step.node}' has {len(step.arguments)} arguments, too few "
                f"for its kernel, which wants {argument.kind} {argument.index}"
            )
        return self.place(step.arguments[place])

    def place(self, number: int) -> Place:
        """The place of a buffer; one object for all that name it."""
        found = self.places.get(number)
        if found is None:
            found = self.places[number] = _place(self.plan.buffers[number])
        return found


def _place(buffer: Buffer) -> Place:
    if buffer.kind == "weight":
        return Place("weight", key=buffer.key, bytes=buffer.bytes)
    index = buffer.offset if buffer.kind == "arena" else buffer.index
    return Place(buffer.kind, index, bytes=buffer.bytes)


def _outputs(code: CodeObject) -> int:
    """How many outputs the kernel has: every output is written by a launch."""
    written = [a.index for la in code.launches for a in la.arguments if a.kind == "output"]
    return max(written, default=-1) + 1
