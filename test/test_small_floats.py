"""Models quantized to fp8 and fp4: what products become, and what they compute."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.compiler import (
    CompileOptions,
    Report,
    compile_to_bytecode,
    import_model,
    optimize,
)
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.reference import evaluate
from mgx_mlir.rewriting.graph import kernels

M, N, K, BLOCK = 48, 64, 128, 32
KINDS = {
    "e4m3fn": (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    "e4m3fnuz": (TensorProto.FLOAT8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz),
    "e5m2": (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
    "e2m1": (TensorProto.FLOAT4E2M1, ml_dtypes.float4_e2m1fn),
}
Array = np.ndarray[Any, Any]


def raw(name: str, type_: int, array: Array) -> onnx.TensorProto:
    codes = array.view(np.uint8)
    if type_ == TensorProto.FLOAT4E2M1:
        codes = codes.ravel()[0::2] | codes.ravel()[1::2] << 4
    return helper.make_tensor(name, type_, array.shape, codes.tobytes(), raw=True)


def whole(kind: str, weights: str = "") -> onnx.ModelProto:
    """QDQ around a MatMul: a scale for x, one for each column of the weights."""
    type_, dtype = KINDS[kind]
    rng = np.random.default_rng(1)
    of_weights, their_dtype = KINDS[weights or kind]
    tensors = [
        raw("w", of_weights, rng.uniform(-100, 100, (K, N)).astype(their_dtype)),
        numpy_helper.from_array(rng.uniform(0.01, 0.02, N).astype(np.float32), "ws"),
        numpy_helper.from_array(np.float32(0.03), "xs"),
        raw("xz", type_, np.zeros((), dtype)),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["b"], axis=1),
        helper.make_node("MatMul", ["a", "b"], ["y"]),
    ]
    return model(nodes, tensors, 21)


def blocks(kind: str) -> onnx.ModelProto:
    """The same with a power of two for each 32 elements of x and of the weights (OCP MX)."""
    type_, dtype = KINDS[kind]
    rng = np.random.default_rng(2)
    tensors = [raw("w", type_, rng.uniform(-4, 4, (K, N)).astype(dtype))]
    tensors.append(raw("ws", TensorProto.FLOAT8E8M0, powers(rng, K // BLOCK, N)))
    block = {"block_size": BLOCK}
    back = block | {"output_dtype": TensorProto.FLOAT}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs"], ["q"], axis=1, output_dtype=type_, **block),
        helper.make_node("DequantizeLinear", ["q", "xs"], ["a"], axis=1, **back),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["b"], axis=0, **back),
        helper.make_node("MatMul", ["a", "b"], ["y"]),
    ]
    made = model(nodes, tensors, 25)
    made.graph.input.append(
        helper.make_tensor_value_info("xs", TensorProto.FLOAT8E8M0, [M, K // BLOCK])
    )
    return made


def powers(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(122, 128, shape).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)


def model(
    nodes: list[onnx.NodeProto], tensors: list[onnx.TensorProto], opset: int
) -> onnx.ModelProto:
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [M, K]), ("y", [M, N]))
    )
    graph = helper.make_graph(nodes, "small_floats", [x], [y], tensors)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=12)


def schedules(made: onnx.ModelProto, chip: str) -> list[str]:
    """The schedule that each kernel of a model gets on a chip."""
    graph = import_model(made, CompileOptions())
    optimize(graph, CompileOptions(), Report())
    return [compiler(kernel)(Target.get(chip)).why for kernel in kernels(graph.module)]


@pytest.mark.parametrize(
    ("kind", "chip", "instruction"),
    [
        ("e4m3fn", "gfx950", "mfma of f8E4M3FN"),
        ("e5m2", "gfx1201", "wmma of f8E5M2"),
        ("e4m3fnuz", "gfx942", "mfma of f8E4M3FNUZ"),
        ("e4m3fn", "gfx942", "mfma of bf16"),
        ("e4m3fn", "gfx1100", "wmma of bf16"),
        ("e4m3fn", "gfx1030", "fma of f32"),
    ],
)
def test_fp8_is_multiplied_as_it_is_where_the_chip_knows_the_kind(
    kind: str, chip: str, instruction: str
) -> None:
    *_, why = schedules(whole(kind), chip)
    assert why.startswith("mgx.quant_dot")
    assert why.endswith(instruction)


@pytest.mark.parametrize(
    ("chip", "instruction"),
    [("gfx950", "mfma of f8E4M3FN"), ("gfx1201", "wmma of f8E4M3FN"), ("gfx942", "mfma of bf16")],
)
def test_two_kinds_of_fp8_are_multiplied_as_they_are(chip: str, instruction: str) -> None:
    *_, why = schedules(whole("e4m3fn", "e5m2"), chip)
    assert why.startswith("mgx.quant_dot")
    assert why.endswith(instruction)


def test_two_kinds_of_fp8_give_what_the_reference_gives() -> None:
    inputs = {"x": np.random.default_rng(3).uniform(-3, 3, (M, K)).astype(np.float32)}
    made = whole("e4m3fn", "e5m2")
    graph = import_model(made, CompileOptions())
    (want,) = evaluate(graph.module, graph.weights, inputs).values()
    (have,) = mgx_mlir.compile(made, target="cpu").run(inputs).values()
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-3)
    assert compile_to_bytecode(made).dialect == (1, 1)
    with pytest.raises(UnsupportedError, match=r"two kinds of mgx\.quant_dot"):
        compile_to_bytecode(made, version=(1, 0))


# A tensor quantized to fp4 has a byte for each code; the instructions take two codes a byte.
@pytest.mark.parametrize(
    ("kind", "chip"),
    [("e4m3fn", "gfx942"), ("e4m3fn", "gfx1100"), ("e2m1", "gfx942"), ("e2m1", "gfx950")],
)
def test_blocks_with_scales_are_multiplied_as_bf16_elsewhere(kind: str, chip: str) -> None:
    *_, why = schedules(blocks(kind), chip)
    assert why.endswith("ma of bf16")


@pytest.mark.parametrize("kind", ["e4m3fn", "e5m2"])
def test_blocks_with_scales_are_multiplied_by_instructions_that_take_these(kind: str) -> None:
    *_, why = schedules(blocks(kind), "gfx950")
    assert why.startswith("mgx.dot")
    assert why.endswith("in scaled blocks")


@pytest.mark.parametrize("made", [whole, blocks])
@pytest.mark.parametrize("kind", ["e4m3fn", "e5m2"])
def test_small_floats_on_the_host_give_what_the_reference_gives(made: Any, kind: str) -> None:
    rng = np.random.default_rng(3)
    inputs: dict[str, Array] = {"x": rng.uniform(-3, 3, (M, K)).astype(np.float32)}
    if made is blocks:
        inputs["xs"] = powers(rng, M, K // BLOCK)
    graph = import_model(made(kind), CompileOptions())
    (want,) = evaluate(graph.module, graph.weights, inputs).values()
    (have,) = mgx_mlir.compile(made(kind), target="cpu").run(inputs).values()
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-3)
