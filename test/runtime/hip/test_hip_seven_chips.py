"""One artifact for seven chips: flags, wave sizes, matrix instructions, equal results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("seven_chips.py")
CHIPS = "gfx90a,gfx942,gfx950,gfx1030,gfx1100,gfx1151,gfx1201"


def run(*arguments: str) -> None:
    environment = {**os.environ, "MGX_EMULATED_DEVICES": CHIPS, "MGX_HIP": "emulated"}
    environment["MGX_CACHE_DIR"] = "none"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == CHIPS.split(",")


def test_a_layer_of_bert() -> None:
    run("bert", "layers=1", "heads=2")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "resnet"])
def test_models(name: str) -> None:
    """BERT with two layers; ResNet-50's fifty layers, narrow and on a small image."""
    run(name, *(["stages=(3, 4, 6, 3)"] if name == "resnet" else []))
