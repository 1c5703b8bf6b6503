"""Tuning: candidates that win or lose, results that are used, processes that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import mgx_mlir
from mgx_mlir.artifact import writer
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.schedule import Schedule, Tuned
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.space import Option
from mgx_mlir.errors import ArtifactError, DeviceError, UsageError
from mgx_mlir.finalizer import NOT_USED
from mgx_mlir.finalizer.worker import WorkerError
from mgx_mlir.tuning import measure
from mgx_mlir.tuning.database import Database
from mgx_mlir.tuning.lookup import key_of
from mgx_mlir.tuning.measure import Timing
from mgx_mlir.tuning.problem import problem_of_bytecode
from mgx_mlir.tuning.record import Outcome, Record
from mgx_mlir.tuning.search import Bench, Effort, chosen
from mgx_mlir.tuning.tune import target_of, tried_enough, with_schedules
from mgx_mlir.tuning.work import Work, candidate, examine
from test.tuning.models import CHIP, program, settings, tuned

TARGET = Target.get(CHIP)


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return program()


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    found = Bench(TARGET, settings(None))
    yield found
    found.close()


def choose(
    folder: Path, artifact: Artifact, number: int = -1, units: int = TARGET.compute_units
) -> Schedule:
    """Writes to the database that a kernel's option of that number won; gives its schedule."""
    kernel = artifact.kernels[0]
    problem, space = examine(kernel.bytecode, TARGET)
    assert space is not None
    schedule = space.options[number].schedule
    with Database(folder, write=True) as database:
        record = Record(
            key_of(problem.key, TARGET, True, units), space.family, "", schedule,
            2.0, 1.0, 0.0, False, "device", "driver", "2026-01-02T03:04:05Z",
        )  # fmt: skip
        database.put(record)
    return schedule


def test_problems_are_tuned_and_remembered(artifact: Artifact, tmp_path: Path) -> None:
    found = tuned(artifact, tmp_path / "kernels")
    assert [known for _, known in found] == [False] * 3
    for record, _ in found:
        default, *others = record.candidates
        assert record.key.modelled and record.baseline == default.time > 2000
        assert others and all(one.result in ("timed", "same", "slower") for one in others)
        assert any(one.result != "same" and one.time > 2000 for one in others)
        assert record.best <= record.baseline
    again = tuned(artifact, tmp_path / "kernels")
    assert again == [(record, True) for record, _ in found]


def test_problems_are_chosen_by_name_and_work(artifact: Artifact, tmp_path: Path) -> None:
    (found,) = tuned(artifact, tmp_path / "kernels", kernels="relu")
    assert "dot relu of" in found[0].description
    with pytest.raises(UsageError, match="no problem fits 'nothing'"):
        tuned(artifact, tmp_path / "kernels", kernels="nothing")
    with pytest.raises(UsageError, match="no regular expression"):
        tuned(artifact, tmp_path / "kernels", kernels="(")


def test_finalizing_uses_the_database_and_can_leave_it_out(
    artifact: Artifact, tmp_path: Path
) -> None:
    folder = tmp_path / "kernels"
    schedule = choose(folder, artifact)
    mine = settings(folder)
    plain = mgx_mlir.finalize(artifact, CHIP, settings=replace(mine, tuning=False))
    found = mgx_mlir.finalize(artifact, CHIP, settings=mine)
    first, *others = found.code_objects[CHIP]
    assert schedule.words in first.why and "user's tuning database" in first.why
    assert tuple(others) == plain.code_objects[CHIP][1:]
    assert first.data != plain.code_objects[CHIP][0].data
    assert found.schedules == {CHIP: (Tuned(schedule, "user", True), None, None)}
    assert not plain.schedules and not plain.schedules_hash
    assert mgx_mlir.finalize(artifact, CHIP, settings=mine).to_bytes() == found.to_bytes()
    # The cache keeps both apart.
    assert mgx_mlir.finalize(
        artifact, CHIP, settings=replace(mine, tuning=False)
    ).to_bytes() == plain.to_bytes()  # fmt: skip
    assert found.content_hash == plain.content_hash


