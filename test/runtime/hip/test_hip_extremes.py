"""Numbers at the ends of floats on emulated chips: large scores, zeros with a sign."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import mgx_mlir

CHIPS = ("gfx942", "gfx1100")
Array = np.ndarray[Any, np.dtype[Any]]


def run(chip: str, nodes: list[NodeProto], **feeds: Array) -> Array:
    """The tensor y of some nodes; `one` and `zero` are constants."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feeds.items()
    ]
    kind = inputs[0].type.tensor_type.elem_type
    constants = [
        numpy_helper.from_array(np.float32(value), name)
        for name, value in (("one", 1), ("zero", 0))
        if kind == TensorProto.FLOAT
    ]
    output = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph(nodes, "extremes", inputs, [output], constants)
    opset = helper.make_opsetid("", 23)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=11)
    return np.asarray(mgx_mlir.compile(model, chip).run(feeds)["y"])


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("element", "size"), [("f4", 1e9), ("f4", 1e30), ("f2", 3e7)])
def test_large_scores_have_a_softmax(chip: str, element: str, size: float, masked: bool) -> None:
    """Their products with a scale round by more than exponents may; small rows are beside them."""
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((1, 2, n, 64)) for n in (16, 48, 48))
    q, k = q * size**0.5, k * size**0.5
    q[:, :, ::2] /= size
    q, k, v = (x.astype(element) for x in (q, k, v))
    feeds = {"q": q, "k": k, "v": v}
    scores = q.astype("f8") @ k.astype("f8").swapaxes(2, 3) / 8
    if masked:
        feeds["mask"] = np.where(random.random((16, 48)) < 0.5, 0, -np.inf).astype(element)
        scores += feeds["mask"]
    found = run(chip, [helper.make_node("Attention", [*feeds], ["y"])], **feeds)
    shares = np.exp(scores - scores.max(3, keepdims=True))
    want = shares / shares.sum(3, keepdims=True) @ v.astype("f8")
    np.testing.assert_allclose(found, want, atol=3e-3 if element == "f2" else 1e-3)


@pytest.mark.parametrize("chip", CHIPS)
def test_zero_less_zero_has_no_sign(chip: str) -> None:
    """Also where it is an operand of what can negate its operands."""
    x = np.float32([0, -0.0, 2, -4])
    nodes = [
        helper.make_node("Sub", ["zero", "x"], ["less"]),
        helper.make_node("Div", ["one", "less"], ["y"]),
    ]
    want = np.float32([np.inf, np.inf, -0.5, 0.25])
    np.testing.assert_array_equal(run(chip, nodes, x=x), want)
