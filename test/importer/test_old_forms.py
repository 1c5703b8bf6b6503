"""Operators in the forms that they had in opset 7 and later, beside today's."""

from __future__ import annotations

import numpy as np
import pytest

from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import parse_onnx
from test.importer.agreement import assert_agrees, floats, ints, one_node, op_names


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize(("opset", "axis"), [(7, 1), (11, 2), (11, 0), (13, 1), (13, -1)])
def test_softmax_flattens_before_opset_13(kind, opset, axis):
    assert_agrees(*one_node(kind, {"x": floats(2, 3, 4)}, opset, axis=axis))


def test_softmax_along_the_last_axis_needs_no_reshape():
    graph = assert_agrees(*one_node("Softmax", {"x": floats(2, 3)}, 9, axis=1))
    assert op_names(graph) == ["softmax"]


def test_clip_takes_attributes_before_opset_11():
    assert_agrees(*one_node("Clip", {"x": floats(4)}, 7, min=-0.5, max=0.25))
    graph = assert_agrees(*one_node("Clip", {"x": floats(4)}, 7, min=0.0))
    assert "max" in op_names(graph)


def test_clip_takes_optional_inputs():
    low, high = np.array(-0.5, np.float32), np.array(0.5, np.float32)
    assert_agrees(*one_node("Clip", {"x": floats(4), "a": low, "b": high}, 13))
    assert_agrees(*one_node("Clip", {"x": floats(4), "a": None, "b": high}, 13))


@pytest.mark.parametrize("opset", [9, 10, 13])
def test_slice(opset):
    x = floats(4, 5, 6)
    if opset < 10:
        made = one_node("Slice", {"x": x}, opset, starts=[1, -3], ends=[3, 100], axes=[0, 2])
        assert_agrees(*made)
        return
    parts = {"s": ints(1, -1), "e": ints(3, -100), "a": ints(0, 2), "t": ints(1, -2)}
    graph = assert_agrees(*one_node("Slice", {"x": x, **parts}, opset, constants=list(parts)))
    assert op_names(graph) == ["reverse", "slice", "step"]


def test_slice_of_everything_is_nothing():
    parts = {"s": ints(0), "e": ints(2**63 - 1), "a": ints(1)}
    made = one_node("Slice", {"x": floats(2, 3), **parts}, constants=list(parts))
    assert op_names(assert_agrees(*made)) == []


@pytest.mark.parametrize("opset", [7, 11])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(opset, mode):
    x, amounts = floats(2, 3, 4), [0, 1, 2, 0, 1, 1]
    if opset < 11:
        assert_agrees(*one_node("Pad", {"x": x}, opset, pads=amounts, mode=mode, value=1.5))
        return
    value = np.array(1.5, np.float32) if mode == "constant" else None
    inputs = {"x": x, "p": ints(*amounts), "v": value}
    assert_agrees(*one_node("Pad", inputs, opset, constants=["p"], mode=mode))


@pytest.mark.parametrize("kind", ["Squeeze", "Unsqueeze"])
@pytest.mark.parametrize("opset", [7, 11, 13])
def test_axes_are_attributes_before_opset_13(kind, opset):
    x = floats(1, 3, 1)
    if opset < 13:
        assert_agrees(*one_node(kind, {"x": x}, opset, axes=[0, 2]))
    else:
        assert_agrees(*one_node(kind, {"x": x, "a": ints(0, 2)}, opset, constants=["a"]))


@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions_take_axes_as_attribute_or_input(kind, keepdims):
    x = floats(2, 3, 4)
    assert_agrees(*one_node(kind, {"x": x}, 11, axes=[0, -1], keepdims=keepdims))
    inputs = {"x": x, "a": ints(0, -1)}
    assert_agrees(*one_node(kind, inputs, 18, constants=["a"], keepdims=keepdims))
    assert_agrees(*one_node(kind, {"x": x}, 18, keepdims=keepdims))


def test_reduction_of_no_axes_can_mean_nothing():
    graph = assert_agrees(*one_node("ReduceSum", {"x": floats(2)}, 13, noop_with_empty_axes=1))
    assert op_names(graph) == []


@pytest.mark.parametrize("opset", [7, 10, 12, 13])
def test_dropout_is_nothing_at_inference(opset):
    assert op_names(assert_agrees(*one_node("Dropout", {"x": floats(2, 3)}, opset))) == []


def test_dropout_in_training_is_refused():
    inputs = {"x": floats(2), "r": np.array(0.5, np.float32), "t": np.array(True)}
    model, _ = one_node("Dropout", inputs, 13, constants=["r", "t"])
    with pytest.raises(UnsupportedError, match="training_mode is true"):
        parse_onnx(model)


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_normalization_is_a_product_and_a_sum(opset):
    inputs = {"x": floats(2, 3, 4, 4)}
    for seed, name in enumerate(("scale", "bias", "mean", "var")):
        inputs[name] = np.abs(floats(3, seed=seed + 1))
    made = one_node("BatchNormalization", inputs, opset, list(inputs)[1:], epsilon=1e-3)
    graph = assert_agrees(*made)
    assert op_names(graph)[-4:] == ["broadcast", "mul", "broadcast", "add"]


