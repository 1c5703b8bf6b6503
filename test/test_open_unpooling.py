"""MaxPool with indices and MaxUnpool of images of any number and size, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import mgx_mlir
from mgx_mlir import CompileOptions

FULL = CompileOptions(mode="full-dynamic")
POOLS = (
    "kernel_shape = [2, 2], strides = [2, 2]",
    "kernel_shape = [3, 2], strides = [1, 2], pads = [1, 0, 2, 1], storage_order = 1",
    "kernel_shape = [3, 3], strides = [2, 3], dilations = [2, 1], ceil_mode = 1",
    'kernel_shape = [3, 2], strides = [2, 3], auto_pad = "SAME_UPPER"',
    'kernel_shape = [2, 3], strides = [3, 1], auto_pad = "SAME_LOWER"',
)
OPEN = ("float[n, c, h, w]", "float[n, 3, 9, 11]")


def model(nodes: str, x: str, results: str) -> onnx.ModelProto:
    text = f'<ir_version: 9, opset_import: ["" : 20]> pools ({x} x) => ({results}) {{ {nodes} }}'
    return onnx.parser.parse_model(text)


def check(own: onnx.ModelProto, *shapes: tuple[int, ...]) -> None:
    session = onnxruntime.InferenceSession(own.SerializeToString())
    program = mgx_mlir.compile(own, "cpu", FULL)
    for shape in shapes:
        rng = np.random.default_rng(shape[0])
        x = rng.integers(-3, 3, shape).astype(np.float32)  # with equal maxima
        x[rng.random(shape) < 0.3] = -np.inf
        pairs = zip(program.run({"x": x}).values(), session.run(None, {"x": x}), strict=True)
        for have, want in pairs:
            np.testing.assert_array_equal(have, want)


@pytest.mark.every(3)
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("x", OPEN)
def test_indices_of_maxima(pool: str, x: str) -> None:
    own = model(f"y, i = MaxPool <{pool}> (x)", x, "float[a, b, d, e] y, int64[a, b, d, e] i")
    check(own, (2, 3, 9, 11), *([(1, 2, 6, 8)] if "c" in x else [(5, 3, 9, 11)]))


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("nodes", ["y, z = MaxPool", "y = AveragePool", "y = LpPool"])
def test_a_window_that_lacks_less_than_a_stride(nodes: str, target: str) -> None:
    windows = "kernel_shape = [3, 3], strides = [3, 2], dilations = [2, 1], ceil_mode = 1"
    results = "float[a, b, d, e] y" + ", int64[a, b, d, e] z" * ("z" in nodes)
    own = model(f"{nodes} <{windows}> (x)", "float[n, 2, h, 9]", results)
    session = onnxruntime.InferenceSession(own.SerializeToString())
    for height in (4, 3, 2):  # of 5 that a window has
        x = np.random.default_rng(height).standard_normal((1, 2, height, 9)).astype(np.float32)
        wanted = session.run(None, {"x": x})
        assert wanted[0].shape == (1, 2, int(height > 2), 4)
        for options in (FULL, CompileOptions(dim_params={"n": 1, "h": height})):
            found = mgx_mlir.compile(own, target, options).run({"x": x})
            for have, want in zip(found.values(), wanted, strict=True):
                np.testing.assert_allclose(have, want, rtol=1e-6)


@pytest.mark.parametrize("x", ("float[n, c, h, w]", "float[n, 3, 8, 10]"))
def test_maxima_go_back(x: str) -> None:
    pool = "kernel_shape = [2, 2], strides = [2, 2]"
    nodes = f"y, i = MaxPool <{pool}> (x) z = MaxUnpool <{pool}> (y, i)"
    own = model(nodes, x, "float[a, b, d, e] z")
    check(own, (2, 3, 8, 10), *([(1, 2, 6, 8)] if "c" in x else [(5, 3, 8, 10)]))


def test_maxima_go_back_with_zeros_behind_them() -> None:
    pool = "kernel_shape = [2, 2], strides = [2, 2]"
    own = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 20]> pools (float[n, c, h, w] x, int64[n, c, h, w] i, '
        f"float[n, c, u, v] t) => (float[n, c, u, v] y) "
        f"{{ s = Shape(t) y = MaxUnpool <{pool}> (x, i, s) }}"
    )
    program = mgx_mlir.compile(own, "cpu", FULL)
    for height, width in ((3, 4), (2, 2)):
        x = np.arange(1, height * width + 1, dtype=np.float32).reshape(1, 1, height, width)
        i = np.random.default_rng(0).permutation(4 * height * width)[: height * width]
        wanted = np.zeros((1, 1, 2 * height + 1, 2 * width), np.float32)
        flat = np.zeros(4 * height * width, np.float32)
        flat[i] = x.ravel()
        wanted[:, :, :-1] = flat.reshape(1, 1, 2 * height, 2 * width)
        (have,) = program.run({"x": x, "i": i.reshape(x.shape), "t": wanted}).values()
        np.testing.assert_array_equal(have, wanted)
