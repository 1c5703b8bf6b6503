"""SmoothQuant and cross-layer equalization: equal results in f32, smaller errors in 8 bits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import mgx_mlir
from mgx_mlir import Calibration, Precision, quantize
from mgx_mlir.errors import UsageError
from mgx_mlir.quantization.equalization import equalized
from mgx_mlir.quantization.network import Network
from mgx_mlir.tools.mgx import main

from ..onnx_models import Builder, small
from .test_quantize import by_onnxruntime, samples_of, sqnr


def with_outliers():
    """Two products of one tensor, some channels of which are large."""
    b = Builder(1)
    size = np.ones(64, np.float32)
    size[::16] = 60
    x = b.op("Mul", "x", b.add(size, "size"))
    wide = b.op("MatMul", x, b.weight("a", 64, 32))
    y = b.op("Add", wide, b.op("Gemm", x, b.weight("b", 32, 64), b.weight("c", 32), transB=1))
    return b.model({"x": (TensorProto.FLOAT, [24, 64])}, {"y": (y, [24, 32])}, "net")


def arrays(network):
    names = {*network.arrays, *network.source.weights}
    return {name: network.array(name) for name in names}


def test_smoothing_makes_the_error_of_outliers_smaller():
    model = with_outliers()
    data = samples_of(model, 5)
    expected = mgx_mlir.compile(model).run(data[4])["y"]
    errors = []
    for smooth in (None, 0.5):
        made = quantize(model, Precision("int8", smooth=smooth), Calibration(data[:4]))
        found = mgx_mlir.compile(made.source).run(data[4])["y"]
        errors.append(sqnr(found, expected))
        assert {choice.precision for choice in made.choices} == {"int8"}
    assert errors[1] > errors[0] + 6
    assert sqnr(by_onnxruntime(made.proto(), data[4])["y"], found) > 60
    plain = mgx_mlir.compile(made.network.source).run(data[4])["y"]
    np.testing.assert_allclose(plain, expected, rtol=1e-4, atol=1e-4)


def test_smoothing_follows_its_formula():
    model = with_outliers()
    data = samples_of(model, 3)
    made = quantize(model, Precision("int8", smooth=0.7), Calibration(data))
    found = arrays(made.network)
    size, a, b = (found[name] for name in ("size", "a", "b"))
    x = np.abs(np.concatenate([sample["x"] for sample in data]) * size).max(0)
    w = np.maximum(np.abs(a).max(1), np.abs(b).max(0))
    factor = x**0.7 / w**0.3
    np.testing.assert_allclose(found["a/smooth"], a * factor[:, None], rtol=1e-4)
    np.testing.assert_allclose(found["b/smooth"], b * factor, rtol=1e-4)


def test_a_channel_that_is_zero_stays():
    b = Builder(0)
    x = b.op("Mul", "x", b.add(np.array([0, *[1] * 15], np.float32), "mask"))
    weight = b.rng.normal(0, 1, (16, 4)).astype(np.float32)
    weight[3] = 0
    y = b.op("MatMul", x, b.add(weight, "w"))
    model = b.model({"x": (TensorProto.FLOAT, [8, 16])}, {"y": (y, [8, 4])}, "net")
    made = quantize(model, Precision("int8", smooth=0.5), Calibration(samples_of(model, 2)))
    smooth = arrays(made.network)["w/smooth"]
    np.testing.assert_array_equal(smooth[[0, 3]], weight[[0, 3]])


def layers(kind):
    """Layers whose channels have very different ranges."""
    b = Builder(2)
    spread = np.exp2(b.rng.uniform(-6, 6, 16)).astype(np.float32)

    def weight(name, *shape, axis=None):
        array = b.rng.normal(0, 0.3, shape).astype(np.float32)
        if axis is not None:
            array *= spread.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        return b.add(array, name)

    if kind == "linear":
        hidden = b.op("MatMul", "x", weight("w1", 32, 16, axis=1))
        hidden = b.op("Relu", b.op("Add", hidden, weight("b1", 16)))
        y = b.op("Gemm", hidden, weight("w2", 12, 16), weight("b2", 12), transB=1)
        return b.model({"x": (TensorProto.FLOAT, [8, 32])}, {"y": (y, [8, 12])}, "net")
    first = b.op("Conv", "x", weight("w1", 16, 3, 3, 3, axis=0), weight("b1", 16), pads=[1] * 4)
    middle = b.op("MaxPool", b.op("Relu", first), kernel_shape=[2, 2], strides=[2, 2])
    depthwise = b.op("Conv", middle, weight("w2", 16, 1, 3, 3), weight("b2", 16), group=16)
    y = b.op("Conv", b.op("LeakyRelu", depthwise), weight("w3", 8, 16, 1, 1), weight("b3", 8))
    return b.model({"x": (TensorProto.FLOAT, [1, 3, 12, 12])}, {"y": (y, [1, 8, 4, 4])}, "net")


@pytest.mark.parametrize("kind", ["linear", "convolutional"])
def test_equalized_layers_give_the_same_and_quantize_better(kind):
    model = layers(kind)
    data = samples_of(model, 4)
    expected = mgx_mlir.compile(model).run(data[0])["y"]
    errors = []
    for equalize in (False, True):
        made = quantize(model, Precision("int8", equalize=equalize), Calibration(data))
        errors.append(sqnr(mgx_mlir.compile(made.source).run(data[0])["y"], expected))
    assert errors[1] > errors[0] + 1
    plain = mgx_mlir.compile(made.network.source).run(data[0])["y"]
    np.testing.assert_allclose(plain, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
    onnx.checker.check_model(made.proto(), full_check=True)


def test_channels_of_a_pair_get_equal_ranges():
    network = Network.of(layers("linear"), 13)
    found = arrays(equalized(network, {p.name for p in network.products}))
    first, second = np.abs(found["w1/equal"]).max(0), np.abs(found["w2/equal"]).max(0)
    np.testing.assert_allclose(first, second, rtol=1e-3)


def test_layers_with_other_readers_or_patterns_stay():
    b = Builder(0)
    first = b.op("MatMul", "x", b.weight("w1", 16, 16))
    second = b.op("MatMul", b.op("Relu", first), b.weight("w2", 16, 4))
    y = b.op("Add", second, b.op("Slice", first, *(b.constant([n]) for n in (0, 4, 1))))
    model = b.model({"x": (TensorProto.FLOAT, [8, 16])}, {"y": (y, [8, 4])}, "net")
    network = Network.of(model, 13)
    assert equalized(network, {p.name for p in network.products}) is network
    network = Network.of(layers("linear"), 13)
    assert equalized(network, {network.products[0].name}) is network


def test_networks_are_smoothed_and_equalized():
    model = small("bert")
    data = samples_of(model, 2)
    expected = mgx_mlir.compile(model).run(data[0])
    precision = Precision("int8", smooth=0.5, equalize=True)
    found = mgx_mlir.compile(quantize(model, precision, Calibration(data)).source).run(data[0])
    assert min(sqnr(found[key], expected[key]) for key in expected) > 20


def test_the_command_line_smooths_and_equalizes(tmp_path, capsys):
    onnx.save(with_outliers(), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).normal(0, 1, (4, 24, 64)))
    words = ["quantize", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "q.onnx")]
    more = ["--int8", "--calibrate", str(tmp_path / "d.npz"), "--smooth=0.6", "--equalize"]
    assert main([*words, *more]) == 0
    assert "products: 2 int8" in capsys.readouterr().out
    assert main([*words, "--smooth"]) == 2
    assert "--smooth is for --int8" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main([*words, "--int8", "--smooth=2"])
    assert "'2' is no number from 0 to 1" in capsys.readouterr().err


def test_balancing_without_products_is_refused():
    with pytest.raises(UsageError, match="smooth and equalize are for products"):
        Precision(weights="int4", equalize=True)


def test_infinities_are_told_and_not_smoothed(caplog):
    b = Builder(0)
    y = b.op("MatMul", b.op("Log", "x"), b.weight("w", 8, 4))
    model = b.model({"x": (TensorProto.FLOAT, [2, 8])}, {"y": (y, [2, 4])}, "net")
    data = Calibration([{"x": np.zeros((2, 8), np.float32)}] * 2)
    quantize(model, Precision("int8", smooth=0.5), data)
    assert caplog.text.count("not smoothed") == 1
