"""Models that were made to harm: refused with words that help, or run, within limits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from test.fuzz.hostile.attempt import Attempts
from test.fuzz.hostile.rows import rows

ROOT = Path(__file__).resolve().parents[2]
# Some of each table; all are tried where slow tests run.
SAMPLE = rows()[::12]


def test_models_of_all_tables_are_there() -> None:
    names = [row.name for row in rows()]
    assert len(names) >= 300
    assert len(set(names)) == len(names)


def test_some_hostile_models() -> None:
    with Attempts() as attempts:
        found = {row.name: attempts.of(row) for row in SAMPLE}
    assert {name: result.finding for name, result in found.items() if result.finding} == {}


@pytest.mark.slow
def test_every_hostile_model() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "test.fuzz.hostile"],
        cwd=ROOT,
        env={**os.environ, "MGX_CACHE_DIR": "none"},
        capture_output=True,
        text=True,
        check=False,
        timeout=3600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
