"""Host time of a run: libmgx and Python, beside a C program that makes the same HIP calls.

    python -m benchmarks.host [--count 3] [--runs 500] [--chip gfx942]

The kernels do nothing. Prints the microseconds of a run, launch by launch and as a graph: the best
of all runs beside the median, because other programs may use the cores meanwhile, and what the best
has over that in C.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

import mgx_mlir
from mgx_mlir import emulator
from mgx_mlir.artifact.code_object import Argument, CodeObject, Launch
from mgx_mlir.artifact.contents import PortableKernel
from mgx_mlir.artifact.plan import Buffer, Plan, Step, TensorSpec
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import UsageError
from mgx_mlir.loader import hip_device
from mgx_mlir.machine.link import link
from mgx_mlir.machine.llvm_amdgpu import emit_object
from mgx_mlir.runtime.hip.library import library_kind
from mgx_mlir.runtime.hip.program import HipProgram
from mgx_mlir.runtime.hip.tensor import DeviceTensor
from mgx_mlir.settings import Settings

NOTHING = """
target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @nothing(ptr addrspace(1) %a, ptr addrspace(1) %b) #0 { ret void }
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" }
"""
Times = tuple[float, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=3, help="launches of a run")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3, help="each of them by turns")
    parser.add_argument("--chip", default="gfx942")
    options = parser.parse_args()
    # One thread: kernels that do nothing are not worth waking others.
    os.environ.setdefault("MGX_EMULATOR_THREADS", "1")
    data = link(emit_object(NOTHING, options.chip))
    device = hip_device(Target.get(options.chip), Settings.from_environment())
    print(f"{device}, {library_kind()}; {options.count} launches a run, {options.runs} runs")
    print(f"{'':>6} {'':>8} {'best us':>8} {'median us':>9} {'ratio':>6} {'more us':>8}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        image, model = folder / "nothing.co", folder / "nothing.mgx"
        image.write_bytes(data)
        artifact = _artifact(data, options.chip, options.count)
        artifact.save(model)
        hip, libmgx = _built(folder, "host_hip.c"), _built(folder, "host_libmgx.c")
        runs = str(options.runs)
        for how in ("plain", "graph"):
            code = artifact.code_objects[options.chip]
            program = HipProgram(artifact.plan, code, {}, device, how == "graph")
            ways = {
                "C": partial(
                    _c_times, [hip, image, "nothing", str(options.count), runs, how], options.chip
                ),
                "libmgx": partial(
                    _c_times, [libmgx, model, "hip:0", "4096", runs, how], options.chip
                ),
                "Python": partial(_times, program, options.runs),
            }
            found: dict[str, list[Times]] = {way: [] for way in ways}
            for _ in range(options.rounds):
                for way, times in ways.items():
                    found[way].append(times())
            least = min(best for best, _ in found["C"])
            for way, rounds in found.items():
                best = min(times[0] for times in rounds)
                median = statistics.median(times[1] for times in rounds)
                print(
                    f"{how:>6} {way:>8} {best:8.1f} {median:9.1f} {best / least:6.2f} "
                    f"{best - least:8.1f}"
                )


def _artifact(data: bytes, chip: str, count: int) -> Artifact:
    """A chain of `count` launches from the input to the output, through the arena."""
    spec = TensorSpec("x", "float32", (64,)), TensorSpec("y", "float32", (64,))
    buffers = (
        Buffer("input", 256, index=0),
        Buffer("output", 256, index=0),
        Buffer("arena", 256, offset=0),
        Buffer("arena", 256, offset=256),
    )
    ends = [0, *(2 + n % 2 for n in range(count - 1)), 1]
    steps = tuple(Step(0, pair) for pair in itertools.pairwise(ends))
    arguments = (Argument("input", 0), Argument("output", 0))
    launch = Launch("nothing", (1, 1, 1), (64, 1, 1), arguments)
    code = CodeObject(chip, data, (launch,), 0, {})
    plan = Plan(spec[:1], spec[1:], 512, buffers, steps)
    kernels = (PortableKernel("nothing", b"none"),)
    return Artifact("nothing", plan, kernels, {}, code_objects={chip: (code,)})


def _times(program: HipProgram, runs: int) -> Times:
    """Best and median microseconds of a run on tensors that stay where they are."""
    inputs = {"x": DeviceTensor.from_numpy(np.zeros(64, np.float32))}
    outputs = {"y": DeviceTensor.empty((64,), np.float32)}
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        program.run(inputs, outputs)
        times.append((time.perf_counter() - started) * 1e6)
    return min(times), statistics.median(times)


def _built(folder: Path, source: str) -> Path:
    """A C program of this folder."""
    compiler = next(filter(None, map(shutil.which, ("cc", "clang-22", "clang"))), None)
    if compiler is None:
        raise UsageError("no C compiler: install cc")
    here = Path(__file__).parent
    program = folder / source.removesuffix(".c")
    if source == "host_libmgx.c":
        native = Path(mgx_mlir.__path__[0]) / "_native"
        linked = [f"-I{here.parent}/libmgx/include", f"-L{native}", "-lmgx", f"-Wl,-rpath,{native}"]
    elif library_kind() == "emulated":
        library = emulator.library_path()
        linked = [str(library), f"-Wl,-rpath,{library.parent}"]
    else:
        linked = ["-L/opt/rocm/lib", "-lamdhip64", "-Wl,-rpath,/opt/rocm/lib"]
    subprocess.run([compiler, "-O2", str(here / source), "-o", str(program), *linked], check=True)
    return program


def _c_times(command: list[str | Path], chip: str) -> Times:
    environment = {**os.environ, "MGX_EMULATED_DEVICES": chip}
    if library_kind() == "emulated":
        environment["LD_LIBRARY_PATH"] = str(emulator.rocm_path() / "lib")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    best, median = map(float, done.stdout.split())
    return best, median


if __name__ == "__main__":
    main()
