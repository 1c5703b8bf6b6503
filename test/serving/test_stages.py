"""The example of a model on two GPUs, which are emulated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from test.serving.digits import SERVING, artifact, images, network, wanted

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mode", ["0", "1"], ids=["in turn", "beside the host"])
def test_rows_go_through_two_devices(mode: str, tmp_path: Path) -> None:
    environment = os.environ | {"MGX_EMULATED_DEVICES": "gfx942,gfx942", "MGX_EMULATOR_ASYNC": mode}
    rows, scores = tmp_path / "rows.npy", tmp_path / "scores.npy"
    np.save(rows, images()[:44])
    onnx.save(network(), tmp_path / "digits.onnx")

    def done(*words: str | Path) -> str:
        made = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        return made.stdout

    options = ("--mode", "full-dynamic", "--devices", "2")
    done("-m", "mgx_mlir.tools.mgx", "compile", "digits.onnx", *options)
    stages = ["digits-1-of-2.mgx", "digits-2-of-2.mgx"]
    said = done(SERVING / "stages.py", *stages, rows, scores, "--target", "gfx942", "--chunk", "8")
    assert said.startswith("44 rows in ")
    np.testing.assert_allclose(np.load(scores), wanted(artifact(tmp_path))[:44], 1e-4, 1e-6)
