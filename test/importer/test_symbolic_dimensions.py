"""Sizes that the model leaves open: given by the caller, or carried as symbols."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mgx_mlir.errors import UsageError
from mgx_mlir.importer import parse_onnx
from mgx_mlir.sizes.range import Range
from test.importer.agreement import assert_agrees, floats, one_node
from test.onnx_models import random_inputs, small


def two_inputs(*first: int | str | None) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"], "add")],
        "g",
        [
            helper.make_tensor_value_info("a", TensorProto.FLOAT, first),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, ["batch", 3]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def signature(model: onnx.ModelProto, **options: object) -> str:
    graph = parse_onnx(model, **options)  # an op does not keep its module alive
    return str(graph.main.attributes["function_type"])


SYMBOLIC = "tensor<?x3xf32, #mgx.dims<[batch : 1 ... ?, _]>>"


def test_names_are_carried_to_the_results():
    made = signature(two_inputs("batch", 3))
    assert made == f"({SYMBOLIC}, {SYMBOLIC}) -> {SYMBOLIC}"


@pytest.mark.parametrize(
    "options",
    [{"input_dims": {"a": [4, 3]}}, {"dim_params": {"batch": 4}}, {"default_dim": 4}],
)
def test_a_size_holds_wherever_its_name_stands(options):
    fixed = "tensor<4x3xf32>"
    assert signature(two_inputs("batch", 3), **options) == f"({fixed}, {fixed}) -> {fixed}"


def test_dimensions_without_a_name_get_one():
    made = signature(two_inputs(None, 3), dim_params={"batch": 1})
    assert "#mgx.dims<[a_d0 : 1 ... ?, _]>" in made


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_dims": {"z": [1, 3]}}, "no input 'z'; its inputs are a, b"),
        ({"input_dims": {"a": [1, 4]}}, "fixes dimension 1 of input 'a' at 3; 4 is given"),
        ({"input_dims": {"a": [1]}}, "has 2 dimensions, and 1 sizes are given"),
        ({"input_dims": {"a": [-1, 3]}}, "cannot have size -1"),
        (
            {"input_dims": {"a": [1, 3]}, "dim_params": {"batch": 2}},
            r"'batch' is given both 2 \(by dim_params\) and 1 \(by input 'a'\)",
        ),
        ({"dim_params": {"sequence": 1}}, "called 'sequence'; there are: batch"),
        ({"default_dim": -1}, "negative"),
    ],
)
def test_contradictions_are_usage_errors(options, message):
    with pytest.raises(UsageError, match=message):
        parse_onnx(two_inputs("batch", 3), **options)


def test_shape_arithmetic_of_symbols_needs_no_run_time_shapes():
    model = small("bert", batch="batch")
    text = str(parse_onnx(model).module)
    assert "reshape_to" not in text
    assert "-> (tensor<?x12x32xf32, #mgx.dims<[batch : 1 ... ?, _, _]>>" in text


@pytest.mark.parametrize("name", ["bert", "vit"])
def test_symbolic_models_agree_once_sizes_are_given(name):
    model = small(name, batch="batch")
    assert_agrees(model, random_inputs(model), dim_params={"batch": 2})


def test_static_models_take_their_own_sizes():
    model = two_inputs("batch", 3)
    inputs = {"a": floats(5, 3), "b": floats(5, 3, seed=1)}
    assert_agrees(model, inputs, input_dims={"a": [5, 3], "b": [5, 3]})


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_networks_take_a_symbolic_batch(kind):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    weights = {"w": floats(1, gates * 4, 3), "r": floats(1, gates * 4, 4)}
    model, _ = one_node(kind, {"x": floats(5, 2, 3)} | weights, 14, list(weights), hidden_size=4)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "batch"
    made = signature(model)
    assert made.endswith("-> tensor<5x1x?x4xf32, #mgx.dims<[_, _, batch : 1 ... ?, _]>>")


def test_ranges_are_carried_with_the_names():
    given = Range(1, 64, (1, 8))
    made = signature(two_inputs("batch", 3), dim_params={"batch": given})
    assert made.count("batch : 1 ... 64 {1, 8}") == 3
    both = Range(2, 4)
    made = signature(two_inputs(None, 3), input_dims={"a": [both, 3]}, dim_params={"batch": both})
    assert "#mgx.dims<[a_d0 : 2 ... 4, _]>" in made


@pytest.mark.parametrize("kind", ["Relu", "Softmax", "Tanh", "Clip"])
def test_a_table_limits_sizes_in_all_types(kind):
    """Ops whose operands and results are of one type read an input of the size too."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[b, n] x) => '
        "(float[b, n] y, float[k, 3] z) { size = Shape <start = 1, end = 2> (x) "
        "none = Constant <value_ints = [0]> ()"
        f"z = Slice (table, none, size, none) y = {kind} (x) }}"
    )
    model.graph.initializer.append(numpy_helper.from_array(floats(20, 3), "table"))
    made = signature(model)
    assert "n : 1 ... 20" in made.partition("->")[0]
    assert "n : 1 ... 20" in made.partition("->")[2]


@pytest.mark.parametrize(
    "given", [Range(-1, 4), Range(4, 2), Range(1, 4, (8,)), Range(1, 4, (2, 1))]
)
def test_ranges_without_order_are_usage_errors(given):
    with pytest.raises(UsageError, match=r"dimension 'batch': .* is no range"):
        signature(two_inputs("batch", 3), dim_params={"batch": given})


def test_a_range_for_a_size_that_the_model_fixes_is_a_usage_error():
    with pytest.raises(UsageError, match=r"fixes dimension 1 of input 'a' at 3; \{1, 4\} is given"):
        signature(two_inputs("batch", 3), input_dims={"a": [2, Range(1, 4)]})


def test_attention_without_queries_has_heads():
    """A shape copies the queries' size of 0, and leaves the heads' open."""
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size, 8])
        for name, size in (("q", 0), ("k", "keys"), ("v", "keys"))
    ]
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], **heads)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", values, [output])
    opset = helper.make_opsetid("", 23)
    made = signature(helper.make_model(graph, opset_imports=[opset], ir_version=11))
    assert made.endswith("-> tensor<?x0x8xf32, #mgx.dims<[batch : 1 ... ?, _, _]>>"), made
