"""Runs a program of the tests on an emulated chip, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mgx_mlir.emulator import library_path

ROOT = Path(__file__).parents[3]
# Emulated chips that execute the instructions of others (AMDGPUUsage, "Processors": those of RDNA 3
# differ in registers and clocks alone, as those of RDNA 3.5 do).
SIBLINGS: dict[str, str] = {
    "gfx10-3-generic": "gfx1030",
    "gfx11-generic": "gfx1151",
    "gfx1101": "gfx1100",
    "gfx1102": "gfx1100",
    "gfx1103": "gfx1100",
    "gfx1150": "gfx1151",
    "gfx1152": "gfx1151",
    "gfx1153": "gfx1151",
    "gfx12-generic": "gfx1200",
    "gfx1200": "gfx1200",
    "gfx9-4-generic": "gfx950",
}


# Each run takes one of the orders of waves and work-groups: all of them give the same results.
ORDERS = ("forward", "reversed", "random:1")


def shares(chips: Sequence[str], parts: int) -> list[Any]:
    """Chips, each with the share of a program's cases that it runs: together they run all of them
    on chips of each kind. With all cases each is slow."""
    slow = [pytest.param(chip, "", marks=pytest.mark.slow) for chip in chips]
    return [*((chip, f"{n % parts}/{parts}") for n, chip in enumerate(chips)), *slow]


def run_on(chip: str, program: str, folder: Path, *arguments: str) -> None:
    """Runs a file beside this one with the chip as its first argument; it has to succeed.

    A chip that is not emulated is another one of the same instructions.
    `folder` becomes the ROCm that hip-python finds the emulated library in.
    """
    (folder / "lib").mkdir()
    (folder / "lib" / "libamdhip64.so").symlink_to(library_path())
    # Strict: what is read before it is written, or raced for, is a fault.
    environment = {
        **os.environ,
        "MGX_EMULATED_DEVICES": SIBLINGS.get(chip, chip),
        "MGX_EMULATOR_ORDER": ORDERS[sum(map(ord, chip + program)) % len(ORDERS)],
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
