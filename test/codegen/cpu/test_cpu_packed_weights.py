"""Recurrent layers with packed weights, bytes most often, beside onnxruntime, on CPU levels."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir.artifact.target import executable_levels
from test.codegen.test_loops import recurrent

LEVELS = [target.name for target in executable_levels()]

ort = pytest.importorskip("onnxruntime")


def lstm(batch: int | str, width: int, hidden: int, direction: str = "forward") -> onnx.ModelProto:
    """A DynamicQuantizeLSTM of 5 steps, with a zero point and a scale for each column."""
    rng, ways = np.random.default_rng(hidden), 1 + (direction == "bidirectional")
    columns = 4 * hidden
    constants = {
        "w": rng.integers(-127, 128, (ways, width, columns)).astype(np.int8),
        "r": rng.integers(-127, 128, (ways, hidden, columns)).astype(np.int8),
        "b": rng.standard_normal((ways, 2 * columns)).astype(np.float32) * 0.1,
        "ws": rng.uniform(0.001, 0.004, (ways, columns)).astype(np.float32),
        "rs": rng.uniform(0.001, 0.004, (ways, columns)).astype(np.float32),
        "wz": np.zeros((ways, columns), np.int8),
        "rz": np.zeros((ways, columns), np.int8),
    }
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        names,
        ["y"],
        domain="com.microsoft",
        hidden_size=hidden,
        direction=direction,
    )
    graph = helper.make_graph(
        [node],
        "lstm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, batch, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=9)


def rows(batch: int, width: int) -> np.ndarray:
    return np.random.default_rng(batch).standard_normal((5, batch, width)).astype(np.float32)


def unsigned(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same numbers by weights from 0 to 255: where a CPU has no VNNI, onnxruntime's sums of two
    products of signed weights saturate at 16 bits."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for weights in copy.graph.initializer:
        if weights.data_type == TensorProto.INT8:
            codes = numpy_helper.to_array(weights).astype(np.int16) + 128
            weights.CopyFrom(numpy_helper.from_array(codes.astype(np.uint8), weights.name))
    return copy


def reference(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # of several, each rounds the rows that are its own
    session = ort.InferenceSession(
        unsigned(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]


# Hidden sizes that groups of four and vectors divide, and some that they do not.
@pytest.mark.every(4)
@pytest.mark.parametrize("hidden", [5, 19, 64])
@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("level", LEVELS)
def test_given_sizes(level, batch, hidden):
    model, x = lstm(batch, 12, hidden), rows(batch, 12)
    y = mgx_mlir.compile(model, target=level).run({"x": x})["y"]
    np.testing.assert_allclose(y, reference(model, x), atol=2e-5)


@pytest.mark.every(3)
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@pytest.mark.parametrize("level", LEVELS)
def test_any_batch_by_one_program(level, direction):
    model = lstm("batch", 8, 22, direction)
    program = mgx_mlir.Model(model, target=level)
    for batch in (1, 2, 3, 4, 5, 6, 7):
        x = rows(batch, 8)
        np.testing.assert_allclose(program.run({"x": x})["y"], reference(model, x), atol=2e-5)
    assert program.compiled == 1


@pytest.mark.parametrize(
    ("model", "size"),
    [(lstm(1, 8, 32), 32 * 4 * 32), (recurrent("LSTM", 9, 2, 32, 2), 2 * 32 * 4 * 32 * 4)],
    ids=["bytes", "floats"],
)
def test_weights_are_packed_once(model, size):
    """The launch that packs them reads weights alone, and its result is kept."""
    artifact = mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(model), arch=["x86-64-v3"])
    launches = [x for codes in artifact.code_objects.values() for c in codes for x in c.launches]
    assert any(launch.kept >= size for launch in launches)


@pytest.mark.parametrize("place", [0, 17, 36])
def test_the_largest_of_a_row_is_nan_where_one_is(place):
    """In a loop: the state's largest number is added to it, over vectors and what is left."""
    body = helper.make_graph(
        [
            helper.make_node("ReduceMax", ["h"], ["most"], axes=[1], keepdims=1),
            helper.make_node("ReduceMin", ["h"], ["least"], axes=[1], keepdims=1),
            helper.make_node("Sub", ["most", "least"], ["range"]),
            helper.make_node("Add", ["h", "x"], ["moved"]),
            helper.make_node("Div", ["moved", "range"], ["next"]),
            helper.make_node("Identity", ["range"], ["out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("h", TensorProto.FLOAT, [1, 37]),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 37]),
        ],
        [
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [1, 37]),
            helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 1]),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Scan", ["h0", "xs"], ["last", "y"], body=body, num_scan_inputs=1)],
        "scan",
        [
            helper.make_tensor_value_info("h0", TensorProto.FLOAT, [1, 37]),
            helper.make_tensor_value_info("xs", TensorProto.FLOAT, [4, 1, 37]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 1, 1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    rng = np.random.default_rng(place)
    fed = {
        "h0": rng.standard_normal((1, 37)).astype(np.float32),
        "xs": rng.standard_normal((4, 1, 37)).astype(np.float32),
    }
    program = mgx_mlir.compile(model)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(program.run(fed)["y"], session.run(None, fed)[0], rtol=1e-5)
    fed["xs"][1, 0, place] = np.nan
    found = program.run(fed)["y"].ravel()
    assert np.isnan(found[2:]).all() and not np.isnan(found[:2]).any()
