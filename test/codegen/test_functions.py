"""Functions of floats are close to the exact result for all numbers, on every kind of target."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from test.codegen.functions_run import TYPES

ROOT = Path(__file__).parents[2]


CASES = [("gfx1100", "f32"), *((target, type_) for target in ("cpu", "gfx942") for type_ in TYPES)]


@pytest.mark.parametrize(("target", "type_"), CASES)
def test_functions_are_close_over_their_whole_range(target: str, type_: str) -> None:
    command = [sys.executable, "-m", "test.codegen.functions_run", target, type_]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
