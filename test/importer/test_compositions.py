"""Operators that become several mgx ops, and forms that onnx's own cases leave out."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import parse_onnx
from test.importer.agreement import (
    assert_agrees,
    assert_close,
    expected,
    floats,
    ints,
    one_node,
    op_names,
    outputs_of,
    simple_model,
)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((2, 1, 3, 4), (5, 4, 6)),
    ],
)
def test_matmul_follows_numpy(a, b):
    assert_agrees(*one_node("MatMul", {"a": floats(*a), "b": floats(*b, seed=1)}))


def test_a_batch_times_one_matrix_is_one_product():
    made = one_node("MatMul", {"a": floats(2, 3, 4), "b": floats(4, 5)})
    assert op_names(assert_agrees(*made)) == ["reshape", "dot", "reshape"]


@pytest.mark.parametrize("trans", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("bias", [(), (5,), (3, 1), (1, 5)])
def test_gemm(trans, bias):
    a = floats(*((4, 3) if trans[0] else (3, 4)))
    b = floats(*((5, 4) if trans[1] else (4, 5)), seed=1)
    inputs = {"a": a, "b": b, "c": floats(*bias, seed=2)}
    attributes = {"transA": trans[0], "transB": trans[1], "alpha": 0.5, "beta": 2.0}
    assert_agrees(*one_node("Gemm", inputs, **attributes))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("...ij,...kj->...ik", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("bhid,bhjd->bhij", [(1, 2, 3, 4), (1, 2, 5, 4)]),
        ("ij->ji", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ij,ij->i", [(2, 3), (2, 3)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("ab,cd", [(2, 3), (4, 5)]),
        ("bii->bi", [(2, 3, 3)]),
        ("ii,i->", [(3, 3), (3,)]),
    ],
)
def test_einsum(equation, shapes):
    inputs = {f"x{i}": floats(*s, seed=i) for i, s in enumerate(shapes)}
    assert_agrees(*one_node("Einsum", inputs, equation=equation))


def test_default_activations_of_both_directions_serve_one():
    """As onnxruntime writes RNN's default out."""
    inputs = {"x": floats(4, 2, 5), "w": floats(1, 3, 5, seed=1), "r": floats(1, 3, 3, seed=2)}
    assert_agrees(*one_node("RNN", inputs, hidden_size=3, activations=["Tanh", "Tanh"]))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [None, (4, 2)])
def test_recurrent_networks(kind, direction, lengths):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    states = 2 if kind == "LSTM" else 1
    count, hidden = (2 if direction == "bidirectional" else 1), 3
    inputs = {
        "x": floats(4, 2, 5),
        "w": floats(count, gates * hidden, 5, seed=1),
        "r": floats(count, gates * hidden, hidden, seed=2),
        "b": floats(count, 2 * gates * hidden, seed=3),
        "lengths": None if lengths is None else np.array(lengths, np.int32),
        "h": floats(count, 2, hidden, seed=4),
    }
    if kind == "LSTM":
        inputs["c"] = floats(count, 2, hidden, seed=5)
        inputs["p"] = floats(count, 3 * hidden, seed=6)
    attributes = {"hidden_size": hidden, "direction": direction}
    assert_agrees(*one_node(kind, inputs, 14, outputs=1 + states, **attributes))


@pytest.mark.parametrize("linear_before_reset", [0, 1])
def test_gru_can_reset_before_or_after_the_product(linear_before_reset):
    inputs = {
        "x": floats(3, 1, 2),
        "w": floats(1, 12, 2),
        "r": floats(1, 12, 4),
        "b": floats(1, 24),
    }
    attributes = {"hidden_size": 4, "linear_before_reset": linear_before_reset}
    assert_agrees(*one_node("GRU", inputs, 14, outputs=2, **attributes))


def test_lstm_with_other_activations_and_clip():
    inputs = {"x": floats(3, 1, 2), "w": floats(1, 16, 2), "r": floats(1, 16, 4)}
    attributes = {
        "hidden_size": 4,
        "activations": ["HardSigmoid", "LeakyRelu", "Softsign"],
        "activation_alpha": [0.3, 0.1],
        "activation_beta": [0.4],
        "clip": 0.5,
    }
    assert_agrees(*one_node("LSTM", inputs, 14, outputs=3, **attributes))


@pytest.mark.parametrize("kind", ["LayerNormalization", "InstanceNormalization"])
def test_normalizations(kind):
    width = 4 if kind == "LayerNormalization" else 3
    inputs = {"x": floats(2, 3, 4), "s": floats(width, seed=1), "b": floats(width, seed=2)}
    assert_agrees(*one_node(kind, inputs, epsilon=1e-3))


def test_quantize_along_an_axis_and_back():
    scale, zero = np.array([0.1, 0.2, 0.5], np.float32), np.array([0, 10, 128], np.uint8)
    constants = ["s", "z"]
    inputs = {"x": floats(2, 3, 4), "s": scale, "z": zero}
    assert_agrees(*one_node("QuantizeLinear", inputs, 13, constants, axis=1))
    inputs["x"] = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    assert_agrees(*one_node("DequantizeLinear", inputs, 13, constants, axis=1))


def test_quantized_convolution_subtracts_zero_points():
    rng = np.random.default_rng(0)
    inputs = {
        "x": rng.integers(0, 255, (1, 2, 5, 5)).astype(np.uint8),
        "xs": np.array(0.02, np.float32),
        "xz": np.array(120, np.uint8),
        "w": rng.integers(-127, 127, (3, 2, 3, 3)).astype(np.int8),
        "ws": np.array([0.01, 0.02, 0.03], np.float32),
        "wz": np.zeros(3, np.int8),
        "ys": np.array(0.1, np.float32),
        "yz": np.array(100, np.uint8),
        "b": np.array([100, -200, 300], np.int32),
    }
    made = one_node("QLinearConv", inputs, 10, constants=list(inputs)[1:], pads=[1, 1, 1, 1])
    assert_agrees(*made)


