"""Where GPUs have cheaper instructions, NaN, infinities and rounding are as they are defined."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mgx_mlir

TARGETS = ["cpu", "gfx942", "gfx1100", "gfx1201"]
KINDS = {"f32": np.float32, "f16": np.float16}


def run(
    target: str,
    nodes: list[onnx.NodeProto],
    x: np.ndarray,
    shape: list[int],
    **constants: np.ndarray,
) -> np.ndarray:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        nodes, "numbers",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, shape)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return mgx_mlir.compile(model, target=target).run({"x": x})["y"]


def special(kind: type) -> np.ndarray:
    far = [np.nan, np.inf, -np.inf, 6e4, -6e4, 0.0, -0.0, 1e-7, -1e-7, 3.0, -3.0, 6.0]
    return np.concatenate([far, np.linspace(-8, 8, 116)]).astype(kind).reshape(4, 32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_clipped_nan_stays_one(target: str, kind: str) -> None:
    x = special(KINDS[kind])
    bounds = {"low": np.array(0, x.dtype), "high": np.array(6, x.dtype)}
    clip = helper.make_node("Clip", ["x", "low", "high"], ["y"])
    np.testing.assert_array_equal(run(target, [clip], x, [4, 32], **bounds), np.clip(x, 0, 6))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", TARGETS)
def test_numbers_times_what_is_clipped_of_them(target: str, kind: str) -> None:
    """HardSwish clips x / 6 + 0.5; where x is NaN, or where -inf meets 0, the product is NaN."""
    x = special(KINDS[kind])
    found = run(target, [helper.make_node("HardSwish", ["x"], ["y"])], x, [4, 32])
    wide = x.astype(np.float32)
    with np.errstate(invalid="ignore"):
        expected = wide * np.clip(wide * np.float32(x.dtype.type(1 / 6)) + 0.5, 0, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-3 if kind == "f16" else 1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [(7, 7), (5, 6), (8, 8), (3, 1)])
@pytest.mark.parametrize("target", TARGETS)
def test_averages_are_quotients(target: str, size: tuple[int, int]) -> None:
    """Sums of whole numbers are exact, and so is the rounding of their quotients."""
    x = np.random.default_rng(0).integers(-9999, 9999, (2, 64, *size)).astype(np.float32)
    x[0, 0], x[0, 1], x[0, 2, 0, 0], x[0, 3] = np.inf, -np.inf, np.nan, 3e37 / np.prod(size)
    count = np.float32(np.prod(size))
    expected = x.sum((2, 3), keepdims=True, dtype=np.float64).astype(np.float32) / count
    pool = helper.make_node("GlobalAveragePool", ["x"], ["y"])
    found = run(target, [pool], x, [2, 64, 1, 1])
    same = [n for n in range(128) if n != 3]  # a sum that is not exact
    flat, wanted = found.reshape(128), expected.reshape(128)
    np.testing.assert_array_equal(flat[same], wanted[same])
    np.testing.assert_allclose(flat[3], wanted[3], rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_averages_of_windows(target: str) -> None:
    x = np.random.default_rng(0).integers(-999, 999, (1, 8, 12, 12)).astype(np.float32)
    pool = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[3, 3])
    sums = x.reshape(1, 8, 4, 3, 4, 3).sum((3, 5))
    np.testing.assert_array_equal(run(target, [pool], x, [1, 8, 4, 4]), sums / np.float32(9))
