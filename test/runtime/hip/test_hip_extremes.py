"""Zeros with a sign on emulated chips."""

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
def test_zero_less_zero_has_no_sign(chip: str) -> None:
    """Also where it is an operand of what can negate its operands."""
    x = np.float32([0, -0.0, 2, -4])
    nodes = [
        helper.make_node("Sub", ["zero", "x"], ["less"]),
        helper.make_node("Div", ["one", "less"], ["y"]),
    ]
    want = np.float32([np.inf, np.inf, -0.5, 0.25])
    np.testing.assert_array_equal(run(chip, nodes, x=x), want)
