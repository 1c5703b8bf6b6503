"""The generators of test/fuzz as commands, each in a process of its own."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def fuzz(module: str, *options: str, timeout: float | None = None) -> str:
    """What `python -m test.fuzz.MODULE` prints. Raises AssertionError where it finds a fault."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", f"test.fuzz.{module}", *options],
        cwd=ROOT,
        env={**os.environ, "MGX_CACHE_DIR": "none"},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def reset_devices() -> None:
    """Clears the fault of a kernel."""
    from mgx_mlir import emulator

    gc.collect()
    for device in emulator.devices():
        emulator.reset_device(device.ordinal)
