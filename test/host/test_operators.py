"""Operators of the host, one by one, against plain loops and by hand."""

from __future__ import annotations

import io

import numpy as np
import onnx
import pytest
from onnx import helper

from mgx_mlir.errors import ModelError
from mgx_mlir.models.staged import Model
from test.host.nodes import run


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    shared = np.prod(np.maximum(sides, 0))
    return shared / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - shared)


@pytest.mark.parametrize("centred", [0, 1])
def test_non_max_suppression_by_definition(centred):
    rng = np.random.default_rng(0)
    low = rng.uniform(0, 4, (2, 30, 2)).astype(np.float32)
    boxes = np.concatenate([low, low + rng.uniform(0.5, 3, low.shape).astype(np.float32)], 2)
    scores = rng.permutation(2 * 3 * 30).reshape(2, 3, 30).astype(np.float32)
    expected = []
    for batch in range(2):
        for label in range(3):
            taken: list[int] = []
            for box in np.argsort(-scores[batch, label]):
                if scores[batch, label, box] <= 20 or len(taken) == 6:
                    break
                if all(overlap(boxes[batch, box], boxes[batch, t]) <= 0.3 for t in taken):
                    taken.append(box)
            expected += [(batch, label, box) for box in taken]
    given = boxes
    if centred:
        sides = boxes[..., 2:] - boxes[..., :2]
        given = np.concatenate([boxes[..., :2] + sides / 2, sides], 2)
    limits = (np.array([6]), np.float32([0.3]), np.float32([20]))
    found = run("NonMaxSuppression", given, scores, *limits, center_point_box=centred)
    assert found.tolist() == [list(map(int, row)) for row in expected]


def test_non_max_suppression_takes_no_box_by_default():
    boxes, scores = np.ones((1, 3, 4), np.float32), np.ones((1, 1, 3), np.float32)
    assert run("NonMaxSuppression", boxes, scores).shape == (0, 3)
    with pytest.raises(ModelError, match=r"boxes \[1, 3, 4\] do not fit scores \[1, 1, 2\]"):
        run("NonMaxSuppression", boxes, scores[..., :2])


def test_microsofts_unique_keeps_the_order():
    node = helper.make_node("Unique", ["x"], ["y", "inverse", "counts"], domain="com.microsoft")
    names = {"y": onnx.TensorProto.FLOAT, "inverse": onnx.TensorProto.INT64, "counts": 7}
    infos = [helper.make_tensor_value_info(n, t, None) for n, t in names.items()]
    given = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [5])]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "unique", given, infos)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    fed = {"x": np.array([3, 1, 3, 2, 1], np.float32)}
    found = Model(model.SerializeToString(), target="cpu").run(fed)
    assert [a.tolist() for a in found.values()] == [[3, 1, 2], [0, 1, 0, 2, 1], [2, 2, 1]]


def test_unique_in_the_order_of_the_first():
    x = np.array([[3, 1], [2, 3]], np.float32)
    y, first, inverse, counts = run("Unique", x, outputs=4, sorted=0)
    assert y.tolist() == [3, 1, 2]
    assert (first.tolist(), inverse.tolist(), counts.tolist()) == (
        [0, 1, 2],
        [0, 1, 2, 0],
        [2, 1, 1],
    )
    y = run("Unique", np.array([[1, 0], [1, 0], [0, 5]]), axis=0)
    assert y.tolist() == [[0, 5], [1, 0]]
    assert run("Unique", np.array(["b", "a", "b"], object), sorted=0).tolist() == ["b", "a"]


def test_stop_words_go_before_the_case_changes():
    words = np.array(["Monday", "tuesday", "MONDAY"], object)
    options = {"case_change_action": "UPPER", "stopwords": ["monday"]}
    assert run("StringNormalizer", words, **options).tolist() == ["TUESDAY"]
    kept = run("StringNormalizer", words, is_case_sensitive=1, **options)
    assert kept.tolist() == ["MONDAY", "TUESDAY", "MONDAY"]
    assert run("StringNormalizer", words[:1], stopwords=["MONDAY"]).tolist() == [""]
    with pytest.raises(ModelError, match=r"the shape \[1, 1, 3\], not \[C\] or \[1, C\]"):
        run("StringNormalizer", words[None, None])


def test_a_wrong_pattern_is_named():
    with pytest.raises(ModelError, match=r"RegexFullMatch 'node': the pattern '\(' is wrong"):
        run("RegexFullMatch", np.array(["a"], object), pattern="(")


