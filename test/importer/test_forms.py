"""Nodes in forms of other opsets than the model's, and forms that onnx's library does not take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import helper, numpy_helper

from mgx_mlir.errors import ModelError
from mgx_mlir.importer import parse_onnx
from test.importer.agreement import assert_close, expected, floats, ints, one_node, outputs_of

NEWEST = onnx.defs.onnx_opset_version()
IMAGE = floats(1, 1, 2, 2)
MATRIX = floats(2, 3, 4)


def assert_same_in(
    opset: int,
    kind: str,
    inputs: Mapping[str, np.ndarray],
    stated: int = NEWEST,
    constants: tuple[str, ...] = (),
    outputs: int = 1,
    **attributes: Any,
) -> None:
    """A node of `opset` means the same in a model that states another one."""
    model, fed = one_node(kind, inputs, opset, constants, outputs, **attributes)
    wanted = expected(model, fed)
    model.opset_import[0].version = stated
    assert_close(outputs_of(parse_onnx(model), fed), wanted)


@pytest.mark.parametrize(
    ("opset", "kind", "inputs", "attributes"),
    [
        (11, "ReduceSum", {"x": MATRIX}, {"axes": [1], "keepdims": 0}),
        (13, "ReduceMean", {"x": MATRIX}, {"axes": [0, 2]}),
        (11, "Squeeze", {"x": floats(2, 1, 3)}, {"axes": [1]}),
        (11, "Unsqueeze", {"x": floats(2, 3)}, {"axes": [0, 2]}),
        (9, "Slice", {"x": MATRIX}, {"starts": [0, 1], "ends": [1, 3], "axes": [0, 1]}),
        (9, "Pad", {"x": MATRIX}, {"pads": [0, 0, 1, 0, 1, 0], "value": 1.5}),
        (9, "Clip", {"x": MATRIX}, {"min": -0.5, "max": 0.5}),
        (10, "Dropout", {"x": MATRIX}, {"ratio": 0.5}),
        (7, "Upsample", {"x": IMAGE}, {"scales": [1.0, 1.0, 2.0, 2.0], "mode": "nearest"}),
        (16, "GridSample", {"x": IMAGE, "g": floats(1, 2, 2, 2)}, {"mode": "bilinear"}),
        (18, "GroupNormalization", {"x": floats(1, 4, 3), "s": floats(2), "b": floats(2)},
         {"num_groups": 2}),
    ],
)  # fmt: skip
def test_attributes_of_older_opsets(opset, kind, inputs, attributes):
    assert_same_in(opset, kind, inputs, **attributes)


def test_scales_were_the_second_input_of_resize():
    inputs = {"x": IMAGE, "s": np.array([1, 1, 2, 2], np.float32)}
    assert_same_in(10, "Resize", inputs, constants=("s",), mode="nearest")


def test_sizes_of_the_parts_were_an_attribute():
    assert_same_in(11, "Split", {"x": floats(6, 2)}, outputs=2, split=[2, 4], axis=0)


@pytest.mark.parametrize(
    ("opset", "stated", "kind", "inputs"),
    [
        (13, 11, "ReduceSum", {"x": MATRIX, "a": ints(1)}),
        (13, 9, "Slice", {"x": MATRIX, "a": ints(0), "b": ints(2)}),
        (13, 9, "Clip", {"x": MATRIX, "a": np.array(0.1, np.float32)}),
        (14, 11, "HardSwish", {"x": MATRIX}),
    ],
)
def test_inputs_of_newer_opsets(opset, stated, kind, inputs):
    assert_same_in(opset, kind, inputs, stated, constants=tuple(set(inputs) - {"x"}))


def run(
    nodes: list,
    inputs: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray] = {},
    opset: int | None = NEWEST,
) -> np.ndarray:
    """The result 'y' of nodes that onnx's library refuses."""
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
    ]
    out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    held = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "test", infos, [out], held)
    opsets = [] if opset is None else [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    if opset is None:
        del model.opset_import[:]
    (y,) = outputs_of(parse_onnx(model), inputs)
    return y


@pytest.mark.parametrize(
    ("kind", "sizes", "shape"),
    [
        ("Reshape", [6, 4], (6, 4)),
        ("Tile", [1, 2, 1], (2, 6, 4)),
        ("Unsqueeze", [1], (2, 1, 3, 4)),
        ("ReduceSum", [1], (2, 1, 4)),
        ("Pad", [0, 0, 1, 0, 0, 1], (2, 3, 6)),
    ],
)
def test_sizes_and_axes_of_32_bits(kind, sizes, shape):
    node = helper.make_node(kind, ["x", "s"], ["y"])
    y = run([node], {"x": MATRIX}, {"s": np.array(sizes, np.int32)})
    assert y.shape == shape


def test_integers_of_two_types_meet_in_the_wider_one():
    small, large = np.array([-1, 2], np.int8), np.array([300, 400], np.int32)
    y = run([helper.make_node("Add", ["x", "z"], ["y"])], {"x": small, "z": large})
    np.testing.assert_array_equal(y, [299, 402])


@pytest.mark.parametrize("truncates", [0, 1])
def test_a_remainder_of_floats_by_integers(truncates):
    by = np.array([2, 3, -2, 5], np.int32)
    node = helper.make_node("Mod", ["x", "z"], ["y"], fmod=truncates)
    wanted = (np.fmod if truncates else np.mod)(MATRIX, by.astype(np.float32))
    assert_close([run([node], {"x": MATRIX, "z": by})], [wanted])


def test_a_float_and_an_integer_are_no_sum():
    node = helper.make_node("Add", ["x", "z"], ["y"])
    with pytest.raises(ModelError, match="operands of f32 and i64"):
        run([node], {"x": MATRIX, "z": ints(1, 2, 3, 4)})


@pytest.mark.parametrize("inputs", [{}, {"x": MATRIX}])
def test_one_number_in_a_shape(inputs):
    options = {"value": 2.0, "input_as_shape": 0} | ({} if inputs else {"shape": [2, 3, 4]})
    node = helper.make_node("ConstantFill", list(inputs), ["y"], **options)
    assert_close([run([node], inputs)], [np.full((2, 3, 4), 2, np.float32)])


def test_a_second_operand_lay_along_an_axis_in_opset_6():
    b = floats(2, seed=1)
    node = helper.make_node("Mul", ["x", "b"], ["y"], broadcast=1, axis=0)
    assert_close([run([node], {"x": MATRIX, "b": b})], [MATRIX * b[:, None, None]])


def test_a_declared_type_of_an_output_does_not_count():
    node = helper.make_node("Equal", ["x", "x"], ["y"])
    assert run([node], {"x": MATRIX}).dtype == np.bool_


def test_a_shape_that_is_said_twice():
    node = helper.make_node("Reshape", ["x", "s"], ["y"], shape=[6, 4])
    assert run([node], {"x": MATRIX}, {"s": ints(6, 4)}).shape == (6, 4)


def test_attributes_that_say_nothing():
    node = helper.make_node("Relu", ["x"], ["y"], consumed_inputs=[0])
    assert_close([run([node], {"x": MATRIX})], [np.maximum(MATRIX, 0)])


def test_a_model_that_imports_no_opset(caplog):
    node = helper.make_node("ReduceSum", ["x"], ["y"], axes=[1])
    assert_close([run([node], {"x": MATRIX}, opset=None)], [MATRIX.sum(1, keepdims=True)])
    assert "read as one of opset 13" in caplog.text


def test_an_operator_of_constants_older_than_its_opset():
    constants = {"a": ints(5, 7), "b": ints(3, 4)}
    node = helper.make_node("Mod", ["a", "b"], ["m"])
    cast = helper.make_node("Cast", ["m"], ["f"], to=onnx.TensorProto.FLOAT)
    add = helper.make_node("Add", ["x", "f"], ["y"])
    x = floats(2)
    assert_close([run([node, cast, add], {"x": x}, constants, opset=7)], [x + np.float32([2, 3])])


def test_an_attribute_of_no_opset_is_refused():
    with pytest.raises(ModelError, match="Unrecognized attribute: steepness"):
        run([helper.make_node("Relu", ["x"], ["y"], steepness=2)], {"x": MATRIX})


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
        ("...ij,...jk->...ik", [(3, 4), (2, 7, 4, 5)]),
        ("ij...,jk...->ik...", [(3, 4, 2, 6), (4, 5, 6)]),
        ("...i,...i", [(2, 3), (3,)]),
        ("...,...->...", [(2, 3), ()]),
        ("...ij,...jk,...kl->...il", [(7, 2, 3), (3, 4), (2, 1, 4, 5)]),
    ],
)
def test_ellipses_of_different_ranks(equation, shapes):
    inputs = {f"x{i}": floats(*shape, seed=i) for i, shape in enumerate(shapes)}
    y = run([helper.make_node("Einsum", list(inputs), ["y"], equation=equation)], inputs)
    assert_close([y], [np.einsum(equation, *inputs.values())])


