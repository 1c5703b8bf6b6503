"""Streams that work beside the host, strictly: what is raced for between them is a fault."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_streams_and_threads_race_for_nothing() -> None:
    # A process of its own: both modes are chosen at the library's first call.
    environment = os.environ | {"MGX_EMULATOR_ASYNC": "1", "MGX_EMULATOR_STRICT": "1"}
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider",
            str(HERE / "test_hip_streams.py"),
            f"{HERE / 'test_hip_program.py'}::test_eight_threads_run_one_program",
        ],
        env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
