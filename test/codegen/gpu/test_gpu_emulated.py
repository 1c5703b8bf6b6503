"""The code objects executed, instruction by instruction, where the emulated device is built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LIBRARIES = (
    ROOT / "mgx_mlir" / "_native" / "emulator" / "libamdhip64.so",
    *sorted((ROOT / "build").glob("emulator*/libamdhip64.so")),
)
LIBRARY = next((path for path in LIBRARIES if path.is_file()), None)


@pytest.mark.skipif(LIBRARY is None, reason="the emulated libamdhip64 is not built")
@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_emulated_device_computes_what_the_functions_mean(chip: str, tmp_path: Path) -> None:
    assert LIBRARY is not None
    # Where hip-python looks for the library.
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libamdhip64.so").symlink_to(LIBRARY)
    environment = {
        **os.environ,
        "MGX_EMULATED_DEVICES": chip,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)]),
        "ROCM_PATH": str(tmp_path),
    }
    program = Path(__file__).with_name("emulated_run.py")
    done = subprocess.run(
        [sys.executable, str(program), chip],
        env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    if "is not implemented" in done.stderr:
        pytest.skip(f"the emulated device is incomplete: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stdout + done.stderr
