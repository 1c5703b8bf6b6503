"""Convolutions and pooling of any number of images go through the functions of one image."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.every(2)
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


def test_images_share_the_stack(tmp_path: Path) -> None:
    """A thread of 1 MB runs any number of images: their stack memory is that of one."""
    onnx.save(_wide(), tmp_path / "wide.onnx")
    code = (
        "import threading, numpy as np, mgx_mlir\n"
        "options = mgx_mlir.CompileOptions(mode='full-dynamic')\n"
        f"program = mgx_mlir.compile({str(tmp_path / 'wide.onnx')!r}, 'cpu', options)\n"
        "x = np.ones((256, 16, 20, 20), np.float32)\n"
        "found = []\n"
        "threading.stack_size(1 << 20)\n"
        "thread = threading.Thread(target=lambda: found.append(program.run({'x': x})))\n"
        "thread.start(), thread.join()\n"
        "print(found[0]['y'].shape)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        env={**os.environ, "MGX_THREADS": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout == "(256, 10)\n"
