"""Attributes and shapes without a meaning are the model's fault, named with their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from mgx_mlir.errors import ModelError
from mgx_mlir.importer import parse_onnx
from test.importer.agreement import floats, one_node

X = floats(2, 3, 4)
IMAGE, WEIGHTS = floats(1, 2, 5, 5), floats(2, 2, 3, 3)


def node_model(
    kind: str,
    inputs: dict[str, np.ndarray | None],
    domain: str = "",
    opset: int = 17,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node, whose results onnx's inference has not seen."""
    names = [n if a is not None else "" for n, a in inputs.items()]
    node = helper.make_node(kind, names, ["y"], f"the_{kind}", domain=domain, **attributes)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
        if a is not None
    ]
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", 1, None)])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def assert_refused(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(ModelError, match=f"the_.*{message}"):
        parse_onnx(model)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ii->i", [(3, 4)], "label i has the sizes 3 and 4"),
        ("ii->i", [(1, 3)], "label i has the sizes 1 and 3"),
        ("ij,jk->ik", [(2, 3), (4, 5)], "label j has the sizes 3 and 4"),
        ("ij->ijj", [(2, 3)], "a label twice"),
        ("ij->ik", [(2, 3)], "its result k, which no input has"),
        ("ij->...ij", [(2, 3)], r"its result \.\.\., which no input has"),
        ("i...->i", [(2, 3)], r"leaves '\.\.\.' out"),
        # onnx's inference never ends over the first of these, and ends the process over the second.
        ("......ii,...jj->...ij", [(2, 3), (2, 3)], "is not terms of letters"),
        ("...->...i", [(2, 3)], "which no input has"),
        ("i1->i", [(2, 3)], "is not terms of letters"),
        ("ij->->ij", [(2, 3)], "is not terms of letters"),
    ],
)
def test_equations(equation, shapes, message):
    inputs = {f"x{i}": floats(*shape) for i, shape in enumerate(shapes)}
    assert_refused(node_model("Einsum", inputs, equation=equation), message)


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("mode", ["SAME", "same_upper"])
def test_automatic_padding_has_four_modes(kind, mode):
    inputs = {"x": IMAGE, "w": WEIGHTS} if kind.startswith("Conv") else {"x": IMAGE}
    shape = {} if kind.startswith("Conv") else {"kernel_shape": [3, 3]}
    assert_refused(node_model(kind, inputs, opset=11, auto_pad=mode, **shape), f"auto_pad = {mode}")


@pytest.mark.parametrize("p", [0, 3])
def test_vectors_are_normalised_by_their_first_or_second_norm(p):
    assert_refused(node_model("LpNormalization", {"x": X}, p=p), f"p = {p}; 1, 2 are defined")


@pytest.mark.parametrize("kind", ["GlobalLpPool", "LpPool"])
def test_norms_have_a_positive_order(kind):
    shape = {"kernel_shape": [2, 2]} if kind == "LpPool" else {}
    assert_refused(node_model(kind, {"x": IMAGE}, p=0, **shape), "p = 0")