def test_a_tuned_artifact_gives_its_bytes_without_the_database(
    artifact: Artifact, tmp_path: Path
) -> None:
    mine = settings(tmp_path / "kernels")
    choose(tmp_path / "kernels", artifact)
    carried = with_schedules(artifact, TARGET, mine)
    assert not carried.code_objects
    sent = Artifact.from_bytes(carried.to_bytes())
    there = mgx_mlir.finalize(sent, CHIP, settings=settings(None))
    here = mgx_mlir.finalize(artifact, CHIP, settings=mine)
    assert there.to_bytes() == here.to_bytes()
    assert with_schedules(artifact, TARGET, settings(tmp_path / "none")) is artifact


def test_a_shared_database_stands_below_the_users(artifact: Artifact, tmp_path: Path) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    theirs = choose(shared, artifact, -1)
    both = replace(settings(own), cache_shared=shared)
    (found, *_) = mgx_mlir.finalize(artifact, CHIP, settings=both).schedules[CHIP]
    assert found == Tuned(theirs, "system", True)
    mine = choose(own, artifact, -2)
    (found, *_) = mgx_mlir.finalize(artifact, CHIP, settings=both).schedules[CHIP]
    assert found == Tuned(mine, "user", True)


def test_results_of_other_products_of_a_chip_stand_below_its_own(
    artifact: Artifact, tmp_path: Path
) -> None:
    """MI300A has 228 compute units; and HIP counts those of RDNA in pairs."""
    mine = settings(tmp_path)
    for number, units in ((-1, 38), (-2, 228), (-3, TARGET.compute_units)):
        expected = choose(tmp_path, artifact, number, units)
        (found, *_) = mgx_mlir.finalize(artifact, CHIP, settings=mine).schedules[CHIP]
        assert found == Tuned(expected, "user", True)