def test_constant_index_is_a_slice():
    made = one_node("Gather", {"x": floats(2, 5, 3), "i": np.array(-1)}, constants=["i"], axis=1)
    assert op_names(assert_agrees(*made)) == ["slice", "squeeze"]


def test_tile_is_views():
    made = one_node("Tile", {"x": floats(2, 3), "r": ints(2, 3)}, constants=["r"])
    assert op_names(assert_agrees(*made)) == ["unsqueeze", "multibroadcast", "reshape"]


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -1, 2])
def test_trilu(upper, k):
    inputs = {"x": floats(2, 4, 5), "k": None if k is None else np.array(k)}
    constants = [] if k is None else ["k"]
    assert_agrees(*one_node("Trilu", inputs, constants=constants, upper=upper))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(mode):
    assert_agrees(*one_node("DepthToSpace", {"x": floats(1, 8, 2, 3)}, blocksize=2, mode=mode))


def test_the_sizes_of_a_resize_are_rounded_as_numbers_of_32_bits():
    scales = np.array([1, 1, 0.7, 0.9], np.float32)  # .7 of 10 is 7 there, and 6 in 64 bits
    inputs = {"x": np.ones((1, 1, 10, 10), np.float32), "roi": np.zeros(0, np.float32)}
    model, arrays = one_node(
        "Resize", {**inputs, "scales": scales}, 13, ["roi", "scales"], mode="linear"
    )
    assert_agrees(model, arrays)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "coordinates", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
)
def test_resize_to_sizes(mode, coordinates):
    inputs = {"x": floats(1, 2, 4, 5), "roi": None, "scales": None, "sizes": ints(1, 2, 7, 3)}
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    assert_agrees(*one_node("Resize", inputs, 13, ["sizes"], **attributes))


@pytest.mark.parametrize("condition", [True, False])
def test_if_at_run_time(condition):
    def branch(name: str, kind: str):
        node = helper.make_node(kind, ["x"], [name])
        out = helper.make_tensor_value_info(name, 1, [3])
        return helper.make_graph([node], name, [], [out])

    node = helper.make_node(
        "If",
        ["c"],
        ["y"],
        "branch",
        then_branch=branch("t", "Relu"),
        else_branch=branch("e", "Neg"),
    )
    graph = helper.make_graph(
        [node],
        "if",
        [helper.make_tensor_value_info("c", 9, []), helper.make_tensor_value_info("x", 1, [3])],
        [helper.make_tensor_value_info("y", 1, [3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made = assert_agrees(model, {"c": np.array(condition), "x": floats(3)})
    assert op_names(made) == ["if"] or "if" in op_names(made)


def test_a_loop_whose_condition_is_a_number_is_refused():
    body = helper.make_graph(
        [helper.make_node("Neg", ["c"], [name]) for name in ("again", "r")],
        "body",
        [helper.make_tensor_value_info(n, t, []) for n, t in (("i", 7), ("go", 9), ("c", 1))],
        [helper.make_tensor_value_info(name, 1, []) for name in ("again", "r")],
    )
    value = helper.make_tensor_value_info
    model = simple_model(
        nodes=[helper.make_node("Loop", ["n", "", "x"], ["y"], "loop", body=body)],
        inputs=[value("n", 7, []), value("x", 1, [])],
        outputs=[value("y", 1, [])],
        initializer=[],
    )
    with pytest.raises(ModelError, match=r"loop.*condition is of type f32, not bool"):
        parse_onnx(model)


def test_random_numbers_are_refused():
    model, _ = one_node("RandomUniformLike", {"x": floats(2)})
    with pytest.raises(UnsupportedError, match="RandomUniformLike"):
        parse_onnx(model)


def test_expected_values_come_from_another_implementation():
    model, inputs = one_node("Relu", {"x": floats(3)})
    np.testing.assert_array_equal(expected(model, inputs)[0], np.maximum(inputs["x"], 0))


@pytest.mark.parametrize("flat", [True, False])
def test_sparse_constants_are_made_dense(flat):
    places = [1, 5] if flat else [[0, 1], [1, 2]]
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("b", TensorProto.FLOAT, [2], [3.0, 4.0]),
        numpy_helper.from_array(np.array(places, np.int64), "places"),
        [2, 3],
    )
    dense = np.array([[0, 3, 0], [0, 0, 4]], np.float32)
    constant = helper.make_node("Constant", [], ["b"], "constant", sparse_value=sparse)
    add = helper.make_node("Add", ["x", "b"], ["y"], "add")
    models = [simple_model(nodes=[constant, add], initializer=[])]
    models.append(simple_model(nodes=[add], initializer=[]))
    models[1].graph.sparse_initializer.append(sparse)
    x = floats(2, 3)
    for model in models:
        assert_close(outputs_of(parse_onnx(model), {"x": x}), [x + dense])


def test_indices_of_a_sparse_constant_have_to_be_inside():
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("b", TensorProto.FLOAT, [1], [3.0]),
        numpy_helper.from_array(np.array([6], np.int64), "places"),
        [2, 3],
    )
    model = simple_model(initializer=[])
    model.graph.sparse_initializer.append(sparse)
    with pytest.raises(ModelError, match="indices out of"):
        parse_onnx(model)
