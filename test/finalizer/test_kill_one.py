"""Two processes finalize the same artifact at once, and one is killed at a random moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("kill_one.py")


def run(folder: Path, rounds: int) -> None:
    command = [sys.executable, str(PROGRAM), str(folder / "cache"), str(rounds), "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{rounds} rounds" in done.stdout


def test_no_entry_is_wrong_or_missing(tmp_path: Path) -> None:
    run(tmp_path, 2)


@pytest.mark.slow
def test_no_entry_is_wrong_or_missing_in_a_hundred_rounds(tmp_path: Path) -> None:
    run(tmp_path, 100)