@pytest.mark.parametrize("kind", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
@pytest.mark.parametrize(
    ("scores", "labels", "weights", "message"),
    [
        ((2, 5), (3,), None, r"labels \[3\] for scores \[2, 5\]"),
        ((2, 5, 3), (2, 2), None, r"labels \[2, 2\] for"),
        ((2, 5, 3), (2,), None, r"labels \[2\] for"),
        ((2, 5), (2,), (1,), r"weights \[1\] for 5 classes"),
        ((2, 5), (2,), (5, 1), r"weights \[5, 1\] for 5 classes"),
    ],
)
def test_losses(kind, scores, labels, weights, message):
    inputs = {
        "x": floats(*scores),
        "labels": np.zeros(labels, np.int64),
        "weights": None if weights is None else floats(*weights),
    }
    inputs = {n: a for n, a in inputs.items() if a is not None}
    with pytest.raises(ModelError, match=f"{message}|mismatch|rank"):
        parse_onnx(node_model(kind, inputs, reduction="mean"))


@pytest.mark.parametrize("name", ["scan_input_directions", "scan_output_directions"])
@pytest.mark.parametrize("stated", [[2], [-1], [0, 0]])
def test_scans_go_forwards_or_backwards(name, stated):
    body = helper.make_graph(
        [helper.make_node("Identity", ["a"], ["b"])],
        "body",
        [helper.make_tensor_value_info("a", 1, [4])],
        [helper.make_tensor_value_info("b", 1, [4])],
    )
    model = node_model("Scan", {"x": floats(3, 4)}, num_scan_inputs=1, body=body, **{name: stated})
    with pytest.raises(ModelError, match="direction"):
        parse_onnx(model)


@pytest.mark.parametrize("lengths", [[-1, 2], [4, 1]])
def test_lengths_of_sequences_are_within_the_steps(lengths):
    parts = {"x": floats(3, 2, 2), "w": floats(1, 4, 2), "r": floats(1, 4, 4)}
    inputs = {**parts, "b": None, "s": np.array(lengths, np.int32)}
    model, _ = one_node("RNN", inputs, 14, constants=["s"], hidden_size=4)
    assert_refused(model, "sequence_lens of .* in 3 steps")


RECURRENT = {"x": floats(3, 2, 2), "w": floats(1, 4, 2), "r": floats(1, 4, 4)}
ONES = np.ones((2, 3), np.uint8)


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "message"),
    [
        ("BitShift", {"x": ONES, "z": ONES}, {"direction": "UP"}, "direction = UP; LEFT, RIGHT"),
        ("Gelu", {"x": X}, {"approximate": "exact"}, "approximate = exact; none, tanh"),
        ("Mod", {"x": ONES, "z": ONES}, {"fmod": 2}, "fmod = 2; 0 and 1"),
        ("Celu", {"x": X}, {"alpha": 0.0}, "alpha = 0"),
        ("Pad", {"x": X, "p": np.zeros(6, np.int64)}, {"mode": "mirror"}, "mode = mirror"),
        ("LRN", {"x": IMAGE}, {"size": 0}, "size holds 0"),
        ("InstanceNormalization", {"x": floats(2, 3), "s": floats(3), "b": floats(3)}, {}, "2, 3"),
        ("GlobalAveragePool", {"x": floats(2, 3)}, {}, r"an input \[2, 3\]"),
        ("ConvTranspose", {"x": IMAGE, "w": WEIGHTS}, {"output_padding": [1, 1]}, "output_padding"),
        ("RNN", RECURRENT, {"hidden_size": 4, "layout": 2}, "layout = 2; 0 and 1"),
        ("RNN", RECURRENT, {"hidden_size": 4, "clip": -0.5}, "clip = -0.5"),
        ("RNN", RECURRENT, {"hidden_size": 4, "direction": "back"}, "direction = back"),
        ("RNN", RECURRENT | {"b": floats(1, 4)}, {"hidden_size": 4}, r"the bias is \[1, 4\]"),
        ("RNN", RECURRENT | {"w": floats(2, 4, 2)}, {"hidden_size": 4}, "the weights of the input"),
        ("RNN", RECURRENT | {"b": None, "s": None, "h": floats(1, 3, 4)}, {"hidden_size": 4},
         "a first state"),
        ("DepthToSpace", {"x": floats(1, 6, 2, 2)}, {"blocksize": 2}, "6 channels"),
        ("SpaceToDepth", {"x": floats(1, 2, 5, 4)}, {"blocksize": 2}, "in blocks of 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_attributes_and_sizes(kind, inputs, attributes, message):
    opset = 20 if kind == "Gelu" else 17
    model = node_model(kind, inputs, opset=opset, **attributes)
    if kind == "Pad":  # its amounts are constant
        model.graph.initializer.append(onnx.numpy_helper.from_array(inputs["p"], "p"))
        del model.graph.input[1]
    with pytest.raises(ModelError, match=message):
        parse_onnx(model)


# ===----------------------------------------------------------------------===#
# com.microsoft
# ===----------------------------------------------------------------------===#


@pytest.mark.parametrize("kind", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(1, 2, 3, 4), (1, 2, 3, 4), (4,)], "2 or 3 dimensions are needed"),
        ([(4,), (4,), (4,)], "2 or 3 dimensions are needed"),
        ([(2, 3, 4), (2, 1, 4), (4,)], r"the skip is \[2, 1, 4\]; \[2, 3, 4\] is needed"),
        ([(2, 3, 4), (4,), (4,)], r"the skip is \[4\]"),
        ([(2, 3, 4), (2, 3, 4), (1,)], r"input 2 is \[1\]; \[4\] is needed"),
        ([(2, 3, 4), (2, 3, 4), (4,), (3, 4)], r"input 3 is \[3, 4\]; \[4\] is needed"),
    ],
)
def test_skips(kind, shapes, message):
    inputs = {f"x{i}": floats(*shape) for i, shape in enumerate(shapes)}
    assert_refused(node_model(kind, inputs, "com.microsoft"), message)