@pytest.mark.parametrize("opset", [7, 9])
def test_upsample(opset):
    x = floats(1, 2, 3, 3)
    scales = np.array([1, 1, 2, 2], np.float32)
    for mode in ("nearest", "linear"):
        if opset == 7:
            assert_agrees(
                *one_node("Upsample", {"x": x}, 7, scales=[1.0, 1.0, 2.0, 2.0], mode=mode)
            )
        else:
            assert_agrees(*one_node("Upsample", {"x": x, "s": scales}, 9, ["s"], mode=mode))


@pytest.mark.parametrize("opset", [8, 10, 11])
def test_top_k(opset):
    x = floats(3, 7)
    if opset < 10:
        assert_agrees(*one_node("TopK", {"x": x}, opset, outputs=2, k=2, axis=1))
    else:
        assert_agrees(*one_node("TopK", {"x": x, "k": ints(2)}, opset, ["k"], outputs=2, axis=1))


@pytest.mark.parametrize("opset", [7, 11, 13, 18])
def test_split(opset):
    x = floats(2, 7)
    if opset < 13:
        assert_agrees(*one_node("Split", {"x": x}, opset, outputs=2, axis=1, split=[3, 4]))
        return
    inputs = {"x": x, "s": ints(3, 4)}
    assert_agrees(*one_node("Split", inputs, opset, ["s"], outputs=2, axis=1))
    if opset == 18:
        assert_agrees(*one_node("Split", {"x": x}, 18, outputs=3, axis=1, num_outputs=3))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_automatic_padding(auto_pad, stride):
    x, w = floats(1, 2, 7, 8), floats(3, 2, 3, 4)
    strides = [stride, stride]
    assert_agrees(*one_node("Conv", {"x": x, "w": w}, auto_pad=auto_pad, strides=strides))
    for kind in ("MaxPool", "AveragePool"):
        window = {"kernel_shape": [3, 2], "strides": strides}
        assert_agrees(*one_node(kind, {"x": x}, auto_pad=auto_pad, **window))


@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_pooling_rounds_sizes_up_or_down(kind, ceil_mode):
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 1]}
    assert_agrees(*one_node(kind, {"x": floats(1, 2, 6, 8)}, ceil_mode=ceil_mode, **window))


def test_max_pool_without_indices_ignores_their_order():
    window = {"kernel_shape": [2, 2]}
    assert_agrees(*one_node("MaxPool", {"x": floats(1, 1, 4, 4)}, storage_order=1, **window))


@pytest.mark.parametrize("columns_first", [0, 1])
def test_indices_of_max_pool(columns_first):
    window = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 0, 0, 1]}
    x = floats(2, 3, 5, 6)
    assert_agrees(*one_node("MaxPool", {"x": x}, outputs=2, storage_order=columns_first, **window))


@pytest.mark.parametrize("group", [1, 2])
def test_transposed_convolution(group):
    x, w, b = floats(1, 4, 5, 5), floats(4, 3, 3, 3), floats(3 * group)
    window = {"strides": [2, 2], "pads": [1, 0, 1, 1], "output_padding": [1, 0], "group": group}
    assert_agrees(*one_node("ConvTranspose", {"x": x, "w": w, "b": b}, **window))


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_transposed_convolution_to_a_stated_shape(auto_pad):
    x, w = floats(1, 2, 3, 3), floats(2, 3, 3, 3)
    window = {"strides": [3, 2], "output_shape": [8, 6], "auto_pad": auto_pad}
    assert_agrees(*one_node("ConvTranspose", {"x": x, "w": w}, **window))


@pytest.mark.parametrize("kind", ["Add", "Mul", "Sub", "Div", "Pow"])
def test_broadcasts_are_explicit(kind):
    made = one_node(kind, {"a": np.abs(floats(2, 3, 4)) + 1, "b": floats(3, 1)})
    assert "multibroadcast" in op_names(assert_agrees(*made))


def test_scalar_constants_become_splats_of_the_right_shape():
    made = one_node("Mul", {"x": floats(2, 3), "c": np.array(0.5, np.float32)}, constants=["c"])
    assert set(op_names(assert_agrees(*made))) == {"constant", "mul"}


@pytest.mark.parametrize(("base", "exponent"), [(np.float32, np.int64), (np.int64, np.float32)])
def test_powers_of_mixed_types_have_the_base_s_type(base, exponent):
    a, b = np.array([1, 2, 3], base), np.array([2, 2, 2], exponent)
    assert_agrees(*one_node("Pow", {"a": a, "b": b}, 13))


@pytest.mark.parametrize("constants", [(), ("b",)])
@pytest.mark.parametrize("exponent", [np.float32, np.float64])
@pytest.mark.parametrize("exponents", [[2, 1, 3, 0], [0.5, 1.5, 2, -1]])
def test_powers_of_integers_are_exact(exponents, exponent, constants):
    """An f32 would round 40001 squared."""
    a = np.array([[40001, -3, 125, 9], [16, 7, 3, 1]], np.int64)
    inputs = {"a": a, "b": np.array(exponents, exponent)}
    inputs["a"] = np.abs(a) if exponents[0] == 0.5 else a
    assert_agrees(*one_node("Pow", inputs, 15, constants=constants))
