"""Products in bodies of If and Loop, quantized without data."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir import Calibration, Precision, quantize

from .test_quantize import by_onnxruntime, operators, sqnr

FLOAT, SIZES = TensorProto.FLOAT, [4, 64]


def value(name, kind=FLOAT, sizes=SIZES):
    return helper.make_tensor_value_info(name, kind, sizes)


def constant(name, *sizes, seed=0):
    array = np.random.default_rng(seed).normal(0, sizes[0] ** -0.5, sizes)
    return numpy_helper.from_array(array.astype(np.float32), name)


def branched():
    """An If whose branches share a weight, after a Loop whose weight is its own."""
    n = helper.make_node
    step = helper.make_graph(
        [n("MatMul", ["h", "v"], ["p"]), n("Tanh", ["p"], ["next"]),
         n("Identity", ["on"], ["still"])],
        "step",
        [value("i", TensorProto.INT64, []), value("on", TensorProto.BOOL, []), value("h")],
        [value("still", TensorProto.BOOL, []), value("next")],
        [constant("v", 64, 64, seed=1)],
    )  # fmt: skip
    one = helper.make_graph(
        [n("MatMul", ["last", "w"], ["a"]), n("Relu", ["a"], ["one"])], "one", [], [value("one")]
    )
    other = helper.make_graph(
        [n("MatMul", ["last", "w"], ["b"]), n("Add", ["b", "x"], ["other"])],
        "other", [], [value("other")],
    )  # fmt: skip
    count = numpy_helper.from_array(np.array(3), "count")
    nodes = [
        n("Loop", ["count", "", "x"], ["last"], body=step),
        n("If", ["flag"], ["z"], then_branch=one, else_branch=other),
        n("MatMul", ["z", "u"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "branched", [value("x"), value("flag", TensorProto.BOOL, [])], [value("y")],
        [constant("w", 64, 64), constant("u", 64, 64, seed=2), count],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def inputs(flag=True):
    x = np.random.default_rng(3).normal(0, 1, SIZES).astype(np.float32)
    return {"x": x, "flag": np.array(flag)}


@pytest.mark.parametrize(
    ("precision", "least"),
    [
        (Precision("int8"), 30),
        (Precision("fp8", dynamic=True), 20),
        (Precision(weights="int4"), 12),
        (Precision("mxfp8"), 15),
    ],
    ids=["int8", "fp8", "int4", "mx"],
)
def test_bodies_are_quantized(precision, least):
    model = branched()
    data = [inputs(), inputs(False)]
    made = quantize(model, precision, Calibration(data))
    assert len(made.choices) == 4
    assert {choice.precision for choice in made.choices} == {precision.products or "int4"}
    proto = made.proto()
    # The branches share the quantized weight, and nothing keeps the f32 ones.
    weights = [t for t in proto.graph.initializer if np.prod(t.dims) >= 32 * 64]
    assert len(weights) == 3 and all(t.data_type != FLOAT for t in weights)
    for given in data:
        expected = mgx_mlir.compile(model).run(given)["y"]
        found = mgx_mlir.compile(made.source).run(given)["y"]
        assert sqnr(found, expected) > least
        if precision.products != "mxfp8":  # onnxruntime has no MX
            found_there = by_onnxruntime(proto, given, "ORT_ENABLE_BASIC")["y"]
            assert sqnr(found_there, found) > 40
    onnx.checker.check_model(proto)


def test_names_choose_in_bodies_too():
    made = quantize(branched(), Precision(weights="int4", include=("MatMul_0",)))
    found = {choice.node: choice.precision for choice in made.choices}
    assert found == {"MatMul_0": "int4", "MatMul_2": "f32"}
    assert operators(made.proto()) == ["Loop", "If", "MatMul"]


def test_a_loss_that_is_kept_leaves_bodies_in_f32():
    made = quantize(branched(), Precision("int8"), Calibration([inputs()]), max_loss=0.5)
    assert [choice.node for choice in made.choices] == ["MatMul_2"]
