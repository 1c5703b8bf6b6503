"""Runs kernels of another architecture, under the emulator of a processor."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cpu_kernels import Array, HostKernel, numpy_dtype_of

from mgx_mlir.artifact.target import Target

# For each level the C compiler, and the emulator of a processor that has nothing more.
_ARM = "aarch64-linux-gnu-gcc", ("qemu-aarch64", "-cpu", "max", "-L", "/usr/aarch64-linux-gnu")
_MACHINES = {
    "aarch64": _ARM,
    "aarch64-sve": _ARM,
    "x86-64-v2": ("gcc", ("qemu-x86_64", "-cpu", "Nehalem")),
    "x86-64-v3": ("gcc", ("qemu-x86_64", "-cpu", "Haswell")),
}
_PACKAGES = {"gcc": "gcc", _ARM[0]: "gcc-aarch64-linux-gnu"}
LEVELS = tuple(_MACHINES)


@cache
def runner(compiler: str, emulator: str) -> Path:
    """The program that runs code objects, compiled. Skips where it cannot be."""
    for tool, package in ((compiler, _PACKAGES[compiler]), (emulator, "qemu-user")):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (Debian package {package})")
    program = Path(tempfile.mkdtemp(prefix="mgx-runner-")) / "runner"
    source = Path(__file__).with_name("runner.c")
    # Kernels call libm without naming it.
    libraries = ("-Wl,--no-as-needed", "-lm", "-ldl")
    subprocess.run([compiler, "-O1", "-o", program, source, *libraries], check=True)
    return program


class EmulatedKernel(HostKernel):
    """A kernel for one of `LEVELS`; `run` is one process of the emulator."""

    def __init__(self, text: str, level: str) -> None:
        super().__init__(text, Target.get(level))
        self._level = level

    def run(self, *arrays: Array) -> list[Array]:
        compiler, emulator = _MACHINES[self._level]
        program = runner(compiler, emulator[0])
        with tempfile.TemporaryDirectory(prefix="mgx-run-") as name:
            folder = Path(name)
            library = folder / "kernel.so"
            library.write_bytes(self.code.data)
            lines = []
            for number, array in enumerate(arrays):
                np.ascontiguousarray(array).tofile(folder / f"in{number}")
                lines.append(f"buffer {array.nbytes} {folder / f'in{number}'}")
            results = [np.empty(s.shape, numpy_dtype_of(s.dtype)) for s in self.outputs]
            lines += [f"buffer {result.nbytes} -" for result in results]
            lines.append(f"buffer {self.code.scratch_bytes} -")
            places = {"input": 0, "output": len(arrays), "scratch": len(arrays) + len(results)}
            for launch in self.code.launches:
                given = [
                    f"{places[a.kind]} {a.index}" if a.kind == "scratch"
                    else f"{places[a.kind] + a.index} 0"
                    for a in launch.arguments
                ]  # fmt: skip
                lines.append(
                    f"call {launch.function} {launch.grid[0]} {len(given)} {' '.join(given)}"
                )
            for number in range(len(results)):
                lines.append(f"save {len(arrays) + number} {folder / f'out{number}'}")
            command = [*emulator, program, library]
            done = subprocess.run(
                command, input="\n".join(lines), text=True, capture_output=True, timeout=120,
                check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return [
                np.fromfile(folder / f"out{number}", result.dtype).reshape(result.shape)
                for number, result in enumerate(results)
            ]

    def run_over(self, place: int, *arrays: Array) -> list[Array]:
        return self.run(*arrays)
