"""Programs in stages on two emulated devices."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import mgx_mlir
from mgx_mlir.errors import DeviceError, UsageError
from mgx_mlir.runtime.hip.tensor import DeviceTensor
from test import chain_models

HERE = Path(__file__).parent
ANY = mgx_mlir.CompileOptions(mode="full-dynamic")


@functools.cache
def skipping() -> tuple[tuple[mgx_mlir.Artifact, ...], mgx_mlir.Program]:
    """Three stages for both chips, and the whole on the host."""
    model = chain_models.skipping()
    stages = mgx_mlir.compile_stages(model, 3, ANY)
    finalized = tuple(mgx_mlir.finalize(stage, ["gfx942", "gfx1100"]) for stage in stages)
    return finalized, mgx_mlir.compile(model, "cpu", ANY)


def rows(seed: int, count: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 32), np.float32)


def check(found: dict[str, np.ndarray], x: np.ndarray) -> None:
    wanted = skipping()[1].run({"x": x})
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)


def test_stages_on_two_devices_give_what_the_whole_gives() -> None:
    chain = mgx_mlir.Chain(skipping()[0], devices=[0, 1, 0])
    assert [spec.name for spec in chain.inputs] == ["x"]
    assert [spec.name for spec in chain.outputs] == ["y", "first"]
    for seed, count in enumerate((4, 1, 7)):
        check(chain.run({"x": rows(seed, count)}), rows(seed, count))


def test_inputs_may_lie_on_any_device() -> None:
    chain = mgx_mlir.Chain(skipping()[0], devices=[1, 0, 1])
    for ordinal in (0, 1):
        check(chain.run({"x": DeviceTensor.from_numpy(rows(3), ordinal)}), rows(3))
    check(chain.run({"x": rows(3).tolist()}), rows(3))


def test_requests_overlap_and_keep_their_results() -> None:
    chain = mgx_mlir.Chain(skipping()[0], devices=[0, 1, 0])
    runs = [chain.run_async({"x": rows(seed)}) for seed in range(9)]
    for seed, run in reversed(list(enumerate(runs))):
        check(run.result(), rows(seed))


def test_threads_share_a_chain() -> None:
    chain = mgx_mlir.Chain(skipping()[0], devices=[0, 1, 1])
    found: dict[int, dict[str, np.ndarray]] = {}

    def ask(seed: int) -> None:
        found[seed] = chain.run({"x": rows(seed)})

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(6):
        check(found[seed], rows(seed))


def test_wrong_requests_spoil_no_other() -> None:
    chain = mgx_mlir.Chain(skipping()[0], devices=[0, 1, 0])
    for inputs, said in (
        ({}, "input 'x' is missing"),
        ({"x": rows(0), "z": rows(0)}, "no input 'z'"),
        ({"x": rows(0)[:, :3]}, r"input 'x' is float32\[b, 32\]"),
        ({"x": rows(0).astype(np.float64)}, "float64"),
    ):
        with pytest.raises(UsageError, match=said):
            chain.run(inputs)
        check(chain.run({"x": rows(1)}), rows(1))


def test_a_failed_copy_is_the_request_s_error() -> None:
    from mgx_mlir import emulator

    chain = mgx_mlir.Chain(skipping()[0], devices=[0, 1, 0])
    chain.run({"x": rows(0)})
    emulator.set_failures("hipMemcpyPeerAsync:1")
    with pytest.raises(DeviceError, match=r"hipMemcpyPeerAsync failed.*input 'first'"):
        chain.run({"x": rows(0)})
    emulator.set_failures("")
    check(chain.run({"x": rows(1)}), rows(1))


def test_a_stage_works_while_another_waits() -> None:
    """In a process of its own, where streams work beside the host."""
    modes = {"MGX_EMULATOR_ASYNC": "1", "MGX_EMULATOR_STRICT": "1"}
    environment = os.environ | modes | {"PYTHONPATH": str(HERE.parents[2])}
    done = subprocess.run(
        [sys.executable, str(HERE / "chain_in_flight.py")],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the first device did 2 requests while the second one waited" in done.stdout
