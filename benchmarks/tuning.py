"""The untuned choice of schedules beside a search, on the emulated device's model.

    python -m benchmarks.tuning [--models bert-base,resnet50] [--chips gfx942] [--problems 4]
                                [--families rows] [--sampled N] [--folder FOLDER]
                                [--budget SECONDS] [--fit]

For the costly problems of each network of f16, every legal schedule is finalized, and priced by the
emulated device's profile mode: a model's clocks, none of silicon. With `--sampled` it is only N of
each problem: those of the best estimates, and as many that are spread over all others. `regret` is
the part that the untuned choice takes more than the best schedule. `top 1`: the best estimate is,
or is within 1 % of, the best schedule; `top 3`: one of the best three estimates. `to 1 %`: the
candidates tried, in the order of estimates, until one is within 1 % of the best, and the seconds of
one core that these take. With `--folder` results are kept there, and a second run goes on where the
first one ended. `--fit` searches the rates of the estimates by the results (benchmarks/rates.py).
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import onnx

import mgx_mlir
from benchmarks.net_models import llama, whisper
from benchmarks.rates import fit
from benchmarks.yolo import yolo
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.space import Space
from mgx_mlir.finalizer.worker import WorkerPool
from mgx_mlir.settings import Settings
from mgx_mlir.sizes.arithmetic import ceil_div
from mgx_mlir.tuning.database import Database
from mgx_mlir.tuning.lookup import key_of
from mgx_mlir.tuning.record import Outcome, Record
from mgx_mlir.tuning.search import COMPILE_LIMIT, Effort, Here, Task
from mgx_mlir.tuning.tune import problems
from mgx_mlir.tuning.work import Work
from test.onnx_models import bert, half, light, resnet, vit

NEAR = 1.01  # times that count as the best
MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "bert-base": partial(bert, layers=1, width=768),
    "llama-decode": partial(llama, 1),
    "llama-prefill": partial(llama, 1, past=0, tokens=128),
    "resnet50": resnet,
    "shufflenet": partial(light, "shufflenet", seed=0),
    "vit": partial(vit, layers=1),
    "whisper": partial(whisper, 1),
    "yolov10n": yolo,
}


@dataclass(frozen=True)
class Row:
    """The figures of one problem; `candidates` are those with times, the least estimate first.

    Those that are known to be slower have a bound for a time.
    """

    model: str
    work: Work
    record: Record
    candidates: tuple[Outcome, ...]
    seconds: float = 0.0  # of a core, for one candidate

    @property
    def best(self) -> float:
        return min(one.time for one in self.candidates)

    @property
    def regret(self) -> float:
        return self.record.baseline / self.best - 1

    @property
    def tried(self) -> int:
        """Candidates until one is within 1 % of the best."""
        near = (one.time <= self.best * NEAR for one in self.candidates)
        return next(number for number, found in enumerate(near, 1) if found)

    @property
    def winner(self) -> str:
        return str(min(self.candidates, key=lambda one: one.time).schedule)


def row_of(model: str, work: Work, record: Record) -> Row:
    """A record's figures. The untuned choice counts as a candidate with its own estimate."""
    timed = [one for one in record.candidates if one.result in ("timed", "slower")]
    unknown = [one for one in timed if not one.estimate]  # variants without an estimate
    ordered = sorted((one for one in timed if one.estimate), key=lambda one: one.estimate)
    return Row(model, work, record, (*ordered, *unknown))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--chips", default="gfx942,gfx1100")
    parser.add_argument("--problems", type=int, default=4, metavar="N", help="of each model")
    parser.add_argument("--families", default="", help="such as rows,pointwise (default: all)")
    parser.add_argument("--sampled", type=int, metavar="N", help="schedules of each problem")
    parser.add_argument("--folder", type=Path, help="where results are kept")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="for each model and chip")
    parser.add_argument("--fit", action="store_true", help="search the rates of the estimates")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = Settings(cache_dir=folder, hip="emulated")
        rows: dict[str, list[Row]] = {}
        for chip in options.chips.split(","):
            for model in options.models.split(","):
                works = chosen(model, chip, settings, options)
                rows.setdefault(chip, []).extend(measured(model, chip, settings, works, options))
    for chip, found in rows.items():
        report(chip, found)
        if options.fit:
            fit(Target.get(chip), [(row.work.bytecode, row.record) for row in found])
    return 0


