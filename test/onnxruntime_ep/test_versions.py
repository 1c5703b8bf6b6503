"""The wheel beside releases of onnxruntime: one binary for all of them."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from mgx_mlir import emulator
from mgx_mlir.models.ep_context import context_model
from test.onnxruntime_ep import provider

pytestmark = pytest.mark.slow

# The oldest with the interface, one of each change since, and the newest that is tested.
RELEASES = ["1.23.2", "1.24.4", "1.27.0", "1.32.0"]
# Devices that onnxruntime does not see came with 1.24.
WITHOUT_GPU = ["1.23.2"]

RUN = """
import sys
import numpy as np
import onnxruntime
import onnxruntime_ep_mgx
contexts, plain, compiler, cache = sys.argv[1:]
path = onnxruntime_ep_mgx.get_library_path()
onnxruntime.register_execution_provider_library("mgx.virtual", path)
devices = onnxruntime.get_ep_devices()
devices = [d for d in devices if d.ep_name == onnxruntime_ep_mgx.get_ep_name()]
for device in devices:
    for file in (contexts, plain):
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        named = {"compiler": compiler, "cache_dir": cache, "trust": "all"}
        options.add_provider_for_devices([device], named)
        session = onnxruntime.InferenceSession(file, sess_options=options)
        for n in (1, 3):
            x = np.ones((n, 4), np.float32)
            np.testing.assert_allclose(session.run(None, {"x": x})[0], x @ np.eye(4) * 2)
print(*[d.ep_metadata["mgx_target"] for d in devices], onnxruntime_ep_mgx.counters()["compiled"])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = ["-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", str(folder)]
    source = str(provider.ROOT / "onnxruntime_ep")
    subprocess.run([sys.executable, *words, source], check=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_the_wheel_runs_beside_a_release(
    release: str, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 4] x) => (float[n, 4] y) { y = MatMul(x, w) }""")
    model.graph.initializer.append(numpy_helper.from_array(np.eye(4, dtype="f4") * 2, "w"))
    onnx.save(model, tmp_path / "m.onnx")
    contexts = context_model(provider.islands_of(model, "x86-64-v2,gfx942"))
    onnx.save(contexts, tmp_path / "c.onnx")
    monkeypatch.setenv("MGX_HIP", "emulated")
    monkeypatch.setenv("MGX_EMULATOR_LIBRARY", str(emulator.library_path()))
    monkeypatch.setenv("MGX_EMULATED_DEVICES", "gfx942")
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv/bin/python")
    needed = [f"onnxruntime=={release}", str(wheel)]
    subprocess.run([python, "-m", "pip", "install", "-q", *needed], check=True)
    files = [str(tmp_path / name) for name in ("c.onnx", "m.onnx")]
    words = [python, "-c", RUN, *files, provider.COMPILER, str(tmp_path / "cache")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    targets = "cpu 1" if release in WITHOUT_GPU else "cpu gfx942 2"
    assert done.stdout.strip() == targets
