"""The untuned choice of schedules beside an exhaustive search, on the emulated device's model.

    python -m benchmarks.tuning [--models bert,resnet50] [--chips gfx942] [--problems 4]
                                [--families rows] [--folder FOLDER] [--budget SECONDS]

For the costly problems of each network of f16, every legal schedule is finalized, run and priced
by the emulated device's profile mode: a model's clocks, none of silicon. `regret` is the part that
the untuned choice takes more than the best schedule. `top 1`: the best estimate is, or is within
1 % of, the best schedule; `top 3`: one of the best three estimates. `to 1 %`: the candidates tried,
in the order of estimates, until one is within 1 % of the best. With `--folder` results are kept
there, and a second run goes on where the first one ended.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import onnx

import mgx_mlir
from benchmarks.nets import llama, whisper
from benchmarks.yolo import yolo
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.finalizer.worker import WorkerPool
from mgx_mlir.settings import Settings
from mgx_mlir.tuning.record import Outcome, Record
from mgx_mlir.tuning.search import COMPILE_LIMIT, Effort
from mgx_mlir.tuning.tune import problems, tune_artifact
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
    record: Record
    candidates: tuple[Outcome, ...]

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


def row_of(model: str, record: Record) -> Row:
    """A record's figures. The untuned choice counts as a candidate with its own estimate."""
    timed = [one for one in record.candidates if one.result in ("timed", "slower")]
    unknown = [one for one in timed if not one.estimate]  # variants without an estimate
    ordered = sorted((one for one in timed if one.estimate), key=lambda one: one.estimate)
    return Row(model, record, (*ordered, *unknown))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--chips", default="gfx942,gfx1100")
    parser.add_argument("--problems", type=int, default=4, metavar="N", help="of each model")
    parser.add_argument("--families", default="", help="such as rows,pointwise (default: all)")
    parser.add_argument("--folder", type=Path, help="where results are kept")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="for each model and chip")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = Settings(cache_dir=folder, hip="emulated")
        rows: dict[str, list[Row]] = {}
        for model in options.models.split(","):
            for chip in options.chips.split(","):
                effort = Effort(exhaustive=True, budget=options.budget)
                works = chosen(model, chip, settings, options)
                found = measured(model, chip, effort, settings, works)
                rows.setdefault(chip, []).extend(found)
    for chip, found in rows.items():
        report(chip, found)
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
    return named[: options.problems]


def measured(
    name: str, chip: str, effort: Effort, settings: Settings, works: Sequence[Work]
) -> Sequence[Row]:
    """The figures of those problems that an exhaustive search ended for."""
    if not works:
        return []
    found: list[Row] = []
    tried = [0]

    def told(work: Work, record: Record, known: bool) -> None:
        tried[0] += 0 if known else len(record.candidates)
        if record.exhaustive:
            found.append(row_of(name, record))
            print(line(found[-1]), flush=True)

    started = time.perf_counter()
    kernels = "|".join(f"^{work.names[0]}$" for work in works)
    tune_artifact(program(name), chip, effort, kernels=kernels, settings=settings, told=told)
    if tried[0]:
        rate = tried[0] / (time.perf_counter() - started)
        print(f"{name} on {chip}: {tried[0]} candidates, {rate:.1f} a second", flush=True)
    return found


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
    print(f"{chip:9}{'problems':>9}{'mean':>8}{'worst':>8}{'top 1':>7}{'top 3':>7}{'to 1 %':>8}")
    for name, group in groups.items():
        if not group:
            continue
        regrets = [row.regret for row in group]
        tops = [sum(row.tried <= most for row in group) / len(group) for most in (1, 3)]
        print(
            f"  {name:13}{len(group):3}{statistics.mean(regrets):8.1%}{max(regrets):8.1%}"
            f"{tops[0]:7.0%}{tops[1]:7.0%}{statistics.median(r.tried for r in group):8.0f}"
        )


if __name__ == "__main__":
    sys.exit(main())
