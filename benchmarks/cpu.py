"""Runs on the CPU beside onnxruntime's: whole networks of batch 1, with random weights and inputs.

    python -m benchmarks.cpu [--models squeezenet,bert] [--threads 1,2] [--rounds 5] [--target cpu]

Each side is alone in a process of its own. They take turns, and one that waits uses no core. A
figure is the least milliseconds of one run over all turns; the ratio is ours to onnxruntime's,
below 1 where ours is faster. On a machine with other work, `--clock process` counts a process' own
time, which is right for one thread. `perceptron`, `step` and `forest` are small graphs, whose time
is that of starting a run. `decode`, `decode int4`, `bilstm` and `bilstm of 8` have open sizes: one
program for any runs them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import onnx

from benchmarks import without_avx512
from benchmarks.cpu_nets import MODELS as CPU_NETS
from benchmarks.cpu_nets import SIZES
from benchmarks.net_models import MODELS as NETS
from test.dynamic_models import inputs_of
from test.onnx_models import MODELS, light, light_names, random_inputs

# Seconds and runs of a turn, at the least.
TURN, RUNS = 0.3, 5
SIDES = ("ours", "theirs")
CLOCKS = {"wall": time.perf_counter, "process": time.process_time}
# Networks of `benchmarks.nets` with open sizes; the CPU runs the decoder `decode` in their place.
OPEN = {"decoder", "decoder2", "grouped2"}

SOURCES: dict[str, Callable[[], onnx.ModelProto]] = {
    **{name: partial(light, name, seed=0) for name in light_names()},
    **{name: partial(model, 1) for name, model in NETS.items() if name not in OPEN},
    **MODELS,
    **CPU_NETS,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", default=",".join(SOURCES), help="among " + ", ".join(SOURCES))
    parser.add_argument("--threads", default="1,2", metavar="N,N")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="turns of each side")
    parser.add_argument("--target", default="cpu", help="cpu, or a level such as x86-64-v3")
    parser.add_argument("--clock", default="wall", choices=CLOCKS)
    parser.add_argument("--serve", nargs=3, metavar=("SIDE", "FILE", "N"), help=argparse.SUPPRESS)
    parser.add_argument("--sizes", default="null", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        side, file, threads = options.serve
        sizes = json.loads(options.sizes)
        run = runner(side, Path(file), int(threads), options.target, sizes)
        serve(run, CLOCKS[options.clock])
        return 0
    with tempfile.TemporaryDirectory() as folder:
        peer = None
        if options.target == "x86-64-v3":
            peer = Path(folder)
            without_avx512.make(peer)
        compare(options, peer)
    return 0


def compare(options: argparse.Namespace, peer: Path | None) -> None:
    """Prints the table. `peer`: the folder of the onnxruntime to compare with, if not the usual."""
    print(f"{'model':18}{'threads':>8}{'ours':>10}{'onnxruntime':>13}{'ratio':>7}")
    for count in map(int, options.threads.split(",")):
        ratios = []
        for name in options.models.split(","):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "model.onnx"
                onnx.save(SOURCES[name](), file)
                setting = options.rounds, options.target, options.clock, peer
                ours, theirs = fastest(file, count, *setting, SIZES.get(name))
            ratios.append(ours / theirs)
            print(f"{name:18}{count:8}{ours:10.3f}{theirs:13.3f}{ratios[-1]:7.2f}", flush=True)
        print(f"{'geometric mean':18}{count:8}{geometric_mean(ratios):30.2f}", flush=True)


def fastest(
    model: Path,
    threads: int,
    rounds: int = 5,
    target: str = "cpu",
    clock: str = "wall",
    peer: Path | None = None,
    sizes: dict[str, int] | None = None,
) -> tuple[float, float]:
    """The least milliseconds of a run of a model: ours, and onnxruntime's.

    `sizes`: those of a run of a model that leaves them open.
    """
    with ExitStack() as stack:
        setting = model, threads, target, clock, peer, sizes
        sides = [stack.enter_context(_side(x, *setting)) for x in SIDES]
        times = [[_turn(side) for side in sides] for _ in range(1 + rounds)][1:]
        for side in sides:
            side.stdin.close()  # ends it
    ours, theirs = (min(side) for side in zip(*times, strict=True))
    return ours, theirs


def _side(
    side: str,
    model: Path,
    threads: int,
    target: str,
    clock: str,
    peer: Path | None,
    sizes: dict[str, int] | None,
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.cpu", "--target", target, "--clock", clock]
    command += ["--serve", side, str(model), str(threads), "--sizes", json.dumps(sizes)]
    changed = {"PYTHONPATH": str(peer)} if peer and side == "theirs" else {}
    pipe = subprocess.PIPE
    environment = {**os.environ, **changed}
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)


def _turn(side: subprocess.Popen[str]) -> float:
    assert side.stdin is not None and side.stdout is not None
    print(file=side.stdin, flush=True)
    answer = side.stdout.readline()
    if not answer:
        raise SystemExit(f"a side ended with status {side.wait()}: {side.args!r}")
    return float(answer)


def serve(run: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> None:
    """Answers each line of standard input with the least milliseconds of the runs of a turn."""
    for _ in sys.stdin:
        times: list[float] = []
        end = time.perf_counter() + TURN
        while len(times) < RUNS or time.perf_counter() < end:
            started = clock()
            run()
            times.append(clock() - started)
        print(min(times) * 1e3, flush=True)


def runner(
    side: str, model: Path, threads: int, target: str, sizes: dict[str, int] | None
) -> Callable[[], Any]:
    """A function that runs a model once: compiled for the target, or in onnxruntime."""
    onnx_model = onnx.load(model)
    inputs = inputs_of(onnx_model, sizes) if sizes else random_inputs(onnx_model)
    if side == "ours":
        import mgx_mlir
        from mgx_mlir.compiler import CompileOptions
        from mgx_mlir.settings import Settings

        compiling = CompileOptions(mode="full-dynamic" if sizes else "default")
        program = mgx_mlir.compile(model, target, compiling, settings=Settings(threads=threads))
        return lambda: program.run(inputs)
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    # Threads that wait for work by spinning would take the core of the other side's turn.
    settings.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(str(model), settings, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


if __name__ == "__main__":
    sys.exit(main())
