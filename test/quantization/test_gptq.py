"""GPTQ: weights of few bits by calibration data, beside a formulation column by column."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import mgx_mlir
from mgx_mlir import Calibration, Precision, quantize
from mgx_mlir.quantization import gptq
from mgx_mlir.quantization.blocks import Blocks
from mgx_mlir.tools.mgx import main

from ..onnx_models import Builder, small
from .test_quantize import samples_of, sqnr


def correlated(rows, size, rng):
    """Rows whose elements depend on each other, as activations do."""
    return (rng.normal(0, 1, (rows, size // 4)) @ rng.normal(0, 1, (size // 4, size))
            + 0.3 * rng.normal(0, 1, (rows, size))).astype(np.float32)  # fmt: skip


def by_columns(weight, sums, bits, block):
    """Rounds column after column in f64; the weights left are the least squares of the rest."""
    rows, size = weight.shape
    matrix = sums.astype(np.float64) + np.eye(size) * (0.01 * np.trace(sums) / size)
    left, most = weight.astype(np.float64).copy(), 2**bits - 1
    made = np.zeros((rows, size))
    for i in range(size):
        if i % block == 0:
            part = left[:, i : i + block]
            low, high = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
            scale = (high - low) / most
            zero = np.round(-low / scale)
        made[:, i] = (np.clip(np.round(left[:, i] / scale + zero), 0, most) - zero) * scale
        rest = matrix[i + 1 :, i + 1 :]
        if i + 1 < size:
            change = np.linalg.solve(rest, matrix[i + 1 :, i])
            left[:, i + 1 :] += np.outer(left[:, i] - made[:, i], change)
    return made


def expanded(parts, form):
    codes, scales, zeros = parts
    shifts = np.arange(0, 8, form.bits)
    mask = 2**form.bits - 1
    wide = ((codes[..., None] >> shifts) & mask).reshape(form.rows, form.count, form.block)
    zeros = ((zeros.reshape(form.rows, -1)[..., None] >> shifts) & mask).reshape(form.rows, -1)
    zeros = zeros[:, : form.count, None].astype(np.float64)
    found = (wide - zeros) * scales.reshape(form.rows, form.count, 1)
    return found.reshape(form.rows, -1)[:, : form.size]


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("size", [64, 200])
def test_weights_are_those_of_the_rule_column_by_column(bits, size):
    rng = np.random.default_rng(0)
    weight = rng.normal(0, 1, (12, size)).astype(np.float32)
    x = correlated(400, size, rng)
    sums = x.T @ x
    form = Blocks(12, size, 32, bits, "gptq")
    found = expanded(gptq.rounded(weight, sums, form), form)
    expected = by_columns(weight, sums, bits, 32)
    error, wanted = (((weight - w) @ x.T).std() for w in (found, expected))
    plain = expanded(form.quantize(weight), form)
    assert error < 0.75 * ((weight - plain) @ x.T).std()
    assert error < 1.05 * wanted
    assert (np.abs(found - expected) < 1e-4).mean() > 0.8  # f32 rounds some numbers the other way


def test_columns_that_are_always_zero_are_rounded_to_the_nearest():
    rng = np.random.default_rng(1)
    weight = rng.normal(0, 1, (8, 64)).astype(np.float32)
    form = Blocks(8, 64, 32, 4, "gptq")
    found = gptq.rounded(weight, np.zeros((64, 64), np.float32), form)
    plain = Blocks(8, 64, 32, 4, "nearest").quantize(weight)
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_array_equal(one, other)


def net(depth=96):
    b = Builder(2)
    hidden = b.op("Relu", b.op("MatMul", "x", b.weight("a", depth, 64)))
    y = b.op("Gemm", hidden, b.weight("b", 40, 64), b.weight("bias", 40), transB=1)
    return b.model({"x": (TensorProto.FLOAT, [16, depth])}, {"y": (y, [16, 40])}, "net")


def test_results_are_closer_than_of_the_nearest_and_equal_in_onnxruntime():
    rng = np.random.default_rng(3)
    x = correlated(16 * 20, 96, rng).reshape(20, 16, 96)
    data = [{"x": one} for one in x[:16]]
    model, errors = net(), {}
    expected = mgx_mlir.compile(model).run({"x": x[19]})["y"]
    for rounding in ("nearest", "hqq", "gptq"):
        made = quantize(model, Precision(weights="int4", rounding=rounding), Calibration(data))
        found = mgx_mlir.compile(made.source).run({"x": x[19]})["y"]
        errors[rounding] = sqnr(found, expected)
    assert errors["gptq"] > max(errors["nearest"], errors["hqq"]) + 1
    onnx.checker.check_model(made.proto())
    session = onnxruntime.InferenceSession(made.proto().SerializeToString())
    assert sqnr(session.run(None, {"x": x[19]})[0], found) > 80


def test_little_memory_reads_the_samples_more_often(monkeypatch):
    model = net()
    data = samples_of(model, 3)
    precision = Precision(weights="int4", rounding="gptq")
    whole = quantize(model, precision, Calibration(data)).proto().SerializeToString()
    monkeypatch.setattr(gptq, "_MOST_BYTES", 1)
    assert quantize(model, precision, Calibration(data)).proto().SerializeToString() == whole


def test_random_inputs_are_told(caplog):
    quantize(net(), Precision(weights="int4", rounding="gptq"))
    assert "weights are rounded for random inputs" in caplog.text


def test_a_tensor_with_infinities_gets_the_nearest(caplog):
    b = Builder(0)
    y = b.op("MatMul", b.op("Log", "x"), b.weight("w", 32, 8))
    model = b.model({"x": (TensorProto.FLOAT, [2, 32])}, {"y": (y, [2, 8])}, "net")
    data = Calibration([{"x": np.zeros((2, 32), np.float32)}])
    made = [
        quantize(model, Precision(weights="int4", rounding=word), data).proto()
        for word in ("gptq", "nearest")
    ]
    assert "rounded to the nearest" in caplog.text
    assert made[0].SerializeToString() == made[1].SerializeToString()


def test_the_command_line_rounds_by_samples(tmp_path, capsys):
    onnx.save(net(), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).normal(0, 1, (64, 96)))
    words = ["quantize", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "q.onnx")]
    words += ["--int4-weights", "--rounding", "gptq", "--calibrate", str(tmp_path / "d.npz")]
    assert main(words) == 0
    assert "products: 2 int4" in capsys.readouterr().out


def test_a_network_of_int8_and_gptq():
    model = small("bert")
    data = samples_of(model, 2)
    precision = Precision("int8", "int4", rounding="gptq", only_weights=("/MatMul_1*",))
    made = quantize(model, precision, Calibration(data))
    assert {choice.precision for choice in made.choices} == {"int8", "int4"}
    assert mgx_mlir.compile(made.source).run(data[0])
