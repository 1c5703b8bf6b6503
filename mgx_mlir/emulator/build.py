"""Builds the emulated device in a checkout: set-up leaves it out, the first GPU asks for it."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

from mgx_mlir.errors import UsageError
from mgx_mlir.machine.host import machine_flags

# The folder of a checkout: the package lies in it, and the emulator's sources.
CHECKOUT = Path(__file__).resolve().parents[2]


def can_build() -> bool:
    """Whether the package lies in a checkout, which has the sources."""
    return (CHECKOUT / "emulator/CMakeLists.txt").is_file()


def build(targets: tuple[str, ...]) -> Path:
    """Builds these targets of emulator/CMakeLists.txt, what is missing of them; returns the folder.

    A process waits for another one that builds. Raises UsageError with the end of the output.
    """
    folder = CHECKOUT / "build/emulator"
    folder.mkdir(parents=True, exist_ok=True)
    # One set of handlers, that for this machine; a wheel has both.
    skipped = "BASELINE" if {"avx2", "fma"} <= machine_flags() else "V3"
    configure = ["cmake", "-G", "Ninja", "-S", str(CHECKOUT / "emulator"), "-B", str(folder)]
    configure.append(f"-DMGX_EMULATOR_{skipped}=OFF")
    if shutil.which("g++"):
        # Its code executes 2.8 times as many instructions a second as clang's.
        configure.append("-DCMAKE_CXX_COMPILER=g++")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _run(configure)
        _run(["cmake", "--build", str(folder), "--target", *targets])
    return folder


def build_for_use() -> None:
    """Builds the library, and says so."""
    print("mgx: building the emulated GPUs, once; it takes about a minute", file=sys.stderr)
    build(("amdhip64",))


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise UsageError(
            f"the emulated GPUs are not built, and {command[0]} is missing; run `make setup`"
        ) from error
    if done.returncode:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise UsageError(f"the emulated GPUs do not build: {' '.join(command)}\n{end}")
