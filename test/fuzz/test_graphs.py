"""Random graphs on the host and on emulated chips, strictly, and the first ones that went wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mgx_mlir.artifact.target import executable_levels
from test.fuzz.graphs.found import FOUND

ROOT = Path(__file__).resolve().parents[2]


def fuzz(*options: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "test.fuzz.graphs", *options],
        cwd=ROOT,
        env={**os.environ, "MGX_CACHE_DIR": "none", "MGX_JOBS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_graphs_of_a_few_seeds() -> None:
    fuzz("--seed", "9100", "--count", "12")


def test_graphs_of_open_sizes() -> None:
    fuzz("--seed", "9300", "--count", "12", "--mode", "full-dynamic", "--targets", "cpu,gfx942")


def test_graphs_that_went_wrong() -> None:
    targets = "cpu,gfx942,gfx1030,gfx1100"
    fuzz("--found", "--count", str(len(FOUND)), "--all", "--targets", targets, "--mode", "default")


@pytest.mark.slow
def test_three_hundred_graphs() -> None:
    fuzz("--seed", "30000", "--count", "300")


@pytest.mark.slow
def test_graphs_on_each_level_of_cpus() -> None:
    levels = ",".join(target.name for target in executable_levels())
    fuzz("--seed", "60000", "--count", "100", "--all", "--targets", levels)
