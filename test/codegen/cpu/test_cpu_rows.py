"""Rows by vectors: the last elements of a row, NaN, infinities, and blocks of long sums."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

import mgx_mlir

TARGETS = ("cpu", "x86-64-v3")
SIZES = (1, 7, 15, 16, 17, 33, 64, 77, 131)


def compiled(node: str, outputs: str, size: int | None, target: str) -> mgx_mlir.Program:
    text = f'<ir_version: 9, opset_import: ["": 17]> g (float[r, c] x) => ({outputs}) {{ {node} }}'
    model = parser.parse_model(text)
    onnx.checker.check_model(model)
    if size is None:
        return mgx_mlir.compile(model, target, mode="full-dynamic")
    return mgx_mlir.compile(model, target, dim_params={"r": 3, "c": size})


def rows(size: int) -> np.ndarray:
    return np.random.default_rng(size).standard_normal((3, size)).astype(np.float32)


def softmax(x: np.ndarray) -> np.ndarray:
    power = np.exp((x - x.max(axis=1, keepdims=True)).astype(np.float64))
    return power / power.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("target", TARGETS)
def test_softmax_of_rows_of_any_size(target: str):
    program = compiled("y = Softmax <axis = -1> (x)", "float[r, c] y", None, target)
    for size in SIZES:
        x = rows(size) * 20
        x[0, size // 2 :] = -np.inf if size > 1 else x[0, 0]
        (y,) = program.run({"x": x}).values()
        np.testing.assert_allclose(y, softmax(x), rtol=3e-6, atol=1e-38)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [17, 77, None])
def test_extremes_keep_nan_of_every_place(size: int | None, target: str):
    nodes = (
        "y = ReduceMax <axes = [1], keepdims = 0> (x) z = ReduceMin <axes = [1], keepdims = 0> (x)"
    )
    program = compiled(nodes, "float[r] y, float[r] z", size, target)
    x = rows(size or 37)
    for place in range(x.shape[1]):
        own = x.copy()
        own[1, place] = np.nan
        most, least = program.run({"x": own}).values()
        np.testing.assert_array_equal(most, own.max(axis=1))
        np.testing.assert_array_equal(least, own.min(axis=1))


@pytest.mark.parametrize("target", TARGETS)
def test_extremes_of_infinities(target: str):
    program = compiled("y = ReduceMax <axes = [1], keepdims = 0> (x)", "float[r] y", 19, target)
    x = np.full((3, 19), -np.inf, np.float32)
    x[1, 18], x[2, 3] = np.inf, -1
    (y,) = program.run({"x": x}).values()
    np.testing.assert_array_equal(y, [-np.inf, np.inf, -1])


@pytest.mark.parametrize("target", TARGETS)
def test_powers_at_the_ends_of_their_range(target: str):
    program = compiled("y = Exp(x)", "float[r, c] y", None, target)
    numbers = np.array(
        [0, -0.0, 88.7, 88.8, 200, -87, -95, -103, -104, -200, np.inf, -np.inf, np.nan], np.float32
    )
    x = np.concatenate([numbers, np.linspace(-105, 90, 2000, dtype=np.float32)]).reshape(1, -1)
    (y,) = program.run({"x": x}).values()
    with np.errstate(over="ignore"):
        expected = np.exp(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(y, expected, rtol=3e-7, atol=1.5e-45)


@pytest.mark.parametrize("target", TARGETS)
def test_a_long_sum_keeps_its_digits(target: str):
    size = 3_000_001
    nodes = "y = ReduceSum <keepdims = 0> (x, a)"
    nodes = f"a = Constant <value_ints = [1]> () {nodes}"
    program = compiled(nodes, "float[r] y", size, target)
    x = np.full((3, size), 0.1, np.float32)
    (y,) = program.run({"x": x}).values()
    np.testing.assert_allclose(y, x.sum(axis=1, dtype=np.float64), rtol=1e-5)


def test_a_masked_lane_divides_nothing():
    nodes = "i = Cast <to = 6> (x) j = Div(i, i) k = Cast <to = 1> (j) y = Exp(k)"
    program = compiled(nodes, "float[r, c] y", 5, "cpu")
    (y,) = program.run({"x": np.full((3, 5), 2, np.float32)}).values()
    np.testing.assert_allclose(y, np.full((3, 5), np.e), rtol=1e-6)
