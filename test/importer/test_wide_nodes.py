"""Nodes with very many inputs."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

import mgx_mlir
from test.importer.agreement import floats


def repeated(count: int) -> onnx.ModelProto:
    """x and its negative, one after the other, `count` times in one Concat."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [8 * count])
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("Concat", ["x", "n"] * count, ["y"], axis=0),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_concat_of_very_many_operands_is_kernels_of_few():
    program = mgx_mlir.compile(repeated(400))
    x = floats(4)
    wanted = np.tile(np.concatenate([x, -x]), 400)
    np.testing.assert_array_equal(program.run({"x": x})["y"], wanted)
