"""Models whose weights have few bits: they stay so in the artifact, and one launch is a product."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode

Array = np.ndarray[Any, Any]

N, K, BLOCK = 48, 128, 32


def n_bits(rows: int | str, bits: int, zeros: bool, seed: int = 0) -> tuple[onnx.ModelProto, Array]:
    """com.microsoft's MatMulNBits, and its weights [N, K]."""
    rng = np.random.default_rng(bits + seed)
    blocks, per_byte = K // BLOCK, 8 // bits
    packed = rng.integers(0, 256, (N, blocks, BLOCK // per_byte), np.uint8)
    scales = rng.uniform(0.01, 0.1, (N, blocks)).astype(np.float16)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = ((packed[..., None] >> shifts) & (2**bits - 1)).reshape(N, blocks, BLOCK)
    inits = {"w": packed, "s": scales}
    offset = np.full((N, blocks), 2.0 ** (bits - 1))
    if zeros:
        inits["z"] = rng.integers(0, 256, (N, -(-blocks // per_byte)), np.uint8)
        offset = ((inits["z"][..., None] >> shifts) & (2**bits - 1)).reshape(N, -1)[:, :blocks]
    weights = (codes - offset[..., None].astype(float)) * scales[..., None].astype(float)
    node = helper.make_node(
        "MatMulNBits", ["x", *inits], ["y"], domain="com.microsoft", K=K, N=N, bits=bits,
        block_size=BLOCK,
    )  # fmt: skip
    tensors = [numpy_helper.from_array(array, name) for name, array in inits.items()]
    return _model([node], tensors, rows, TensorProto.FLOAT16), weights.reshape(N, K)


def dequantized(rows: int | str, code: str, axis: int) -> tuple[onnx.ModelProto, Array]:
    """ONNX's DequantizeLinear of [K, N] in blocks along `axis`, and its weights [N, K]."""
    rng = np.random.default_rng(3)
    shape = (K // BLOCK, N) if axis == 0 else (K, N // 16)
    scales = rng.uniform(0.01, 0.1, shape).astype(np.float32)
    low, high, type_ = {
        "int4": (-8, 8, TensorProto.INT4),
        "uint4": (0, 16, TensorProto.UINT4),
        "int8": (-128, 128, TensorProto.INT8),
    }[code]
    codes = rng.integers(low, high, (K, N))
    dtype = np.int8 if code == "int8" else getattr(ml_dtypes, code)
    tensors = [
        helper.make_tensor("w", type_, (K, N), codes.astype(dtype).ravel().tolist()),
        numpy_helper.from_array(scales, "s"),
    ]
    block = BLOCK if axis == 0 else 16
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=axis, block_size=block),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    weights = codes * np.repeat(scales.astype(float), block, axis)
    return _model(nodes, tensors, rows, TensorProto.FLOAT), weights.T


def _model(
    nodes: list[onnx.NodeProto], tensors: list[onnx.TensorProto], rows: int | str, type_: int
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "few_bits",
        [helper.make_tensor_value_info("x", type_, [rows, K])],
        [helper.make_tensor_value_info("y", type_, [rows, N])],
        tensors,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


MODELS = {
    "MatMulNBits of 4": lambda rows: n_bits(rows, 4, False),
    "MatMulNBits of 4 with zero points": lambda rows: n_bits(rows, 4, True),
    "MatMulNBits of 2": lambda rows: n_bits(rows, 2, True),
    "int4 in blocks of rows": lambda rows: dequantized(rows, "int4", 0),
    "uint4 in blocks of columns": lambda rows: dequantized(rows, "uint4", 1),
    "int8 in blocks of rows": lambda rows: dequantized(rows, "int8", 0),
}


@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize("name", MODELS)
def test_products_with_weights_of_few_bits(name: str, rows: int) -> None:
    model, weights = MODELS[name](rows)
    artifact = compile_to_bytecode(model)
    stored = _bytes(artifact)
    bits = 8 if "int8" in name else 2 if "of 2" in name else 4
    assert stored <= N * K * bits // 8 + 2 * 4 * N * K // 16
    assert artifact.plan.step_count == 1
    x = np.random.default_rng(1).uniform(-1, 1, (rows, K))
    x = x.astype(np.float16 if "NBits" in name else np.float32)
    (y,) = mgx_mlir.compile(artifact, target="cpu").run({"x": x}).values()
    want, size = x.astype(float) @ weights.T, np.abs(x).astype(float) @ np.abs(weights).T
    assert (np.abs(y - want) <= size * (2**-9 if y.dtype == np.float16 else 2**-20) + 1e-6).all()


@pytest.mark.parametrize("target", ["cpu", "x86-64-v3", "gfx942", "gfx1100"])
@pytest.mark.parametrize("name", MODELS)
def test_any_number_of_rows(name: str, target: str) -> None:
    """One program, whose weights have few bits for one row and for many."""
    model, weights = MODELS[name]("rows")
    artifact = compile_to_bytecode(model, CompileOptions(mode="full-dynamic"))
    given, _ = MODELS[name](1)
    # Scales of one block each may have other shapes, of as many bytes.
    assert _bytes(artifact) == _bytes(compile_to_bytecode(given))
    program = mgx_mlir.compile(artifact, target=target)
    for rows in (1, 3, 6, 7, 20, 300):
        x = np.random.default_rng(rows).uniform(-1, 1, (rows, K))
        x = x.astype(np.float16 if "NBits" in name else np.float32)
        (y,) = program.run({"x": x}).values()
        want, size = x.astype(float) @ weights.T, np.abs(x).astype(float) @ np.abs(weights).T
        error = size * (2**-9 if y.dtype == np.float16 else 2**-20) + 1e-6
        assert (np.abs(y - want) <= error).all()


def test_each_matrix_of_a_batch_by_weights_of_few_bits() -> None:
    model, weights = MODELS["MatMulNBits of 4"]("rows")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim.insert(0, onnx.TensorShapeProto.Dimension(dim_param="b"))
    artifact = compile_to_bytecode(model, CompileOptions(mode="full-dynamic"))
    assert _bytes(artifact) < N * K
    x = np.random.default_rng(1).uniform(-1, 1, (3, 5, K)).astype(np.float16)
    (y,) = mgx_mlir.compile(artifact, target="cpu").run({"x": x}).values()
    np.testing.assert_allclose(y, x.astype(float) @ weights.T, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("target", ["cpu", "gfx942", "gfx1100"])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("gated", [False, True])
def test_products_of_one_input_are_one(gated: bool, zeros: bool, target: str) -> None:
    """A gate and what it lets through; queries and keys. Their weights stay packed."""
    (model, first), (other, second) = (n_bits("rows", 4, zeros, seed) for seed in (0, 1))
    others = other.graph
    for number, graph in enumerate((model.graph, others)):
        graph.node[0].output[0] = f"y{number}"
        for tensor in graph.initializer:
            tensor.name += str(number)
        graph.node[0].input[1:] = [f"{name}{number}" for name in graph.node[0].input[1:]]
    model.graph.node.extend(others.node)
    model.graph.initializer.extend(others.initializer)
    if gated:
        ends = [("Sigmoid", ["y0"], "s"), ("Mul", ["s", "y1"], "y")]
    else:
        ends = [("Transpose", ["y1"], "t"), ("MatMul", ["y0", "t"], "y")]
        model.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "rows"
    model.graph.node.extend(helper.make_node(kind, given, [made]) for kind, given, made in ends)
    for options in (CompileOptions(mode="full-dynamic"), CompileOptions(dim_params={"rows": 5})):
        artifact = compile_to_bytecode(model, options)
        assert artifact.plan.step_count == (1 if gated else 2)
        assert _bytes(artifact) < 2 * N * K
        x = np.random.default_rng(7).uniform(-1, 1, (5, K)).astype(np.float16)
        (y,) = mgx_mlir.compile(artifact, target=target).run({"x": x}).values()
        a, b = (x.astype(float) @ w.T for w in (first, second))
        want = b / (1 + np.exp(-a)) if gated else a @ b.T
        np.testing.assert_allclose(y, want, rtol=2e-2, atol=2e-2 * np.abs(want).max())


@pytest.mark.parametrize("target", ["cpu", "gfx942", "gfx1100"])
@pytest.mark.parametrize("name", ["MatMulNBits of 4", "MatMulNBits of 4 with zero points"])
def test_infinity_times_weights_of_few_bits(name: str, target: str) -> None:
    """It is infinite, or NaN where the weight is 0."""
    model, weights = MODELS[name](1)
    x = np.random.default_rng(4).uniform(-1, 1, (1, K)).astype(np.float16)
    x[0, 5] = np.inf
    (y,) = mgx_mlir.compile(compile_to_bytecode(model), target=target).run({"x": x}).values()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(y[0], np.inf * weights[:, 5])


@pytest.mark.parametrize("target", ["cpu", "gfx942", "gfx1100"])
def test_differences_of_bytes_wrap(target: str) -> None:
    rng = np.random.default_rng(6)
    codes, zeros = rng.integers(0, 256, (N, K), np.uint8), rng.integers(0, 256, (N, 1), np.uint8)
    nodes = [
        helper.make_node("Sub", ["w", "z"], ["d"]),
        helper.make_node("Cast", ["d"], ["f"], to=TensorProto.FLOAT16),
        helper.make_node("Transpose", ["f"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    model = _model(nodes, [numpy_helper.from_array(zeros, "z")], 1, TensorProto.FLOAT16)
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.UINT8, (N, K)))
    x = rng.uniform(-1, 1, (1, K)).astype(np.float16)
    program = mgx_mlir.compile(compile_to_bytecode(model), target=target)
    (y,) = program.run({"x": x, "w": codes}).values()
    np.testing.assert_allclose(y, x.astype(float) @ (codes - zeros).T, rtol=2e-3, atol=1)


def _bytes(artifact: mgx_mlir.Artifact) -> int:
    return sum(weight.nbytes for weight in artifact.weights.values())


@pytest.mark.parametrize("kind", ["int4", "uint4"])
@pytest.mark.parametrize("mode", ["fast", "debug"])
def test_other_modes_compute_the_same(mode: str, kind: str) -> None:
    model, weights = dequantized(3, kind, 0)
    artifact = compile_to_bytecode(model, CompileOptions(mode=mode))
    assert artifact.plan.step_count == (1 if mode == "fast" else 2)
    x = np.random.default_rng(1).uniform(-1, 1, (3, K)).astype(np.float32)
    (y,) = mgx_mlir.compile(artifact, target="cpu").run({"x": x}).values()
    np.testing.assert_allclose(y, x.astype(float) @ weights.T, rtol=1e-4, atol=1e-4)
