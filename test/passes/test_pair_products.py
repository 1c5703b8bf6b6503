"""Gated layers: both products of a row are one kernel, with the work on them, on each target."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import mgx_mlir
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode
from test.onnx_models import Builder, half

ROWS = (1, 3, 4, 5, 40, 300)


def gated(depth: int, columns: int, bias: bool = False) -> onnx.ModelProto:
    """silu(x g) * (x u), and z more of it. With `bias` both products have one."""
    b = Builder(depth)
    gate, up = (
        b.linear("x", name, depth, columns)
        if bias
        else b.op("MatMul", "x", b.weight(name, depth, columns))
        for name in ("gate", "up")
    )
    y = b.op("Mul", b.op("Mul", gate, b.op("Sigmoid", gate)), up)
    y = b.op("Add", y, "z")
    inputs = {
        "x": (TensorProto.FLOAT, ["rows", depth]),
        "z": (TensorProto.FLOAT, ["rows", columns]),
    }
    return b.model(inputs, {"y": (y, ["rows", columns])}, "gated")


@pytest.mark.every(5)
@pytest.mark.parametrize("target", ["cpu", "x86-64-v3", "gfx90a", "gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(
    "depth, columns, bias", [(64, 48, False), (200, 112, True), (1024, 16, False)]
)
def test_both_products_are_one_kernel(
    depth: int, columns: int, bias: bool, narrow: bool, target: str
) -> None:
    model = gated(depth, columns, bias)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    mine = half(model) if narrow else model
    error = 2e-2 if narrow else 1e-4
    any_rows = compile_to_bytecode(mine, CompileOptions(mode="full-dynamic"))
    assert any_rows.plan.step_count == 1
    of_any = mgx_mlir.compile(any_rows, target)
    for rows in ROWS:
        given = compile_to_bytecode(mine, CompileOptions(dim_params={"rows": rows}))
        assert given.plan.step_count == 1
        rng = np.random.default_rng(rows)
        feed = {
            name: rng.standard_normal((rows, size)).astype(np.float32)
            for name, size in (("x", depth), ("z", columns))
        }
        (wanted,) = session.run(None, feed)
        if narrow:
            feed = {name: x.astype(np.float16) for name, x in feed.items()}
        for program in (of_any, mgx_mlir.compile(given, target)):
            np.testing.assert_allclose(program.run(feed)["y"], wanted, rtol=error, atol=error)


def test_a_product_that_others_read_stays() -> None:
    """Its result is written: a pair's is not."""
    model = gated(64, 48)
    gate = next(node for node in model.graph.node if node.op_type == "Sigmoid").input[0]
    value = onnx.helper.make_tensor_value_info(gate, TensorProto.FLOAT, ["rows", 48])
    model.graph.output.append(value)
    artifact = compile_to_bytecode(model, CompileOptions(dim_params={"rows": 4}))
    assert artifact.plan.step_count == 2
