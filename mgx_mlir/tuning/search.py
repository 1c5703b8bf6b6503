"""The search among the schedules of one problem."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.schedule import Schedule
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.space import Option
from mgx_mlir.errors import MgxError, UsageError
from mgx_mlir.finalizer.worker import WorkerError, WorkerPool
from mgx_mlir.settings import Settings
from mgx_mlir.tuning.measure import Measured, Timing, Where, least_clocks, measure, where
from mgx_mlir.tuning.problem import Problem
from mgx_mlir.tuning.record import Key, Outcome, Record, Result
from mgx_mlir.tuning.work import Work, candidate

# Candidates of a search that is not exhaustive; each variant gets at least a quarter of them.
TRIED = 24
# Candidates that are finalized while as many before them are timed.
AHEAD = 32
# The part of the default's time that a winner has to save at least, beside the noise.
GAIN = 0.01
# Seconds for the finalizing of a candidate, and for its times.
COMPILE_LIMIT = 120.0
DEVICE_LIMIT = 300.0


@dataclass(frozen=True)
class Effort:
    """How much is tried: the best `tried` estimates of a problem, or all legal schedules.

    budget: seconds for all problems together; None for no limit.
    """

    exhaustive: bool = False
    budget: float | None = None
    timing: Timing = field(default_factory=Timing)
    tried: int = TRIED

    def __post_init__(self) -> None:
        """Raises UsageError for a budget that is no number of seconds, and for no candidates."""
        if self.budget is not None and not (math.isfinite(self.budget) and self.budget >= 0):
            raise UsageError(f"budget is {self.budget}; it is a number of seconds from 0, or None")
        if self.tried < 1:
            raise UsageError(f"tried is {self.tried}; it is at least 1")


@dataclass(frozen=True)
class Task:
    """A problem to search. key: of its record. deadline: in seconds of time.time, or None.

    seeds: schedules to try first. attempt: how often it was begun before.
    """

    work: Work
    target: Target
    key: Key
    device: Where
    effort: Effort
    deadline: float | None
    date: str
    seeds: tuple[Schedule, ...] = ()
    attempt: int = 0

    def again(self) -> Task:
        """The same, begun once more."""
        return replace(self, attempt=self.attempt + 1)


@dataclass(frozen=True)
class Failure:
    """The reason why a problem could not be tuned."""

    reason: str


class Machine(Protocol):
    """A place that searches problems: this machine, or a farm."""

    def where(self) -> Where:
        """The device. Raises TargetError, DeviceError or WorkerError."""

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Record | Failure | None]]:
        """Each task with its record; None where the deadline was over."""

    def close(self) -> None:
        """Ends its processes."""


class Bench:
    """A device in a process of its own, which is started again after a crash or a hang."""

    def __init__(self, target: Target, settings: Settings) -> None:
        self._target, self._settings = target, settings
        # That of the device, and one that knows a lower bound of modelled times.
        self._process, self._bounding = _Process(), _Process()

    def where(self) -> Where:
        """The device. Raises TargetError, DeviceError or WorkerError."""
        found: Where = self._process.call(where, self._target, self._settings)
        return found

    def measure(
        self, problem: Problem, default: CodeObject, code: CodeObject, timing: Timing
    ) -> Measured:
        """As measure.measure. Raises MgxError or WorkerError."""
        found: Measured = self._process.call(
            measure, problem, default, code, self._target, timing, self._settings
        )
        return found

    def least_clocks(self, problem: Problem, default: CodeObject, code: CodeObject) -> float:
        """As measure.least_clocks; 0 where that fails."""
        try:
            found: float = self._bounding.call(
                least_clocks, problem, default, code, self._target, self._settings
            )
        except (MgxError, WorkerError):
            return 0.0
        return found

    def close(self) -> None:
        """Ends the processes."""
        self._process.close()
        self._bounding.close()


class _Process:
    """A process, started when it is needed, and anew after a call failed."""

    def __init__(self) -> None:
        self._pool: WorkerPool | None = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._pool is None:
            self._pool = WorkerPool(1, DEVICE_LIMIT)
        try:
            return self._pool.submit(function, *arguments).result()
        except (MgxError, WorkerError):
            self.close()  # a device that a kernel failed on is of no more use to its process
            raise

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


class Here:
    """This machine: a device's process beside those of `pool`, which finalize."""

    def __init__(self, target: Target, settings: Settings, pool: Executor) -> None:
        self._bench, self._pool = Bench(target, settings), pool

    def where(self) -> Where:
        return self._bench.where()

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Record | Failure | None]]:
        """One after another, each taken when the one before has ended."""
        for task in tasks:
            yield task, search(task, self._bench, self._pool, candidate)

    def close(self) -> None:
        self._bench.close()


def search(
    task: Task, bench: Bench, pool: Executor, finalize: Callable[..., CodeObject]
) -> Record | Failure | None:
    """Searches a problem; `pool` calls `finalize`, as work.candidate, for each candidate."""
    try:
        return _Search(task, bench, pool, finalize).run()
    except (MgxError, WorkerError) as error:
        return Failure(str(error))


