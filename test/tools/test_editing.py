"""Outputs, sizes and length of a model, and values of its inputs, by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from mgx_mlir.tools.mgx import main

HEAD = '<ir_version: 8, opset_import: ["": 17]>'
CHAIN = "g (float[2, 3] x) => (float[2, 3] y) { a = Neg(x) b = Abs(a) y = Sqrt(b) }"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def save(text: str) -> str:
    onnx.save(onnx.parser.parse_model(HEAD + text), "m.onnx")
    return "m.onnx"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, np.ndarray]:
    """The outputs of `mgx run` with these words, by name."""
    assert main(["run", *words, "--output", "out"]) == 0, capsys.readouterr().err
    return {file.stem: np.load(file) for file in Path("out").iterdir()}


def params(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["params", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_results_of_nodes_become_the_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    words = [save(CHAIN), "--fill1", "x", "--output-names", "b", "--output-names", "a"]
    found = run(capsys, *words)
    assert {name: array[0, 0] for name, array in found.items()} == {"a": -1, "b": 1}
    assert main(["verify", *words]) == 0
    assert main(["run", "m.onnx", "--output-names", "bb"]) == 2
    assert "--output-names bb: no node has a result of this name" in capsys.readouterr().err


def test_the_last_nodes_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, save(CHAIN), "--trim", "2", "--fill1", "x")
    assert list(found) == ["a"] and (found["a"] == -1).all()
    assert main(["run", "m.onnx", "--trim", "3"]) == 2
    assert "--trim 3: the model has 3 nodes" in capsys.readouterr().err


def test_operators_that_are_not_known_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    text = "g (float[2, 3] x) => (float[2, 3] y) { a = Neg(x) b = my.own.Foo(a) y = Neg(b) }"
    head = HEAD.replace("17]", '17, "my.own": 1]')
    onnx.save(onnx.parser.parse_model(head + text), "m.onnx")
    words = ["m.onnx", "--skip-unknown-operators"]
    given = ["--fill1", "b"]
    assert (run(capsys, *words, *given)["y"] == -1).all()
    assert "my.own::Foo 'Foo_1' is left out; ['b']: given as inputs" in capsys.readouterr().err
    assert [value["name"] for value in params(capsys, *words)["inputs"]] == ["x", "b"]
    assert main(["verify", *words, "--per-instruction"]) == 0
    assert main(["verify", *words, "--bisect"]) == main(["read", *words]) == 0
    assert main(["compile", *words, "-o", "m.mgx"]) == 0
    assert main(["run", "m.mgx", *words[1:]]) == 2
    capsys.readouterr()
    onnx.save(
        onnx.parser.parse_model(head + text.replace("my.own.Foo(a)", "my.own.Foo()")), "m.onnx"
    )
    assert main(["run", *words]) == 1
    assert "neither is the type of its result 'b'" in capsys.readouterr().err


def test_a_size_that_the_model_fixes_is_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    file = save(CHAIN)
    assert run(capsys, file, "--input-dim", "@x", "4", "5", "--fill1", "x")["y"].shape == (4, 5)
    assert run(capsys, file, "--batch", "7")["y"].shape == (7, 3)
    assert main(["verify", file, "--batch", "7"]) == 0
    assert main(["verify", file, "--batch", "7", "--per-instruction"]) == 0


def test_a_size_that_the_graph_needs_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    file = save(
        "g (float[2, 3] x) => (float[2, 3] y) { "
        "w = Constant<value = float[2, 1] {1.0, 2.0}>() y = Add(x, w) }"
    )
    assert main(["run", file, "--batch", "5"]) == 1
    assert "shapes do not fit: [5, 3] and [2, 1]" in capsys.readouterr().err


def test_open_sizes_get_one_range(capsys: pytest.CaptureFixture[str]) -> None:
    file = save("g (float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }")
    words = [file, "--default-dyn-dim", "{2,8,{4}}"]
    assert main(["compile", *words, "-o", "m.mgx"]) == 0
    capsys.readouterr()
    sizes = params(capsys, "m.mgx")["sizes"]
    assert len(sizes) == 1 and "2" in sizes[0] and "8" in sizes[0]
    assert main(["compile", *words, "--batch", "2"]) == 2
    assert "--batch and --default-dyn-dim" in capsys.readouterr().err


def test_inputs_are_zeros_ones_and_files(capsys: pytest.CaptureFixture[str]) -> None:
    file = save(
        "g (float[3] x, float[3] z, float[3] v) => (float[3] y) { a = Add(x, z) y = Sub(a, v) }"
    )
    np.save("v.npy", np.arange(3, dtype=np.float32))
    found = run(capsys, file, "--fill1", "x", "--fill0", "@z", "--load-arg", "@v", "v.npy")
    assert found["y"].tolist() == [1, 0, -1]
    assert main(["run", file, "--fill1", "q"]) == 2
    assert "--fill1 q: no input has this name" in capsys.readouterr().err
    assert main(["run", file, "--fill1", "x", "--fill0", "x"]) == 2
