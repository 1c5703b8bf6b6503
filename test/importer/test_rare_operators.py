"""Operators that few models hold agree with onnxruntime, or with numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

import mgx_mlir
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import parse_onnx
from test.importer.agreement import (
    assert_agrees,
    assert_close,
    contributed,
    floats,
    ints,
    one_node,
    outputs_of,
)


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_determinants_and_inverses(size):
    x = floats(2, 3, size, size)
    x[0, 0, :, 0] = 0  # singular
    model, fed = one_node("Det", {"x": x})
    assert_close(outputs_of(parse_onnx(model), fed), [np.linalg.det(x)])
    x = floats(2, 3, size, size, seed=1)
    x[..., 0, 0] = 0  # needs another pivot, where there is another row
    if size > 1:
        model, fed = contributed("Inverse", {"x": x})
        assert_close(outputs_of(parse_onnx(model), fed), [np.linalg.inv(x)], atol=1e-3)


def test_a_matrix_that_is_too_large_is_refused():
    model, _ = contributed("Inverse", {"x": floats(65, 65)})
    with pytest.raises(UnsupportedError, match="matrices of 65 by 65; up to 64 by 64"):
        parse_onnx(model)


def test_maxima_of_regions():
    rois = np.array([[1, 0, 0, 5, 4], [0, 1.4, 2.6, 3, 6], [0, 4, 4, 4, 4]], np.float32)
    inputs = {"x": floats(2, 3, 7, 6), "rois": rois}
    assert_agrees(*one_node("MaxRoiPool", inputs, pooled_shape=[3, 2], spatial_scale=0.9))


@pytest.mark.parametrize(("group", "groups"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_deformable_convolution(group, groups):
    inputs = {
        "x": floats(2, 4, 6, 5),
        "w": floats(6, 4 // group, 3, 2, seed=1),
        "offset": floats(2, groups * 3 * 2 * 2, 3, 4, seed=2),
        "b": floats(6, seed=3),
        "mask": floats(2, groups * 3 * 2, 3, 4, seed=4),
    }
    model, fed = one_node(
        "DeformConv",
        inputs,
        opset=22,
        group=group,
        offset_group=groups,
        pads=[1, 0, 0, 0],
        strides=[2, 1],
    )
    assert_agrees(model, fed)


@pytest.mark.parametrize("bands", [8, 30])
def test_weights_of_a_mel_spectrum(bands):
    inputs = {
        "bands": np.array(bands),
        "length": np.array(64),
        "rate": np.array(8192),
        "low": np.array(0, np.float32),
        "high": np.array(4096, np.float32),
    }
    assert_agrees(*one_node("MelWeightMatrix", inputs, constants=tuple(inputs)))


@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0)])
def test_sequences_reversed_by_lengths_that_are_computed(time, batch):
    inputs = {"x": floats(3, 3, 2), "lengths": ints(2, 0, 3)}
    assert_agrees(*one_node("ReverseSequence", inputs, time_axis=time, batch_axis=batch))


def test_the_quotient_of_a_quantization_has_the_precision_that_is_asked_for():
    """2050 in bfloat16, which has 8 bits, is 2048."""
    x, scale = np.array([1.0009765625], np.float32), np.array([0.00048828125], np.float32)
    zero = np.zeros(1, np.uint16)
    found = []
    for precision in (TensorProto.FLOAT, TensorProto.BFLOAT16):
        inputs = {"x": x, "s": scale, "z": zero}
        model, fed = one_node("QuantizeLinear", inputs, opset=23, precision=precision)
        found.append(outputs_of(parse_onnx(model), fed)[0][0])
    assert found == [2050, 2048]


# Microscaling, and PyTorch's bags ------------------------------------------------------------


def computed(kind: str, domain: str, inputs: dict, types: tuple = (np.float32,), **attributes):
    model, fed = contributed(kind, inputs, types, domain=domain, **attributes)
    return outputs_of(parse_onnx(model), fed)[0]


def largest_powers(x: np.ndarray, block: int) -> np.ndarray:
    """For each block of the last dimension, the largest power of two not above its elements."""
    parts = np.abs(x.reshape(*x.shape[:-1], -1, block)).max(-1, keepdims=True)
    return np.exp2(np.floor(np.log2(parts)))


@pytest.mark.parametrize(
    ("kind", "dtype", "largest"),
    [
        ("fp4_e2m1", ml_dtypes.float4_e2m1fn, 4),
        ("fp8_e4m3", ml_dtypes.float8_e4m3fn, 256),
        ("fp8_e5m2", ml_dtypes.float8_e5m2, 32768),
    ],
)
def test_floats_of_a_microscaling_format(kind, dtype, largest):
    x = floats(3, 64) * np.float32([[1e-3], [1], [1e4]])
    options = {"element_dtype": kind, "axis": -1, "rounding_mode": 2}
    found = computed("MXQuantizeDequantize", "com.amd.quark", {"x": x}, **options)
    scale = largest_powers(x, 32) / largest
    most = np.float32(ml_dtypes.finfo(dtype).max)
    parts = np.clip(x.reshape(3, 2, 32) / scale, -most, most).astype(dtype).astype(np.float32)
    assert_close([found], [(parts * scale).reshape(x.shape).astype(np.float32)])


def test_integers_of_a_microscaling_format_and_a_block_that_is_not_full():
    x = floats(40, 2)
    options = {"element_dtype": "int8", "axis": 0, "rounding_mode": 2}
    found = computed("MXFixNeuron", "com.vai.quantize", {"x": x}, **options)
    filled = np.concatenate([x.T, np.zeros((2, 24), np.float32)], 1)
    scale = largest_powers(filled, 32)
    parts = np.clip(np.rint(filled.reshape(2, 2, 32) / scale * 64), -127, 127) / 64
    assert_close([found], [(parts * scale).reshape(2, 64).T[:40].astype(np.float32)])


def test_scales_of_blocks():
    x = floats(2, 64)
    options = {"group_dim": 1, "group_size": 32, "output_dtype": TensorProto.FLOAT4E2M1}
    found = computed("DynamicScale", "onnx.brevitas", {"x": x}, **options)
    assert_close([found], [largest_powers(x, 32)[..., 0] / np.float32(4)])


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [-1, 3])
def test_bags_of_embeddings(mode, padding):
    table, indices, offsets = floats(6, 4), ints(3, 1, 5, 0, 3, 2), ints(0, 2, 2, 5)
    options = {"operator": "embedding_bag", "mode": mode, "padding_idx": padding}
    inputs = {"table": table, "indices": indices, "offsets": offsets}
    found = computed("ATen", "org.pytorch.aten", inputs, **options)
    wanted = np.zeros((4, 4), np.float32)
    for bag, (start, end) in enumerate([(0, 2), (2, 2), (2, 5), (5, 6)]):
        rows = table[[i for i in indices[start:end] if i != padding]]
        if len(rows):
            wanted[bag] = (rows.sum(0), rows.mean(0), rows.max(0))[mode]
    assert_close([found], [wanted])


def test_bags_of_rows_with_factors():
    table, indices = floats(6, 4), np.array([[3, 1], [5, 0]])
    inputs = {"table": table, "indices": indices, "offsets": None, "factors": floats(2, 2, seed=1)}
    found = computed("ATen", "org.pytorch.aten", inputs, operator="embedding_bag", mode=0)
    assert_close([found], [(table[indices] * inputs["factors"][..., None]).sum(1)])


def test_one_bag_in_the_domain_of_older_models():
    table, indices = floats(6, 4), ints(3, 1, 5)
    inputs = {"table": table, "indices": indices, "offset": np.int64(0)}
    model, fed = one_node("ATen", inputs, 12, operator="embedding_bag", mode=0)
    (found,) = outputs_of(parse_onnx(model), fed)
    assert_close([found], [table[indices].sum(0)[None]])


@pytest.mark.parametrize("batch", [1, 2])
def test_grids_of_one_transform_and_of_two(batch):
    inputs = {"theta": floats(batch, 2, 3), "size": ints(batch, 1, 2, 3)}
    assert_agrees(*one_node("AffineGrid", inputs, 20, constants=["size"]))


def test_axes_of_statistics_may_stand_in_any_order():
    x = floats(4, 2, 6, 3)
    model, fed = one_node("MeanVarianceNormalization", {"x": x}, axes=[-1, -3])
    (got,) = mgx_mlir.compile(model, "cpu").run(fed).values()
    centred = x - x.mean((1, 3), keepdims=True)
    assert_close([got], [centred / np.sqrt((centred**2).mean((1, 3), keepdims=True))])


@pytest.mark.parametrize("scale", [3e-4, 100])
@pytest.mark.parametrize(
    ("kind", "attributes", "expected"),
    [
        ("GlobalLpPool", {"p": 2}, [[5]]),
        ("InstanceNormalization", {"epsilon": 0.0}, [[-1, 1]]),
        ("LpNormalization", {"axis": 2}, [[0.6, 0.8]]),
        ("MeanVarianceNormalization", {"axes": [2]}, [[-1, 1]]),
        ("ReduceL2", {"axes": [2]}, [[5]]),
    ],
)
def test_squares_of_half_floats_are_wider(kind, attributes, expected, scale):
    """The compiler folds operators of constants one by one, and rounds between them."""
    fed = {"x": (np.array([[[3, 4]]]) * scale).astype(np.float16)}
    if kind == "InstanceNormalization":
        fed |= {"s": np.ones(1, np.float16), "b": np.zeros(1, np.float16)}
    wanted = np.array([expected]) * (scale if 5 in expected[0] else 1)
    for constants in ([], list(fed)):
        model, given = one_node(kind, fed, constants=constants, **attributes)
        (got,) = mgx_mlir.compile(model, "cpu").run(given).values()
        np.testing.assert_allclose(np.array(got, np.float64), wanted, rtol=2e-3)


@pytest.mark.parametrize(
    ("start", "end", "step"), [(-100, -(2**63), 7), (0, -(2**63), 1), (5, -(2**63), -2)]
)
def test_a_slice_may_end_before_all_that_an_integer_can_say(start, end, step):
    parts = {"s": ints(start), "e": ints(end), "a": ints(1), "t": ints(step)}
    assert_agrees(*one_node("Slice", {"x": floats(3, 6), **parts}, constants=list(parts)))


def test_a_slice_backwards_from_before_the_first_element_holds_it():
    """ONNX clamps the start to the first element; numpy begins before it."""
    fed = {"x": np.arange(4), "starts": ints(-100), "ends": ints(-100), "axes": ints(0)}
    names = ["starts", "ends", "axes", "steps"]
    model, fed = one_node("Slice", {**fed, "steps": ints(-1)}, constants=names)
    assert_close(outputs_of(parse_onnx(model), fed), [np.array([0])])
    assert_agrees(model, fed)


def test_a_slice_of_nothing_may_have_steps():
    fed = {"x": floats(0, 4), "starts": ints(0), "ends": ints(9), "axes": ints(0)}
    names = ["starts", "ends", "axes", "steps"]
    assert_agrees(*one_node("Slice", {**fed, "steps": ints(2)}, constants=names))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint64])
def test_unsigned_integers_that_shrink_below_zero_wrap_around(dtype):
    x = np.array([0, 1, 2, 5, 100], dtype)
    model, fed = one_node("Shrink", {"x": x}, bias=2.0, lambd=0.5)
    wrapped = np.where(x > 0, x - dtype(2), dtype(0))
    assert_close(outputs_of(parse_onnx(model), fed), [wrapped])


@pytest.mark.parametrize(("dtype", "low"), [(np.uint8, 0), (np.int8, -128), (np.float32, -np.inf)])
def test_indices_of_maxima_are_no_padding(dtype, low):
    x = np.full((1, 1, 4), low, dtype)
    window = {"kernel_shape": [3], "pads": [2, 0], "outputs": 2}
    y, index = outputs_of(parse_onnx(one_node("MaxPool", {"x": x}, **window)[0]), {"x": x})
    assert (y == low).all()
    np.testing.assert_array_equal(index, [[[0, 0, 0, 1]]])


@pytest.mark.parametrize("padding", ["border", "reflection", "zeros"])
@pytest.mark.parametrize("aligned", [0, 1])
def test_cubic_samples_outside_an_image_weigh_pixels_moved_into_it(padding, aligned):
    grid = np.linspace(-1.6, 1.6, 24, dtype=np.float32).reshape(1, 3, 4, 2)
    kind = {"mode": "cubic", "padding_mode": padding, "align_corners": aligned}
    assert_agrees(*one_node("GridSample", {"x": floats(1, 2, 4, 5), "grid": grid}, 20, **kind))


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["border", "reflection", "zeros"])
@pytest.mark.parametrize("aligned", [0, 1])
def test_places_that_are_no_numbers_are_the_first_edge(mode, padding, aligned):
    odd = [np.nan, np.inf, -np.inf, 1e30, 0.1]
    grid = np.array([[x, y] for x in odd for y in odd], np.float32).reshape(1, 5, 5, 2)
    kind = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
    assert_agrees(*one_node("GridSample", {"x": floats(1, 2, 4, 5), "grid": grid}, 20, **kind))
