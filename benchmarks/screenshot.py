"""Takes the picture of a report: a BERT of 6 layers on an emulated gfx942, as Chromium shows it.

    python -m benchmarks.screenshot FILE.png

Without Chromium (chromium-headless-shell, or chromium) the picture stays as it is, which is said.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx

from test.onnx_models import MODELS

_SIZE = "1180,1240"
# Large enough that its kernels are more than launches, small enough to be emulated in seconds.
_BERT = {"layers": 6, "width": 384, "tokens": 64}


def main() -> int:
    browser = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if browser is None:
        print(f"no Chromium is here: {sys.argv[1]} stays as it is")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(MODELS["bert"](**_BERT), folder / "bert.onnx")
        command = ["perf", "bert.onnx", "--target", "gfx942", "--runs", "1", "--report", "r.html"]
        subprocess.run(
            [sys.executable, "-m", "mgx_mlir.tools.mgx", *command],
            cwd=folder, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        picture = folder / "r.png"
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--window-size={_SIZE}", f"--user-data-dir={folder / 'profile'}",
             f"--screenshot={picture}", (folder / "r.html").as_uri()],
            check=True, capture_output=True, timeout=300,
        )  # fmt: skip
        shutil.copyfile(picture, sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
