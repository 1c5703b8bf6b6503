"""Compile time, peak memory and CPU latency beside IREE and onnxruntime, in one run.

    python -m benchmarks.compile [--models resnet50,bert] [--runs 3] [--json FILE]

Compiling: each figure is the best of `--runs` fresh processes, start-up included, with an
empty cache. Memory is the largest resident set of one process. IREE (iree-base-compiler,
`pip install .[bench]`) compiles the same model at opset 17 with its weights outside the
program; without it that column stays empty.

Latency: the least of turns of runs, each side in a process of its own (`benchmarks.cpu`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx
from onnx import version_converter

from benchmarks.cpu import fastest
from test.onnx_models import MODELS, light

CHIP = "gfx942"
DEFAULT_MODELS = ("squeezenet", "resnet50", "bert")
OPSET = 17
# Starts the process to measure from a small one: Linux counts what a process inherits from
# its parent, before it runs the new program, as its own largest resident set.
LAUNCHER = """
import json, os, sys, time
started = time.perf_counter()
pid = os.fork()
if pid == 0:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.execv(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(pid, 0)
print(json.dumps([time.perf_counter() - started, usage.ru_maxrss]))
sys.exit(os.waitstatus_to_exitcode(status))
"""


@dataclass(frozen=True)
class Cost:
    """Seconds, and megabytes of the largest process."""

    seconds: float
    megabytes: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.seconds + other.seconds, max(self.megabytes, other.megabytes))

    def __str__(self) -> str:
        return f"{self.seconds:6.2f} s {self.megabytes:5.0f} MB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(DEFAULT_MODELS))
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures too")
    options = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models.split(","):
            model = prepare(name, Path(folder))
            figures[name] = measure(model, Path(folder), options.runs)
            report(name, figures[name])
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2, default=asdict) + "\n")
    return 0


def prepare(name: str, folder: Path) -> Path:
    """The model with random weights, at an opset that all tools read."""
    model = MODELS[name]() if name in MODELS else light(name, seed=0)
    if model.opset_import[0].version < OPSET:
        model = version_converter.convert_version(model, OPSET)
    # Old models list their weights among the inputs, where the peers take them for variable.
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    file = folder / f"{name}.onnx"
    onnx.save(model, file)
    return file


def measure(model: Path, folder: Path, runs: int) -> dict[str, Cost | float | None]:
    def best(task: Callable[[], Cost | None]) -> Cost | None:
        costs = [cost for cost in (task() for _ in range(runs)) if cost is not None]
        return min(costs, key=lambda cost: cost.seconds) if costs else None

    portable = folder / "portable.mgx"
    figures: dict[str, Cost | float | None] = {
        "portable": best(lambda: mgx("compile", model, "-o", portable)),
        CHIP: best(lambda: mgx("compile", model, "-o", folder / "chip.mgx", "--arch", CHIP)),
        "cpu": best(lambda: mgx("compile", model, "-o", folder / "cpu.mgx", "--target", "cpu")),
        f"iree {CHIP}": best(lambda: iree(model, folder, "rocm")),
        "iree cpu": best(lambda: iree(model, folder, "llvm-cpu")),
    }
    for threads in (1, os.cpu_count() or 1):
        ours, theirs = fastest(model, threads)
        figures[f"latency {threads}"] = ours
        figures[f"onnxruntime {threads}"] = theirs
    return figures


def mgx(*arguments: object) -> Cost | None:
    return run([sys.executable, "-m", "mgx_mlir.tools.mgx", *map(str, arguments)])


def iree(model: Path, folder: Path, backend: str) -> Cost | None:
    """IREE's import and compilation; None where it is not installed or fails."""
    tools = [
        shutil.which(t, path=Path(sys.executable).parent)
        for t in ("iree-import-onnx", "iree-compile")
    ]
    if None in tools:
        return None
    importer, compiler = map(str, tools)
    source, result = folder / "iree.mlir", folder / "iree.vmfb"
    imported = run([importer, str(model), "-o", str(source), "--externalize-params"])
    target = {
        "rocm": ["--iree-hal-target-device=hip", f"--iree-rocm-target={CHIP}"],
        "llvm-cpu": [
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            "--iree-llvmcpu-target-cpu=host",
        ],
    }[backend]
    compiled = run([compiler, str(source), *target, "-o", str(result)])
    return imported + compiled if imported and compiled else None


def run(command: Sequence[str]) -> Cost | None:
    """The cost of one process; None when it fails."""
    environment = os.environ | {"MGX_CACHE_DIR": "none"}
    result = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCHER, *command], env=environment, capture_output=True
    )
    if result.returncode != 0:
        return None
    seconds, kilobytes = json.loads(result.stdout)
    return Cost(seconds, kilobytes / 1024)


def report(name: str, figures: dict[str, Cost | float | None]) -> None:
    print(f"\n{name}")
    for ours, peer in (("portable", None), (CHIP, f"iree {CHIP}"), ("cpu", "iree cpu")):
        cost, theirs = figures[ours], figures.get(peer or "")
        ratio = ""
        if isinstance(cost, Cost) and isinstance(theirs, Cost):
            ratio = f"   {cost.seconds / theirs.seconds:5.2f} of its time"
        beside = f"   IREE {theirs}" if theirs else ""
        print(f"  compile, {ours:<9} {cost}{beside}{ratio}")
    for key, value in figures.items():
        if key.startswith("latency") and isinstance(value, float):
            threads = key.split()[1]
            theirs = figures[f"onnxruntime {threads}"]
            assert isinstance(theirs, float)
            print(
                f"  cpu latency, {threads} thread(s): {value:.1f} ms   "
                f"onnxruntime {theirs:.1f} ms   {value / theirs:.2f} of its time"
            )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
