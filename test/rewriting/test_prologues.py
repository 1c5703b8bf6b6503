"""The work that a product's kernel does on an operand as it reads it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir


def product(kind: str, number: float) -> onnx.ModelProto:
    """f(x + number) times a matrix, in f16; no vector divides k."""
    nodes = [
        helper.make_node("Add", ["x", "c"], ["s"]),
        helper.make_node(kind, ["s", "s"] if kind == "Mul" else ["s"], ["e"]),
        helper.make_node("MatMul", ["e", "w"], ["y"]),
    ]
    shapes = {"x": [16, 52], "w": [52, 64], "y": [16, 64]}
    x, w, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT16, s) for n, s in shapes.items())
    constant = numpy_helper.from_array(np.array(number, np.float16), "c")
    graph = helper.make_graph(nodes, "g", [x, w], [y], [constant])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
@pytest.mark.parametrize(
    ("kind", "number", "kernels"),
    [("Relu", 1, 1), ("Exp", 12, 2), ("Mul", 300, 2), ("Mul", 100, 1)],
)
def test_what_is_made_of_zeros_past_the_end_of_k_is_finite(
    kind: str, number: float, kernels: int, chip: str
) -> None:
    """In f16 exp(0 + 12) and (0 + 300)^2 are not: a kernel of its own computes elements alone."""
    rng = np.random.default_rng(0)
    x, w = rng.random((16, 52)) - number, rng.random((52, 64))
    given = {"x": x.astype(np.float16), "w": w.astype(np.float16)}
    s = (given["x"] + np.float16(number)).astype(np.float32)
    made = {"Relu": np.maximum(s, 0), "Exp": np.exp(s), "Mul": s * s}[kind]
    program = mgx_mlir.compile(product(kind, number), chip)
    assert program.plan.step_count == kernels
    np.testing.assert_allclose(program.run(given)["y"], made @ given["w"], rtol=5e-3)
