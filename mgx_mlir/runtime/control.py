"""Branches and loops of a program, decided by the host, whatever the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mgx_mlir.artifact.plan import CONDITION_BYTES, ENDLESS, TRIPS_BYTES
from mgx_mlir.errors import ArtifactError, ModelError
from mgx_mlir.runtime.binding import Choice, Part, Place, Repeat, Section


class Machine(Protocol):
    """The work of an executor between decisions. `run_parts` calls it in the program's order."""

    def section(self, section: Section) -> None:
        """Does the section's launches and copies, or gives them to the device."""

    def number(self, place: Place, size: int) -> int:
        """The integer of `size` bytes, signed, that is there after all work so far."""

    def row(self, loop: Repeat, number: int) -> None:
        """Points the copies that fill the loop's rows to the row of that number."""


def run_parts(parts: Sequence[Part], machine: Machine) -> None:
    """Runs the parts in order. Raises what the machine raises."""
    for part in parts:
        if isinstance(part, Section):
            machine.section(part)
        elif isinstance(part, Choice):
            chosen = machine.number(part.condition, CONDITION_BYTES)
            run_parts(part.then if chosen else part.otherwise, machine)
        else:
            _repeat(part, machine)


def _repeat(loop: Repeat, machine: Machine) -> None:
    trips = machine.number(loop.trips, TRIPS_BYTES)
    go = trips > 0 and bool(machine.number(loop.condition, CONDITION_BYTES))
    # A constant is read once: on a GPU each decision waits for the device.
    settled = loop.again.kind == "weight"
    again = not settled or bool(machine.number(loop.again, CONDITION_BYTES))
    trip = 0
    while go:
        if loop.rows:
            if trip == loop.limit:
                raise _wrong_trips(loop, "more")
            machine.row(loop, trip)
        if trip == loop.most and trips >= ENDLESS and loop.most:
            raise ModelError(
                f"node '{loop.node}' is a loop that states no number of trips, and has not ended "
                f"after {trip}; if it should end, raise that (max_loop_iterations=)"
            )
        run_parts(loop.body, machine)
        trip += 1
        if not settled and trip < trips:
            again = bool(machine.number(loop.again, CONDITION_BYTES))
        go = again and trip < trips
    if loop.rows and trip != loop.limit:
        raise _wrong_trips(loop, str(trip))


def _wrong_trips(loop: Repeat, trips: str) -> ArtifactError:
    return ArtifactError(
        f"the loop of '{loop.node}' makes {trips} trips; its results are for {loop.limit}"
    )
