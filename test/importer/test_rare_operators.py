"""Operators that few models hold agree with onnxruntime, or with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

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
