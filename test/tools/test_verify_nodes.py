"""`mgx verify --per-instruction` and `--bisect`: a fault is found down to its node."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from mgx_mlir.dialects import mgx
from mgx_mlir.importer import emit, registry
from mgx_mlir.passes.eliminate_identities import EliminateIdentities
from mgx_mlir.rewriting.patterns import rewrites
from mgx_mlir.rewriting.queries import definition, has_one_use
from mgx_mlir.tools.comparing import compare
from mgx_mlir.tools.mgx import main

HEAD = '<ir_version: 8, opset_import: ["": 17]>'


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "cache"))


def save(text: str) -> str:
    onnx.save(onnx.parser.parse_model(HEAD + text), "m.onnx")
    return "m.onnx"


def sabotage(
    monkeypatch: pytest.MonkeyPatch, operator: str, node: str, change: Callable[[Any], Any]
) -> None:
    """Makes the converter of an operator change the result of the node of that name."""
    row = registry.find("", operator)
    assert row is not None and row.converter is not None
    right = row.converter

    def wrong(found: Any) -> Any:
        return change(right(found)) if found.name == node else right(found)

    table = {**registry._converters(), ("", operator): replace(row, converter=wrong)}
    monkeypatch.setattr(registry, "_converters", lambda: table)


def chain(count: int) -> onnx.ModelProto:
    """A chain of nodes of ten operators, node k named 'n<k>'; every 20th is a Tanh."""
    generator = np.random.default_rng(0)
    operators = ["Relu", "Sigmoid", "Add", "Mul", "MatMul", "Softmax", "Transpose", "Neg", "Sub"]
    nodes, weights, value, shape = [], [], "x", (16, 32)
    for place in range(count):
        operator = "Tanh" if place % 20 == 7 else operators[generator.integers(len(operators))]
        inputs = [value]
        if operator in ("Add", "Mul", "Sub", "MatMul"):
            columns = int(generator.choice([16, 32, 48])) if operator == "MatMul" else 1
            size = (shape[1], columns) if operator == "MatMul" else (shape[1],)
            array = generator.standard_normal(size) / 4 + (operator == "Mul")
            weights.append(numpy_helper.from_array(array.astype(np.float32), f"w{place}"))
            inputs.append(f"w{place}")
            shape = (shape[0], columns) if operator == "MatMul" else shape
        attributes = {"perm": [1, 0]} if operator == "Transpose" else {}
        shape = shape[::-1] if operator == "Transpose" else shape
        value = f"v{place}"
        made = helper.make_node(operator, inputs, [value], name=f"n{place}", **attributes)
        nodes.append(made)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [info("x", 1, [16, 32])], [info(value, 1, list(shape))], weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def again(printed: str) -> list[str]:
    """The words of the command that repeats a part."""
    (line,) = [line for line in printed.splitlines() if line.startswith("again: mgx ")]
    return shlex.split(line.removeprefix("again: mgx "))


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_bisect_finds_the_node_of_a_wrong_converter(
    count: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node = f"n{count // 40 * 20 + 7}"
    onnx.save(chain(count), "m.onnx")
    with monkeypatch.context() as patch:
        sabotage(patch, "Tanh", node, lambda y: emit.mul(y, 1.125))
        assert main(["verify", "m.onnx", "--bisect", "-o", "part"]) == 1
        printed = capsys.readouterr().out
        assert main(again(printed)) == 1
    assert f"1 node: Tanh '{node}'" in printed
    part = onnx.load("part/model.onnx")
    onnx.checker.check_model(part)
    assert [n.name for n in part.graph.node] == [node]
    assert main(again(printed)) == 0


def test_reduce_ends_at_the_node_of_a_wrong_converter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(chain(12), "m.onnx")
    assert main(["verify", "m.onnx", "--reduce"]) == 0
    assert capsys.readouterr().out.endswith("agrees\nverified\n")
    sabotage(monkeypatch, "Tanh", "n7", lambda y: emit.mul(y, 1.125))
    assert main(["verify", "m.onnx", "--reduce"]) == 1
    *cuts, last = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in cuts] == ["12", "11", "10", "9", "8", "7"]
    assert cuts[-1].endswith("agrees") and "elements differ" in cuts[-2]
    assert last == "the shortest model that differs ends with Tanh 'n7'"
    assert main(["verify", "m.onnx", "--reduce", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["cuts"]
    assert [cut["nodes"] for cut in found] == [12, 11, 10, 9, 8, 7]


def test_bisect_finds_nodes_that_are_wrong_together_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fault is a rewrite of a value with one reader, which a tap would be another of."""

    @rewrites(mgx.AbsOp)
    def wrong(op: mgx.AbsOp, context: Any) -> Any:
        inner = definition(op.x)
        return inner.x if isinstance(inner, mgx.NegOp) and has_one_use(op.x) else None

    monkeypatch.setattr(EliminateIdentities, "patterns", (*EliminateIdentities.patterns, wrong))
    np.save("x.npy", np.linspace(-2, 2, 8, dtype=np.float32) * 3)
    file = save(
        """g (float[8] x) => (float[8] y) {
        a = Sin(x) c = Neg(a) d = Abs(c) e = Exp(a) f = Add(d, e) y = Sin(f) }"""
    )
    assert main(["verify", file, "--bisect", "--input", "x=x.npy"]) == 1
    printed = capsys.readouterr().out
    assert "the results of all 6 nodes agree" in printed
    assert "2 nodes: Neg 'Neg_1', Abs 'Abs_2'" in printed
    assert main(again(printed)) == 1


