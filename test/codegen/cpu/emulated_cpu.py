"""Runs kernels of another architecture, under the emulator of a processor."""

from __future__ import annotations

import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cpu_kernels import Array, HostKernel, numpy_dtype_of

_COMPILER, _EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
_LIBRARIES = "/usr/aarch64-linux-gnu"


@cache
def runner() -> Path:
    """The program that runs code objects of aarch64, compiled. Skips where it cannot be."""
    for tool, package in ((_COMPILER, "gcc-aarch64-linux-gnu"), (_EMULATOR, "qemu-user")):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (Debian package {package})")
    program = Path(tempfile.mkdtemp(prefix="mgx-aarch64-")) / "runner"
    source = Path(__file__).with_name("runner.c")
    # Kernels call libm without naming it.
    libraries = ("-Wl,--no-as-needed", "-lm", "-ldl")
    subprocess.run([_COMPILER, "-O1", "-o", program, source, *libraries], check=True)
    return program


class EmulatedKernel(HostKernel):
    """A kernel for aarch64; `run` is one process of the emulator."""

    def run(self, *arrays: Array) -> list[Array]:
        program = runner()
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
            command = [program, library]
            if platform.machine() != "aarch64":
                command = [_EMULATOR, "-cpu", "max", "-L", _LIBRARIES, *command]
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
