"""The first elements of rows: each type, ties, NaN, zeros, and as many as a row has."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import mgx_mlir

TYPES = {
    "FLOAT": np.float32, "FLOAT16": np.float16, "BFLOAT16": ml_dtypes.bfloat16,
    "DOUBLE": np.float64, "INT8": np.int8, "UINT8": np.uint8, "INT32": np.int32,
    "UINT32": np.uint32, "INT64": np.int64,
}  # fmt: skip


def compiled(name: str, k: int, largest: int, symbolic: bool) -> mgx_mlir.Program:
    kind = getattr(TensorProto, name)
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"], largest=largest)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, ["r", "c"])],
        [
            helper.make_tensor_value_info("y", kind, None),
            helper.make_tensor_value_info("i", TensorProto.INT64, None),
        ],
        [helper.make_tensor("k", TensorProto.INT64, [1], [k])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])
    if symbolic:
        return mgx_mlir.compile(model, "cpu", mode="full-dynamic")
    return mgx_mlir.compile(model, "cpu", dim_params={"r": 4, "c": 101})


def check(program: mgx_mlir.Program, x: np.ndarray, k: int, largest: int) -> None:
    y, i = program.run({"x": x}).values()
    order = [_order(row.tolist(), largest)[:k] for row in x]
    np.testing.assert_array_equal(i, order)
    np.testing.assert_array_equal(y, np.take_along_axis(x, np.array(order), 1))


def _order(row: list[float], largest: int) -> list[int]:
    """The places of a row's elements: NaN is above all, of equals the earlier is first."""

    def key(n: int) -> tuple[bool, float, int]:
        is_nan, sign = row[n] != row[n], -1 if largest else 1
        return is_nan != bool(largest), 0 if is_nan else sign * row[n], n

    return sorted(range(len(row)), key=key)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("name", TYPES)
def test_each_type(name: str, largest: int):
    rng = np.random.default_rng(3)
    program = compiled(name, 7, largest, False)
    dtype = np.dtype(TYPES[name])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, (4, 101), dtype=dtype, endpoint=True)
        x[1] = rng.integers(0, 3, 101)
        x[2, 5], x[2, 50] = info.min, info.max
    else:
        x = np.round(rng.standard_normal((4, 101)) * 3).astype(dtype)
        x[2] = rng.standard_normal(101).astype(dtype)
    check(program, x, 7, largest)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("k", "sizes"), [(1, (1, 2, 33, 65)), (33, (33, 64, 65, 97, 200))])
def test_rows_of_any_size(k: int, sizes: tuple[int, ...], largest: int):
    program = compiled("FLOAT", k, largest, True)
    for size in sizes:
        x = np.random.default_rng(size).standard_normal((3, size)).astype(np.float32)
        check(program, x, k, largest)
        check(program, np.sort(x, axis=1), k, largest)


@pytest.mark.parametrize("largest", [0, 1])
def test_nan_is_above_all_and_zeros_are_equal(largest: int):
    x = np.random.default_rng(1).standard_normal((4, 101)).astype(np.float32)
    x[0, [3, 90]] = np.nan
    x[1, 70] = -np.float32(np.nan)
    x[2], x[2, 40:60], x[2, 3] = 0, -0.0, -np.inf
    x[3, 100] = np.inf
    check(compiled("FLOAT", 50, largest, False), x, 50, largest)
