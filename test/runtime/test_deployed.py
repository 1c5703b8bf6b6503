"""mgx-mlir-runtime: the modules of runtime/modules.txt load and run finalized artifacts, alone."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest
from onnx import parser

import mgx_mlir
from mgx_mlir import emulator
from mgx_mlir.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DEPENDENCIES = ("numpy", "hip", "rocm")
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[3, 20] x, float[20, 5] w) => (float[3, 5] y) { a = MatMul(x, w)  y = Relu(a) }"""

RUN = """
import sys
import mgx_mlir
import numpy as np

artifact = mgx_mlir.load(sys.argv[1])
program = mgx_mlir.compile(artifact, target=sys.argv[2], trust_code=sys.argv[3:] == ["trust"])
x, w = np.ones((3, 20), "f4"), np.ones((20, 5), "f4")
assert (program.run({"x": x, "w": w})["y"] == 20).all()
names = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names
print(*sorted(name for name in names if "cython" not in name and name != "__main__"))
print(any("LLVM" in line or "MLIR" in line for line in open("/proc/self/maps")))
"""


@pytest.fixture(scope="module")
def artifact(tmp_path_factory) -> Path:
    """A file with code for this machine's CPU, for a level of CPUs and for an emulated chip."""
    path = tmp_path_factory.mktemp("deployed") / "model.mgx"
    portable = mgx_mlir.compile_to_bytecode(parser.parse_model(MODEL))
    settings = Settings(cache_dir=None, jobs=1)
    mgx_mlir.save(mgx_mlir.finalize(portable, ["cpu", "gfx942"], settings=settings), path)
    return path


@pytest.fixture(scope="module")
def deployed(tmp_path_factory) -> Path:
    """A folder of packages as an installation of mgx-mlir-runtime has them, and no others."""
    folder = tmp_path_factory.mktemp("packages")
    package = Path(mgx_mlir.__path__[0])
    for line in (ROOT / "runtime/modules.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        target = folder / "mgx_mlir" / line
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (package / line).is_dir() else shutil.copy)(package / line, target)
    for library in (package / "_native").glob("libmgx*.so"):
        shutil.copy(library, folder / "mgx_mlir/_native")
    for name in DEPENDENCIES:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.submodule_search_locations
        place = Path(next(iter(spec.submodule_search_locations)))
        (folder / name).symlink_to(place)
        libraries = place.with_name(f"{name}.libs")
        if libraries.exists():
            (folder / libraries.name).symlink_to(libraries)
    return folder


def run(packages: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a Python that has these packages and its own library, and nothing else."""
    library = str(emulator.library_path())
    environment = {**os.environ, "PYTHONPATH": str(packages), "MGX_EMULATOR_LIBRARY": library}
    command = [sys.executable, "-S", "-c", code, *arguments]
    return subprocess.run(
        command, env=environment, cwd=packages, capture_output=True, text=True, timeout=300
    )


def test_a_program_on_the_cpu_needs_numpy_alone(deployed, artifact) -> None:
    done = run(deployed, RUN, str(artifact), "cpu", "trust")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "mgx_mlir numpy\nFalse\n"


def test_a_program_on_a_gpu_needs_numpy_and_hip_python(deployed, artifact) -> None:
    done = run(deployed, RUN, str(artifact), "gfx942", "trust")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "hip mgx_mlir numpy rocm"


def test_code_that_this_machine_made_needs_no_consent_and_no_compiler(
    deployed, artifact, tmp_path, monkeypatch
) -> None:
    """The cache vouches for code, not for a plan: that is checked by what the code touches."""
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "kernels"))
    portable = mgx_mlir.compile_to_bytecode(parser.parse_model(MODEL))
    own = mgx_mlir.finalize(portable, ["cpu", "gfx942"])
    mgx_mlir.save(own, tmp_path / "own.mgx")
    short = replace(own.plan.outputs[0], shape=(1, 5))
    buffers = [replace(b, bytes=20) if b.kind == "output" else b for b in own.plan.buffers]
    plan = replace(own.plan, outputs=(short,), buffers=tuple(buffers))
    data = replace(own, plan=plan, code_objects={}).to_bytes()
    forged = replace(mgx_mlir.Artifact.from_bytes(data), code_objects=own.code_objects)
    mgx_mlir.save(forged, tmp_path / "forged.mgx")
    for target in ("cpu", "gfx942"):
        done = run(deployed, RUN, str(tmp_path / "own.mgx"), target)
        assert done.returncode == 0, done.stderr
        done = run(deployed, RUN, str(tmp_path / "forged.mgx"), target)
        assert "ArtifactError" in done.stderr and "20 bytes for output 0" in done.stderr


@pytest.mark.parametrize(
    "code, message",
    [
        ("mgx_mlir.Model", "UserError: mgx_mlir.Model: mgx-mlir-runtime has no compiler; pip"),
        ("mgx_mlir.compile('model.onnx')", "UserError: compiling: mgx-mlir-runtime has no comp"),
        ("mgx_mlir.compile_to_bytecode('m.onnx')", "UserError: compiling: mgx-mlir-runtime has no"),
        (
            "mgx_mlir.finalize(mgx_mlir.load(sys.argv[1]), 'gfx90a')",
            "TargetError: the artifact has no code for gfx90a, and mgx-mlir-runtime has no "
            "compiler; add it where mgx-mlir is installed: mgx finalize FILE --arch gfx90a\n",
        ),
        (
            "mgx_mlir.compile(mgx_mlir.load(sys.argv[1]))",
            "UserError: model: nothing vouches for its machine code for x86-64",
        ),
        (
            "mgx_mlir.compile(mgx_mlir.load(sys.argv[1]), 'gfx942')",
            "UserError: model: nothing vouches for its machine code for gfx942",
        ),
        (
            "mgx_mlir.compile(mgx_mlir.load(sys.argv[1]), 'x86-64-v2')",
            "TargetError: the artifact has no code for x86-64-v2, and mgx-mlir-runtime has no",
        ),
    ],
)
def test_work_for_the_compiler_is_refused_with_its_name(deployed, artifact, code, message) -> None:
    done = run(deployed, f"import sys, mgx_mlir\n{code}", str(artifact))
    assert f"mgx_mlir.errors.{message}" in done.stderr


@pytest.mark.slow
def test_its_wheel_works_in_an_empty_environment(artifact, tmp_path) -> None:
    """Builds the wheel, and installs it with its dependencies from the package index."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT / "runtime"],
        check=True,
    )
    (wheel,) = tmp_path.glob("mgx_mlir_runtime-*-py3-none-*.whl")
    assert wheel.stat().st_size < 1 << 20
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "-q", wheel], check=True)
    done = subprocess.run(
        [python, "-c", RUN, artifact, "cpu", "trust"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[1] == "False"