def test_nothing_is_written_where_nothing_differs(capsys: pytest.CaptureFixture[str]) -> None:
    file = save("g (float[4] x) => (float[4] y) { a = Exp(x) y = Neg(a) }")
    assert main(["verify", file, "--bisect"]) == 0
    assert "nothing to bisect" in capsys.readouterr().out
    assert not Path("mgx-bisect").exists()


def test_the_first_node_that_diverges_is_marked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = save(
        """g (float[3, 4] x) => (float[4, 3] y) {
        a = Exp(x) b = Tanh(a) c = Neg(b) d = Neg(a) e = Add(c, d) y = Transpose(e) }"""
    )
    sabotage(monkeypatch, "Tanh", "Tanh_1", lambda y: emit.add(y, 1))
    assert main(["verify", file, "--per-instruction"]) == 1
    lines = capsys.readouterr().out.splitlines()[1:7]
    assert [line[:4].strip() for line in lines] == ["0", ">> 1", "2", "3", "4", "5"]
    assert [line.endswith("(so does an input)") for line in lines] == [
        False, False, True, False, True, True,
    ]  # fmt: skip
    assert lines[1].startswith(">> 1 Tanh 'Tanh_1': 12 of 12 elements differ")


def test_nodes_of_bodies_and_of_any_sizes_are_taken_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An If reads a value from outside; a Reshape's sizes follow from the input's."""
    file = save(
        """g (float[n, 4] x, bool c) => (float[m] y) {
        a = Tanh(x)
        b = If (c) <then_branch = t () => (float[n, 4] p) { p = Exp(a) },
                    else_branch = f () => (float[n, 4] q) { q = Neg(a) }>
        s = Shape(b) k = ReduceProd<keepdims = 1>(s) r = Reshape(b, k) y = Sqrt(r) }"""
    )
    np.save("c.npy", np.array(True))
    sabotage(monkeypatch, "Reshape", "Reshape_4", lambda y: emit.add(y, 1))
    words = ["verify", file, "--dim-param", "@n", "3", "--input", "c=c.npy", "--bisect"]
    assert main(words) == 1
    printed = capsys.readouterr().out
    assert "1 node: Reshape 'Reshape_4'" in printed and main(again(printed)) == 1


def test_the_origin_of_nan_and_inf_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    file = save(
        """g (float[4] x) => (float[4] y) {
        a = Neg(x) b = Exp(a) c = Sub(b, b) d = Add(c, x) y = Sqrt(d) }"""
    )
    np.save("x.npy", np.array([-1000, 1, 2, 3], np.float32))
    assert main(["verify", file, "--per-instruction", "--input", "x=x.npy"]) == 0
    printed = capsys.readouterr().out
    for where in ("onnxruntime", "the compiled program"):
        assert f"in {where}, NaN is made first by Sub 'Sub_2'" in printed
        assert f"in {where}, Inf is made first by Exp 'Exp_1'" in printed
    assert main(["verify", file, "--input", "x=x.npy"]) == 0
    assert "1 of 4 elements are NaN in the reference" in capsys.readouterr().out


def test_rms_may_decide_in_place_of_elements() -> None:
    expected = np.arange(1000, dtype=np.float32)
    found = expected.copy()
    found[7] += 5
    assert not compare(found, {"": expected}, None, None).ok
    assert compare(found, {"": expected}, None, None, 1e-3).ok
    assert not compare(found, {"": expected}, None, None, 1e-5).ok
    assert not compare(found, {"": expected}, 1e-3, None, 1e-3).ok
    found[7] = np.nan
    assert not compare(found, {"": expected}, None, None, 1e-3).ok
