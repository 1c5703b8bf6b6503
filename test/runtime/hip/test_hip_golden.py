"""Golden artifacts of every version, finalized and executed on emulated chips."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mgx_mlir
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.settings import Settings
from test.golden.files import ARTIFACTS, expected, name_of


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
@pytest.mark.parametrize("path", ARTIFACTS, ids=name_of)
def test_golden_artifact_runs_on_a_chip(path: Path, chip: str) -> None:
    x, y = expected(path)
    settings = Settings(jobs=1, hip="emulated")
    program = mgx_mlir.compile(Artifact.open(path), chip, settings=settings)
    (found,) = program.run({"x": x}).values()
    tolerance = 1e-5 if y.dtype == np.float32 else 4e-3
    np.testing.assert_allclose(found.astype(np.float32), y.astype(np.float32), tolerance, tolerance)
