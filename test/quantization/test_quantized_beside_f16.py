"""Models that `quantize` made, with f16 between their products, on emulated GPUs."""

from __future__ import annotations

import numpy as np
import pytest

import mgx_mlir
from mgx_mlir import Calibration, Precision, quantize
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode
from mgx_mlir.rewriting.portable import kernel_text
from mgx_mlir.settings import Settings
from test.onnx_models import Builder, bert, random_inputs, resnet, vit

MODELS = {
    "bert": lambda: bert(layers=1, width=64, tokens=16, heads=2, vocabulary=32),
    "resnet": lambda: resnet(batch=1, stages=(1, 1), width=16, image=32),
    "vit": lambda: vit(layers=1, width=64, heads=2, image=32),
}


@pytest.fixture(scope="module", params=MODELS)
def made(request):
    """A model of f32, its int8 form, and an input."""
    plain = MODELS[request.param]()
    samples = [random_inputs(plain, seed) for seed in range(4)]
    return plain, quantize(plain, Precision("int8"), Calibration(samples)).source, samples[0]


def test_products_with_weights_are_of_integers(made):
    _, source, _ = made
    artifact = compile_to_bytecode(source, CompileOptions(floats="f16"))
    kernels = [kernel_text(kernel.bytecode) for kernel in artifact.kernels]
    taken = sum("quant_dot" in text or "quant_convolution" in text for text in kernels)
    floats = sum(" dot " in text or " convolution(" in text for text in kernels)
    assert taken >= 3
    assert floats <= 1  # the first product, whose operand is the model's input


@pytest.mark.every(5)
@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
@pytest.mark.parametrize("floats", ["f32", "f16"])
def test_results_are_those_of_the_host(made, chip, floats):
    _, source, given = made
    expected = mgx_mlir.compile(source, "cpu").run(given)
    options = CompileOptions(floats=floats)
    program = mgx_mlir.compile(source, chip, options, settings=Settings(hip="emulated"))
    for name, found in program.run(given).items():
        error = np.linalg.norm(found - expected[name]) / np.linalg.norm(expected[name])
        # A value between two steps of 8 bits is rounded to either.
        assert error < 0.03


def test_sums_beyond_f16_are_scaled_in_f32():
    b = Builder(0)
    first = b.op("MatMul", "x", b.add(np.ones((512, 512), np.float32), "v"))
    y = b.op("MatMul", first, b.add(np.full((512, 32), 2**-9, np.float32), "w"))
    model = b.model({"x": (1, [4, 512])}, {"y": (y, [4, 32])}, "sums")
    given = {"x": np.full((4, 512), 0.25, np.float32)}
    source = quantize(model, Precision("int8", asymmetric=False), Calibration([given])).source
    found = mgx_mlir.compile(source, "cpu", CompileOptions(floats="f16")).run(given)["y"]
    np.testing.assert_allclose(found, 128, rtol=0.02)
