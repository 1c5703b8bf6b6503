"""Host time of a run of many launches, beside a C program that makes the same HIP calls.

    python -m benchmarks.launch_overhead [--count 100] [--runs 500] [--chip gfx942]

The kernels do nothing. Prints the microseconds of a run for C and for a program, launch by
launch and as a graph, and of both the ratio and what a run has on top. Best of all runs
beside the median, because other programs may use the cores meanwhile.
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
from pathlib import Path

import numpy as np

from mgx_mlir import emulator
from mgx_mlir.artifact.code_object import Argument, CodeObject, Launch
from mgx_mlir.artifact.plan import Buffer, Plan, Step, TensorSpec
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import UsageError
from mgx_mlir.loader import hip_device
from mgx_mlir.machine.link import link
from mgx_mlir.machine.llvm_amdgpu import emit_object
from mgx_mlir.runtime.hip.device import Device
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
    parser.add_argument("--count", type=int, default=100, help="launches of a run")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3, help="C and Python by turns")
    parser.add_argument("--chip", default="gfx942")
    options = parser.parse_args()
    # One thread: kernels that do nothing are not worth waking others.
    os.environ.setdefault("MGX_EMULATOR_THREADS", "1")
    data = link(emit_object(NOTHING, options.chip))
    device = hip_device(Target.get(options.chip), Settings.from_environment())
    print(f"{device}, {library_kind()}; {options.count} launches a run, {options.runs} runs")
    print(
        f"{'':>6} {'C us':>15} {'program us':>17} {'ratio':>6} {'us a launch':>12} {'more us':>8}"
    )
    with tempfile.TemporaryDirectory() as folder:
        c_program = _compile(Path(folder))
        image = Path(folder) / "nothing.co"
        image.write_bytes(data)
        for how in ("plain", "graph"):
            program = _program(data, options.chip, options.count, device, how == "graph")
            rounds = [
                (_c_times(c_program, image, options, how), _times(program, options.runs))
                for _ in range(options.rounds)
            ]
            c, own = (
                (min(r[k][0] for r in rounds), statistics.median(r[k][1] for r in rounds))
                for k in range(2)
            )
            print(
                f"{how:>6} {c[0]:7.1f} {c[1]:7.1f} {own[0]:9.1f} {own[1]:7.1f} "
                f"{own[0] / c[0]:6.2f} {own[0] / options.count:12.2f} {own[0] - c[0]:8.1f}"
            )


def _program(data: bytes, chip: str, count: int, device: Device, graph: bool) -> HipProgram:
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
    return HipProgram(Plan(spec[:1], spec[1:], 512, buffers, steps), [code], {}, device, graph)


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


def _compile(folder: Path) -> Path:
    compiler = next(filter(None, map(shutil.which, ("cc", "clang-22", "clang"))), None)
    if compiler is None:
        raise UsageError("no C compiler: install cc")
    source = Path(__file__).with_suffix(".c")
    library = emulator.library_path() if library_kind() == "emulated" else Path("amdhip64")
    linked = [str(library)] if library.is_absolute() else ["-L/opt/rocm/lib", "-lamdhip64"]
    program = folder / "launch_overhead"
    command = [compiler, "-O2", str(source), "-o", str(program), *linked]
    subprocess.run([*command, f"-Wl,-rpath,{library.parent}"], check=True)
    return program


def _c_times(program: Path, image: Path, options: argparse.Namespace, how: str) -> Times:
    command = [str(program), str(image), "nothing", str(options.count), str(options.runs), how]
    environment = {**os.environ, "MGX_EMULATED_DEVICES": options.chip}
    if library_kind() == "emulated":
        environment["LD_LIBRARY_PATH"] = str(emulator.rocm_path() / "lib")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    best, median = map(float, done.stdout.split())
    return best, median


if __name__ == "__main__":
    main()
