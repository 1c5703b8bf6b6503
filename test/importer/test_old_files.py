"""Files as older exporters write them, and inputs with values of their own."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mgx_mlir.errors import UsageError
from mgx_mlir.models.staged import Model
from test.importer.agreement import floats


def value(name: str, size: int = 3):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [size])


def sum_model(version: int, size: int = 3, listed: bool = True, outputs=("y",), opset: int = 9):
    """y = x + w, and with z the places of y that are not zero."""
    nodes = [helper.make_node("Add", ["x", "w"], ["y"]), helper.make_node("NonZero", ["y"], ["z"])]
    places = helper.make_tensor_value_info("z", TensorProto.INT64, None)
    results = [places if name == "z" else value(name, size) for name in outputs]
    inputs = [value("x", size), *([value("w", size)] if listed else [])]
    weights = [numpy_helper.from_array(np.arange(size, dtype=np.float32), "w")]
    graph = helper.make_graph(nodes, "sum", inputs, results, weights)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=version)


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("size", [3, 400])
def test_models_of_old_versions_run_in_parts(version, listed, size):
    """Weights are inputs there, in the file and in the parts of the model."""
    x = floats(size)
    found = Model(sum_model(version, size, listed, ("y", "z"))).run({"x": x})
    np.testing.assert_array_equal(found["y"], x + np.arange(size, dtype=np.float32))
    np.testing.assert_array_equal(found["z"], np.stack(np.nonzero(found["y"])))


def test_an_output_may_be_listed_twice():
    model = Model(sum_model(8, outputs=("y", "z", "y")))
    assert model.outputs == ("y", "z")
    np.testing.assert_array_equal(model.run({"x": np.zeros(3, np.float32)})["y"], [0, 1, 2])


@pytest.mark.parametrize("size", [3, 400])
@pytest.mark.parametrize("outputs", [("y",), ("y", "z")])
def test_a_caller_may_replace_the_value_of_an_input(size, outputs):
    model = Model(sum_model(8, size, outputs=outputs))
    x, w = floats(size), floats(size, seed=1)
    for given, want in (({"w": w}, w), ({}, np.arange(size, dtype=np.float32)), ({"w": x}, x)):
        np.testing.assert_array_equal(model.run({"x": x} | given)["y"], x + want)


def test_an_initialiser_that_is_no_input_is_not_replaced():
    with pytest.raises(UsageError, match="no input 'w'"):
        Model(sum_model(8, listed=False)).run({"x": floats(3), "w": floats(3)})


@pytest.mark.parametrize("opset", [3, 5, 7, 8])
def test_constants_of_integers_are_in_models_of_all_opsets(opset):
    """The standard has them since opset 9, exporters wrote them before."""
    model = onnx.parser.parse_model(
        f'<ir_version: 3, opset_import: ["": {opset}]> g (float[2, 6] x) => (float[3, 4] y) '
        "{ s = Constant <value = int64[2] {3, 4}> () y = Reshape (x, s) }"
    )
    x = floats(2, 6)
    np.testing.assert_array_equal(Model(model).run({"x": x})["y"], x.reshape(3, 4))


@pytest.mark.parametrize("kind", ["Add", "And", "Less", "PRelu"])
def test_axes_say_where_an_operand_lies_before_opset_7(kind):
    """onnx's converter knows some operators, and the first axis."""
    x, w = floats(2, 3, 4, 5), abs(floats(3, 4) if kind != "PRelu" else floats(3))
    spread = w.reshape(3, -1, 1)
    x, w, spread = (a > 0.5 if kind == "And" else a for a in (x, w, spread))
    want = {
        "Add": lambda: x + spread,
        "And": lambda: x & spread,
        "Less": lambda: x < spread,
        "PRelu": lambda: np.where(x < 0, x * spread, x),
    }[kind]()
    named = {} if kind == "PRelu" else {"axis": 1, "broadcast": 1}
    node = helper.make_node(kind, ["x", "w"], ["y"], **named)
    number = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", number(x.dtype), x.shape)],
        [helper.make_tensor_value_info("y", number(want.dtype), x.shape)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=4)
    np.testing.assert_array_equal(Model(model).run({"x": x})["y"], want)