def test_an_input_too_many():
    inputs = {"x": X, "scale": floats(4), "bias": floats(4)}
    model = node_model("SimplifiedLayerNormalization", inputs)
    assert_refused(model, "it has 3 inputs; input 2 is none of it")


Q, K = (2, 3, 8), (2, 5, 8)
MULTI_HEAD = ("query", "key", "value", "bias", "mask", "scores", "past_key", "past_value")


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"key": (1, 5, 8)}, r"the key, in heads, is \[1, 2, 5, 4\]; \[2, 2, 5, 4\] is needed"),
        ({"value": (2, 4, 8)}, "the value"),
        ({"key": (2, 5, 6)}, "the key"),
        ({"query": (3, 8)}, r"the query is \[3, 8\]"),
        ({"bias": (16,)}, r"the bias is \[16\]; \[24\] is needed"),
        ({"bias": (32,)}, "the bias"),
        ({"mask": (1, 5)}, r"the mask is \[1, 5\]; \[2, 5\] is needed"),
        ({"mask": (2, 4)}, "the mask"),
        ({"mask": (1, 3, 5)}, "the mask"),
        ({"mask": (3,)}, r"a mask of \[3\] for a batch of 2"),
        ({"scores": (2, 2, 1, 5)}, "the bias of the scores"),
        ({"scores": (3, 5)}, "the bias of the scores"),
        ({"scores": (3, 2, 3, 5)}, "the bias of the scores"),
        ({"past_key": (2, 1, 4, 4), "past_value": (2, 2, 4, 4)}, "the past key"),
        ({"past_key": (2, 2, 4, 4), "past_value": (2, 2, 3, 4)}, "the past value"),
    ],
)
def test_multi_head_attention(shapes, message):
    shapes = {"query": Q, "key": K, "value": K, **shapes}
    inputs = {
        n: (np.ones(shapes[n], np.int32) if n == "mask" else floats(*shapes[n]))
        if n in shapes
        else None
        for n in MULTI_HEAD
    }
    model = node_model("MultiHeadAttention", inputs, "com.microsoft", num_heads=2)
    assert_refused(model, message)


QUERY, KEY = (2, 3, 32), (2, 3, 16)
DECODING = {"query": QUERY, "key": KEY, "value": KEY, "past_key": None, "past_value": None}


@pytest.mark.parametrize(
    ("shapes", "total", "message"),
    [
        ({"key": (1, 3, 16)}, 3, "the key"),
        ({"value": (2, 4, 16)}, 3, "the value"),
        ({"past_key": (2, 1, 4, 8), "past_value": (2, 1, 4, 8)}, 7, "the past key"),
        ({"past_key": (2, 2, 4, 8)}, 7, "its input 4 is absent"),
        ({}, 2, "total_sequence_length = 2 and 3 new entries"),
        ({"scores": (2, 4, 1, 3)}, 3, "attention_bias"),
        ({"scores": (2, 4, 3, 2)}, 3, "attention_bias for 2 of 3 places"),
        ({"cosines": (2, 4), "sines": (2, 4)}, 3, "the angles of 2 places for 3"),
        ({"cosines": (8, 4), "sines": (8, 2)}, 3, "the table of sines"),
    ],
)
def test_group_query_attention(shapes, total, message):
    names = ("query", "key", "value", "past_key", "past_value", "ends", "total", "cosines",
             "sines", "positions", "scores")  # fmt: skip
    shapes = DECODING | shapes
    inputs = {n: floats(*shapes[n]) if shapes.get(n) else None for n in names}
    inputs |= {"ends": np.full(2, total - 1, np.int32), "total": np.array([total], np.int32)}
    rotary = int("cosines" in shapes)
    model = node_model("GroupQueryAttention", inputs, "com.microsoft", num_heads=4, kv_num_heads=2,
                       do_rotary=rotary)  # fmt: skip
    model.graph.initializer.append(onnx.numpy_helper.from_array(inputs["total"], "total"))
    assert_refused(model, message)


