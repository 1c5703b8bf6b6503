"""Compiling and finalizing need no disk, and no cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# No file may grow (RLIMIT_FSIZE is 0, for worker processes too), and none is opened to write.
PROGRAM = """
import json, os, resource, sys
written = []
def note(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and path != "/dev/null":
            written.append(path)
    if event in ("os.mkdir", "os.rename", "tempfile.mkstemp", "tempfile.mkdtemp"):
        written.append(event)
sys.addaudithook(note)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
import mgx_mlir
from mgx_mlir.settings import Settings
model = open(sys.argv[1], "rb").read()
settings = Settings.from_environment()
artifact = mgx_mlir.compile_to_bytecode(model)
once = mgx_mlir.finalize(artifact, ["gfx942", "gfx1100", "cpu"], settings=settings)
# From bytes, in worker processes.
again = mgx_mlir.Artifact.from_bytes(artifact.to_bytes())
again = mgx_mlir.finalize(again, ["gfx942", "gfx1100", "cpu"], settings=settings)
assert again.to_bytes() == once.to_bytes()
# A descriptor is a file in memory, or a pipe to a worker.
print(json.dumps([str(path) for path in written if not isinstance(path, int)]))
"""


@pytest.mark.parametrize("cache", ["none", "file", "read-only"])
def test_bytes_to_code_objects_without_a_disk(cache: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way of a folder")
    environment = {
        **os.environ,
        "MGX_CACHE_DIR": {"none": "none", "file": str(tmp_path / "file" / "x")}.get(
            cache, "/proc/mgx"
        ),
        "MGX_JOBS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT / "examples" / "digits.onnx")],
        env=environment, capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    tried = ["os.mkdir"] if cache != "none" else []
    assert set(json.loads(done.stdout)) <= set(tried), done.stdout
