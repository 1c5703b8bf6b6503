"""A plan as libmgx binds it: launches and copies, the place of each pointer, and their order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from ctypes import byref
from dataclasses import dataclass

from mgx_mlir.artifact import library
from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.library import call, made
from mgx_mlir.artifact.plan import Plan
from mgx_mlir.runtime.hip.device import Machine
from mgx_mlir.runtime.loaded import assembled, tensors, weight_keys

# The type of weights whose elements nobody looks at: uint8.
_BYTES = 2


@dataclass(frozen=True)
class Place:
    """Where a pointer points: `kind` is the memory, `index` an offset or a number."""

    kind: str
    index: int
    bytes: int


@dataclass(frozen=True)
class BoundStep:
    """A launch of code object `kernel` (-1: a copy) for step `step` of the plan."""

    step: int
    kernel: int
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Schedule:
    """The steps that each step of a section waits for, and the stream of each."""

    before: tuple[tuple[int, ...], ...]
    streams: tuple[int, ...]


@dataclass(frozen=True)
class BoundPlan:
    """The steps, how many parts the control flow has, and the sections with several streams."""

    steps: tuple[BoundStep, ...]
    parts: int
    schedules: tuple[Schedule, ...]


def bound_plan(plan: Plan, code: Sequence[CodeObject], machine: Machine) -> BoundPlan:
    """The plan, for the sizes that it states, on a GPU of these figures."""
    sizes = {b.key: b.bytes for p in plan.plans for b in p.buffers if b.kind == "weight"}
    weights = [
        library.Weight(key.encode(), None, sizes[key], _BYTES, 0, None)
        for key in sorted(weight_keys(plan))
    ]
    artifact = assembled(plan, code, weights)
    texts: list[bytes] = []
    take = library.TextFunction(lambda _, text: texts.append(text))
    given = tensors(plan.inputs)
    rates = made(
        library.Rates, bytes_per_second=machine.bytes_per_second,
        flops_per_second=machine.flops_per_second, compute_units=machine.compute_units,
    )  # fmt: skip
    call("mgx_artifact_bind", artifact.value, given, len(given), byref(rates), take, None)
    found = json.loads(texts[0])
    return BoundPlan(
        tuple(
            BoundStep(step[0], step[1], tuple(Place(*place) for place in step[5]))
            for step in found["steps"]
        ),
        len(found["parts"]),
        tuple(
            Schedule(tuple(map(tuple, before)), tuple(streams))
            for _, before, streams in found["schedules"]
        ),
    )
