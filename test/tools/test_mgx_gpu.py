"""`mgx` with a GPU as the target, each in a process of its own: it chooses one HIP library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
DIGITS = str(ROOT / "examples/digits.onnx")


def mgx(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MGX_EMULAT")}
    environment |= {"MGX_HIP": "emulated", "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, "-m", "mgx_mlir.tools.mgx", *arguments],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_run_names_the_device_and_gives_the_host_s_numbers(tmp_path: Path) -> None:
    for target in ("cpu", "gfx1100"):
        done = mgx("run", DIGITS, "--target", target, "--output", str(tmp_path / target))
        assert done.returncode == 0, done.stderr
    assert "on device 0: gfx1100" in done.stderr
    assert "emulated" in done.stderr
    host, gpu = (np.load(tmp_path / t / "probabilities.npy") for t in ("cpu", "gfx1100"))
    np.testing.assert_allclose(gpu, host, rtol=1e-4, atol=1e-6)


def test_verify_compares_with_the_reference() -> None:
    done = mgx("verify", DIGITS, "--target", "gfx942", "--no-graph")
    assert done.returncode == 0, done.stderr
    assert "gfx942 against" in done.stdout


def test_the_chip_of_a_device_is_the_target_gpu() -> None:
    variables = {"MGX_EMULATED_DEVICES": "gfx942,gfx1100"}
    done = mgx("run", DIGITS, "--target", "gpu", "--device", "1", **variables)
    assert done.returncode == 0, done.stderr
    assert "on device 1: gfx1100" in done.stderr


def test_arch_is_the_chip_of_the_target_gpu() -> None:
    done = mgx("run", DIGITS, "--target", "gpu", "--arch", "gfx1100")
    assert done.returncode == 0, done.stderr
    assert "on device 0: gfx1100" in done.stderr
    done = mgx("run", DIGITS, "--target", "cpu", "--arch", "gfx1100")
    assert done.returncode != 0
    assert "--arch gfx1100 names another target than --target cpu" in done.stderr


def test_a_chip_without_a_device_gets_an_emulated_one() -> None:
    done = mgx("run", DIGITS, "--target", "gfx1100", MGX_EMULATED_DEVICES="gfx942")
    assert done.returncode == 0, done.stderr
    assert "on device 1: gfx1100" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--target", "gfx1100", "--device", "0"],
            "device 0 is not a gfx1100; there are: device 0",
        ),
        (["--target", "gfx1101"], "no device is a gfx1101; there are: device 0: gfx942"),
    ],
)
def test_a_chip_that_is_not_there_is_named_with_those_that_are(
    arguments: list[str], message: str
) -> None:
    done = mgx("run", DIGITS, *arguments, MGX_EMULATED_DEVICES="gfx942")
    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this machine may have ROCm")
def test_without_rocm_the_real_library_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    variables = {"MGX_HIP": "real", "ROCM_PATH": str(tmp_path), "ROCM_HOME": str(tmp_path)}
    done = mgx("run", DIGITS, "--target", "gfx942", **variables)
    assert done.returncode == 1
    assert "MGX_HIP=emulated" in done.stderr


def test_perf_marks_modelled_times() -> None:
    done = mgx("perf", DIGITS, "--target", "gfx1100", "--runs", "2", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["times"] == "modelled"
    assert record["kernels"] and all(row["launches"] > 0 for row in record["kernels"])
    assert all(row["ms"] > 0 for row in record["kernels"])
    assert sorted(record["run_ms"]) == sorted(record["host_ms"]) == ["graph", "plain"]
    assert set(record["kernels_ms"]) == {"min", "p50", "p90", "p99"}
    # The largest convolution: 16 channels of 8 x 8 from 8 of them, 3 x 3 at a time, and more.
    assert max(row["flops"] for row in record["kernels"]) > 2 * 16 * 64 * 8 * 9 / 2
    assert abs(sum(row["share"] for row in record["kernels"]) - 1) < 1e-6
    text = mgx("perf", DIGITS, "--target", "gfx1100", "--runs", "1", "--no-graph").stdout
    assert "modelled from the chip's facts, not measured" in text
    assert "MFLOP" in text and "the host beside its HIP calls, plain: " in text
    assert "replayed" not in text


def test_perf_times_the_host() -> None:
    done = mgx("perf", DIGITS, "--runs", "3")
    assert done.returncode == 0, done.stderr
    assert "on cpu, 3 runs" in done.stdout and "peak" in done.stdout
    record = json.loads(mgx("perf", DIGITS, "--runs", "2", "--json").stdout)
    assert record["times"] == "measured" and record["machine"]["fma f32"] > 1e9
    assert record["kernels"] and all(row["launches"] > 0 for row in record["kernels"])
    assert all(row["ms"] > 0 and row["peak"] >= 0 for row in record["kernels"])
    assert abs(sum(row["share"] for row in record["kernels"]) - 1) < 1e-6
    assert len(record["steps"]) >= len(record["kernels"])
    assert sum(step["ms"] for step in record["steps"]) > 0


def test_perf_in_a_process_that_opened_the_emulator_before() -> None:
    """It models no times then, since nobody asked for that at its first call."""
    script = f"""
from mgx_mlir import emulator
from mgx_mlir.tools.mgx import main
emulator.enable(["gfx942"])
emulator.devices()
main(["perf", {DIGITS!r}, "--target", "gfx942", "--runs", "1"])
"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MGX_EMULAT")}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "ms (emulated)" in done.stdout and "modelled" not in done.stdout
