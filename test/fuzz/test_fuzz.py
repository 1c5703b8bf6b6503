"""Bytes that were made to harm are an error: no crash, no hang, no huge allocation."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mgx_mlir.artifact.contents import PortableKernel
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import ArtifactError, CompilerError
from mgx_mlir.finalizer import Workers, finalize_all
from mgx_mlir.finalizer.worker import WorkerPool
from mgx_mlir.tools.mgx import main
from test.fuzz import mutate
from test.fuzz.__main__ import read_artifact, read_kernel, run_artifact
from test.golden.files import ARTIFACTS

ROOT = Path(__file__).resolve().parents[2]
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.mlirbc"))
GFX942 = Target.get("gfx942")


def test_damaged_artifacts_with_right_hashes_are_read_or_refused() -> None:
    seeds = [path.read_bytes() for path in ARTIFACTS]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.monotonic()
    found = []
    for number in range(600):
        rng = random.Random(number)
        found.append(read_artifact(mutate.artifact(rng.choice(seeds), rng)))
    assert {"read", "refused"} == set(found)
    assert time.monotonic() - started < 60
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 500_000, f"{grown} kB"


def test_damaged_artifacts_that_can_be_read_run_or_are_refused() -> None:
    seeds = [path.read_bytes() for path in ARTIFACTS]
    damaged = (mutate.artifact(random.Random(n).choice(seeds), random.Random(n)) for n in range(40))
    with WorkerPool(1, 300.0) as pool:
        readable = [data for data in damaged if read_artifact(data) == "read"]
        found = {pool.submit(run_artifact, data).result() for data in readable}
    assert len(readable) >= 3
    assert found <= {"ran", "refused"}


def test_inputs_that_reached_new_code_are_read_or_refused() -> None:
    """The inputs are those that `python -m test.fuzz.guided` kept, one of each outcome."""
    files = sorted((Path(__file__).parent / "corpus" / "artifacts").iterdir())
    assert len(files) >= 40
    assert {read_artifact(path.read_bytes()) for path in files} == {"read", "refused"}


def test_kernels_that_end_the_reader_end_a_worker_only() -> None:
    assert CORPUS
    with WorkerPool(1, 2.0) as pool:
        for path in CORPUS:
            found = read_kernel(path.read_bytes(), pool)
            assert found not in ("read", "refused"), path
        golden = Artifact.open(ARTIFACTS[0]).kernels[0].bytecode
        assert read_kernel(golden, pool) == "read"


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_kernel_of_a_file_is_never_read_in_this_process(path: Path) -> None:
    kernel = PortableKernel("k7", path.read_bytes(), nodes=("Add_0",), from_file=True)
    with pytest.raises((ArtifactError, CompilerError), match=r"kernel k7 \(ONNX nodes Add_0\)"):
        finalize_all([kernel], [GFX942], Workers(time_limit=2.0))


def test_inspecting_a_kernel_that_ends_the_reader_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = (path for path in CORPUS if path.stem.endswith("signal-6"))
    whole = Artifact.open(ARTIFACTS[0])
    kernels = (replace(whole.kernels[0], bytecode=path.read_bytes()), *whole.kernels[1:])
    replace(whole, kernels=kernels).save(tmp_path / "x.mgx")
    name = kernels[0].name
    assert main(["inspect", str(tmp_path / "x.mgx")]) == 0
    assert main(["inspect", str(tmp_path / "x.mgx"), "--kernel", name]) == 1
    assert f"kernel {name} cannot be read" in capsys.readouterr().err


def test_features_that_a_kernel_does_not_state_are_refused() -> None:
    from mlir import ir

    from mgx_mlir.dialects import context
    from mgx_mlir.rewriting.portable import verify_portable

    text = """
        mgx.kernel @k(%a: tensor<4xbf16>) -> tensor<4xbf16>
            attributes {arch = #mgx.arch<"gfxMIGX">, features = []} {
          mgx.return %a : tensor<4xbf16>
        }"""
    with pytest.raises(ArtifactError, match=r"needs the features \['bf16'\] and states \[\]"):
        verify_portable(ir.Module.parse(text, context()))


@pytest.mark.slow
def test_two_minutes_of_fuzzing() -> None:
    command = [sys.executable, "-m", "test.fuzz", "--seconds", "120", "--seed", "1000000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
