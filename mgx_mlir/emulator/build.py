"""Builds the emulated device in a checkout: set-up leaves it out, the first GPU asks for it."""

from __future__ import annotations

import fcntl
import logging
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from mgx_mlir.errors import UsageError
from mgx_mlir.machine.host import machine_flags

_log = logging.getLogger("mgx_mlir")

# Ninja's lines, of the steps that are done.
_STEP = re.compile(r"\[(\d+)/(\d+)\] ")
# Seconds between lines without a terminal, and between calls of who is told.
_EACH, _TOLD = 10.0, 0.2
Told = Callable[[int, int, float], None]

# The folder of a checkout: the package lies in it, and the emulator's sources.
CHECKOUT = Path(__file__).resolve().parents[2]


def can_build() -> bool:
    """Whether the package lies in a checkout, which has the sources."""
    return (CHECKOUT / "emulator/CMakeLists.txt").is_file()


def build(targets: tuple[str, ...], told: Told | None = None) -> Path:
    """Builds these targets of emulator/CMakeLists.txt, what is missing of them; returns the folder.

    A process waits for another one that builds. `told` hears how far it is: the steps that are
    done, all steps, the seconds. Raises UsageError with the end of the output.
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
        _run(["cmake", "--build", str(folder), "--target", *targets], told)
    return folder


def build_for_use() -> None:
    """Builds the library, and says how far it is: each step on a terminal, else now and then."""
    if not _log.isEnabledFor(logging.WARNING):
        build(("amdhip64",))
        return
    on_terminal = sys.stderr.isatty()
    print("mgx: building the emulated GPUs, once", file=sys.stderr, flush=True)
    last = 0.0

    def told(done: int, steps: int, seconds: float) -> None:
        nonlocal last
        if not on_terminal and seconds - last < _EACH:
            return
        last = seconds
        text = f"mgx: building the emulated GPUs: {done} of {steps} files, {seconds:.0f} s"
        print(text, end="\r" if on_terminal else "\n", file=sys.stderr, flush=True)

    try:
        build(("amdhip64",), told)
    finally:
        if on_terminal:
            print(end="\x1b[2K", file=sys.stderr, flush=True)  # the line goes


def _run(command: list[str], told: Told | None = None) -> None:
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    except FileNotFoundError as error:
        raise UsageError(
            f"the emulated GPUs are not built, and {command[0]} is missing; run `make setup`"
        ) from error
    lines: deque[str] = deque(maxlen=20)
    step = (0, 0)
    finished = threading.Event()

    def tell() -> None:
        while told is not None and not finished.wait(_TOLD):
            told(*step, time.monotonic() - started)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if found := _STEP.match(line):
                step = int(found[1]), int(found[2])
    finished.set()
    teller.join()
    if process.returncode:
        end = "\n".join(lines)
        raise UsageError(f"the emulated GPUs do not build: {' '.join(command)}\n{end}")
