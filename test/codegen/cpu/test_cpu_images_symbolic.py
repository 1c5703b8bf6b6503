"""Convolutions and pooling of any number of images go through the functions of one image."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import mgx_mlir
from mgx_mlir.artifact.target import executable_levels
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.settings import Settings
from test.dynamic_models import MODELS
from test.onnx_models import Builder, half
from test.test_full_dynamic import FULL, check

LEVELS = [target.name for target in executable_levels()]
SIZES = [{"batch": n} for n in (1, 2, 7, 16)]


def _wide() -> onnx.ModelProto:
    """Convolutions of 3x3 windows, one with a residual sum, and the means of their channels."""
    b, x, channels = Builder(), "x", 16
    for number, filters in enumerate((32, 32, 64)):
        w = b.weight(f"w{number}", filters, channels, 3, 3, scale=(9 * channels) ** -0.5)
        y = b.op("Conv", x, w, b.weight(f"b{number}", filters), pads=[1] * 4)
        x = b.op("Relu", b.op("Add", x, y) if filters == channels else y)
        channels = filters
    y = b.linear(b.op("Flatten", b.op("GlobalAveragePool", x)), "classes", 64, 10)
    inputs = {"x": (TensorProto.FLOAT, ["batch", 16, 20, 20])}
    return b.model(inputs, {"y": (y, ["batch", 10])}, "wide")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("make", [MODELS["conv"], MODELS["images"], _wide])
def test_any_number_of_images(make, level: str) -> None:
    model = make()
    program = mgx_mlir.compile(model, level, FULL, settings=Settings(threads=2))
    check(model, program, SIZES)


def test_convolutions_are_not_generic() -> None:
    artifact = mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(_wide(), FULL), "x86-64-v3")
    (codes,) = artifact.code_objects.values()
    generic = [
        kernel.nodes
        for kernel, code in zip(artifact.kernels, codes, strict=True)
        if "convolution" in kernel.name and "generic" in code.why
    ]
    assert not generic


def test_halves() -> None:
    model = half(MODELS["conv"]())
    program = mgx_mlir.compile(model, "cpu", FULL)
    for n in (1, 3):
        x = np.random.default_rng(n).normal(size=(n, 3, 16, 16)).astype(np.float16)
        static = mgx_mlir.compile(model, "cpu", CompileOptions(dim_params={"batch": n}))
        np.testing.assert_allclose(
            program.run({"x": x})["y"], static.run({"x": x})["y"], rtol=1e-2, atol=1e-2
        )
