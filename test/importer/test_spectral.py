"""Long Fourier transforms, which are in two steps, beside numpy's in double precision."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import mgx_mlir
from mgx_mlir import CompileOptions
from mgx_mlir.errors import UserError
from test.importer.agreement import floats


def model(sizes: str, axis: int, inverse: bool = False, onesided: bool = False) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 20]> g (float[{sizes}] x) => (float[a, b, c, d] y) '
        f"{{ a = Constant <value_int = {axis}> () "
        f"y = DFT <inverse = {int(inverse)}, onesided = {int(onesided)}> (x, , a) }}"
    )


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize(
    ("form", "parts"),
    [("forward", 1), ("forward", 2), ("inverse", 1), ("inverse", 2), ("onesided", 1)],
)
def test_long_transforms(form: str, axis: int, parts: int, target: str) -> None:
    length = 2400 if target == "cpu" else 2048
    sizes = [2, length, 3, parts] if axis == 1 else [2, 3, length, parts]
    x = floats(*sizes)
    source = model(
        ",".join(["n", *map(str, sizes[1:])]), axis, form == "inverse", form == "onesided"
    )
    program = mgx_mlir.compile(source, target, CompileOptions(mode="full-dynamic"))
    (y,) = program.run({"x": x}).values()
    numbers = x[..., 0].astype(complex) + (1j * x[..., 1] if parts == 2 else 0)
    wanted = (np.fft.ifft if form == "inverse" else np.fft.fft)(numbers, axis=axis)
    if form == "onesided":
        wanted = np.take(wanted, range(length // 2 + 1), axis)
    found = y[..., 0] + 1j * y[..., 1]
    assert found.shape == wanted.shape
    assert abs(found - wanted).max() < 3e-6 * abs(wanted).max()


def test_transforms_without_factors_have_limits() -> None:
    with pytest.raises(UserError, match="a table of"):
        mgx_mlir.compile(model("1, 16381, 1, 1", 1), "cpu")
    with pytest.raises(UserError, match="a table of"):
        mgx_mlir.compile(model("1, 131056, 1, 1", 1), "cpu")  # 16 * 8191


def test_frames_whose_number_onnx_infers_wrongly() -> None:
    source = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> '
        "g (float[2, 400] x, float[64] window, float[33, 5] w) => (float[a, b, c] y) {"
        " step = Constant <value_int = 16> () s = STFT (x, step, window)"
        " p = ReduceSumSquare <axes = [-1], keepdims = 0> (s) y = MatMul (p, w) }"
    )
    x, window, w = floats(2, 400), floats(64), floats(33, 5)
    (y,) = mgx_mlir.compile(source, "cpu").run({"x": x, "window": window, "w": w}).values()
    frames = np.stack([x[:, at : at + 64] * window for at in range(0, 400 - 63, 16)], 1)
    wanted = (abs(np.fft.rfft(frames)) ** 2) @ w
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4 * abs(wanted).max())