@cache
def program(name: str) -> Artifact:
    return mgx_mlir.compile_to_bytecode(half(MODELS[name]()))


def chosen(name: str, chip: str, settings: Settings, options: argparse.Namespace) -> Sequence[Work]:
    """The costly problems of a model, those of some families alone where they are named."""
    families = options.families.split(",")
    with WorkerPool(settings.jobs, COMPILE_LIMIT) as pool:
        works = problems(program(name), Target.get(chip), pool)
    named = [work for work in works if not families[0] or work.space.family in families]
    few = options.sampled
    return [sampled(work, few) if few else work for work in named[: options.problems]]


def sampled(work: Work, count: int) -> Work:
    """The work with so many of its schedules."""
    options = work.space.options
    best, others = options[: count // 2], options[count // 2 :]
    step = max(1, ceil_div(len(others), count - len(best)))
    return replace(work, space=Space(work.space.family, (*best, *others[::step])))


def measured(
    name: str, chip: str, settings: Settings, works: Sequence[Work], options: argparse.Namespace
) -> Sequence[Row]:
    """The figures of those problems that a search ended for."""
    found: list[Row] = []
    target, tried, before = Target.get(chip), 0, _seconds()
    deadline = None if options.budget is None else time.time() + options.budget
    assert settings.cache_dir is not None
    with (
        Database(settings.cache_dir, write=True) as database,
        WorkerPool(settings.jobs, COMPILE_LIMIT) as pool,
        closing(Here(target, settings, pool)) as machine,
    ):
        device = machine.where()

        def tasks() -> Iterator[Task]:
            for work in works:
                key = key_of(work.problem.key, target, device.modelled, device.units)
                record = database.get(key)
                if record is not None and (options.sampled or record.exhaustive):
                    found.append(row_of(name, work, record))
                    print(line(found[-1]), flush=True)
                elif deadline is None or time.time() < deadline:
                    yield Task(work, target, key, device, Effort(exhaustive=True), deadline, "")

        for task, record in machine.run(tasks()):
            if not isinstance(record, Record) or not record.exhaustive:
                continue  # it failed, or time was over
            database.put(replace(record, exhaustive=not options.sampled))
            tried += len(record.candidates)
            found.append(row_of(name, task.work, record))
            print(line(found[-1]), flush=True)
    if tried:
        seconds = (_seconds() - before) / tried
        print(f"{name} on {chip}: {tried} candidates, {seconds:.3f} s of one core each", flush=True)
        found = [replace(row, seconds=seconds) for row in found]
    return found


def _seconds() -> float:
    """The time that processes which have ended took of a core."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def line(row: Row) -> str:
    record = row.record
    return (
        f"{record.key.chip:8} {row.model:11} {record.family:12} {record.baseline:11,.0f} "
        f"{row.best:11,.0f} {row.regret:6.1%} {row.tried:4} of {len(row.candidates):<4} "
        f"{record.description[:60]}"
        + (f"\n{'':21}best: {row.winner}" if row.regret > NEAR - 1 else "")
    )


def report(chip: str, rows: Sequence[Row]) -> None:
    """The regret and the ranking over all problems, and by family."""
    families = {row.record.family for row in rows}
    groups = {"all": list(rows)} | {
        name: [row for row in rows if row.record.family == name] for name in sorted(families)
    }
    titles = ("problems", "mean", "worst", "top 1", "top 3", "to 1 %", "s")
    widths = (9, 8, 8, 7, 7, 8, 7)
    print(f"{chip:9}" + "".join(f"{t:>{w}}" for t, w in zip(titles, widths, strict=True)))
    for name, group in groups.items():
        if not group:
            continue
        regrets = [row.regret for row in group]
        tops = [sum(row.tried <= most for row in group) / len(group) for most in (1, 3)]
        print(
            f"  {name:13}{len(group):3}{statistics.mean(regrets):8.1%}{max(regrets):8.1%}"
            f"{tops[0]:7.0%}{tops[1]:7.0%}{statistics.median(r.tried for r in group):8.0f}"
            f"{statistics.median(r.tried * r.seconds for r in group):7.1f}"
        )


if __name__ == "__main__":
    sys.exit(main())
