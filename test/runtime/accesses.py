"""The memory that a bound plan's steps touch, for tests of their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mgx_mlir.artifact.code_object import CodeObject, Launch
from test.runtime.bound_plans import BoundPlan, BoundStep

_WRITTEN = ("output", "scratch", "counters")
Access = tuple[tuple[str, int], int, int, bool]


def accesses(bound: BoundPlan, code: Sequence[CodeObject]) -> list[list[Access]]:
    """For each step its accesses: the memory, first byte, end, and whether it writes."""
    found = []
    left: dict[int, list[Launch]] = {}
    for step in bound.steps:
        written = (False, True)
        if step.kernel >= 0:
            # The launches of a kernel follow each other.
            launches = left.get(step.kernel) or list(code[step.kernel].launches)
            left[step.kernel] = launches[1:]
            written = tuple(a.kind in _WRITTEN for a in launches[0].arguments)
        found.append(list(_of(step, written)))
    return found


def _of(step: BoundStep, written: Sequence[bool]) -> Iterator[Access]:
    for place, writes in zip(step.places, written, strict=True):
        if place.kind in ("weight", "input", "size") or not place.bytes:
            continue  # nobody writes there, or it is empty
        if place.kind == "output":
            yield (place.kind, place.index), 0, place.bytes, writes
        else:
            memory = (place.kind, step.step if place.kind == "scratch" else 0)
            yield memory, place.index, place.index + place.bytes, writes


def share(one: Sequence[Access], other: Sequence[Access]) -> bool:
    """Whether both touch the same bytes, and one of them writes."""
    return any(
        m == n and start < last and first < end and (w or v)
        for m, start, end, w in one
        for n, first, last, v in other
    )
