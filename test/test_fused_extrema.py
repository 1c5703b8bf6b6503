"""Work before ArgMax and ArgMin is in their kernel, of given and of any sizes, on CPUs and GPUs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import mgx_mlir

X = np.random.default_rng(0).integers(-3, 4, (3, 5, 70)).astype(np.float32)
ROW = np.random.default_rng(1).integers(-3, 4, 70).astype(np.float32)


def model(operator: str, axis: int, last: int, sizes: str = "3, 5, 70") -> onnx.ModelProto:
    text = (
        f"(float[{sizes}] x, float[70] row) => (int64[a, b, c] y)"
        f"{{ a = Mul(x, x) b = Add(a, row) "
        f"y = {operator} <axis = {axis}, select_last_index = {last}>(b) }}"
    )
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> g {text}')


def expected(operator: str, axis: int, last: int) -> np.ndarray:
    values = X * X + ROW if operator == "ArgMax" else -(X * X + ROW)
    if not last:
        return values.argmax(axis, keepdims=True)
    return X.shape[axis] - 1 - np.flip(values, axis).argmax(axis, keepdims=True)


@pytest.mark.parametrize("target", ["cpu", "gfx942", "gfx1100"])
@pytest.mark.parametrize(("axis", "last"), [(0, 1), (1, 0), (2, 0), (2, 1)])
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_work_before_an_extremum_is_in_its_kernel(operator, axis, last, target):
    program = mgx_mlir.compile(model(operator, axis, last), target=target)
    assert len(program.plan.steps) == 1
    found = program.run({"x": X, "row": ROW})["y"]
    np.testing.assert_array_equal(found, expected(operator, axis, last))


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_so_it_is_at_any_sizes(target):
    made = model("ArgMax", 2, 0, "n, k, 70")
    program = mgx_mlir.compile(made, target=target, mode="full-dynamic")
    assert len(program.plan.steps) == 1
    found = program.run({"x": X, "row": ROW})["y"]
    np.testing.assert_array_equal(found, expected("ArgMax", 2, 0))


def test_a_cpu_computes_exponentials_apart_from_the_comparisons():
    text = "(float[64, 4096] x) => (int64[64, 1] y) { a = Exp(x) y = ArgMax<axis = 1>(a) }"
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> g {text}')
    steps = {t: len(mgx_mlir.compile(made, target=t).plan.steps) for t in ("cpu", "gfx942")}
    assert steps == {"cpu": 2, "gfx942": 1}
