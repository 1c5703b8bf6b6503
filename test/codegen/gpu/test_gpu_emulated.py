"""The code objects executed, instruction by instruction, where the emulated device is built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LIBRARIES = (
    *(ROOT / "mgx_mlir" / "_native").rglob("libamdhip64.so"),
    *(ROOT / "build").glob("emulator*/libamdhip64.so"),
)
LIBRARY = max(LIBRARIES, key=lambda path: path.stat().st_mtime, default=None)
CHIPS = ("gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151", "gfx1200", "gfx1201")


@pytest.mark.skipif(LIBRARY is None, reason="the emulated libamdhip64 is not built")
@pytest.mark.parametrize("chip", CHIPS)
def test_emulated_device_computes_what_the_functions_mean(chip: str, tmp_path: Path) -> None:
    assert LIBRARY is not None
    # Where hip-python looks for the library.
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libamdhip64.so").symlink_to(LIBRARY)
    # Strict: what is read before it is written, or raced for, is a fault.
    environment = {
        **os.environ,
        "MGX_EMULATED_DEVICES": chip,
        "MGX_EMULATOR_STRICT": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)]),
        "ROCM_PATH": str(tmp_path),
    }
    program = Path(__file__).with_name("emulated_run.py")
    done = subprocess.run(
        [sys.executable, str(program), chip],
        env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
