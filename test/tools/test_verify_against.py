"""`mgx verify --reference`: another target, another artifact."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from mgx_mlir.tools.mgx import main

SCALED = """<ir_version: 8, opset_import: ["": 17]>
g (float[2, 3] x) => (float[2, 3] y) <float[3] w = {1.0, 2.0, 3.0}> { a = Mul(x, w) y = Neg(a) }"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(SCALED), file)
    return file


def record(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, object]:
    main(["verify", *map(str, words), "--json"])
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_another_target_is_a_reference(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = record(capsys, model, "--target", "gfx942", "--reference", "cpu")
    assert found["reference"] == "cpu" and found["verified"] is True
    found = record(capsys, model, "--reference", "gfx942", "--per-instruction")
    assert found["reference"] == "gfx942" and found["verified"] is True


def test_another_artifact_is_a_reference(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same, other = model.with_name("same.mgx"), model.with_name("other.mgx")
    assert main(["compile", str(model), "-o", str(same)]) == 0
    onnx.save(onnx.parser.parse_model(SCALED.replace("3.0}", "4.0}")), model.with_name("o.onnx"))
    assert main(["compile", str(model.with_name("o.onnx")), "-o", str(other)]) == 0
    capsys.readouterr()
    assert record(capsys, model, "--reference", same)["verified"] is True
    assert record(capsys, model, "--reference", other)["verified"] is False
    assert main(["verify", str(model), "--reference", str(same), "--bisect"]) == 2
    assert "no results of single nodes" in capsys.readouterr().err


def test_other_words_are_no_reference(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(model), "--reference", "onnxrutime"])
    assert ended.value.code == 2
    assert "did you mean onnxruntime?" in capsys.readouterr().err


SUM = """<ir_version: 8, opset_import: ["": 17]>
g (float[4] x) => (float[4] y) { a = Constant<value = float[1] {16777216.0}>()
b = Add(x, a) c = Sub(b, a) y = Neg(c) }"""


def test_a_reference_in_double_keeps_what_f32_loses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 is lost beside 2^24 in f32, which onnxruntime loses as well."""
    file = tmp_path / "sum.onnx"
    onnx.save(onnx.parser.parse_model(SUM), file)
    words = [file, "--fill1", "x", "--exact"]
    assert record(capsys, *words, "--reference", "onnxruntime")["verified"] is True
    found = record(capsys, *words, "--ref-use-double")
    assert found["reference"] == "the numpy reference in f64" and found["verified"] is False
    assert main(["verify", str(file), "--ref-use-double", "--reference", "cpu"]) == 2
    assert "--ref-use-double is for the numpy reference" in capsys.readouterr().err


def test_a_network_agrees_with_its_reference_in_double(capsys: pytest.CaptureFixture[str]) -> None:
    digits = Path(__file__).resolve().parents[2] / "examples" / "digits.onnx"
    assert record(capsys, digits, "--ref-use-double", "--fp16")["verified"] is True