@pytest.mark.parametrize(
    ("kind", "direction", "few", "all_of_them"),
    [
        ("RNN", "bidirectional", ["Relu"], ["Relu", "Relu"]),
        ("GRU", "reverse", ["Tanh"], ["Tanh", "Tanh"]),
        ("GRU", "bidirectional", ["Sigmoid", "Relu"], ["Sigmoid", "Relu"] * 2),
        ("LSTM", "forward", ["Sigmoid", "Tanh"], ["Sigmoid", "Tanh", "Tanh"]),
        ("LSTM", "bidirectional", ["Sigmoid"], ["Sigmoid"] * 6),
        (
            "LSTM",
            "bidirectional",
            ["Sigmoid", "Tanh", "Relu", "Tanh"],
            ["Sigmoid", "Tanh", "Relu", "Tanh", "Tanh", "Tanh"],
        ),
    ],
)
def test_too_few_activations_as_migraphx_reads_them(kind, direction, few, all_of_them):
    gates, directions = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind], 1 + (direction == "bidirectional")
    inputs = {"x": floats(3, 2, 4), "w": floats(directions, gates * 5, 4, seed=1)}
    inputs["r"] = floats(directions, gates * 5, 5, seed=2)
    named = {"hidden_size": 5, "direction": direction}
    whole, fed = one_node(kind, inputs, 14, activations=all_of_them, **named)
    model, _ = one_node(kind, inputs, 14, activations=few, **named)
    assert_close(outputs_of(parse_onnx(model), fed), expected(whole, fed))