def test_a_shared_database_that_others_can_write_is_not_used(
    artifact: Artifact, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared = tmp_path / "shared"
    choose(shared, artifact)
    shared.chmod(0o777)
    both = replace(settings(tmp_path / "own"), cache_shared=shared)
    assert not mgx_mlir.finalize(artifact, CHIP, settings=both).schedules
    assert "others may write" in caplog.text


def test_an_illegal_schedule_of_a_file_is_said_and_not_used(
    artifact: Artifact, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = (Tuned(Schedule("tiles", "tile 7x7"), "user", True), None, None)
    sent = Artifact.from_bytes(replace(artifact, schedules={CHIP: wrong}).to_bytes())
    found = mgx_mlir.finalize(sent, CHIP, settings=settings(None)).code_objects[CHIP]
    plain = mgx_mlir.finalize(artifact, CHIP, settings=settings(None)).code_objects[CHIP]
    assert [code.data for code in found] == [code.data for code in plain]
    assert NOT_USED in caplog.text and "tile 7x7" in caplog.text


@pytest.mark.parametrize(
    "schedules", [[None], [None, None, "x"], [["", "", "me", True], None, None], {}]
)
def test_schedules_of_another_form_are_refused(artifact: Artifact, schedules: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "schedules_json", lambda _: {CHIP: schedules})
        data = artifact.to_bytes()
    with pytest.raises(ArtifactError, match=r"schedule|gfx942"):
        Artifact.from_bytes(data)


def test_a_wrong_result_and_a_crash_lose(artifact: Artifact, bench: Bench) -> None:
    kernel = artifact.kernels[0]
    problem = problem_of_bytecode(kernel.bytecode)
    code = candidate(kernel.bytecode, TARGET, None)
    (launch,) = code.launches
    assert launch.grid[0] > 1
    half = replace(code, launches=(replace(launch, grid=(1, 1, 1)),), data=code.data + b"\0")
    assert "elements differ" in bench.measure(problem, code, half, Timing()).wrong
    small = tuple(replace(spec, shape=(1, 1)) for spec in problem.inputs)
    with pytest.raises(ArtifactError, match="which takes"):
        bench.measure(replace(problem, inputs=small, text=""), code, code, Timing())
    assert not bench.measure(problem, code, code, Timing()).wrong  # by another process


def test_a_process_that_dies_is_replaced(artifact: Artifact, bench: Bench) -> None:
    with pytest.raises(WorkerError, match="exit status 3"):
        bench._process.call(os._exit, 3)
    assert bench.where().modelled


def test_a_kernel_that_hangs_is_ended(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGX_EMULATOR_BUDGET", "20")
    kernel = artifact.kernels[0]
    code = candidate(kernel.bytecode, TARGET, None)
    bench = Bench(TARGET, settings(None))
    try:
        with pytest.raises(DeviceError, match="it hangs"):
            bench.measure(problem_of_bytecode(kernel.bytecode), code, code, Timing())
    finally:
        bench.close()


def test_times_of_a_gpu_are_taken_in_turn(
    artifact: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of a GPU, on the emulated device, whose events give modelled time."""
    measure._device.cache_clear()
    measure.where(TARGET, settings(None))
    monkeypatch.setattr(measure, "library_kind", lambda: "real")
    kernel = artifact.kernels[0]
    code = candidate(kernel.bytecode, TARGET, None)
    timing = Timing(rounds=3, flush=True)
    monkeypatch.setattr(measure, "FLUSHED", 1 << 20)
    problem = problem_of_bytecode(kernel.bytecode)
    found = measure.measure(problem, code, code, TARGET, timing, settings(None))
    assert len(found.default.values) == len(found.candidate.values) == 3
    assert not found.wrong and min(found.default.values) > 0


def test_candidates_are_the_best_of_all_and_of_each_variant() -> None:
    options = [Option(Schedule("a", str(n)), float(n)) for n in range(5)]
    options += [Option(Schedule("b", "x"), 7.0), Option(Schedule("c"), float("inf"))]
    names = [(o.schedule.variant, o.schedule.words) for o in chosen(options, Effort(tried=2))]
    assert names == [("a", "0"), ("b", "x"), ("c", ""), ("a", "1")]
    seeds = (Schedule("a", "4"), Schedule("none", "of it"))
    assert chosen(options, Effort(tried=2), seeds)[0].schedule == seeds[0]
    assert len(chosen(options, Effort(True))) == 7


def test_a_record_of_few_candidates_is_not_enough_for_many(artifact: Artifact) -> None:
    problem, space = examine(artifact.kernels[0].bytecode, TARGET)
    assert space is not None
    work = Work(problem, space, b"", (), (), 1)
    options = chosen(space.options, Effort(tried=2))
    outcomes = tuple(Outcome(option.schedule, "timed", 1.0, 0.0, 1.0) for option in options)
    key = key_of(problem.key, TARGET, True)
    default = Outcome(Schedule(), "timed", 1.0, 0.0, 1.0)
    record = Record(
        key, space.family, "", None, 1.0, 1.0, 0.0, False, "", "", "", (default, *outcomes)
    )
    assert tried_enough(record, work, Effort(tried=2))
    assert not tried_enough(record, work, Effort(tried=8))
    assert not tried_enough(record, work, Effort(exhaustive=True))
    assert not tried_enough(replace(record, candidates=(default,)), work, Effort(tried=2))
    assert tried_enough(replace(record, exhaustive=True), work, Effort(tried=8))


def test_looking_up_loads_no_mlir() -> None:
    code = "import sys, mgx_mlir.tuning.lookup; print('mlir' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_a_cpu_has_no_schedules_to_tune() -> None:
    with pytest.raises(UsageError, match="GPUs alone"):
        target_of("x86-64-v3", settings(None))


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "test.tuning.models", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_what_is_killed_loses_one_problem_at_most(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    process = start(folder)
    assert process.stdout is not None
    line = process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    done = [line, *process.stdout.readlines()]
    process.wait()
    assert done[0].endswith(" new\n")
    with Database(folder) as database:
        assert len(list(database.records())) in (len(done), len(done) + 1)
    rest = start(folder)
    assert rest.stdout is not None
    lines = rest.stdout.readlines()
    assert rest.wait() == 0
    assert sum(line.endswith(" known\n") for line in lines) >= len(done) and len(lines) == 3


@pytest.mark.slow
def test_two_processes_tune_one_program(tmp_path: Path) -> None:
    both = [start(tmp_path / "kernels") for _ in range(2)]
    for process in both:
        process.communicate()
        assert process.returncode == 0
    with Database(tmp_path / "kernels") as database:
        assert len(list(database.records())) == 3
