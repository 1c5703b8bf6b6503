"""Concats of gathers are one launch on GPUs: each gather writes its part of the result."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import mgx_mlir

RNG = np.random.default_rng(0)
SHAPES = {"t": (10, 16), "u": (12, 15), "v": (8, 4, 6)}
TABLES = {name: RNG.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
GIVEN = {
    "i": np.array([3, 0, -1, 9, 3]),
    "j": np.array([11, -12, 5, 0, 1]),
    "x": RNG.normal(size=(5, 16)).astype(np.float32),
}
T, U, V, X = TABLES["t"], TABLES["u"], TABLES["v"], GIVEN["x"]
FIRST, J = GIVEN["i"], GIVEN["j"]
ELEMENTS = np.stack([J % 16] * 2, 1)
CASES = {
    "rows": ("a = Gather(t, i) y = Concat<axis = 0>(a, x)", np.concatenate([T[FIRST], X])),
    "rows beside each other": (
        "a = Gather(t, i) b = Gather(u, j) y = Concat<axis = 1>(a, b)",
        np.concatenate([T[FIRST], U[J]], 1),
    ),
    "between copies": (
        "a = Gather(t, i) h = Relu(x) y = Concat<axis = 1>(x, a, x)",
        np.concatenate([X, T[FIRST], X], 1),
    ),
    "parts of runs": (
        "a = Gather(v, i0) b = Gather(v, i0) c = Neg(b) y = Concat<axis = 2>(a, c)",
        np.concatenate([V[[1, 2]], -V[[1, 2]]], 2),
    ),
    "tuples": (
        "a = GatherND(t, ij) y = Concat<axis = 0>(a, x)",
        np.concatenate([T[[0, 4]], X]),
    ),
    "elements": (
        "a = GatherElements<axis = 1>(x, k) y = Concat<axis = 1>(a, x)",
        np.concatenate([np.take_along_axis(X, ELEMENTS, 1), X], 1),
    ),
}
INDICES = {"i0": np.array([1, 2]), "ij": np.array([[0], [4]]), "k": ELEMENTS}


def model(body: str, rows: str, rank: int) -> onnx.ModelProto:
    used = [n for n in ("i", "j", "x") if f"({n}" in body or f" {n})" in body or f" {n}," in body]
    kinds = {"i": f"int64[{rows}] i", "j": f"int64[{rows}] j", "x": f"float[{rows}, 16] x"}
    inputs = ", ".join(kinds[name] for name in used)
    sizes = ", ".join("abc"[:rank])
    text = f"({inputs}) => (float[{sizes}] y) {{ {body} }}"
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')
    for name, array in {**TABLES, **INDICES}.items():
        if any(name in node.input for node in made.graph.node):
            made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return made


@pytest.mark.parametrize("target", ["gfx942", "gfx1100", "cpu"])
@pytest.mark.parametrize("name", CASES)
def test_gathers_write_into_a_concat(name, target):
    body, expected = CASES[name]
    program = mgx_mlir.compile(model(body, "5", expected.ndim), target=target)
    if target != "cpu" and "Neg" not in body:
        assert len(program.plan.steps) == 1
    found = program.run({spec.name: GIVEN[spec.name] for spec in program.inputs})["y"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["rows", "rows beside each other"])
def test_so_they_do_at_any_sizes(name):
    body, expected = CASES[name]
    program = mgx_mlir.compile(model(body, "n", 2), target="gfx942", mode="full-dynamic")
    assert len(program.plan.steps) == 1
    found = program.run({spec.name: GIVEN[spec.name] for spec in program.inputs})["y"]
    np.testing.assert_array_equal(found, expected)
