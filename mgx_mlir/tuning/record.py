"""A tuned problem: its key, the schedule that won, and all that were tried."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from mgx_mlir.artifact.schedule import Schedule

Result = Literal["timed", "same", "slower", "crashed", "hung", "refused", "wrong"]
# `slower` candidates are no better than another one: their time is a lower bound. `same` ones are
# the code of another one; `refused` ones cannot be compiled, or spill registers.
RESULTS: tuple[Result, ...] = ("timed", "same", "slower", "crashed", "hung", "refused", "wrong")
MAX_TEXT = 2000
_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, order=True)
class Key:
    """A problem on a chip by a compiler.

    problem: `Problem.key`. chip: the target's identity. units: its compute units. generator: the
    hash of the code generators. compiler: LLVM's version. modelled: whether times are clocks of the
    emulated device's model, and not measured.
    """

    problem: str
    chip: str
    units: int
    generator: str
    compiler: str
    modelled: bool


@dataclass(frozen=True)
class Outcome:
    """A schedule that was tried.

    time: nanoseconds, or modelled clocks, the median; 0 where there is none. spread: between the
    quartiles. estimate: the cost model's clocks, 0 for none.
    """

    schedule: Schedule
    result: Result
    time: float = 0.0
    spread: float = 0.0
    estimate: float = 0.0

    def to_json(self) -> list[Any]:
        return [*self.schedule.to_json(), self.result, self.time, self.spread, self.estimate]

    @classmethod
    def from_json(cls, value: Any) -> Outcome:
        """Reads `to_json`'s form; ValueError for anything else."""
        if not isinstance(value, list) or len(value) != 6 or value[2] not in RESULTS:
            raise ValueError(f"a candidate is a schedule, a result and times, got {value!r:.80}")
        time, spread, estimate = (_number(x) for x in value[3:])
        return cls(Schedule.from_json(value[:2]), value[2], time, spread, estimate)


@dataclass(frozen=True)
class Record:
    """The result of tuning a problem.

    schedule: the winner; None where the untuned choice stays. baseline, best, spread: the times of
    the untuned choice and of the winner, and the noise between them, as `Outcome.time`. exhaustive:
    whether every legal schedule was tried. date: as ISO 8601 has it, in UTC.
    """

    key: Key
    family: str
    description: str
    schedule: Schedule | None
    baseline: float
    best: float
    spread: float
    exhaustive: bool
    device: str
    driver: str
    date: str
    candidates: tuple[Outcome, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """One object, for lines of JSON."""
        record = {name: getattr(self, name) for name in _PLAIN}
        record |= {field.name: getattr(self.key, field.name) for field in fields(Key)}
        record["schedule"] = None if self.schedule is None else self.schedule.to_json()
        return record | {"candidates": [one.to_json() for one in self.candidates]}

    @classmethod
    def from_json(cls, value: Any) -> Record:
        """Reads `to_json`'s form; ValueError for anything else."""
        if not isinstance(value, Mapping):
            raise ValueError(f"a tuned problem is an object, got {value!r:.80}")
        names = [field.name for field in fields(Key)]
        key = Key(**{name: _typed(value, name, _KINDS[name]) for name in names})
        if not _HASH.fullmatch(key.problem):
            raise ValueError(f"a problem is a SHA-256 in hexadecimal, got {key.problem!r:.80}")
        schedule = value.get("schedule")
        candidates = value.get("candidates")
        if not isinstance(candidates, list):
            raise ValueError("a tuned problem has a list of candidates")
        return cls(
            key,
            schedule=None if schedule is None else Schedule.from_json(schedule),
            candidates=tuple(map(Outcome.from_json, candidates)),
            **{name: _typed(value, name, _KINDS[name]) for name in _PLAIN},
        )


_KINDS: Mapping[str, type] = {
    "problem": str, "chip": str, "units": int, "generator": str, "compiler": str, "modelled": bool,
    "family": str, "description": str, "baseline": float, "best": float, "spread": float,
    "exhaustive": bool, "device": str, "driver": str, "date": str,
}  # fmt: skip
_PLAIN = tuple(name for name in _KINDS if name not in {field.name for field in fields(Key)})


def _typed(value: Mapping[str, Any], name: str, kind: type) -> Any:
    found = value.get(name)
    if kind is float:
        return _number(found)
    if type(found) is not kind or (isinstance(found, str) and len(found) > MAX_TEXT):
        raise ValueError(f"'{name}' of a tuned problem is a {kind.__name__}, got {found!r:.80}")
    return found


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"a time is a number from 0, got {value!r:.80}")
    return float(value)
