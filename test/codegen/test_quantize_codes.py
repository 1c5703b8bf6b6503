"""Codes of QuantizeLinear by a known scale: exactly those of a division, at each tie and beyond."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mgx_mlir

TARGETS = ["x86-64-v2", "x86-64-v3", "cpu", "gfx942", "gfx1201"]
INTEGERS = [np.dtype(x) for x in (np.int8, np.uint8, np.int16, np.uint16, ml_dtypes.int4)]
SCALES = [0.02, 1 / 3, 0.75, 1.0, 5.9e-8, 3.1e9, 1e-30]


def ties(scale: np.float32, limits: Any) -> np.ndarray:
    """Numbers around each tie that a type has, or 2000 of them, and numbers out of its range."""
    halves = np.arange(limits.min - limits.max, limits.max - limits.min + 1) + 0.5
    rng = np.random.default_rng(0)
    halves = halves if len(halves) < 2000 else rng.choice(halves, 2000)
    with np.errstate(over="ignore"):
        exact = (halves * np.float64(scale)).astype(np.float32)
        near = [exact]
        for direction in (np.float32(-np.inf), np.float32(np.inf)):
            x = exact
            for _ in range(3):
                x = np.nextafter(x, direction)
                near.append(x)
        far = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, -1e-40])
    return np.concatenate([*near, far])


def codes(x: np.ndarray, scale: np.float32, zero: int, limits: Any) -> np.ndarray:
    """saturate(round(x / scale) + zero); the lowest for NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.rint(x / scale).astype(np.float64) + zero
    return np.nan_to_num(np.clip(found, limits.min, limits.max), nan=limits.min)


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    expected: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    dtype: np.dtype[Any],
) -> onnx.ModelProto:
    result = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    kinds = {k: helper.np_dtype_to_tensor_dtype(v.dtype) for k, v in inputs.items()}
    graph = helper.make_graph(
        nodes, "codes",
        [helper.make_tensor_value_info(k, kinds[k], v.shape) for k, v in inputs.items()],
        [helper.make_tensor_value_info(k, result, v.shape) for k, v in expected.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_codes_are_those_of_a_division(target: str, dtype: np.dtype[Any]) -> None:
    limits = ml_dtypes.iinfo(dtype)
    inputs, nodes, constants, expected = {}, [], {}, {}
    for n, scale in enumerate(map(np.float32, SCALES)):
        zero = [0, int(limits.min), int(limits.max), 3][n % 4]
        inputs[f"x{n}"] = x = ties(scale, limits)
        expected[f"y{n}"] = codes(x, scale, zero, limits)
        constants |= {f"s{n}": np.array(scale), f"z{n}": np.array(zero, dtype)}
        nodes.append(helper.make_node("QuantizeLinear", [f"x{n}", f"s{n}", f"z{n}"], [f"y{n}"]))
    model = model_of(nodes, inputs, expected, constants, dtype)
    found = mgx_mlir.compile(model, target=target).run(inputs)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name].astype(np.float64), values, err_msg=name)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
@pytest.mark.parametrize("target", ["x86-64-v2", "cpu", "gfx942", "gfx1100"])
def test_codes_of_all_narrow_numbers(target: str, kind: type) -> None:
    """By one multiply-add, of zero points even and odd; by a quotient where that errs."""
    wide = np.arange(1 << 16, dtype=np.uint16).view(kind).astype(np.float32)
    wide[np.isnan(wide)] = np.nan  # all quiet
    nodes, constants, expected = [], {}, {}
    # Multiples of 0.02, 1 / 3, 1 and 500 are ties: those take a quotient, by an odd zero point.
    for n, scale in enumerate(map(np.float32, [0.02, 1 / 3, 0.1, 1.0, 2**-16 / 3, 1.7e-4, 500.0])):
        zero = [0, -7, 127, 4][n % 4]
        nodes.append(helper.make_node("QuantizeLinear", ["w", f"s{n}", f"z{n}"], [f"y{n}"]))
        constants |= {f"s{n}": np.array(scale), f"z{n}": np.array(zero, np.int8)}
        expected[f"y{n}"] = codes(wide, scale, zero, np.iinfo(np.int8))
    nodes.insert(0, helper.make_node("Cast", ["x"], ["w"], to=onnx.TensorProto.FLOAT))
    inputs = {"x": wide.astype(kind)}
    model = model_of(nodes, inputs, expected, constants, np.dtype(np.int8))
    found = mgx_mlir.compile(model, target=target).run(inputs)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name].astype(np.float64), values, err_msg=name)


@pytest.mark.parametrize("target", ["cpu", "gfx942", "gfx1100"])
def test_codes_of_products_of_halves(target: str) -> None:
    """A chip multiplies two pairs of halves at a time: their products are rounded to halves."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((64, 48)).astype(np.float16) for _ in range(2))
    nodes = [
        helper.make_node("Mul", ["x", "y"], ["m"]),
        helper.make_node("Cast", ["m"], ["w"], to=onnx.TensorProto.FLOAT),
        helper.make_node("QuantizeLinear", ["w", "s", "z"], ["c"]),
    ]
    constants = {"s": np.array(0.013, np.float32), "z": np.array(5, np.int8)}
    product = x.astype(np.float32) * y.astype(np.float32)
    limits = np.iinfo(np.int8)
    rounded, exact = (
        codes(p.astype(np.float32), constants["s"], 5, limits)
        for p in (product.astype(np.float16), product)
    )
    inputs = {"x": x, "y": y}
    model = model_of(nodes, inputs, {"c": rounded}, constants, np.dtype(np.int8))
    found = mgx_mlir.compile(model, target=target).run(inputs)["c"].astype(np.float64)
    # A CPU may keep more bits of the product.
    same = found == rounded
    assert same.all() if target != "cpu" else (same | (found == exact)).all()
