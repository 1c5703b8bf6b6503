"""Loops and sequences that are gone once a model is imported."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mgx_mlir.importer import parse_onnx
from test.importer.agreement import assert_agrees, floats, op_names, simple_model

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])


def doubling(trips: int) -> onnx.ModelProto:
    """y = x doubled `trips` times."""
    values = {
        name: helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("i", TensorProto.INT64, []),
            ("go", TensorProto.BOOL, []),
            ("again", TensorProto.BOOL, []),
            ("v", TensorProto.FLOAT, [2, 3]),
            ("w", TensorProto.FLOAT, [2, 3]),
        )
    }
    nodes = [
        helper.make_node("Identity", ["go"], ["again"]),
        helper.make_node("Add", ["v", "v"], ["w"]),
    ]
    body = helper.make_graph(
        nodes, "body", [values[n] for n in ("i", "go", "v")], [values[n] for n in ("again", "w")]
    )
    return simple_model(
        nodes=[helper.make_node("Loop", ["trips", "", "x"], ["y"], "loop", body=body)],
        inputs=[X],
        outputs=[helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        initializer=[numpy_helper.from_array(np.array(trips), "trips")],
    )


def test_few_trips_are_written_out():
    graph = assert_agrees(doubling(3), {"x": floats(2, 3)})
    assert op_names(graph) == ["add"] * 3


def test_many_trips_stay_a_loop():
    graph = assert_agrees(doubling(5000), {"x": np.zeros((2, 3), np.float32)})
    assert "loop" in op_names(graph)


def test_sequences_leave_only_their_tensors():
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "b"], ["s"], "pair"),
        helper.make_node("SequenceInsert", ["s", "x"], ["t"], "three"),
        helper.make_node("ConcatFromSequence", ["t"], ["y"], "joined", axis=0, new_axis=1),
    ]
    b = numpy_helper.from_array(floats(2, 3, seed=1), "b")
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2, 3])]
    model = simple_model(nodes=nodes, inputs=[X], outputs=outputs, initializer=[b])
    graph = assert_agrees(model, {"x": floats(2, 3)})
    assert "concat" in op_names(graph)


def nested(depth: int, trips: int) -> onnx.ModelProto:
    """Loops inside of loops, each of `trips`, around one Relu."""
    body = [helper.make_node("Relu", ["s0"], ["r0"])]
    for level in range(depth):
        inner = helper.make_graph(
            [helper.make_node("Identity", [f"go{level}"], [f"again{level}"]), *body],
            "body",
            [
                helper.make_tensor_value_info(f"i{level}", TensorProto.INT64, []),
                helper.make_tensor_value_info(f"go{level}", TensorProto.BOOL, []),
                helper.make_tensor_value_info(f"s{level}", TensorProto.FLOAT, [4]),
            ],
            [
                helper.make_tensor_value_info(f"again{level}", TensorProto.BOOL, []),
                helper.make_tensor_value_info(f"r{level}", TensorProto.FLOAT, [4]),
            ],
        )
        outer = level + 1
        loop = helper.make_node("Loop", ["trips", "", f"s{outer}"], [f"r{outer}"], body=inner)
        body = [loop]
    graph = helper.make_graph(
        body,
        "g",
        [helper.make_tensor_value_info(f"s{depth}", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info(f"r{depth}", TensorProto.FLOAT, [4])],
        [helper.make_tensor("trips", TensorProto.INT64, [], [trips])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_loops_inside_of_loops_are_counted_together():
    text = str(parse_onnx(nested(4, 20)).module)  # 160,000 nodes if written out
    assert "mgx.loop" in text
    assert text.count("mgx.relu") < 20_000


def test_few_trips_of_loops_inside_of_loops_are_written_out():
    assert "mgx.loop" not in str(parse_onnx(nested(3, 4)).module)