@pytest.mark.parametrize(
    ("split", "sizes"), [(None, [1] * 5), (np.array(2), [2, 2, 1]), (np.array([4, 1]), [4, 1])]
)
def test_split_to_sequence(split, sizes):
    x = np.arange(10).reshape(2, 5)
    parts = run("SplitToSequence", x, split, axis=1)
    assert [part.shape for part in parts] == [(2, size) for size in sizes]
    np.testing.assert_array_equal(np.concatenate(parts, 1), x)
    np.testing.assert_array_equal(run("ConcatFromSequence", parts, axis=1), x)


def test_parts_that_do_not_fit_are_refused():
    with pytest.raises(ModelError, match=r"parts of \[4, 2\] in a dimension of size 5"):
        run("SplitToSequence", np.arange(5), np.array([4, 2]))
    with pytest.raises(ModelError, match="its sequence is empty"):
        run("ConcatFromSequence", [], axis=0)


@pytest.mark.parametrize("place", [None, 0, 2, -1])
def test_insertion_in_front_of_a_position(place):
    items = [np.array(1), np.array(2)]
    position = None if place is None else np.array(place)
    found = run("SequenceInsert", items, np.array(9), position)
    expected = [1, 2]
    expected.insert(2 if place is None else place, 9)
    assert [int(a) for a in found] == expected
    assert len(items) == 2


def test_images_are_decoded_within_limits():
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    file = io.BytesIO()
    image.fromarray(pixels).save(file, "PNG")
    data = np.frombuffer(file.getvalue(), np.uint8)
    np.testing.assert_array_equal(run("ImageDecoder", data), pixels)
    np.testing.assert_array_equal(run("ImageDecoder", data, pixel_format="BGR"), pixels[..., ::-1])
    assert run("ImageDecoder", data, pixel_format="Grayscale").shape == (2, 4, 1)
    with pytest.raises(ModelError, match="no image that can be decoded"):
        run("ImageDecoder", data[: len(data) // 2])


def test_classical_operators_come_from_onnx_s_reference():
    labels = np.array(["b", "c"], object)
    encode = {"keys_strings": ["a", "b"], "values_int64s": [5, 6], "default_int64": -7}
    assert run("LabelEncoder", labels, domain="ai.onnx.ml", **encode).tolist() == [6, -7]


@pytest.mark.parametrize(
    "options",
    [
        {"tokenexp": "[a-z]+", "mark": 1},
        {"tokenexp": "[a-zA-Z0-9_]+", "mincharnum": 2},
        {"separators": [" ", ","]},
        {"separators": [", *", "t+"], "mincharnum": 2, "mark": 1},
        {"separators": [""]},
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(4,), (2, 2)], ids=str)
def test_tokenizer_as_onnxruntime_cuts(options, shape):
    onnxruntime = pytest.importorskip("onnxruntime")
    attributes = {"mark": 0, "mincharnum": 1, "pad_value": "#", **options}
    words = np.array(["the cat,  sat", "a dog", "bird", "tt to, at"], object).reshape(shape)
    string = onnx.TensorProto.STRING
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", string, list(shape))],
        [helper.make_tensor_value_info("y", string, None)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": words})[0]
    found = run("Tokenizer", words, domain="com.microsoft", **attributes)
    assert found.tolist() == expected.tolist()


def test_tokens_are_strings_to_what_follows():
    string = onnx.TensorProto.STRING
    options = {"mark": 0, "mincharnum": 1, "pad_value": "#", "tokenexp": "[a-z]+"}
    nodes = [
        helper.make_node("Tokenizer", ["x"], ["t"], domain="com.microsoft", **options),
        helper.make_node("Flatten", ["t"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", string, [None])
    y = helper.make_tensor_value_info("y", string, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "g", [x], [y])
    model = Model(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    found = model.run({"x": np.array(["a cat", "dog"], object)})["y"]
    assert found.tolist() == [["a", "cat"], ["dog", "#"]]


def test_tokenizer_needs_one_way_to_cut():
    words = np.array(["a b"], object)
    with pytest.raises(ModelError, match="tokenexp and separators"):
        run("Tokenizer", words, domain="com.microsoft", mincharnum=1, pad_value="")
    with pytest.raises(ModelError, match="mincharnum = None"):
        run("Tokenizer", words, domain="com.microsoft", tokenexp="a")
