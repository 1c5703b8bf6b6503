"""The wheel of the compiler in a bare Debian, which has nothing but its LLVM packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = "libmlir-22 lld-22 rocm-device-libs python3-venv"

RUN = """
import numpy as np
import mgx_mlir
from onnx import parser
model = parser.parse_model('''<ir_version: 8, opset_import: ["" : 17]>
g (float[4, 8] x) => (float[4, 8] y) { y = Relu(x) }''')
x = np.linspace(-1, 1, 32, dtype="f4").reshape(4, 8)
for target in ("cpu", "gfx942"):
    found = mgx_mlir.compile(model, target=target).run({"x": x})
    assert (np.asarray(found["y"]) == np.maximum(x, 0)).all(), target
print("ran")
"""


@pytest.mark.slow
def test_the_wheel_works_in_a_bare_debian_12(tmp_path: Path) -> None:
    """On Debian 12: the new root gets packages from where this machine does."""
    if shutil.which("debootstrap") is None:
        pytest.skip("needs debootstrap: apt-get install debootstrap")
    if sys.version_info[:2] != (3, 11):
        pytest.skip("Debian 12 has Python 3.11, the wheel is for another")
    subprocess.run(["make", "-o", "setup", "wheel"], cwd=ROOT, check=True)
    root = tmp_path / "root"
    subprocess.run(["debootstrap", "--variant=minbase", "bookworm", root], check=True)
    shutil.copytree("/etc/apt", root / "etc/apt", dirs_exist_ok=True)
    (wheel,) = (ROOT / "dist").glob("mgx_mlir-*.whl")
    download = [sys.executable, "-m", "pip", "download", "-q", "-d", root / "wheels", wheel]
    subprocess.run(download, check=True)
    (root / "run.py").write_text(RUN)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    script = (
        f"apt-get update -qq && apt-get install -qq -y --no-install-recommends {PACKAGES} "
        "&& python3 -m venv /v && /v/bin/pip install -q --no-index -f /wheels mgx-mlir "
        "&& /v/bin/python /run.py"
    )
    done = subprocess.run(
        # A mount of its own: /proc goes with the process.
        [
            "unshare",
            "-m",
            "sh",
            "-c",
            'mount -t proc p "$0/proc"; chroot "$0" sh -c "$1"',
            root,
            script,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert done.stdout.endswith("ran\n")
