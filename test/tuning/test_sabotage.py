"""Candidates that are made to fail: each loses, is remembered, and the search goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.schedule import Schedule
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import ScheduleError
from mgx_mlir.finalizer.worker import WorkerError, WorkerPool
from mgx_mlir.tuning.database import Database
from mgx_mlir.tuning.lookup import key_of
from mgx_mlir.tuning.record import Record
from mgx_mlir.tuning.search import Bench, Effort, Task, search
from mgx_mlir.tuning.tune import problems
from mgx_mlir.tuning.work import candidate
from test.tuning.models import CHIP, program, settings

TARGET = Target.get(CHIP)


def wrong(code: CodeObject) -> CodeObject:
    """One work-group instead of all."""
    (launch,) = code.launches
    return replace(code, launches=(replace(launch, grid=(1, 1, 1)),), data=code.data + b"\0")


def crashing(code: CodeObject) -> CodeObject:
    """Bytes that no device loads."""
    return replace(code, data=b"\x7fELF" + bytes(60))


def hanging(code: CodeObject) -> CodeObject:
    raise WorkerError("finalizing took more than 120 s")


def spilling(code: CodeObject) -> CodeObject:
    raise ScheduleError("it spills 12 registers")


SABOTAGE: tuple[Callable[[CodeObject], CodeObject], ...] = (wrong, crashing, hanging, spilling)
RESULTS = ("wrong", "crashed", "hung", "refused")


def test_sabotaged_candidates_lose_and_are_remembered(tmp_path: Path) -> None:
    artifact = program()
    with WorkerPool(1, 120.0) as pool:
        work = next(w for w in problems(artifact, TARGET, pool) if "relu" in w.problem.text)
    bench = Bench(TARGET, settings(None))
    options = work.space.options[1:7]
    spoiled = dict(zip((o.schedule for o in options), SABOTAGE, strict=False))

    def finalize(bytecode: bytes, target: Target, schedule: Schedule | None) -> CodeObject:
        code = candidate(bytecode, target, schedule)
        return spoiled[schedule](code) if schedule in spoiled else code

    try:
        # As on a GPU, where no bound spares a candidate its run.
        device = replace(bench.where(), modelled=False)
        key = key_of(work.problem.key, TARGET, False, device.units)
        work = replace(work, space=replace(work.space, options=options))
        task = Task(work, TARGET, key, device, Effort(exhaustive=True), None, "2026-01-02")
        with ThreadPoolExecutor(1) as pool:
            record = search(task, bench, pool, finalize)
    finally:
        bench.close()
    assert isinstance(record, Record) and record.exhaustive
    results = {one.schedule: one.result for one in record.candidates}
    assert [results[schedule] for schedule in spoiled] == list(RESULTS)
    assert all(results[o.schedule] in ("timed", "same") for o in options[len(SABOTAGE) :])
    assert record.schedule not in spoiled
    with Database(tmp_path / "kernels", write=True) as database:
        database.put(record)
        assert database.get(key) == record
