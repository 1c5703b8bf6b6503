"""Products of any number of rows go through register tiles, whatever the number is."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import mgx_mlir
from mgx_mlir.artifact.target import executable_levels
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.settings import Settings
from test.onnx_models import Builder

ROWS = (1, 2, 5, 8, 13, 16, 30, 67, 300)
LEVELS = [target.name for target in executable_levels()]


def _model(depth: int, columns: int, normal: bool) -> onnx.ModelProto:
    """relu(x @ w + b), or the rows of x @ w + b + z normalised."""
    b = Builder()
    y = b.linear("x", "layer", depth, columns)
    y = b.layer_norm(b.op("Add", y, "z"), "normal", columns) if normal else b.op("Relu", y)
    inputs = {"x": (TensorProto.FLOAT, ["rows", depth])}
    if normal:
        inputs["z"] = (TensorProto.FLOAT, ["rows", columns])
    return b.model(inputs, {"y": (y, ["rows", columns])}, "rows")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("normal", [False, True])
@pytest.mark.parametrize(("depth", "columns"), [(20, 5), (300, 70), (1700, 300)])
def test_any_number_of_rows(depth: int, columns: int, normal: bool, level: str) -> None:
    model = _model(depth, columns, normal)
    options, settings = CompileOptions(mode="full-dynamic"), Settings(threads=2)
    program = mgx_mlir.compile(model, level, options, settings=settings)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for rows in ROWS:
        rng = np.random.default_rng(rows)
        inputs = {
            spec.name: rng.standard_normal((rows, spec.shape[1])).astype(np.float32)
            for spec in program.inputs
        }
        (wanted,) = session.run(None, inputs)
        np.testing.assert_allclose(program.run(inputs)["y"], wanted, rtol=1e-4, atol=1e-4)
    bound = program.program(inputs)
    # The weight is packed before the first run.
    assert bound.memory_bytes["weights"] > sum(
        len(tensor.raw_data) for tensor in model.graph.initializer
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_floats(dtype: type) -> None:
    b = Builder()
    w = np.random.default_rng(5).standard_normal((40, 24)).astype(dtype)
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    y = b.op("MatMul", "x", b.constant(w, dtype))
    model = b.model({"x": (kind, ["rows", 40])}, {"y": (y, ["rows", 24])}, "rows")
    model.graph.output[0].type.tensor_type.elem_type = kind
    program = mgx_mlir.compile(model, "cpu", CompileOptions(mode="full-dynamic"))
    for rows in ROWS:
        x = np.random.default_rng(rows).standard_normal((rows, 40)).astype(dtype)
        wanted = x.astype(np.float64) @ w.astype(np.float64)
        np.testing.assert_allclose(program.run({"x": x})["y"], wanted, rtol=2e-3, atol=2e-2)
