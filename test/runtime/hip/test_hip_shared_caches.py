"""Decoding and generating on emulated chips with caches that stay where they lie, strictly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hip_programs import CHIPS

PROGRAMS = ["strict_caches.py", pytest.param("strict_generation.py", marks=pytest.mark.slow)]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("chip", CHIPS)
def test_caches_stay_where_they_lie(chip: str, program: str) -> None:
    # Strict: what is read before it is written, or raced for, is a fault.
    environment = {
        **os.environ,
        "MGX_EMULATED_DEVICES": chip,
        "MGX_EMULATOR_STRICT": "1",
        "MGX_HIP": "emulated",
        "MGX_JOBS": "1",
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(program)), chip],
        env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
