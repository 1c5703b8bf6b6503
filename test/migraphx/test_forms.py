"""Programs as JSON and as Python text, read again; other files are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from mgx_mlir import migraphx
from mgx_mlir.errors import ArtifactError
from mgx_mlir.importer import parse_onnx
from mgx_mlir.migraphx.json_form import from_json, to_json
from mgx_mlir.migraphx.python_form import from_python
from test.onnx_models import MODELS, small

TEXTS = {
    "loop": """(float[2] x, int64 n, bool c) => (float[2] y, float[k, 2] s) {
        y, s = Loop(n, c, x) <body = b (int64 i, bool k, float[2] a) =>
            (bool k2, float[2] b2, float[2] o) { k2 = Identity(k) b2 = Add(a, x)
            o = Identity(b2) }> }""",
    "if": """(float[2] x, bool c) => (float[2] y) { y = If(c)
        <then_branch = t () => (float[2] a) { a = Neg(x) },
         else_branch = e () => (float[2] b) { b = Abs(x) }> }""",
    "open": "(float[n, 3] x, float[n, m] z) => (float[n, 3] y, float[m, n] t) "
    "{ y = Softmax(x) t = Transpose(z) }",
}


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')


@pytest.mark.parametrize("name", [*TEXTS, *sorted(MODELS)])
def test_json_holds_the_whole_program(name: str) -> None:
    graph = parse_onnx(model(TEXTS[name]) if name in TEXTS else small(name))
    text = to_json(graph)
    found = from_json(text.encode())
    assert str(found.module) == str(graph.module) and to_json(found) == text
    for key, weight in found.weights.items():
        assert weight.sha256 == graph.weights[key].sha256


def test_names_may_be_anything() -> None:
    odd = model("(float[2] x, float[2] z) => (float[2] y) { y = Add(x, z) }")
    node = odd.graph.node[0]
    node.name = 'a "quoted"\\ \N{SNOWMAN}\n'
    node.input[:], node.output[0] = ["%0", 'a"b\\'], "%1"
    odd.graph.input[0].name, odd.graph.input[1].name = node.input
    odd.graph.output[0].name = "%1"
    graph = parse_onnx(odd)
    found = from_json(to_json(graph).encode())
    assert str(found.module) == str(graph.module) and to_json(found) == to_json(graph)


def test_save_writes_json(tmp_path: Path) -> None:
    p = migraphx.parse_onnx_buffer(small("resnet").SerializeToString())
    migraphx.save(p, str(tmp_path / "p"), format="json")
    assert json.loads((tmp_path / "p").read_text())["format"] == "mgx-mlir program"
    assert migraphx.load(str(tmp_path / "p")) == p
    assert migraphx.load(str(tmp_path / "p"), format="json") == p
    p.compile(migraphx.get_target("ref"))
    migraphx.save(p, str(tmp_path / "c"), format="json")
    assert migraphx.load(str(tmp_path / "c")).is_compiled()


def _changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    weight = onnx.numpy_helper.from_array(np.ones((9, 9), np.float32), "w")
    made = model("(float[2, 9] x) => (float[2, 9] y) { a = MatMul(x, w) y = Relu(a) }")
    made.graph.initializer.append(weight)
    record = json.loads(to_json(parse_onnx(made)))
    change(record)
    return json.dumps(record).encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(version=9), "of version 9"),
        (lambda r: r.update(format="x"), "holds no program of mgx-mlir"),
        (lambda r: r.pop("ops"), "damaged: KeyError 'ops'"),
        (lambda r: r["ops"].clear(), "damaged"),
        (lambda r: r["ops"][-1].update(operands=["z"]), "reads 'z', which is not made before"),
        (lambda r: r["ops"].insert(0, r["ops"][1]), "which is not made before|made twice"),
        (lambda r: r["ops"][1].update(op="mgx.none"), "damaged"),
        (lambda r: r["ops"][1]["attributes"].update(x="}"), "damaged"),
        (lambda r: r["ops"][1].update(results={"%9": "tensor<7xf32>"}), "damaged"),
        (lambda r: r["ops"][1].update(regions=[{"inputs": {}, "ops": []}]), "damaged"),
        (lambda r: r["weights"].clear(), "there is no weight 'w'"),
        (lambda r: r["weights"][0].update(shape=[9, 8]), "bytes where 288 belong"),
        (lambda r: r["weights"][0].update(shape=[-9, -9]), "bytes where"),
        (lambda r: r["weights"][0].update(data="?"), "weight 'w'"),
        (lambda r: r["weights"][0].update(dtype="void"), "damaged"),
        (lambda r: r["weights"].append(r["weights"][0]), "two weights are called 'w'"),
        (lambda r: r.update(inputs={}), "damaged"),
        (lambda r: r.update(outputs=[]), "damaged"),
        (lambda r: r.update(kernels=[1]), "shows a compiled program"),
    ],
)  # fmt: skip
def test_damaged_json_is_refused(change: Callable[[dict[str, Any]], object], message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        from_json(_changed(change))


@pytest.mark.parametrize("data", [b"{", b"[]", b"{}", b"{" + b"[" * 99999, b'{"format": 1}\xff'])
def test_other_json_is_refused(data: bytes) -> None:
    with pytest.raises(ArtifactError):
        migraphx.load_buffer(data)


def test_python_of_a_program_is_read_and_not_executed(tmp_path: Path) -> None:
    text = """(float[2, 3] x) => (float[2, 3] y) {
        i = Constant<value = float[3] {inf, 2.0, -3.0}>() a = Min(x, i)
        y = Softmax<axis = 1>(a) }"""
    p = migraphx.parse_onnx_buffer(model(text).SerializeToString())
    (tmp_path / "p.py").write_text(p.to_py())
    found = migraphx.load(str(tmp_path / "p.py"))
    assert found.to_py() == p.to_py()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for each in (p, found):
        each.compile(migraphx.get_target("ref"))
    assert found.run({"x": x}) == p.run({"x": x})


@pytest.mark.parametrize(
    "text",
    [
        TEXTS["if"],
        """(float[2] x, bool c) => (float[2] y) { n = Constant<value = int64 {3}>()
        y = Loop(n, c, x) <body = b (int64 i, bool k, float[2] a) => (bool k2, float[2] b2)
            { k2 = Identity(k) b2 = Add(a, x) }> }""",
    ],
    ids=["if", "loop"],
)
def test_bodies_in_python_are_read(text: str) -> None:
    p = migraphx.parse_onnx_buffer(model(text).SerializeToString())
    found = from_python(p.to_py())
    inputs = {"x": np.array([1, -2], np.float32), "c": np.array(True)}
    for each in (p, found):
        each.compile(migraphx.get_target("ref"))
    assert found.run(inputs) == p.run(inputs)


_BEGIN = "import migraphx\np = migraphx.program()\nm = p.get_main_module()\n"


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "x = __import__('os')",
        "open('made', 'w')",
        "p.__class__",
        "x = p.__class__()",
        "x = migraphx.load('made')",
        "migraphx.save(p, 'made')",
        "p.compile(migraphx.get_target('ref'))",
        "m.state",
        "x = [i for i in range(3)]",
        "x = 1 + 1",
        "x = lambda: 1",
        "x = f'{p}'",
        "x, y = 1, 2",
        "x = float('1e999')",
        "x = migraphx.op(**{})",
        "x = q",
        "if True: pass",
        "x: int = 1",
        "m.add_return(migraphx.op)",
        "m.add_instruction(migraphx.op('nothing'), [])",
        "m.add_parameter('x')",
        "x = " + "-" * 5000 + "1",
        "x = " + "[" * 250,
        "'",
    ],
)
def test_other_python_is_refused(line: str, tmp_path: Path) -> None:
    file = tmp_path / "p.py"
    file.write_text(f"{_BEGIN}{line}\n")
    with pytest.raises(ArtifactError, match=r"p\.py: "):
        migraphx.load(str(file))
    assert [found.name for found in tmp_path.iterdir()] == ["p.py"]


def test_a_text_without_a_program_is_refused() -> None:
    for text in ("", "p = 1", "import migraphx\nq = migraphx.program()"):
        with pytest.raises(ArtifactError, match="makes no program called p"):
            from_python(text)


def test_random_constants_are_told(caplog: pytest.LogCaptureFixture) -> None:
    made = model("(float[2, 99] x) => (float[2, 99] y) { y = MatMul(x, w) }")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((99, 99), np.float32), "w"))
    from_python(migraphx.parse_onnx_buffer(made.SerializeToString()).to_py())
    assert "1 constants are random ones" in caplog.text
