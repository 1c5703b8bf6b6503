"""Programs and models go to other processes by their artifacts, whose code is checked there."""

from __future__ import annotations

import copy
import logging
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir.errors import UsageError
from mgx_mlir.models.specialize import SpecializedModel
from mgx_mlir.runtime.program import Program
from mgx_mlir.settings import Settings

X = np.linspace(-1, 1, 48, dtype=np.float32).reshape(2, 24)
WEIGHTS = np.random.default_rng(0).standard_normal((24, 24)).astype(np.float32)


def model(node: str = "MatMul") -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 24])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "s"], ["b"]),
    ]
    if node == "NonZero":  # the data decide its size: the model runs in parts
        y = helper.make_tensor_value_info("y", TensorProto.INT64, None)
        nodes.append(helper.make_node("NonZero", ["b"], ["y"]))
    else:
        nodes.append(helper.make_node("Relu", ["b"], ["y"]))
    halves = np.full((1, 24), 0.5, np.float32)
    weights = [numpy_helper.from_array(WEIGHTS, "w"), numpy_helper.from_array(halves, "s")]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


WANT = np.maximum(X @ WEIGHTS + 0.5, 0)


def made(kind: str, tmp_path: Path) -> Any:
    if kind == "program":
        return mgx_mlir.compile(model(), input_dims={"x": [2, 24]})
    if kind == "any sizes":
        return mgx_mlir.compile(model(), mode="full-dynamic")
    if kind == "model":
        return mgx_mlir.Model(model(), sizes=3, seed=5)
    if kind == "model of a file":
        onnx.save(model(), tmp_path / "m.onnx", save_as_external_data=True, location="m.data",
                  size_threshold=0)  # fmt: skip
        return mgx_mlir.Model(tmp_path / "m.onnx")
    if kind == "specialized":
        return SpecializedModel(model())
    return mgx_mlir.compile(model(), "gfx942", input_dims={"x": [2, 24]})


KINDS = ["program", "any sizes", "model", "model of a file", "specialized", "gpu"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_pickled_runs_again(kind: str, tmp_path: Path) -> None:
    first = made(kind, tmp_path)
    want = first.run({"x": X})["y"]
    np.testing.assert_allclose(want, WANT, rtol=1e-4, atol=1e-5)
    again = pickle.loads(pickle.dumps(first))
    for file in tmp_path.iterdir():
        file.unlink()
    assert type(again) is type(first)
    np.testing.assert_array_equal(again.run({"x": X})["y"], want)
    for other in (copy.copy(first), copy.deepcopy(first), copy.deepcopy([first])[0]):
        np.testing.assert_array_equal(other.run({"x": X})["y"], want)


def test_models_in_parts_are_pickled_by_their_artifact() -> None:
    artifact = mgx_mlir.compile_to_bytecode(model("NonZero"))
    assert artifact.parts is not None
    for given in (artifact, model("NonZero")):
        again = pickle.loads(pickle.dumps(mgx_mlir.Model(given)))
        np.testing.assert_array_equal(again.run({"x": X})["y"], np.nonzero(X @ WEIGHTS + 0.5))


def test_artifacts_are_pickled_by_their_bytes() -> None:
    artifact = mgx_mlir.finalize(
        mgx_mlir.compile_to_bytecode(model(), input_dims={"x": [2, 24]}), "gfx942"
    )
    again = pickle.loads(pickle.dumps(artifact))
    assert again.to_bytes() == artifact.to_bytes() == copy.deepcopy(artifact).to_bytes()
    assert not any(code.trusted for found in again.code_objects.values() for code in found)


def test_another_process_runs_what_is_pickled(tmp_path: Path) -> None:
    file = tmp_path / "p.pickle"
    file.write_bytes(pickle.dumps((made("program", tmp_path), X)))
    read = (
        f"import pickle; p, x = pickle.load(open({str(file)!r}, 'rb')); "
        "print(float(p.run({'x': x})['y'].sum()))"
    )
    found = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True)
    assert float(found.stdout) == pytest.approx(float(WANT.sum()), rel=1e-4), found.stderr


def test_code_that_nothing_vouches_for_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trusting = Settings(trust_code=True, threads=1, cache_dir=tmp_path / "own")
    program = mgx_mlir.compile(model(), input_dims={"x": [2, 24]}, settings=trusting)
    data = pickle.dumps(program)
    assert str(tmp_path).encode() not in data
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "other"))
    with caplog.at_level(logging.INFO):
        again = pickle.loads(data)
    assert "nothing vouches for its code" in caplog.text
    assert again.threads == 1
    np.testing.assert_allclose(again.run({"x": X})["y"], WANT, rtol=1e-4, atol=1e-5)


def test_what_keeps_no_artifact_says_so(tmp_path: Path) -> None:
    part = made("any sizes", tmp_path).program({"x": X})
    assert isinstance(part, Program)
    with pytest.raises(UsageError, match="cannot be pickled: it keeps no artifact"):
        pickle.dumps(part)


def test_a_graph_is_not_pickled() -> None:
    with pytest.raises(UsageError, match="cannot be pickled: it is memory of this process"):
        pickle.dumps(mgx_mlir.parse_onnx(model()))


def test_device_memory_is_not_pickled() -> None:
    program = mgx_mlir.compile(model(), "gfx942", input_dims={"x": [2, 24]})
    found = program.run({"x": X}, results="device")["y"]  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="is memory of this process"):
        pickle.dumps(found)
    plain = program.without_graph()  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(plain)).run({"x": X})["y"].shape == (2, 24)
