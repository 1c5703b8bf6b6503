"""Q/DQ as quark and modelopt write it: fp8, int8 and int4 weights, in blocks or not."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import mgx_mlir
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode

Array = np.ndarray[Any, Any]
ROWS, K, N, BLOCK = 5, 64, 32, 16
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
INT4, INT8 = np.dtype(ml_dtypes.int4), np.dtype(np.int8)
LARGEST = {E4M3: 448, INT4: 7, INT8: 127}


def quantized(dtype: np.dtype[Any], scales: str, floats: Any) -> tuple[Array, Array]:
    """Random weights [K, N] and their scales: of the tensor, of each column, or of blocks."""
    weights = np.random.default_rng(2).standard_normal((K, N))
    largest = {
        "tensor": np.abs(weights).max(),
        "column": np.abs(weights).max(0),
        "block": np.abs(weights).reshape(-1, BLOCK, N).max(1),
    }[scales]
    scale = np.asarray(largest / LARGEST[dtype], floats)
    wide = np.repeat(scale, BLOCK, 0) if scales == "block" else scale
    codes = weights / wide.astype(np.float64)
    return (codes if dtype == E4M3 else np.round(codes)).astype(dtype), scale


@pytest.mark.parametrize("floats", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("weights", "scales", "activations"),
    [
        (E4M3, "tensor", E4M3),
        (E4M3, "column", E4M3),
        (INT8, "column", INT8),
        (INT4, "block", None),
        (INT4, "block", E4M3),
        (INT4, "column", INT8),
    ],
)
def test_products_are_onnxruntimes(
    weights: Any, scales: str, activations: Any, floats: Any
) -> None:
    """Those of AWQ scale the activations first: a Mul by a constant of each channel.

    Powers of two make scaled activations and quotients exact in f16 too.
    """
    codes, scale = quantized(weights, scales, floats)
    given = {"w": codes, "ws": scale, "smooth": (2.0 ** (np.arange(K) % 3 - 1)).astype(floats)}
    along = {"column": {"axis": 1}, "block": {"axis": 0, "block_size": BLOCK}}.get(scales, {})
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "ws"], ["wide"], **along),
        helper.make_node("Mul", ["x", "smooth"], ["scaled"]),
    ]
    a = "scaled"
    if activations is not None:
        given |= {"s": np.array(2.0**-5, floats), "z": np.zeros((), activations)}
        nodes += [
            helper.make_node("QuantizeLinear", ["scaled", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["a"]),
        ]
        a = "a"
    nodes.append(helper.make_node("MatMul", [a, "wide"], ["y"]))
    type_ = helper.np_dtype_to_tensor_dtype(np.dtype(floats))
    graph = helper.make_graph(
        nodes, "forms",
        [helper.make_tensor_value_info("x", type_, [ROWS, K])],
        [helper.make_tensor_value_info("y", type_, [ROWS, N])],
        [numpy_helper.from_array(array, name) for name, array in given.items()],
    )  # fmt: skip
    opset = helper.make_opsetid("", 21)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    x = {"x": np.random.default_rng(3).standard_normal((ROWS, K)).astype(floats)}

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, x)[0]
    bound = (1e-5 if floats is np.float32 else 2e-3) * np.abs(theirs).max()
    given = compile_to_bytecode(model)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "rows"
    any_rows = compile_to_bytecode(model, CompileOptions(mode="full-dynamic"))
    stored = [sum(w.nbytes for w in artifact.weights.values()) for artifact in (given, any_rows)]
    assert stored[0] == stored[1]
    for target in ("cpu", "gfx942", "gfx1201"):
        for artifact in (given, any_rows):
            mine = mgx_mlir.compile(artifact, target=target).run(x)["y"]
            assert mine.dtype == floats
            np.testing.assert_allclose(
                mine.astype(np.float64), theirs.astype(np.float64), atol=bound
            )


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("dtype", [E4M3, np.dtype(ml_dtypes.float8_e5m2)], ids=str)
def test_few_rows_of_many_columns_with_zero_points(dtype: np.dtype[Any], rows: int) -> None:
    """Zero points of each column are no reason to multiply floats; each code is a number."""
    k, n = 256, 96
    rng = np.random.default_rng(4)
    codes = np.arange(k * n, dtype=np.uint32).astype(np.uint8).view(dtype).reshape(k, n)
    codes = np.where(np.isfinite(codes.astype(np.float32)), codes, np.zeros_like(codes))
    given = {
        "w": codes, "ws": rng.uniform(0.5, 1, n).astype(np.float32), "wz": np.zeros(n, dtype),
        "s": np.array(2.0**-5, np.float32), "z": np.zeros((), dtype),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wide"], axis=1),
        helper.make_node("MatMul", ["a", "wide"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "rows",
        [helper.make_tensor_value_info("x", 1, [rows, k])],
        [helper.make_tensor_value_info("y", 1, [rows, n])],
        [numpy_helper.from_array(array, name) for name, array in given.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = rng.standard_normal((rows, k)).astype(np.float32)
    artifact = compile_to_bytecode(model)
    assert sum(w.nbytes for w in artifact.weights.values()) <= k * n + 8 * n
    a = (x / 2.0**-5).astype(dtype).astype(np.float64) * 2.0**-5
    wide = codes.astype(np.float64) * given["ws"]
    expected, bound = a @ wide, 1e-6 * (np.abs(a) @ np.abs(wide))
    for target in ("cpu", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"):
        mine = mgx_mlir.compile(artifact, target=target).run({"x": x})["y"]
        assert (np.abs(mine - expected) <= bound).all(), target
