"""Tuning a program for a chip: its problems one by one, the costly ones first."""

from __future__ import annotations

import datetime
import logging
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.schedule import Schedule
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import CompilerError, Edge, MgxError, UsageError
from mgx_mlir.finalizer.worker import WorkerError, WorkerPool
from mgx_mlir.loader import hip_device
from mgx_mlir.settings import Settings
from mgx_mlir.tuning.database import Database
from mgx_mlir.tuning.farm import Farm
from mgx_mlir.tuning.lookup import key_of, tuned_schedules
from mgx_mlir.tuning.record import Key, Record
from mgx_mlir.tuning.search import COMPILE_LIMIT, Effort, Failure, Here, Machine, Task, chosen
from mgx_mlir.tuning.work import Work, examine, grouped

_log = logging.getLogger(__name__)

# (the problem, its record, whether the record was there before)
Told = Callable[[Work, Record, bool], None]
Progress = Callable[[str, int, int], None]


def target_of(target: str | Target, settings: Settings) -> Target:
    """The chip of a target; 'gpu' is that of device 0. Raises TargetError, DeviceError, or
    UsageError for a CPU."""
    if target == "gpu":
        target = hip_device("gpu", settings).chip
    found = target if isinstance(target, Target) else Target.get(target)
    if found.kind != "gpu":
        raise UsageError(f"the target is {found.name}; schedules of GPUs alone are tuned")
    return found


@Edge("tuning")
def tune_artifact(
    artifact: Artifact,
    target: str | Target,
    effort: Effort | None = None,
    *,
    kernels: str = "",
    settings: Settings | None = None,
    executor: Executor | None = None,
    scheduler: str = "",
    progress: Progress = lambda text, done, total: None,
    told: Told = lambda work, record, known: None,
) -> Artifact:
    """The artifact with the schedules that won on a chip, which the user's database gets too.

    `kernels`: a regular expression that a problem's description, or the name of one of its kernels,
    has to hold. `executor` finalizes candidates, by default processes of this machine; `scheduler`
    is the address of Dask's, whose workers then finalize and time (farm.py). Problems that the
    database has already, tried as much as `effort` says, are taken from there, and a search that
    ended early replaces none that tried more. A record is written as its problem ends: what is
    killed loses one at most. Raises TargetError, DeviceError,
    UsageError, CompilerError.
    """
    settings, effort = settings or Settings.from_environment(), effort or Effort()
    chip = target_of(target, settings)
    pattern = _pattern(kernels)
    deadline = None if effort.budget is None else time.time() + effort.budget
    with ExitStack() as stack:
        pool = executor or stack.enter_context(WorkerPool(settings.jobs, COMPILE_LIMIT))
        works = _chosen(problems(artifact, chip, pool), pattern)
        machine: Machine = Here(chip, settings, pool)
        if scheduler:
            machine = Farm(scheduler, chip, settings)
        stack.callback(machine.close)
        settings = stack.enter_context(_with_folder(settings))
        assert settings.cache_dir is not None
        database = stack.enter_context(Database(settings.cache_dir, write=True))
        device = machine.where()

        def tasks() -> Iterator[Task]:
            """The problems that are left, with what is known when each is asked for."""
            for number, work in enumerate(works):
                progress(work.problem.describe(), number, len(works))
                key = key_of(work.problem.key, chip, device.modelled, device.units)
                for digest in work.kernels:
                    database.put_problem(digest, work.problem.key)
                record = database.get(key)
                if record is not None and tried_enough(record, work, effort):
                    told(work, record, True)
                    continue
                if deadline is not None and time.time() > deadline:
                    return
                seeds = tuple(_neighbours(database.records(), key, work))
                yield Task(work, chip, key, device, effort, deadline, _now(), seeds)

        for task, found in machine.run(tasks()):
            if isinstance(found, Failure):
                _log.warning("%s is not tuned: %s", task.work.problem.describe(), found.reason)
            elif found is not None:
                known = database.get(task.key)
                if known is None or len(known.candidates) <= len(found.candidates):
                    database.put(found)
                told(task.work, found, False)
        return with_schedules(artifact, chip, settings)


def problems(artifact: Artifact, target: Target, pool: Executor) -> list[Work]:
    """The problems of the artifact's kernels that have several schedules, the costly ones first.

    Raises CompilerError naming a kernel that cannot be read.
    """
    distinct = {kernel.sha256: kernel for kernel in artifact.kernels}
    futures = {d: pool.submit(examine, kernel.bytecode, target) for d, kernel in distinct.items()}
    examined = []
    for digest, future in futures.items():
        try:
            examined.append((digest, *future.result()))
        except (MgxError, WorkerError) as error:
            raise CompilerError(f"kernel {distinct[digest].name}: {error}") from error
    return grouped(artifact, examined)


def with_schedules(artifact: Artifact, target: Target, settings: Settings) -> Artifact:
    """The artifact with the schedules that the databases have for a target now, and without code
    for it by others."""
    found = tuned_schedules(artifact.kernels, [target], settings).get(target.identity, {})
    schedules = tuple(found.get(kernel.sha256) for kernel in artifact.kernels)
    if schedules == artifact.schedules.get(target.identity, (None,) * len(schedules)):
        return artifact
    code = {name: x for name, x in artifact.code_objects.items() if name != target.identity}
    kept = {name: x for name, x in artifact.schedules.items() if name != target.identity}
    if any(schedules):
        kept[target.identity] = schedules
    return replace(artifact, code_objects=code, schedules=kept)


def tried_enough(record: Record, work: Work, effort: Effort) -> bool:
    """Whether a record has as many candidates as `effort` asks for, beside the untuned choice."""
    if record.exhaustive or effort.exhaustive:
        return record.exhaustive
    return len(record.candidates) > len(chosen(work.space.options, effort))


def _neighbours(records: Iterable[Record], key: Key, work: Work) -> Iterator[Schedule]:
    """The winners of other problems of the family on the chip: they may win here too."""
    found = {
        record.schedule
        for record in records
        if record.schedule is not None
        if (record.family, record.key.chip) == (work.space.family, key.chip)
    }
    yield from sorted(found)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"'{text}' is no regular expression: {error}") from error


def _chosen(works: list[Work], pattern: re.Pattern[str]) -> list[Work]:
    """The problems whose description, or a kernel's name, holds a regular expression."""
    found = [w for w in works if any(map(pattern.search, (w.problem.describe(), *w.names)))]
    if works and not found:
        raise UsageError(f"no problem fits '{pattern.pattern}'; mgx tune --list-problems has all")
    return found


@contextmanager
def _with_folder(settings: Settings) -> Iterator[Settings]:
    """The settings with a folder for the database; one that is deleted where caches are off."""
    if settings.cache_dir is not None:
        yield settings
        return
    with tempfile.TemporaryDirectory(prefix="mgx-") as folder:
        yield replace(settings, cache_dir=Path(folder))


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
