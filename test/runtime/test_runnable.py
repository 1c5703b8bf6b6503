"""What is compiled is run, started and timed in one way, whatever it is."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import onnx.parser
import pytest

import mgx_mlir
from mgx_mlir.errors import UsageError
from mgx_mlir.runtime.hip.tensor import DeviceTensor
from mgx_mlir.runtime.sized import SizedProgram

SIZES = {"given": "3, 4", "symbolic": "n, 4"}
CHAIN = "g (float[3, 4] x) => (float[3, 4] y) <int64 a = {1}> { z = CumSum(x, a) y = CumSum(z, a) }"
PARTS = "g (float[3, 4] x) => (int64[k, m] y) { z = Relu(x) y = NonZero(z) }"


def compiled(kind: str) -> Any:
    text = f"g (float[{SIZES.get(kind, '3, 4')}] x) => (float[{SIZES.get(kind, '3, 4')}] y)"
    text = (
        CHAIN
        if kind == "chain"
        else PARTS
        if "parts" in kind
        else text + " { z = Relu(x) y = Mul(z, z) }"
    )
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> {text}')
    if kind in ("parts", "model"):
        return mgx_mlir.Model(model)
    if kind == "artifact in parts":
        return mgx_mlir.compile(mgx_mlir.compile_to_bytecode(model))
    if kind == "chain":
        return mgx_mlir.Chain(mgx_mlir.compile_stages(model, 2), "gfx942", devices=[0, 0])
    target = "gfx942" if kind == "gpu" else "cpu"
    mode = "full-dynamic" if kind == "symbolic" else "default"
    return mgx_mlir.compile(model, target, mode=mode)


def x() -> np.ndarray:
    return np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    "kind", ["given", "symbolic", "gpu", "model", "parts", "artifact in parts", "chain"]
)
def test_all_are_run_alike(kind: str) -> None:
    program = compiled(kind)
    assert isinstance(program, mgx_mlir.Runnable)
    assert isinstance(program, SizedProgram) == (kind == "symbolic")
    for method in ("run", "run_async"):
        words = inspect.signature(getattr(program, method)).parameters
        assert {"inputs", "outputs", "stream", "results"} <= set(words), words
    want = program.run({"x": x()})["y"]
    room = np.empty_like(want)
    assert program.run({"x": x()}, {"y": room}, results="numpy")["y"] is room
    pending = program.run_async({"x": x()}, results="numpy")
    for found in (room, pending.result()["y"]):
        np.testing.assert_array_equal(found, want)
    assert pending.done()
    if "parts" in kind:
        with pytest.raises(UsageError, match="not of its type and shape"):
            program.run({"x": x()}, {"y": np.zeros(3)})
    steps = program.profile({"x": x()}, 2)
    assert steps and all(len(step.milliseconds) == 2 and step.launches for step in steps)


def test_steps_of_a_model_in_parts_are_those_of_its_programs_and_the_host_s() -> None:
    told = []
    steps = compiled("parts").profile({"x": x()}, 3, lambda *done: told.append(done))
    assert {step.kernel < 0 for step in steps} == {True, False}
    assert all("NonZero" in step.node for step in steps if step.kernel < 0)
    assert all(len(step.milliseconds) == 3 and step.launches for step in steps)
    assert told[-1][0] == told[-1][1] == len(told)


def test_a_chain_gives_results_on_its_devices_and_takes_no_stream() -> None:
    chain = compiled("chain")
    want = chain.run({"x": x()})["y"]
    found = chain.run({"x": x()}, results="device")["y"]
    assert isinstance(found, DeviceTensor)
    np.testing.assert_array_equal(found.numpy(), want)
    with pytest.raises(UsageError, match="give no stream"):
        chain.run({"x": x()}, stream=1)
    with pytest.raises(UsageError, match="has no output 'z'"):
        chain.run({"x": x()}, {"z": want})


def test_a_cpu_has_no_streams() -> None:
    for start in (compiled("given").run, compiled("symbolic").run_async):
        with pytest.raises(UsageError, match="no streams"):
            start({"x": x()}, stream=1)
        with pytest.raises(UsageError, match="results is 'cuda'"):
            start({"x": x()}, results="cuda")


@pytest.mark.parametrize(
    ("name", "instead"), [("SpecializedModel", "Model"), ("check_model", "check")]
)
def test_names_that_go_warn_and_work(name: str, instead: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"use mgx_mlir.{instead}$"):
        assert callable(getattr(mgx_mlir, name))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert name not in dir(mgx_mlir)
