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
    most: int = 1 << 10,
) -> list[tuple[S, Regime]] | Refusal:
    """The schedules of all regimes, each with the regimes that it is for as one.

    choose: gives the schedule for a size. clocks: the estimate of a schedule for a size; with it,
    neighbouring regimes share a schedule that is `CLOSE` for each, or less so where more than
    `most` schedules were left.
    """
    found: list[tuple[S, Regime]] = []
    for regime in regimes:
        schedule = choose(regime.usual)
        if isinstance(schedule, Refusal):
            return schedule
        found.append((schedule, regime))
    if clocks is not None:
        found = _joined(found, clocks, most)
    joined: dict[S, Regime] = {}
    for schedule, regime in found:
        before = joined.get(schedule)
        share = regime.share + (before.share if before else 0)
        joined[schedule] = replace(regime, share=share)
    return list(joined.items())


def _joined(
    found: list[tuple[S, Regime]], clocks: Callable[[S, int], float], most: int
) -> list[tuple[S, Regime]]:
    """The regimes with as few schedules as are close, and with `most` of any."""
    known: dict[tuple[S, int], float] = {}

    def ratio(schedule: S, number: int) -> float:
        """How much longer a schedule takes than the best one of a regime."""
        own, usual = found[number][0], found[number][1].usual
        for one in (own, schedule):
            if (one, usual) not in known:
                known[one, usual] = clocks(one, usual)
        best = known[own, usual]
        return known[schedule, usual] / best if best < math.inf else math.inf

    close = CLOSE
    joined = _covered(found, ratio, close)
    while len({schedule for schedule, _ in joined}) > most:
        close *= 1.05
        joined = _covered(found, ratio, close)
    return joined


def _covered(
    found: list[tuple[S, Regime]], ratio: Callable[[S, int], float], close: float
) -> list[tuple[S, Regime]]:
    """The regimes, each neighbours that a schedule serves with it: so many times the best clocks
    at most."""
    joined: list[tuple[S, Regime]] = []
    while len(joined) < len(found):
        rest = range(len(joined), len(found))
        served = {
            schedule: list(takewhile(lambda x: x <= close, (ratio(schedule, n) for n in rest)))
            for schedule, _ in reversed(found)
        }
        best = min(served, key=lambda one: (-len(served[one]), math.fsum(served[one])))
        count = len(served[best])
        chosen = best if count else found[rest.start][0]
        joined += [(chosen, regime) for _, regime in found[rest.start :][: max(count, 1)]]
    return joined
