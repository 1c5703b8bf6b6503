"""Trained models out of packages on the CPU: one program for any sizes, over onnxruntime.

    python -m test.exported.export trained
    python -m benchmarks.trained [--only TEXT]

Each set of inputs of a model has a line. Times are the least that the process took for a run, on
one thread; the sides take turns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean

import numpy as np
import onnxruntime

from benchmarks.symbolic_cpu import least
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.models.staged import Model
from mgx_mlir.settings import Settings
from test.exported.agreement import inputs_of, session_of

FOLDER = Path("build/exported/trained")


def measured(file: Path) -> Iterator[tuple[dict[str, np.ndarray], float, float]]:
    """Each set of a model's inputs, and the seconds of a run: ours, and onnxruntime's."""
    model = Model(file, "cpu", CompileOptions(mode="full-dynamic"), settings=Settings(threads=1))
    session = session_of(onnxruntime, file, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    for inputs in inputs_of(file):
        ours, theirs = least([lambda: model.run(inputs), lambda: session.run(None, inputs)])  # noqa: B023
        yield inputs, ours, theirs


def main() -> int:
    command = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    command.add_argument("--only", default="", metavar="TEXT", help="models whose name holds it")
    options = command.parse_args()
    files = sorted(file for file in FOLDER.glob("*.onnx") if options.only in file.stem)
    if not files:
        print(f"no model in {FOLDER}: run python -m test.exported.export trained", file=sys.stderr)
        return 1
    ratios = []
    print(f"{'model':34}{'sizes':30}{'ours, ms':>10}{'onnxruntime':>12}{'ratio':>7}")
    for file in files:
        for inputs, ours, theirs in measured(file):
            ratios.append(ours / theirs)
            largest = max(inputs.values(), key=lambda array: array.size).shape
            shape = "x".join(map(str, largest))
            line = f"{file.stem:34}{shape:30}{1e3 * ours:10.3f}{1e3 * theirs:12.3f}"
            print(f"{line}{ratios[-1]:7.2f}", flush=True)
    print(f"geometric mean {geometric_mean(ratios):.2f}, worst {max(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