@dataclass
class _Search:
    """One problem's search."""

    task: Task
    bench: Bench
    pool: Executor
    finalize: Callable[..., CodeObject]
    _default: CodeObject | None = None
    _baseline: tuple[float, float] = (0.0, 0.0)
    _outcomes: list[Outcome] = field(default_factory=list)

    def run(self) -> Record | None:
        """The result; None where not even the untuned choice could be timed in time.

        Raises MgxError or WorkerError where the untuned choice fails.
        """
        task = self.task
        self._default = self._finalized(None).result()
        whole = self._baseline_of(self._default)
        if whole:
            whole = self._try_all()
        if not self._outcomes:
            return None
        best = min(filter(self._wins, self._outcomes), key=lambda one: one.time, default=None)
        default = Outcome(Schedule(), "timed", *self._baseline, task.work.space.options[0].clocks)
        return Record(
            task.key,
            task.work.space.family,
            task.work.problem.describe()[:500],
            None if best is None else best.schedule,
            default.time,
            default.time if best is None else best.time,
            default.spread if best is None else max(default.spread, best.spread),
            task.effort.exhaustive and whole,
            task.device.device,
            task.device.driver,
            task.date,
            (default, *self._outcomes),
        )

    def _wins(self, one: Outcome) -> bool:
        time_, spread = self._baseline
        return one.result == "timed" and time_ - one.time > max(GAIN * time_, spread, one.spread)

    def _baseline_of(self, code: CodeObject) -> bool:
        if self._late():
            return False
        times = self._measured(code, code).default
        self._baseline = times.median, times.spread
        return True

    def _try_all(self) -> bool:
        """Tries the candidates; whether none was left out for lack of time."""
        waiting = iter(chosen(self.task.work.space.options, self.task.effort, self.task.seeds))
        # The times of codes, as far as they are known.
        seen = {self._default.sha256 if self._default else "": self._baseline[0]}
        now, then = self._submitted(waiting), self._submitted(waiting)
        try:
            while now:
                if not self._try_some(now, seen):
                    return False
                now, then = then, self._submitted(waiting)
        finally:
            for _, future in (*now, *then):
                future.cancel()
        return True

    def _submitted(self, waiting: Iterator[Option]) -> list[tuple[Option, Future[CodeObject]]]:
        return [(o, self._finalized(o.schedule)) for o in islice(waiting, AHEAD)]

    def _try_some(
        self, candidates: Sequence[tuple[Option, Future[CodeObject]]], seen: dict[str, float]
    ) -> bool:
        """Tries some, by their bounds where there are any; whether time was left for all."""
        ready: list[tuple[float, Option, CodeObject]] = []
        for option, future in candidates:
            if self._late():
                return False
            found = _compiled(option, future, seen)
            if isinstance(found, Outcome):
                self._outcomes.append(found)
            else:
                ready.append((self._bound(found), option, found))
        for bound, option, code in sorted(ready, key=lambda one: one[0]):
            if self._late():
                return False
            self._outcomes.append(self._outcome(option, code, bound))
        return True

    def _outcome(self, option: Option, code: CodeObject, bound: float) -> Outcome:
        """The result of a candidate that takes `bound` at least."""
        if bound >= min((self._baseline[0], *self._times())):
            return _ended(option, "slower", bound)
        assert self._default is not None
        try:
            found = self._measured(self._default, code)
        except (MgxError, WorkerError) as error:
            hung = any(words in str(error) for words in ("took more than", "it hangs"))
            return _ended(option, "hung" if hung else "crashed")
        if found.wrong:
            return _ended(option, "wrong")
        # Relative to the default beside it, so that a clock that drifts changes nothing.
        scale = self._baseline[0] / found.default.median if found.default.median else 1.0
        noise = max(found.default.spread, found.candidate.spread) * scale
        return _ended(option, "timed", found.candidate.median * scale, noise)

    def _finalized(self, schedule: Schedule | None) -> Future[CodeObject]:
        task = self.task
        return self.pool.submit(self.finalize, task.work.bytecode, task.target, schedule)

    def _measured(self, default: CodeObject, code: CodeObject) -> Measured:
        return self.bench.measure(self.task.work.problem, default, code, self.task.effort.timing)

    def _bound(self, code: CodeObject) -> float:
        """A time that the candidate takes at least; 0 where none is known without running it."""
        if not self.task.device.modelled or self._default is None:
            return 0.0
        return self.bench.least_clocks(self.task.work.problem, self._default, code)

    def _times(self) -> Iterator[float]:
        return (one.time for one in self._outcomes if one.result == "timed")

    def _late(self) -> bool:
        return self.task.deadline is not None and time.time() > self.task.deadline


def chosen(
    options: Sequence[Option], effort: Effort, seeds: Sequence[Schedule] = ()
) -> list[Option]:
    """The candidates in the order of trying: each variant's best, then others by estimate.

    Unless the effort is exhaustive some are left out. Legal `seeds`, winners of like problems,
    come first.
    """
    of_variant: dict[str, list[Option]] = {}
    for option in options:
        of_variant.setdefault(option.schedule.variant, []).append(option)
    legal = {option.schedule: option for option in options}
    order = {seed: legal[seed] for seed in seeds if seed in legal}
    order |= {found[0].schedule: found[0] for found in of_variant.values()}
    if effort.exhaustive:
        return list((order | legal).values())
    some = [option for found in of_variant.values() for option in found[: effort.tried // 4]]
    order |= {option.schedule: option for option in [*options[: effort.tried], *some]}
    return list(order.values())


def _compiled(
    option: Option, future: Future[CodeObject], seen: dict[str, float]
) -> CodeObject | Outcome:
    """The code of a candidate, or the result of one that has none of its own."""
    try:
        code = future.result()
    except MgxError:
        return _ended(option, "refused")
    except WorkerError as error:
        return _ended(option, "hung" if "took more than" in str(error) else "crashed")
    if code.sha256 in seen:
        return _ended(option, "same", seen[code.sha256])
    seen[code.sha256] = 0.0
    return code


def _ended(option: Option, result: Result, time_: float = 0.0, spread: float = 0.0) -> Outcome:
    estimate = option.clocks if option.clocks < float("inf") else 0.0
    return Outcome(option.schedule, result, time_, spread, estimate)
