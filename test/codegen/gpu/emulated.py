"""Runs a program of the tests on an emulated chip, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mgx_mlir.emulator import library_path

ROOT = Path(__file__).parents[3]


def run_on(chip: str, program: str, folder: Path, *arguments: str) -> None:
    """Runs a file beside this one with the chip as its first argument; it has to succeed.

    `folder` becomes the ROCm that hip-python finds the emulated library in.
    """
    (folder / "lib").mkdir()
    (folder / "lib" / "libamdhip64.so").symlink_to(library_path())
    # Strict: what is read before it is written, or raced for, is a fault.
    environment = {
        **os.environ,
        "MGX_EMULATED_DEVICES": chip,
        "MGX_EMULATOR_STRICT": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)]),
        "ROCM_PATH": str(folder),
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(program)), chip, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
