"""Regimes: the ranges of a run's sizes for which a kernel has a schedule each.

A regime is a condition on the sizes of a run, and a size that is usual under it. A family names
its regimes, with `counted` where a number decides, and gives a function that chooses a schedule for
a usual size as it does for a given one. `scheduled` joins regimes whose schedules are equal, or
about as good by the estimate. The family emits a function for each that is left, and multiplies the
work-groups of its launch by `share`: a run launches the functions whose share is 1, and no
work-group of the others.

    found = scheduled(counted(rows, ((128, 64), (math.inf, 512))), choose)
    for schedule, regime in found:
        launch(function(schedule), grid=regime.share * ceil_div(rows, schedule.rows))

A number that is given has one regime, whose share is 1. Conditions of another kind are regimes too:
`Regime(share, usual)` of any shares of which one is 1 in each run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TypeVar

from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import Number, bounds, is_more

S = TypeVar("S")
# A schedule that takes so much longer than the best one, by the estimates, saves a function.
CLOSE = 1.1


@dataclass(frozen=True)
class Regime:
    """A range of sizes: `share` is 1 in the runs of it, and else 0.

    usual: the size that its schedule is chosen for. most: the greatest one; infinite without one.
    """

    share: Number
    usual: int
    most: float = math.inf


def counted(
    count: Number, ranges: Sequence[tuple[float, int]], most: float = math.inf
) -> Iterator[Regime]:
    """The regimes of a number from 1: up to each of some numbers, with the usual one of these.

    A usual number is at most the greatest that `count` may be, `most` where that is known; ranges
    that it never has are left out. The last range of `ranges` is taken to have no end.
    """
    low, high = bounds(count)
    high = min(high, most)
    for share, number in in_ranges(count, [end for end, _ in ranges], most):
        end, usual = ranges[number]
        yield Regime(share, int(max(low, min(usual, high))), end)


def in_ranges(
    count: Number, ends: Sequence[float], most: float = math.inf
) -> Iterator[tuple[Number, int]]:
    """For each range of a number that it may be in, 1 where it is and else 0, and which it is.

    ends: the greatest number of each range; the last is taken to have no end. most: as above.
    """
    low, high = bounds(count)
    high = min(high, most)
    rest: Number = 1
    for number, end in enumerate(ends):
        last = number == len(ends) - 1 or end >= high
        more: Number = 0 if last else is_more(count, int(end))
        if rest - more != 0 and not (end < low and not last):
            yield rest - more, number
        if last:
            return
        rest = more


def scheduled(
    regimes: Iterable[Regime],
    choose: Callable[[int], S | Refusal],
    clocks: Callable[[S, int], float] | None = None,
    most: float = math.inf,
) -> list[tuple[S, Regime]] | Refusal:
    """The schedules of all regimes, each with the regimes that it is for as one.

    choose: gives the schedule for a size. clocks: the estimate of a schedule for a size; with it, a
    regime takes the schedule of the one after it where that is `CLOSE`. most: schedules at
    the most, for which such ones serve neighbours that come near the best of each.
    """
    found: list[tuple[S, Regime]] = []
    for regime in regimes:
        schedule = choose(regime.usual)
        if isinstance(schedule, Refusal):
            return schedule
        found.append((schedule, regime))
    if clocks is not None:
        close = _joined(found, clocks)
        fits = len({schedule for schedule, _ in close}) <= most
        found = close if fits else _covered(found, clocks, int(most))
    joined: dict[S, Regime] = {}
    for schedule, regime in found:
        before = joined.get(schedule)
        share = regime.share + (before.share if before else 0)
        joined[schedule] = replace(regime, share=share)
    return list(joined.items())


def _joined(
    found: list[tuple[S, Regime]], clocks: Callable[[S, int], float]
) -> list[tuple[S, Regime]]:
    """The regimes, with the schedules of those after them where these are close."""
    chosen = [schedule for schedule, _ in found]
    for number in reversed(range(len(found))):
        usual = found[number][1].usual
        best = clocks(chosen[number], usual)
        close = CLOSE * best if best < math.inf else -1
        if number + 1 < len(found) and clocks(chosen[number + 1], usual) <= close:
            chosen[number] = chosen[number + 1]
    return [(schedule, regime) for schedule, (_, regime) in zip(chosen, found, strict=True)]


def _covered(
    found: list[tuple[S, Regime]], clocks: Callable[[S, int], float], most: int
) -> list[tuple[S, Regime]]:
    """The regimes with `most` schedules, each for neighbours: those that are close to the best."""
    known = {(own, r.usual): clocks(own, r.usual) for own, _ in found for _, r in found}
    ratios = {
        own: [known[own, r.usual] / known[best, r.usual] for best, r in found] for own, _ in found
    }
    close, joined = CLOSE, found
    while len({schedule for schedule, _ in joined}) > most:
        joined = []
        while len(joined) < len(found):
            first = len(joined)
            served = {
                one: list(takewhile(close.__ge__, own[first:])) for one, own in ratios.items()
            }
            best = min(served, key=lambda one: (-len(served[one]), sum(served[one])))
            joined += [(best, regime) for _, regime in found[first : first + len(served[best])]]
        close *= 1.05
    return joined
