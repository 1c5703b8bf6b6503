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
from functools import cache
from itertools import accumulate, takewhile
from typing import TypeVar

from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.sizes.arithmetic import Number, bounds, is_more

S = TypeVar("S")
# A schedule that takes so much longer than the best one, by the estimates, saves a function.
CLOSE = 1.1
# One for larger sizes counts as so much slower: it has few work-groups, whose estimates are rough.
SMALLER = 1.04


@dataclass(frozen=True)
class Regime:
    """A range of sizes: `share` is 1 in the runs of it, and else 0.

    usual: the size that its schedule is chosen for.
    """

    share: Number
    usual: int


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
        yield Regime(share, int(max(low, min(ranges[number][1], high))))


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
    beyond: bool = False,
) -> list[tuple[S, Regime]] | Refusal:
    """The schedules of all regimes, each with the regimes that it is for as one.

    choose: gives the schedule for a size. clocks: the estimate of a schedule for a size, infinite
    where it does not serve; with it, neighbours share a schedule that is `CLOSE` to the best of
    each. most: schedules at the most, for which those that are less close are shared too. beyond:
    schedules may serve sizes beyond their own, where the estimates are to be trusted.
    """
    found: list[tuple[S, Regime]] = []
    for regime in regimes:
        schedule = choose(regime.usual)
        if isinstance(schedule, Refusal):
            return schedule
        found.append((schedule, regime))
    if clocks is not None:
        found = _covered(found, clocks, most, beyond)
    joined: dict[S, Regime] = {}
    for schedule, regime in found:
        before = joined.get(schedule)
        share = regime.share + (before.share if before else 0)
        joined[schedule] = replace(regime, share=share)
    return list(joined.items())


def _covered(
    found: list[tuple[S, Regime]], clocks: Callable[[S, int], float], most: float, beyond: bool
) -> list[tuple[S, Regime]]:
    """The regimes with `most` schedules, each close to the best of the neighbours it serves."""

    @cache
    def ratio(own: S, number: int) -> float:
        best, regime = found[number]
        least = estimate(best, regime.usual)
        other = estimate(own, regime.usual) / least if least < math.inf else math.inf
        return 1 if own == best else other * (SMALLER if number < first[own] else 1)

    estimate, close, numbers = cache(clocks), CLOSE, range(len(found))
    last = {found[number][0]: number for number in numbers}
    first = {found[number][0]: number for number in reversed(numbers)}
    while True:
        # By number of regimes: the fewest functions, the least sum of ratios, all schedules.
        ways: dict[int, tuple[int, float, list[S]]] = {0: (0, 0, [])}
        for at in numbers:
            functions, total, before = ways[at]
            for own in reversed(last):
                end = len(found) if beyond or close > CLOSE else last[own] + 1
                near = takewhile(close.__ge__, (ratio(own, n) for n in range(at, end)))
                for served, more in enumerate(accumulate(near, initial=total)):
                    way = functions + 1, round(more, 3), [*before, *[own] * served]
                    ways[at + served] = min(ways.get(at + served, way), way, key=lambda x: x[:2])
        functions, _, taken = ways[len(found)]
        if functions <= most or close > 1e3:
            return [(own, regime) for own, (_, regime) in zip(taken, found, strict=True)]
        close *= 1.05
