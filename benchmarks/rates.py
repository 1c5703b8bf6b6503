"""The rates of the estimates of schedules, searched by the times of a database of tuned problems.

A rate is a constant of a family's cost model. Each in turn gets other values, and keeps the one by
which the best estimates lose least: no time is fitted, but the choice. A chip's report has the
ranking before and after, and the values, for whoever brings them into the cost model.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from mgx_mlir.artifact.schedule import Schedule
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.families.attention import cost as attention
from mgx_mlir.codegen.gpu.families.contraction import cost as contraction
from mgx_mlir.codegen.gpu.families.pointwise import match as pointwise
from mgx_mlir.codegen.gpu.families.rows import cost as rows
from mgx_mlir.tuning.record import Record
from mgx_mlir.tuning.work import examine

# A problem's kernel, and its record.
Known = tuple[bytes, Record]
FACTORS = (0.7, 1.4)
NEAR = 1.01  # times that count as the best
MODELS: Mapping[str, tuple[ModuleType, tuple[str, ...]]] = {
    "attention": (attention, ()),
    "contraction": (
        contraction,
        ("NARROW", "LAUNCH_CLOCKS", "GLOBAL_LATENCY", "LDS_LATENCY", "START_LATENCY"),
    ),
    "pointwise": (pointwise, ()),
    "rows": (rows, ("START", "GLOBAL_LATENCY", "BARRIER", "LAUNCH", "GLOBAL_BYTES_A_CLOCK")),
}


@dataclass(frozen=True)
class Ranking:
    """The regret of the best estimates, one a problem, and how many problems have the best
    schedule among one, and three, of them."""

    regrets: tuple[float, ...]
    top1: int
    top3: int

    @property
    def loss(self) -> float:
        """The figure that a fit makes small."""
        return statistics.mean(self.regrets) + max(self.regrets) / 10

    def __str__(self) -> str:
        count = len(self.regrets)
        return (
            f"regret {statistics.mean(self.regrets):5.1%}, worst {max(self.regrets):5.1%}, "
            f"top 1 {self.top1 / count:4.0%}, top 3 {self.top3 / count:4.0%}"
        )


def fit(target: Target, known: Sequence[Known]) -> None:
    """Prints the rankings and the values for the families of the problems."""
    for family, (module, names) in sorted(MODELS.items()):
        some = [one for one in known if one[1].family == family]
        if not some or not names:
            continue
        before = ranking(target, some)
        values, after = searched(target, some, module, names)
        print(
            f"{target.name} {family}: {len(some)} problems\n  before: {before}\n  after:  {after}"
        )
        for name, value in values.items():
            print(f"    {name} {getattr(module, name):g} -> {value:g}")


def searched(
    target: Target, known: Sequence[Known], module: ModuleType, names: Sequence[str]
) -> tuple[dict[str, float], Ranking]:
    """The values that changed, and their ranking: each rate in turn, as far as it gains."""
    values: dict[str, float] = {}
    best = ranking(target, known)
    for name in names:
        for factor in FACTORS:
            while True:
                trial = values | {name: values.get(name, getattr(module, name)) * factor}
                with changed(module, trial):
                    found = ranking(target, known)
                if found.loss > best.loss * 0.999:
                    break
                best, values = found, trial
    return values, best


@contextmanager
def changed(module: ModuleType, values: Mapping[str, float]) -> Iterator[None]:
    """The module's constants have these values inside of the context."""
    before = {name: getattr(module, name) for name in values}
    try:
        for name, value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def ranking(target: Target, known: Sequence[Known]) -> Ranking:
    """The ranking of the estimates as they are now, among the schedules that have times."""
    regrets, top1, top3 = [], 0, 0
    for bytecode, record in known:
        times = _times(record)
        _, space = examine(bytecode, target)
        assert space is not None
        order = [times[one.schedule] for one in space.options if one.schedule in times]
        if not order:
            continue
        least = min(order)
        regrets.append(order[0] / least - 1)
        top1 += order[0] <= least * NEAR
        top3 += min(order[:3]) <= least * NEAR
    return Ranking(tuple(regrets), top1, top3)


def _times(record: Record) -> dict[Schedule, float]:
    """Times by schedule. Bounds are times too: they are no less than the best."""
    return {one.schedule: one.time for one in record.candidates if one.time}
