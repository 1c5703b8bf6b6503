"""A cold process of libmgx: the time to its first result, its size, its memory.

    python -m benchmarks.cold [--runs 20] [--model squeezenet] [--threads 1]

A C program opens an artifact of the model, with code for this CPU, and runs it once. Prints the
least milliseconds from the start of the process to its end, and those that it computes, beside
those of a process that does nothing, and how many later runs that is; the bytes of the stripped
library; the resident memory that opening an artifact of 2 GiB of weights takes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import mgx_mlir
from benchmarks.host import _built
from mgx_mlir.artifact.plan import Buffer, Plan, Step, TensorSpec
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.weights import Weight
from test.onnx_models import light

OPEN = """
import ctypes, sys
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
library = ctypes.CDLL(sys.argv[1])
before, handle = resident(), ctypes.c_void_p()
assert not library.mgx_artifact_open(sys.argv[2].encode(), None, ctypes.byref(handle))
print(resident() - before)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--model", default="squeezenet")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    library = Path(mgx_mlir.__path__[0]) / "_native/libmgx.so"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        artifact = mgx_mlir.compile_to_bytecode(light(options.model, seed=0))
        artifact = mgx_mlir.finalize(artifact, "cpu")
        model = folder / "model.mgx"
        artifact.save(model)
        specs = (*artifact.plan.inputs, *artifact.plan.outputs)
        size = str(max(spec.nbytes for spec in specs))
        program = _built(folder, "host_libmgx.c")
        words = [program, model, f"cpu:{options.threads}", size, "1", "plain"]
        walls = []
        for what, command in ((f"{options.model}, first result", words), ("nothing", ["true"])):
            wall, used = _least(command, options.runs)
            print(f"{what}: {wall:.1f} ms, {used:.1f} ms of a core")
            walls.append(wall)
        words[4] = str(options.runs)
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        again = float(done.stdout.split()[0]) / 1e3
        ratio = (walls[0] - walls[1]) / again
        print(f"a later run: {again:.1f} ms; the first result takes {ratio:.2f} of it")
        stripped = folder / "stripped.so"
        subprocess.run(["strip", "-o", stripped, library], check=True)
        print(f"library, stripped: {stripped.stat().st_size / 1e6:.2f} MB")
        _large(folder / "large.mgx")
        opening = [sys.executable, "-c", OPEN, library, folder / "large.mgx"]
        done = subprocess.run(opening, check=True, capture_output=True, text=True)
        print(f"an artifact of 2 GiB, opened: {int(done.stdout) / 1e6:.1f} MB resident")


def _least(words: Sequence[str | Path], runs: int) -> tuple[float, float]:
    """The least milliseconds from the start of a process to its end, and that it computes."""
    walls, used = [], []
    for _ in range(runs):
        started = time.perf_counter()
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
            _, status, spent = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        walls.append(time.perf_counter() - started)
        used.append(spent.ru_utime + spent.ru_stime)
    return 1e3 * min(walls), 1e3 * min(used)


def _large(path: Path) -> None:
    """An artifact that copies the first of its weights, of 2 GiB, to its output."""
    size = 1 << 31
    blob = path.with_suffix(".bin")
    with blob.open("wb") as file:
        file.truncate(size)
    weight = Weight("w", np.dtype(np.uint8), (size,), blob)
    buffers = Buffer("weight", size, key="w"), Buffer("output", size, index=0)
    plan = Plan((), (TensorSpec("y", "uint8", (size,)),), 0, buffers, (Step(-1, (0, 1)),))
    Artifact("large", plan, (), {"w": weight}).save(path, weights="inside")


if __name__ == "__main__":
    main()
