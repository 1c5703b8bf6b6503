"""`mgx read` in forms for people and programs; the log's level and file."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import mgx_mlir.migraphx
from mgx_mlir.tools.mgx import main

MODEL = """<ir_version: 8, opset_import: ["": 17]>
    g (float[n, 3] x) => (float[n, 3] y) {
        w = Constant<value = float[3] {1.0, 2.0, 3.0}>() a = Add(x, w) y = Softmax<axis = 1>(a)
    }"""


@pytest.fixture(autouse=True)
def _model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(MODEL), "m.onnx")


def read(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["read", "m.onnx", *words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_brief_has_a_line_for_each_op(capsys: pytest.CaptureFixture[str]) -> None:
    lines = read(capsys, "--brief", "--dim-param", "@n", "2").splitlines()
    assert lines[0] == "x = input : tensor<2x3xf32>"
    assert any("mgx.softmax(%" in line and line.endswith(": tensor<2x3xf32>") for line in lines)
    assert lines[-1].startswith("func.return(%")


def test_json_names_ops_operands_types_and_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(read(capsys, "--json"))
    assert list(found["inputs"]) == ["x"]
    ops = {op["op"]: op for op in found["ops"]}
    assert "axis" in "".join(ops["mgx.softmax"]["attributes"])
    assert ops["mgx.softmax"]["node"] == "Softmax_2"
    made = {name for op in found["ops"] for name in op["results"]} | {"x"}
    assert all(name in made for op in found["ops"] for name in op["operands"])


def test_graphviz_has_an_edge_for_each_operand(capsys: pytest.CaptureFixture[str]) -> None:
    ops = json.loads(read(capsys, "--json"))["ops"]
    text = read(capsys, "--graphviz")
    assert text.startswith("digraph {") and text.endswith("}\n")
    assert text.count(" -> ") == sum(len(op["operands"]) for op in ops)
    assert text.count("[label=") == len(ops) and text.count("shape=ellipse") == 1


def test_netron_gets_an_onnx_model_of_the_ops(capsys: pytest.CaptureFixture[str]) -> None:
    ops = json.loads(read(capsys, "--json"))["ops"]
    assert read(capsys, "--netron", "-o", "m.netron.onnx") == ""
    model = onnx.load("m.netron.onnx")
    onnx.checker.check_model(model)
    assert [f"mgx.{node.op_type}" for node in model.graph.node] == [op["op"] for op in ops[:-1]]
    names = {value.name for value in (*model.graph.input, *model.graph.value_info)}
    assert all(name in names for node in model.graph.node for name in node.input)
    (x,), (y,) = model.graph.input, model.graph.output
    assert [d.dim_param or d.dim_value for d in x.type.tensor_type.shape.dim] == ["n", 3]
    assert y.name == model.graph.node[-1].output[0]


def test_a_brief_graph_has_no_types(capsys: pytest.CaptureFixture[str]) -> None:
    whole, brief = read(capsys, "--graphviz"), read(capsys, "--graphviz", "--brief")
    assert "tensor<" in whole and "tensor<" not in brief
    assert brief.count(" -> ") == whole.count(" -> ") and '[label="softmax"]' in brief


def test_bytes_go_to_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for form in ("--netron", "--program", "--emit-bytecode"):
        assert main(["read", "m.onnx", form]) == 2
        assert "name a file" in capsys.readouterr().err


def test_python_builds_the_program_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--py", "--dim-param", "@n", "2", "-o", "made.py"]
    assert read(capsys, *words) == ""
    monkeypatch.setitem(sys.modules, "migraphx", mgx_mlir.migraphx)
    made = runpy.run_path("made.py")["p"]
    made.compile(mgx_mlir.migraphx.get_target("ref"))
    x = np.ones((2, 3), np.float32)
    (found,) = made.run({"x": x})
    powers = np.exp(x + np.array([1, 2, 3], np.float32))
    expected = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(np.array(found.tolist()).reshape(2, 3), expected, rtol=1e-5)


def test_one_form_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["read", "m.onnx", "--json", "--locations"])
    assert "--locations: not allowed with argument --json" in capsys.readouterr().err


def test_the_log_goes_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compile", "m.onnx", "--batch", "2", "--log-file", "log.txt"]
    assert main([*words, "--log-level", "debug"]) == 0
    text = Path("log.txt").read_text()
    assert " DEBUG mgx_mlir" in text and not capsys.readouterr().err
    Path("log.txt").unlink()
    assert main(words) == 0
    assert Path("log.txt").read_text() == ""
    assert main([*words[:-1], "nowhere/log.txt"]) == 2
    assert "nowhere is not a folder" in capsys.readouterr().err
