"""Weights of 4 and 2 bits by blocks: their meaning, their error, and the memory that they need."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import mgx_mlir
from mgx_mlir import Precision, quantize
from mgx_mlir.quantization.blocks import Blocks

from ..onnx_models import Builder

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 40)).astype(np.float32)


def model_of(kind, rows=24):
    """A product of 40 numbers, which the last block does not fill."""
    b = Builder(0)
    if kind == "MatMul":
        y = b.op("MatMul", "x", b.weight("w", 40, rows))
    elif kind == "Gemm":
        y = b.op("Gemm", "x", b.weight("w", rows, 40), b.weight("b", rows), transB=1)
    else:
        y = b.op("Gemm", "x", b.weight("w", 40, rows), b.weight("b", rows), alpha=2.0)
    return b.model({"x": (TensorProto.FLOAT, [3, 40])}, {"y": (y, [3, rows])}, "net")


def run(model):
    return mgx_mlir.compile(model).run({"x": X})["y"]


def sqnr(found, expected):
    with np.errstate(divide="ignore"):
        return 10 * np.log10(np.square(expected).sum() / np.square(found - expected).sum())


@pytest.mark.parametrize("kind", ["MatMul", "Gemm"])
@pytest.mark.parametrize("rounding", ["nearest", "hqq"])
@pytest.mark.parametrize("bits, least", [("int4", 17), ("int2", 3)])
def test_products_are_close_to_f32_and_equal_in_onnxruntime(kind, rounding, bits, least):
    model = model_of(kind)
    made = quantize(model, Precision(weights=bits, block=16, rounding=rounding))
    assert [choice.precision for choice in made.choices] == [bits]
    found = run(made.source)
    assert sqnr(found, run(model)) > least
    if bits == "int4":  # which reads 2 bits only with zero points that are packed
        session = onnxruntime.InferenceSession(made.proto().SerializeToString())
        assert sqnr(session.run(None, {"x": X})[0], found) > 80


def test_a_gemm_that_scales_stays_in_f32():
    made = quantize(model_of("scaled"), Precision(weights="int4"))
    assert [(c.precision, c.reason) for c in made.choices] == [
        ("f32", "alpha and beta of Gemm are not 1")
    ]


def test_the_search_of_zero_points_makes_the_error_smaller():
    weight = RNG.standard_t(4, (64, 256)).astype(np.float32)
    errors = {}
    for rounding in ("nearest", "hqq"):
        form = Blocks(64, 256, 32, 4, rounding)
        packed, scales, zeros = form.quantize(weight)
        codes = np.stack([packed & 15, packed >> 4], -1).reshape(64, 8, 32).astype(np.float32)
        if rounding == "nearest":
            zeros = np.stack([zeros & 15, zeros >> 4], -1)
        shifted = codes - zeros.reshape(64, 8, 1)
        errors[rounding] = sqnr((shifted * scales.reshape(64, 8, 1)).reshape(64, 256), weight)
    assert errors["hqq"] > errors["nearest"] + 0.3


@pytest.mark.parametrize("value", [0.0, 3.0, -1e-30])
def test_blocks_of_one_number_keep_it(value):
    b = Builder(0)
    y = b.op("MatMul", "x", b.add(np.full((40, 8), value, np.float32), "w"))
    model = b.model({"x": (TensorProto.FLOAT, [3, 40])}, {"y": (y, [3, 8])}, "net")
    found = run(quantize(model, Precision(weights="int4")).source)
    np.testing.assert_allclose(found, run(model), rtol=1e-5, atol=1e-20)


def test_models_with_external_data_get_external_data(tmp_path):
    model = model_of("MatMul", rows=200)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    made = quantize(tmp_path / "m.onnx", Precision(weights="int4"))
    made.save(tmp_path / "q.onnx")
    assert (tmp_path / "q.onnx.data").stat().st_size > 200 * 40 // 2
    np.testing.assert_array_equal(run(tmp_path / "q.onnx"), run(made.source))
    session = onnxruntime.InferenceSession(tmp_path / "q.onnx")
    assert sqnr(session.run(None, {"x": X})[0], run(made.source)) > 80


MEASURE = """
import sys
from pathlib import Path
from mgx_mlir import Precision, quantize
folder = Path(sys.argv[1])
def quantized(name):
    quantize(folder / name, Precision(weights="int4", rounding="nearest")).save(folder / "q.onnx")
quantized("small.onnx")
Path("/proc/self/clear_refs").write_text("5")
def figure(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(key)))
before = figure("VmRSS")
quantized("large.onnx")
print((figure("VmHWM") - before) * 1024)
"""


def test_memory_is_that_of_the_largest_tensor_and_the_output(tmp_path):
    for name, layers in (("small", 1), ("large", 24)):
        b, y = Builder(0), "x"
        for number in range(layers):
            y = b.op("MatMul", y, b.weight(f"w{number}", 1024, 1024))
        model = b.model({"x": (TensorProto.FLOAT, [1, 1024])}, {"y": (y, [1, 1024])}, "net")
        onnx.save(model, tmp_path / f"{name}.onnx", save_as_external_data=True, location=name)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, tmp_path], capture_output=True, text=True, check=True
    )
    output = sum(f.stat().st_size for f in tmp_path.glob("q.onnx*"))
    assert int(done.stdout) < 1.3 * (4 << 20) + output
