"""`mgx ep-context`: models with compiled parts for onnxruntime."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import parser

import mgx_mlir
from mgx_mlir.tools.mgx import main

MODEL = """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x, float[4, 3] w) =>
    (float[n, 3] y) { a = MatMul(x, w)  y = Relu(a) }"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(parser.parse_model(MODEL), path)
    return path


def attributes(path: Path) -> dict[str, object]:
    (node,) = onnx.load(path).graph.node
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def test_the_model_holds_code_for_the_targets(model: Path) -> None:
    assert main(["ep-context", str(model), "--arch", "gfx942,x86-64-v3"]) == 0
    found = attributes(model.with_name("m_ctx.onnx"))
    artifact = mgx_mlir.Artifact.from_bytes(found["ep_cache_context"])  # type: ignore[arg-type]
    assert all(artifact.has_code_objects(mgx_mlir.Target.get(t)) for t in ("gfx942", "x86-64-v3"))
    assert found["hardware_architecture"] == b"gfx942,x86-64-v3"


def test_artifacts_lie_beside_the_model(model: Path, tmp_path: Path) -> None:
    assert main(["ep-context", str(model), "-o", str(tmp_path / "c.onnx"), "--beside"]) == 0
    assert attributes(tmp_path / "c.onnx")["ep_cache_context"] == b"c_0.mgx"
    assert mgx_mlir.load(tmp_path / "c_0.mgx").plan.inputs[0].name == "x"


def test_a_list_names_the_nodes_of_each_artifact(model: Path, tmp_path: Path) -> None:
    assert main(["ep-context", str(model), "--islands", str(tmp_path)]) == 0
    assert (tmp_path / "islands.txt").read_text() == "mgx-islands 1\n0.mgx 0 1\n"
    assert mgx_mlir.load(tmp_path / "0.mgx").plan.outputs[0].name == "y"


def test_equal_models_give_equal_bytes(model: Path, tmp_path: Path) -> None:
    for name in "ab":
        assert main(["ep-context", str(model), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_list_and_a_model_are_two_things(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ep-context", str(model), "-o", str(tmp_path / "c"), "--islands", "."]) == 2
    assert "leave -o out" in capsys.readouterr().err
