"""Whole models on emulated chips, strictly, against the host; graph on and off alike."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hip_programs import CHIPS

PROGRAM = Path(__file__).with_name("strict_models.py")


@pytest.mark.parametrize("model", ["bert", "lstm", "vit"])
@pytest.mark.parametrize("chip", CHIPS)
def test_models_give_what_the_host_gives(chip: str, model: str) -> None:
    # Strict: what is read before it is written, or raced for, is a fault.
    environment = {
        **os.environ,
        "MGX_EMULATED_DEVICES": chip,
        "MGX_EMULATOR_STRICT": "1",
        "MGX_HIP": "emulated",
        "MGX_JOBS": "1",
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), chip, model],
        env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
