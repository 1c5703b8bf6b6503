"""`mgx verify` of models that quantize what they compute: steps that a rounding decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from mgx_mlir.importer import emit
from mgx_mlir.tools.comparing import STEPPED, compare
from mgx_mlir.tools.mgx import main
from mgx_mlir.tools.quantizers import with_noise
from test.tools.test_verify_nodes import sabotage

SIZE = 192


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "cache"))


def dynamic() -> onnx.ModelProto:
    """A layer, quantized by what it computes, and a product of integers."""
    generator = np.random.default_rng(0)
    weights = {
        "w": (generator.standard_normal((SIZE, SIZE)) / np.sqrt(SIZE)).astype(np.float32),
        "v": generator.integers(-127, 128, (SIZE, SIZE)).astype(np.int8),
    }
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["h"], "product"),
        node("Tanh", ["h"], ["t"], "tanh"),
        node("DynamicQuantizeLinear", ["t"], ["q", "s", "z"], "quantize"),
        node("MatMulInteger", ["q", "v", "z"], ["p"], "integers"),
        node("Cast", ["p"], ["c"], "cast", to=1),
        node("Mul", ["c", "s"], ["y"], "scale"),
    ]
    info = helper.make_tensor_value_info
    ends = [[info(name, 1, [SIZE, SIZE])] for name in "xy"]
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", *ends, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def bent(amount: float) -> Any:
    """Moves numbers by a share of their squares, which no scale makes good."""
    return lambda y: emit.add(y, emit.mul(emit.mul(y, y), amount))


def test_a_step_that_a_rounding_decides_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(dynamic(), "m.onnx")
    sabotage(monkeypatch, "Tanh", "tanh", bent(2.0**-19))  # far below the tolerance
    assert main(["verify", "m.onnx"]) == 0
    assert main(["verify", "m.onnx", "--bisect"]) == 0
    assert "nothing to bisect" in capsys.readouterr().out


def test_a_fault_before_a_quantizer_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(dynamic(), "m.onnx")
    sabotage(monkeypatch, "Tanh", "tanh", bent(0.05))
    assert main(["verify", "m.onnx", "--bisect"]) == 1
    assert "1 node: Tanh 'tanh'" in capsys.readouterr().out


def test_noise_moves_codes_by_single_steps() -> None:
    model = dynamic()
    model.graph.output.append(onnx.ValueInfoProto(name="q"))
    inputs = {"x": np.random.default_rng(1).standard_normal((SIZE, SIZE)).astype(np.float32)}

    def codes(one: onnx.ModelProto) -> np.ndarray:
        session = onnxruntime.InferenceSession(one.SerializeToString())
        return session.run(["q"], inputs)[0].astype(np.int32)

    found = [with_noise(model, seed) for seed in (1, 2, 1)]
    assert all(one is not None for one in found)
    first = codes(model)
    one, two, again = (codes(each) for each in found if each is not None)
    assert (one == again).all() and (one != two).any()
    for each in (one, two):
        assert abs(each - first).max() == 1 and 0 < (each != first).sum() < 40


def test_quantizers_of_inputs_have_no_noise() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[4] x, float s) => (int8[4] q) {
        z = Constant<value = int8 {0}>() q = QuantizeLinear(x, s, z) }"""
    assert with_noise(onnx.parser.parse_model(text), 1) is None


@pytest.mark.parametrize(
    ("places", "size", "ok"), [(1, 1, True), (12, 1, True), (20, 1, False), (1, 5, False)]
)
def test_differences_are_as_large_as_those_of_steps(places: int, size: int, ok: bool) -> None:
    first = np.arange(1000)
    stepped, found = first.copy(), first.copy()
    stepped[::250] += 1
    found[1 : 1 + places] += size
    assert compare(found, {"": first, f"{STEPPED} (1)": stepped}, None, None).ok == ok
    assert not compare(found, {"": first, "nudged": stepped}, None, None).ok
