"""f32 models that compute in f16 or bf16, against themselves in f32."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import pytest

import mgx_mlir
from mgx_mlir import CompileOptions
from mgx_mlir.errors import UsageError
from mgx_mlir.rewriting.portable import kernel_text

from .onnx_models import small

# The least signal-to-noise ratio in dB: roundings at each tensor of a small model.
LEAST = {"f16": 50, "bf16": 32}


def sqnr(found, expected):
    noise = np.square(found.astype(np.float64) - expected).mean()
    signal = np.square(expected.astype(np.float64)).mean()
    return 10 * np.log10(signal / noise) if noise else np.inf


def inputs_of(specs):
    rng = np.random.default_rng(0)
    return {
        s.name: rng.integers(0, 2, s.shape).astype(s.dtype)
        if "int" in s.dtype
        else rng.standard_normal(s.shape).astype(s.dtype)
        for s in specs
    }


@pytest.mark.every(3)
@pytest.mark.parametrize("floats", LEAST)
@pytest.mark.parametrize("name", ["bert", "gpt2", "lstm", "resnet", "vit"])
def test_models_stay_close_to_f32_in_half_the_memory(name, floats):
    model = small(name)
    options = CompileOptions(default_dim=2)
    wide = mgx_mlir.compile_to_bytecode(model, options)
    narrow = mgx_mlir.compile_to_bytecode(model, dataclasses.replace(options, floats=floats))
    assert sum(w.nbytes for w in narrow.weights.values()) <= 0.55 * sum(
        w.nbytes for w in wide.weights.values()
    )
    assert narrow.plan.arena_bytes <= 0.7 * wide.plan.arena_bytes
    # A loop's input may be narrowed by a kernel of its own.
    assert len(narrow.plan.steps) <= max(1.05 * len(wide.plan.steps), len(wide.plan.steps) + 1)
    given = inputs_of(wide.plan.inputs)
    expected = mgx_mlir.compile(wide).run(given)
    for key, found in mgx_mlir.compile(narrow).run(given).items():
        assert found.dtype == expected[key].dtype
        assert sqnr(found, expected[key]) > LEAST[floats]


@pytest.mark.parametrize("mode", ["debug", "fast", "full-dynamic"])
def test_every_mode_computes_in_few_bits(mode):
    artifact = mgx_mlir.compile_to_bytecode(small("bert"), floats="f16", mode=mode, **SIZES[mode])
    kernels = [kernel_text(kernel.bytecode) for kernel in artifact.kernels]
    assert all("f16" in text for text in kernels if "mgx.dot" in text or " dot " in text)


SIZES = {"debug": {"default_dim": 2}, "fast": {"default_dim": 2}, "full-dynamic": {}}


def chain(scale):
    """Rows whose squares overflow f16, normalised, times a matrix."""
    rng = np.random.default_rng(0)
    nodes = [
        onnx.helper.make_node("LayerNormalization", ["x", "s"], ["n"], "norm"),
        onnx.helper.make_node("MatMul", ["n", "w"], ["y"], "/head/MatMul"),
    ]
    weights = {"s": np.ones(64, np.float32), "w": rng.standard_normal((64, 8)).astype(np.float32)}
    weights["w"][0, 0] = scale
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [value("x", onnx.TensorProto.FLOAT, [4, 64])],
        [value("y", onnx.TensorProto.FLOAT, [4, 8])],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=9)


@pytest.mark.parametrize(
    ("scale", "keep", "dtype"),
    [(1.0, (), "float16"), (1e6, (), "float32"), (1.0, ("/head/*",), "float32")],
)
def test_statistics_and_large_weights_stay_wide(scale, keep, dtype):
    model, x = chain(scale), np.random.default_rng(1).standard_normal((4, 64)) * 1000
    given = {"x": x.astype(np.float32)}
    options = CompileOptions(floats="f16", keep=keep)
    artifact = mgx_mlir.compile_to_bytecode(model, options)
    assert {w.dtype.name for w in artifact.weights.values() if w.nbytes > 1000} == {dtype}
    (found,) = mgx_mlir.compile(artifact).run(given).values()
    (expected,) = mgx_mlir.compile(model).run(given).values()
    assert sqnr(found, expected) > 50


def test_options_that_mean_nothing_are_refused():
    with pytest.raises(UsageError, match="floats is 'f8'"):
        CompileOptions(floats="f8")
    with pytest.raises(UsageError, match="keep names nodes"):
        CompileOptions(keep=("a",))


def test_quantized_models_with_f16_between_keep_constants_small():
    """Batch norms of two branches that are added: constants stay of one dimension, and fold."""
    model = small("resnet")
    given = inputs_of(mgx_mlir.compile_to_bytecode(model, default_dim=2).plan.inputs)
    calibration = mgx_mlir.Calibration([given])
    quantized = mgx_mlir.quantize(model, mgx_mlir.Precision("int8"), calibration).source
    wide, narrow = (
        mgx_mlir.compile_to_bytecode(quantized, default_dim=2, floats=floats)
        for floats in ("f32", "f16")
    )
    sizes = [sum(w.nbytes for w in a.weights.values()) for a in (wide, narrow)]
    assert sizes[1] <= sizes[0]
    assert narrow.plan.arena_bytes <= wide.plan.arena_bytes
    expected = mgx_mlir.compile(wide).run(given)
    for key, found in mgx_mlir.compile(narrow).run(given).items():
        assert sqnr(found, expected[key]) > 30
