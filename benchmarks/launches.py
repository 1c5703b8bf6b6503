"""Launches for one inference at batch 1, and what the graph passes cost.

    python -m benchmarks.launches [--models resnet50,bert] [--passes] [--json FILE]

Launches are the steps of the plan: kernels and copies. Seconds are those of the pipelines of
the default mode, import not among them, in one process on one core; `--passes` says which
passes they went to.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import onnx

from mgx_mlir.compiler import CompileOptions, Report, import_model, optimize
from mgx_mlir.planning import build_plan
from test.onnx_models import MODELS, bert, light

MODEL_MAKERS: dict[str, Callable[[], onnx.ModelProto]] = {
    "squeezenet": partial(light, "squeezenet", seed=0),
    "resnet50": partial(light, "resnet50", seed=0),
    "shufflenet": partial(light, "shufflenet", seed=0),
    "densenet121": partial(light, "densenet121", seed=0),
    "inception_v2": partial(light, "inception_v2", seed=0),
    "bert": bert,
    "bert_base": partial(bert, layers=12, width=768),
    "gpt2": MODELS["gpt2"],
    "vit": MODELS["vit"],
    "lstm": MODELS["lstm"],
}


@dataclass(frozen=True)
class Row:
    """A model's launches, and the seconds of each pass."""

    model: str
    launches: int
    kernels: int
    seconds: float
    passes: dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(MODEL_MAKERS))
    parser.add_argument("--passes", action="store_true", help="seconds of each pass too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures too")
    options = parser.parse_args()
    rows = []
    print("| model | launches | distinct kernels | graph passes |\n|---|---:|---:|---:|")
    for name in options.models.split(","):
        rows.append(measure(name))
        row = rows[-1]
        print(f"| {row.model} | {row.launches} | {row.kernels} | {row.seconds:.2f} s |", flush=True)
    if options.passes:
        for row in rows:
            slowest = sorted(row.passes.items(), key=lambda item: -item[1])
            print(f"\n{row.model}")
            print("\n".join(f"    {seconds:6.3f} s  {name}" for name, seconds in slowest))
    if options.json:
        figures = [asdict(row) for row in rows]
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def measure(name: str) -> Row:
    """Runs the default pipelines on a model and counts what they leave."""
    options = CompileOptions()
    graph = import_model(MODEL_MAKERS[name](), options)
    report = Report()
    optimize(graph, options, report)
    with graph.module.context:
        plan = build_plan(graph)
    passes: Counter[str] = Counter()
    for step, seconds in report.passes.entries:
        passes[step] += seconds
    kernels = {step.kernel for step in plan.steps if step.kernel >= 0}
    seconds = sum(seconds for _, seconds in report.stages)
    return Row(name, plan.launches, len(kernels), seconds, dict(passes))


if __name__ == "__main__":
    raise SystemExit(main())
