"""Operators of com.microsoft agree with onnxruntime, whose they are."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from mgx_mlir.importer import parse_onnx
from test.importer.agreement import assert_close, expected, floats, outputs_of


def model_of(kind: str, inputs: dict, outputs: int = 1, dtype: int = 1, **attributes: object):
    node = helper.make_node(
        kind,
        [n if a is not None else "" for n, a in inputs.items()],
        [f"y{i}" if i == 0 or i == outputs - 1 else "" for i in range(outputs)],
        "node",
        domain="com.microsoft",
        **attributes,
    )
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
        if a is not None and a.ndim
    ]
    scalars = [
        numpy_helper.from_array(a, n) for n, a in inputs.items() if a is not None and not a.ndim
    ]
    results = [helper.make_tensor_value_info(n, dtype, None) for n in node.output if n]
    graph = helper.make_graph([node], "g", infos, results, scalars)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def agrees(model: onnx.ModelProto, inputs: dict, **tolerance: float) -> None:
    fed = {n: a for n, a in inputs.items() if a is not None and a.ndim}
    assert_close(outputs_of(parse_onnx(model), fed), expected(model, fed), **tolerance)


@pytest.mark.parametrize(
    ("kind", "shapes", "attributes"),
    [
        ("Gelu", [(2, 3)], {}),
        ("BiasGelu", [(2, 3), (3,)], {}),
        ("FastGelu", [(2, 3)], {}),
        ("FastGelu", [(2, 3), (3,)], {}),
        ("QuickGelu", [(2, 3)], {"alpha": 1.5}),
        ("FusedMatMul", [(2, 4, 3), (2, 4, 5)], {"transA": 1, "alpha": 0.5}),
    ],
)
def test_float_operators(kind, shapes, attributes):
    inputs = {f"x{i}": floats(*s, seed=i) for i, s in enumerate(shapes)}
    agrees(model_of(kind, inputs, **attributes), inputs, atol=1e-3)


def test_skip_layer_normalization_gives_the_sum_too():
    names = ("x", "skip", "gamma", "beta", "bias")
    shapes = [(2, 3, 4), (2, 3, 4), (4,), (4,), (4,)]
    inputs = {n: floats(*s, seed=i) for i, (n, s) in enumerate(zip(names, shapes, strict=True))}
    agrees(model_of("SkipLayerNormalization", inputs, 4, epsilon=1e-5), inputs)
    agrees(model_of("SkipLayerNormalization", inputs, 3, epsilon=1e-5), inputs)
    del inputs["beta"]
    agrees(model_of("SkipSimplifiedLayerNormalization", inputs, 4, epsilon=1e-5), inputs)


def test_a_bias_of_more_dimensions_is_broadcast():
    """onnxruntime's CPU takes vectors alone; MIGraphX broadcasts."""
    inputs = {"x": floats(2, 3, 4), "b": floats(3, 4, seed=1)}
    whole = {"x": inputs["x"] + inputs["b"]}
    wanted = expected(model_of("FastGelu", whole), whole)
    assert_close(outputs_of(parse_onnx(model_of("FastGelu", inputs)), inputs), wanted)


def quantized(seed: int, *shape: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        f"x{seed}": rng.integers(0, 255, shape).astype(np.uint8),
        f"s{seed}": np.array(0.02 + 0.01 * seed, np.float32),
        f"z{seed}": np.array(100 + seed, np.uint8),
    }


RESULT = {"ys": np.array(0.03, np.float32), "yz": np.array(90, np.uint8)}


@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
def test_quantized_binary_operators(kind):
    inputs = quantized(0, 2, 3) | quantized(1, 2, 3) | RESULT
    agrees(model_of(kind, inputs, dtype=2), inputs, atol=1)


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {"alpha": 0.2}),
        ("QLinearGlobalAveragePool", {}),
    ],
)
def test_quantized_unary_operators(kind, attributes):
    inputs = quantized(0, 1, 2, 3, 3) | RESULT
    agrees(model_of(kind, inputs, dtype=2, **attributes), inputs, atol=1)


def test_quantized_concat():
    inputs = RESULT | quantized(0, 2, 3) | quantized(1, 2, 2)
    agrees(model_of("QLinearConcat", inputs, dtype=2, axis=1), inputs, atol=1)
