"""`--json` of the verbs, and `-v`."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from mgx_mlir.tools.mgx import main

DIGITS = str(Path(__file__).resolve().parents[2] / "examples/digits.onnx")
Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "cache"))


def record(capsys: Output, *command: str, code: int = 0) -> dict:
    capsys.readouterr()
    assert main([*command, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_run(tmp_path: Path, capsys: Output) -> None:
    found = record(capsys, "run", DIGITS, "--output", str(tmp_path / "out"))
    output = found["outputs"]["probabilities"]
    assert (output["dtype"], output["shape"], len(output["first"])) == ("float32", [1, 10], 5)
    assert output["min"] < output["mean"] < output["max"] and Path(output["file"]).is_file()


def test_numbers_that_json_lacks_are_texts(tmp_path: Path, capsys: Output) -> None:
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    value = helper.make_tensor("v", TensorProto.FLOAT, [2], [float("nan"), float("-inf")])
    node = helper.make_node("Constant", [], ["y"], value=value)
    onnx.save(helper.make_model(helper.make_graph([node], "g", [], [y])), tmp_path / "m.onnx")
    found = record(capsys, "run", str(tmp_path / "m.onnx"))
    assert found["outputs"]["y"]["first"] == ["nan", "-inf"]


def test_verify(capsys: Output) -> None:
    found = record(capsys, "verify", DIGITS)
    assert found["verified"] and found["outputs"]["probabilities"]["ok"]
    # Of equal bits nothing is sure, nor that the reference has them twice: CPUs differ.
    code = main(["verify", DIGITS, "--rtol", "0", "--atol", "0", "--json"])
    found = json.loads(capsys.readouterr().out)
    output = found["outputs"]["probabilities"]
    assert output["differs"] and found["verified"] == output["excused"] == (code == 0)
    assert "worst inf of the tolerance" in output["text"]


def test_check_and_params(tmp_path: Path, capsys: Output) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 3]) for n in "xy")
    node = helper.make_node("Relu", ["x"], ["y"])
    any_sizes, made = str(tmp_path / "any.onnx"), str(tmp_path / "any.mgx")
    onnx.save(helper.make_model(helper.make_graph([node], "g", [x], [y])), any_sizes)
    found = record(capsys, "check", any_sizes)
    assert found["state"] == "any" and found["open_dims"][0]["symbol"] == "n"
    assert found["sizes"] == ["n from 0"] and found["slow"] == []
    assert record(capsys, "check", DIGITS)["state"] == "artifact"
    expected = {"name": "x", "type": "float32 n x 3", "dtype": "float32", "shape": ["n", 3]}
    assert record(capsys, "params", any_sizes)["inputs"] == [expected]
    assert main(["compile", any_sizes, "--mode", "full-dynamic", "-o", made]) == 0
    found = record(capsys, "params", made)
    assert found["inputs"] == [expected] and found["sizes"] == ["n from 0"]


def test_verbose_says_what_each_stage_does(capsys: Output) -> None:
    assert main(["run", DIGITS]) == 0
    assert capsys.readouterr().err == ""
    assert main(["run", "-v", DIGITS]) == 0
    said = capsys.readouterr().err
    for stage in ("import of digits", "pipeline fusion", "6 kernels", "to be finalized", "arena"):
        assert f"{stage}" in said
    assert "mgx-outline-kernels" not in said
    assert main(["run", "-vv", DIGITS]) == 0
    assert "mgx-outline-kernels: " in capsys.readouterr().err
    assert not logging.getLogger("mgx_mlir").handlers