TABLES = {"c": floats(8, 2), "s": floats(8, 2)}


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "message"),
    [
        ("RotaryEmbedding", {"x": floats(2, 3, 8), "p": np.zeros((1, 3), np.int64), **TABLES}, {},
         "what holds the positions"),
        ("RotaryEmbedding", {"x": floats(2, 9, 8), "p": np.zeros(1, np.int64), **TABLES}, {},
         "the angles of 8 places for 9"),
        ("BiasGelu", {"x": X, "b": floats(1)}, {}, r"the bias is \[1\]; \[4\] is needed"),
        ("FastGelu", {"x": X, "b": floats(3, 1)}, {}, r"the bias is \[3, 1\]"),
        ("MatMulNBits", {"a": floats(2, 32), "b": np.zeros((3, 4, 4), np.uint8), "s": floats(12)},
         {"K": 32, "N": 3, "bits": 4, "block_size": 8}, "block_size = 8; powers of two"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_contributed_operators(kind, inputs, attributes, message):
    assert_refused(node_model(kind, inputs, "com.microsoft", **attributes), message)


@pytest.mark.parametrize(
    ("shapes", "attributes", "message"),
    [
        ([(2, 4, 3, 8), (1, 4, 5, 8), (1, 4, 5, 8)], {}, "do not fit"),
        ([(2, 4, 3, 8), (2, 4, 0, 8), (2, 4, 0, 8)], {}, "there are no keys; give one or more"),
        ([(2, 4, 3, 8), (2, 3, 5, 8), (2, 3, 5, 8)], {}, "4 heads of queries for 3 of keys"),
        ([(2, 3, 8), (2, 5, 8), (2, 5, 8)], {}, "q_num_heads and kv_num_heads"),
    ],
)
def test_attention(shapes, attributes, message):
    inputs = {n: floats(*shape) for n, shape in zip("qkv", shapes, strict=True)}
    with pytest.raises(ModelError, match=f"{message}|nference"):
        parse_onnx(node_model("Attention", inputs, opset=23, **attributes))


def test_a_transform_is_of_real_or_complex_numbers():
    with pytest.raises(ModelError, match=r"neither 1 nor 2|last dimension"):
        parse_onnx(node_model("DFT", {"x": floats(2, 8, 3)}, axis=1))


@pytest.mark.parametrize("kind", ["ArgMax", "MeanVarianceNormalization", "LpNormalization"])
def test_axes_are_those_of_the_tensor(kind):
    stated = {"axes": [3]} if kind.startswith("Mean") else {"axis": 3}
    with pytest.raises(ModelError, match=r"axis 3 of a tensor with 3 dimensions|nference"):
        parse_onnx(node_model(kind, {"x": X}, **stated))


CODES = np.zeros((2, 4), np.uint8)


@pytest.mark.parametrize(
    ("kind", "inputs", "domain", "attributes", "message"),
    [
        ("LRN", {"x": floats(4)}, "", {"size": 3}, "has to have channels"),
        ("SVMRegressor", {"x": floats(2, 4)}, "ai.onnx.ml", {}, "its attribute rho is missing"),
        ("GroupQueryAttention",
         {"q": floats(2, 4), **dict.fromkeys("kvpw"), "e": CODES, "t": CODES},
         "com.microsoft", {"num_heads": 2, "kv_num_heads": 1}, "what has heads is"),
        ("UnfoldTensor", {"x": floats(4)}, "com.microsoft", {"size": 2, "dim": 3}, "axis 3"),
        ("Trilu", {"x": floats(4)}, "com.microsoft", {}, "ranks, sizes or attributes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_ranks_and_attributes_that_no_operator_has(kind, inputs, domain, attributes, message):
    """The message is the project's own, never the text of Python's exceptions."""
    assert_refused(node_model(kind, inputs, domain, opset=23, **attributes), message)
