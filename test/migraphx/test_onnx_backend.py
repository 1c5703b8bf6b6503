"""`onnx_migraphx.backend`, as scripts for MIGraphX use it."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import onnx
import pytest

from mgx_mlir import migraphx
from mgx_mlir.errors import UsageError
from mgx_mlir.migraphx.__main__ import main
from mgx_mlir.migraphx.onnx_backend import MIGraphXBackend, get_device
from test import onnx_suite

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["": 17]> g (float[n] x, float[n] z) => (float[n] y)'
    "{ a = Relu(x) y = Sub(a, z) }"
)
X, Z = np.array([-1, 2], np.float32), np.array([1, 0.5], np.float32)


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setattr(MIGraphXBackend, "_device", None)
    monkeypatch.setattr(MIGraphXBackend, "_last", None)
    MIGraphXBackend.set_device("CPU")


def test_a_script_finds_it_by_its_name(tmp_path, monkeypatch, capsys):
    script = tmp_path / "script.py"
    script.write_text(
        "from onnx_migraphx.backend import MIGraphXBackend as b\n"
        "from onnx_migraphx.backend_rep import MIGraphXBackendRep\n"
        "b.set_device('CPU')\nprint(len(b.get_program().get_main_module()))\n"
    )
    before = dict(sys.modules)
    monkeypatch.setattr(sys, "argv", ["migraphx", str(script)])
    monkeypatch.setattr(sys, "path", [*sys.path])
    try:
        assert main() == 0
    finally:
        for name in sys.modules.keys() - before.keys():
            if name.split(".")[0] in ("migraphx", "onnx_migraphx"):
                del sys.modules[name]
        sys.modules.update({n: m for n, m in before.items() if "migraphx" in n})
    assert capsys.readouterr().out == "0\n"


@pytest.mark.parametrize("form", ["proto", "bytes", "path"])
def test_models_of_any_form_run(form, tmp_path):
    onnx.save(MODEL, tmp_path / "m.onnx")
    model = {
        "proto": MODEL, "bytes": MODEL.SerializeToString(), "path": str(tmp_path / "m.onnx"),
    }[form]  # fmt: skip
    prepared = MIGraphXBackend.prepare(model)
    for inputs in ([X, Z], {"z": Z, "x": X}):
        np.testing.assert_array_equal(prepared.run(inputs)[0], [-1, 1.5])
    assert MIGraphXBackend.prepare(prepared) is prepared
    program = MIGraphXBackend.get_program()
    assert program.get_parameter_names() == ["x", "z"] and program.is_compiled()


def test_a_program_is_prepared_as_a_model_is():
    p = migraphx.parse_onnx_buffer(MODEL.SerializeToString(), default_dim_value=2)
    prepared = MIGraphXBackend.prepare(p)
    assert MIGraphXBackend.get_program() is p
    np.testing.assert_array_equal(prepared.run([X, Z])[0], [-1, 1.5])
    with pytest.raises(UsageError, match="2 inputs, and 1 are given"):
        prepared.run(X)


def test_the_device_that_was_set_holds_for_all():
    assert MIGraphXBackend.supports_device("CPU") and get_device() == ("CPU", "GPU")
    assert MIGraphXBackend.is_compatible(MODEL, "GPU")
    np.testing.assert_array_equal(MIGraphXBackend.run_model(MODEL, [X, Z], "GPU")[0], [-1, 1.5])
    MIGraphXBackend.set_device("TPU")
    with pytest.raises(UsageError, match="no device 'TPU'"):
        MIGraphXBackend.prepare(MODEL)


def test_a_node_runs():
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    np.testing.assert_array_equal(MIGraphXBackend.run_node(node, [X])[0], [0, 2])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["test_reduce_sum_do_not_keepdims_example_cpu", "test_relu_cpu"])
def test_onnx_runs_its_own_tests_with_it(name, monkeypatch, tmp_path_factory):
    onnx_suite.share_cache(monkeypatch, tmp_path_factory)
    cases = onnx_suite.cases_for(MIGraphXBackend, __name__)
    (found,) = [case for case in onnx_suite.names_of(cases) if case[1] == name]
    onnx_suite.run(cases, *found)


def test_functions_of_the_module_are_those_of_the_class():
    module = importlib.import_module("mgx_mlir.migraphx.onnx_backend")
    assert module.run is module.run_model
    np.testing.assert_array_equal(module.run(MODEL, [X, Z])[0], [-1, 1.5])
