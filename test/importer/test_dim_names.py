"""Names of dimensions: formulas of other names, words for 'unknown', and names that do not hold."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir.errors import UsageError
from mgx_mlir.importer import parse_onnx
from mgx_mlir.importer.dim_names import contradicted, meanings
from mgx_mlir.models.specialize import SpecializedModel
from test.importer.agreement import floats


def tensor(name: str, *shape: int | str | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def made(nodes: list, inputs: list, outputs: list, **weights: np.ndarray) -> onnx.ModelProto:
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def scores(past: str, new: str, total: str) -> onnx.ModelProto:
    """Products of rows with old and new rows, and a mask of `total` columns."""
    nodes = [
        helper.make_node("Concat", ["old", "new"], ["all"], axis=0),
        helper.make_node("Transpose", ["all"], ["columns"], perm=[1, 0]),
        helper.make_node("MatMul", ["new", "columns"], ["products"]),
        helper.make_node("Add", ["products", "mask"], ["y"]),
    ]
    inputs = [tensor("old", past, 4), tensor("new", new, 4), tensor("mask", new, total)]
    return made(nodes, inputs, [tensor("y", new, total)])


def run_scores(model: SpecializedModel, past: int, new: int) -> None:
    old, rows, mask = floats(past, 4), floats(new, 4, seed=1), floats(new, past + new, seed=2)
    got = model.run({"old": old, "new": rows, "mask": mask})["y"]
    np.testing.assert_allclose(got, rows @ np.concatenate([old, rows]).T + mask, rtol=1e-4)


def image_model(height: str, width: str) -> onnx.ModelProto:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    inputs = [tensor("x", 1, 3, height, width)]
    return made(nodes, inputs, [tensor("y", 1, 4, height, width)], w=floats(4, 3, 3, 3))


@pytest.mark.parametrize(
    ("past", "new", "total"),
    [
        ("past_length", "length", "past_length + length"),
        ("P", "T", "( T )+P"),
        ("old.rows", "new.rows", "new.rows + old.rows"),
        ("old rows", "new rows", "old rows + new rows"),
        ("P-1", "T/2", "T/2--P"),
        ("P", "?", "? + P"),
    ],
)
def test_a_formula_however_it_is_spelled_leaves_one_program(past, new, total):
    model = SpecializedModel(scores(past, new, total), any_after=0)
    run_scores(model, 3, 2)
    run_scores(model, 5, 4)
    assert model.compiled == 1


def test_a_formula_is_one_where_names_are_its_symbols():
    found = meanings(["n", "m", "m + n", "n*2", "k+1", "n-2", "a b"])
    assert [str(size) for size in found.values()] == [
        "n", "m", "m+n", "2*n", "`k+1`", "`n-2`", "`a b`",
    ]  # fmt: skip


def test_sizes_given_to_symbols_are_those_of_formulas():
    graph = parse_onnx(scores("P", "T", "P + T"), dim_params={"P": 3, "T": 2})
    assert "tensor<2x5xf32>" in str(graph.main.attributes["function_type"])


def test_a_default_size_is_that_of_symbols():
    graph = parse_onnx(scores("P", "T", "P + T"), default_dim=2)
    assert "tensor<2x4xf32>" in str(graph.main.attributes["function_type"])


@pytest.mark.parametrize("name", ["?", "None", "-1", "unk", "dynamic", "Unknown", "224", " "])
def test_words_for_unknown_say_nothing(name, caplog):
    model = SpecializedModel(image_model(name, name), any_after=0)
    for sizes in ((6, 9), (7, 7)):
        assert model.run({"x": floats(1, 3, *sizes)})["y"].shape == (1, 4, *sizes)
    assert model.compiled == 1
    assert not caplog.records


def test_a_name_that_sizes_contradict_is_taken_for_nothing(caplog):
    model = SpecializedModel(image_model("side", "side"), any_after=0)
    for sizes in ((6, 6), (6, 9), (8, 8), (9, 7)):
        assert model.run({"x": floats(1, 3, *sizes)})["y"].shape == (1, 4, *sizes)
    assert model.compiled == 2
    (record,) = caplog.records
    assert "called side differ" in record.getMessage()


def test_a_formula_that_sizes_contradict_is_taken_for_nothing():
    model = SpecializedModel(scores("P", "T", "P + 1"), any_after=0)
    run_scores(model, 3, 1)
    run_scores(model, 3, 2)
    run_scores(model, 4, 3)
    assert model.compiled == 2


def test_names_are_contradicted_by_two_sizes_or_another_result():
    assert contradicted([("n", 2), ("n", 3), ("?", 1), ("?", 2)]) == {"n"}
    assert contradicted([("n", 2), ("n + 1", 3), ("2*n", 5)]) == {"2*n"}
    assert contradicted([("n", 2), ("n", 3), ("n + 1", 3)]) == {"n"}


def test_sizes_of_whole_inputs_hold_before_names():
    model = made(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        [tensor("a", "n", 3), tensor("b", "n", 3)],
        [tensor("y", None, 3)],
    )
    graph = parse_onnx(model, input_dims={"a": [1, 3], "b": [2, 3]})
    assert "-> tensor<2x3xf32>" in str(graph.main.attributes["function_type"])


def test_an_artifact_says_how_to_let_sizes_of_one_name_differ():
    model, image = image_model("side", "side"), floats(1, 3, 6, 9)
    program = mgx_mlir.compile(model, mode="full-dynamic")
    with pytest.raises(UsageError, match=r"both are 'side'; compiled with dim_params=.*'\?'"):
        program.run({"x": image})
    apart = mgx_mlir.compile(model, mode="full-dynamic", dim_params={"side": "?"})
    assert apart.run({"x": image})["y"].shape == (1, 4, 6, 9)


def test_an_output_of_another_shape_than_declared_warns(caplog):
    squeeze = helper.make_node("Squeeze", ["x", "axes"], ["result"])
    model = made([squeeze], [tensor("x", 3, 1, 5, 1)], [tensor("result", 3, 5, 1)],
                 axes=np.zeros(0, np.int64))  # fmt: skip
    shape = mgx_mlir.Model(model).run({"x": floats(3, 1, 5, 1)})["result"].shape
    assert shape == (3, 5)
    assert "'result' is [3, 5], and the model declares [3, 5, 1]" in caplog.text


def test_squeeze_without_axes_in_a_run_takes_all_ones_away():
    squeeze = helper.make_node("Squeeze", ["x", "axes"], ["y"])
    axes = helper.make_tensor_value_info("axes", TensorProto.INT64, ["count"])
    model = mgx_mlir.Model(made([squeeze], [tensor("x", 3, 1, 5, 1), axes], [tensor("y")]))
    for given, shape in (([], (3, 5)), ([1], (3, 5, 1))):
        x = floats(3, 1, 5, 1)
        assert model.run({"x": x, "axes": np.array(given, np.int64)})["y"].shape == shape
