"""Gradient nodes, against differences."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import parse_onnx
from mgx_mlir.reference import evaluate

HEAD = '<ir_version: 9, opset_import: ["": {opset}, "ai.onnx.preview.training": 1]>'


def evaluated(text: str, opset: int, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    graph = parse_onnx(onnx.parser.parse_model(HEAD.format(opset=opset) + text))
    return evaluate(graph.module, graph.weights, inputs)


@pytest.mark.parametrize("opset", [12, 18])
@pytest.mark.parametrize(
    "body",
    [
        "y = Mul (x, w)",
        "a = Sub (x, w) b = Mul (a, a) y = Div (b, w)",
        "a = Exp (x) b = Tanh (a) y = Mul (b, x)",
        "a = Sigmoid (x) b = Log (a) c = Neg (b) y = Sqrt (c)",
        "a = Sin (x) b = Cos (a) c = Abs (b) d = Relu (c) y = Add (d, w)",
    ],
)
def test_gradients_are_the_limits_of_differences(body, opset):
    rng = np.random.default_rng(0)
    x, w = rng.uniform(0.5, 1.5, (2, 3)), rng.uniform(0.5, 1.5, (3,))
    gradient = (
        f'{body} dx, dw = ai.onnx.preview.training.Gradient <xs = ["x", "w"], y = "y"> (x, w)'
    )
    text = f"g (double[2,3] x, double[3] w) => (y, dx, dw) {{ {gradient} }}"
    found = evaluated(text, opset, x=x, w=w)
    for name, value in (("x", x), ("w", w)):
        for place in np.ndindex(value.shape):
            sums = []
            for step in (1e-6, -1e-6):
                moved = {"x": x.copy(), "w": w.copy()}
                moved[name][place] += step
                sums.append(evaluated(text, opset, **moved)["y"].sum())
            np.testing.assert_allclose(
                found[f"d{name}"][place], (sums[0] - sums[1]) / 2e-6, rtol=1e-6, atol=1e-8
            )


def test_the_point_may_be_another_than_the_model_s():
    body = 'y = Mul (x, x) dx = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (z)'
    x, z = np.array([1.0, 2.0]), np.array([5.0, 7.0])
    found = evaluated(f"g (double[2] x, double[2] z) => (y, dx) {{ {body} }}", 18, x=x, z=z)
    np.testing.assert_array_equal(found["y"], x * x)
    np.testing.assert_array_equal(found["dx"], 2 * z)


def test_an_unknown_derivative_is_named():
    body = 'y = Erf (x) dx = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (x)'
    with pytest.raises(UnsupportedError, match="the derivative of Erf 'Erf_0' is not known"):
        evaluated(f"g (double[2] x) => (y, dx) {{ {body} }}", 18, x=np.ones(2))
