"""Which launches have to wait for which, and whether it pays to run some side by side.

Two steps of a section are ordered where both touch the same bytes and one of them writes.
Each stream has scratch memory of its own: only launches of the same kernel read what a launch
leaves there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mgx_mlir.runtime.binding import BoundCopy, BoundLaunch

Bound = BoundLaunch | BoundCopy

# Seconds from the end of a launch to the start of the next one: in the same stream, and by an
# event in another stream. Orders of magnitude, of the HIP documentation's advice on graphs and
# events; only large gains are taken.
LAUNCH = 3e-6
EVENT = 6e-6
STREAMS = 4
# Several streams have to take less than this share of the time of one stream, by the estimate.
GAIN = 0.85
# Threads that keep a compute unit busy.
_BUSY_THREADS = 1024


@dataclass(frozen=True)
class Machine:
    """The figures of a device for the estimate: bytes and operations a second, and its units."""

    bytes_per_second: float
    flops_per_second: float
    compute_units: int

    def seconds(self, step: Bound) -> tuple[float, float]:
        """How long a step takes alone, and the share of the device that it keeps busy."""
        if isinstance(step, BoundCopy):
            size, flops, threads = 2 * step.bytes, 0, step.bytes // 16
        else:
            size = sum(place.bytes for place in set(step.places) if place.kind != "scratch")
            flops, threads = step.flops, math.prod(step.launch.grid) * math.prod(step.launch.block)
        share = min(1.0, max(1, threads / _BUSY_THREADS) / self.compute_units)
        work = max(size / self.bytes_per_second, flops / self.flops_per_second)
        return work / share, share


@dataclass(frozen=True)
class StreamSchedule:
    """Steps on several streams. Numbers count from the section's first step.

    `before` holds for each step the steps that it waits for, those that others of them wait for
    left out; `streams` the stream of each step, where 0 is the run's own.
    """

    before: tuple[tuple[int, ...], ...]
    streams: tuple[int, ...]


def accesses(step: Bound) -> Iterator[tuple[tuple[str, int], int, int, bool]]:
    """The accesses of a step: the memory, first byte, end, and whether it writes."""
    written = (False, True) if isinstance(step, BoundCopy) else step.written
    for place, writes in zip(step.places, written, strict=True):
        if place.kind in ("weight", "input") or not place.bytes:
            continue  # nobody writes there, or it is empty
        if place.kind == "arena":
            yield ("arena", 0), place.index, place.index + place.bytes, writes
        elif place.kind == "scratch":
            yield ("scratch", step.step), place.index, place.index + place.bytes, writes
        else:
            yield (place.kind, place.index), 0, place.bytes, writes


def predecessors(steps: Sequence[Bound]) -> list[set[int]]:
    """For each step the earlier steps that it must not overtake, some of them redundant."""
    found: list[set[int]] = []
    # The accesses so far by memory: first byte, end, step, whether it wrote.
    known: dict[tuple[str, int], list[tuple[int, int, int, bool]]] = {}
    for number, step in enumerate(steps):
        before: set[int] = set()
        touched = list(accesses(step))
        for memory, start, end, writes in touched:
            for first, last, other, wrote in known.get(memory, ()):
                if first < end and start < last and (writes or wrote):
                    before.add(other)
        for memory, start, end, writes in touched:
            entries = known.setdefault(memory, [])
            if writes:
                # A later step is ordered after this one, and so after all that it overwrites whole.
                entries[:] = [e for e in entries if not (start <= e[0] and e[1] <= end)]
            entries.append((start, end, number, writes))
        before.discard(number)
        found.append(before)
    return found


def reduced(before: Sequence[set[int]]) -> list[tuple[int, ...]]:
    """The same order with the fewest waits: its transitive reduction."""
    # All steps that each step comes after, as bits.
    after: list[int] = []
    result = []
    for own in before:
        covered, kept = 0, []
        for other in sorted(own, reverse=True):
            if not covered >> other & 1:
                kept.append(other)
                covered |= after[other] | 1 << other
        after.append(covered)
        result.append(tuple(reversed(kept)))
    return result


def schedule(steps: Sequence[Bound], machine: Machine) -> StreamSchedule | None:
    """The steps on several streams; None where that does not pay by the estimate."""
    before = reduced(predecessors(steps))
    if all(own == (number - 1,) for number, own in enumerate(before) if number):
        return None
    costs = [machine.seconds(step) for step in steps]
    alone = sum(seconds + LAUNCH for seconds, _ in costs)
    placed = _Placed()
    for step, own, (seconds, _) in zip(steps, before, costs, strict=True):
        placed.add(step, own, seconds + LAUNCH)
    # No order is faster than the whole device.
    least = sum(seconds * share for seconds, share in costs)
    together = max(max(placed.ends), least) + (EVENT if max(placed.streams) else 0)
    if max(placed.streams) == 0 or together > GAIN * alone:
        return None
    before = reduced(_scratch_in_turn(steps, placed.streams, before))
    return StreamSchedule(tuple(before), tuple(placed.streams))


def _scratch_in_turn(
    steps: Sequence[Bound], streams: Sequence[int], before: Sequence[Sequence[int]]
) -> list[set[int]]:
    """The order, with the launches that share the scratch memory of a stream in sequence."""
    last: dict[int, int] = {}
    result = [set(own) for own in before]
    for number, (step, stream) in enumerate(zip(steps, streams, strict=True)):
        if any(place.kind == "scratch" for place in step.places):
            result[number] |= {last[stream]} if stream in last else set()
            last[stream] = number
    return result


@dataclass
class _Placed:
    """Assigns steps to streams, in order, by the earliest start; one kernel has one stream."""

    kernel: int = -1
    streams: list[int] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    # The time at which each stream is free. The others begin with an event of the first.
    free: list[float] = field(default_factory=lambda: [0.0, *[EVENT] * (STREAMS - 1)])

    def add(self, step: Bound, before: Sequence[int], seconds: float) -> None:
        def start(stream: int) -> float:
            waits = (self.ends[b] + EVENT * (self.streams[b] != stream) for b in before)
            return max(self.free[stream], *waits, 0.0)

        last = self.streams[before[-1]] if before else 0
        among = self.streams[-1:] if step.step == self.kernel else range(STREAMS)
        stream = min(among, key=lambda s: (start(s), s != last, s))
        self.kernel = step.step
        self.ends.append(start(stream) + seconds)
        self.free[stream] = self.ends[-1]
        self.streams.append(stream)
