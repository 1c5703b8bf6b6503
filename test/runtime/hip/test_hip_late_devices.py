"""A chip that is named late gets an emulated device, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

# Two programs of one new chip, from two threads, while another runs.
SCRIPT = """
import threading
import numpy as np
import onnx
import mgx_mlir
from mgx_mlir import emulator

text = '<ir_version: 8, opset_import: ["": 17]> g (float[64] x) => (float[64] y) { y = Relu(x) }'
model = onnx.parser.parse_model(text)
x = np.linspace(-1, 1, 64, dtype=np.float32)
first = mgx_mlir.compile(model, "gfx942")
found = []

def late():
    program = mgx_mlir.compile(model, "gfx1100")
    found.append((program.device.ordinal, program.run({"x": x})["y"]))

threads = [threading.Thread(target=late) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(20):
    assert (first.run({"x": x})["y"] == np.maximum(x, 0)).all()
for thread in threads:
    thread.join()
assert [ordinal for ordinal, _ in found] == [1, 1]
assert all((y == np.maximum(x, 0)).all() for _, y in found)
assert [device.chip for device in emulator.devices()] == ["gfx942", "gfx1100"]
"""


def test_threads_that_name_a_new_chip_share_its_device(tmp_path: Path) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MGX_")}
    own = {"MGX_HIP": "emulated", "MGX_CACHE_DIR": str(tmp_path), "MGX_EMULATOR_STRICT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=kept | own | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
