"""ONNX's own backend tests, through its own runner, on the CPU."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mgx_mlir import backend
from mgx_mlir.errors import UsageError
from test import onnx_suite
from test.onnx_exclusions import EXCLUDED, reason

CASES = onnx_suite.cases_for(backend.MgxBackend, __name__)
NAMES = onnx_suite.names_of(CASES)
INCLUDED = onnx_suite.included(NAMES)
LEFT_OUT = [case for case in NAMES if reason(case[1]) is not None]


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path_factory):
    onnx_suite.share_cache(monkeypatch, tmp_path_factory)


@pytest.mark.parametrize(("group", "name"), INCLUDED)
def test_case(group, name):
    onnx_suite.run(CASES, group, name)


@pytest.mark.slow
@pytest.mark.parametrize(("group", "name"), LEFT_OUT)
def test_excluded_case_fails(group, name):
    try:
        onnx_suite.run(CASES, group, name)
    except Exception:  # whatever the reason in the table is
        return
    pytest.fail(f"{name} passes: take it out of the table")


def test_reasons_in_the_table_have_cases():
    for why, _ in EXCLUDED:
        assert any(reason(name) == why for _, name in LEFT_OUT), why


def relu() -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in "xy"]
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "test", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_outputs_have_names_and_places():
    prepared = backend.prepare(relu())
    x = np.array([-1, 2], np.float32)
    for given in ([x], x, {"x": x}):
        (y,) = outputs = prepared.run(given)
        np.testing.assert_array_equal(y, [0, 2])
        assert outputs["y"] is y


def test_a_model_may_be_a_path_or_bytes(tmp_path):
    path = tmp_path / "relu.onnx"
    onnx.save(relu(), path)
    x = np.array([-1, 2, 3], np.float32)
    for model in (path, path.read_bytes()):
        np.testing.assert_array_equal(backend.run_model(model, [x])[0], [0, 2, 3])


def test_runs_one_node():
    node = helper.make_node("Add", ["a", "b"], ["c"])
    a = np.array([1, 2], np.float32)
    (c,) = backend.run_node(node, [a, a])
    np.testing.assert_array_equal(c, [2, 4])
    with pytest.raises(UsageError, match="the node has 2 inputs, and 1 are given"):
        backend.run_node(node, [a])


def test_refuses_what_it_does_not_know():
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    with pytest.raises(
        UsageError, match="no device 'CUDA'; use CPU, GPU or a chip, such as gfx942"
    ):
        backend.prepare(relu(), "CUDA")
    prepared = backend.prepare(relu())
    with pytest.raises(UsageError, match="the model has 1 inputs, and 2 are given"):
        prepared.run([np.ones(1, np.float32)] * 2)
