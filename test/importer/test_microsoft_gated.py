"""Gates and norms of com.microsoft that exporters of decoders write, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import parse_onnx
from test.importer.agreement import (
    assert_agrees,
    assert_close,
    contributed,
    expected,
    floats,
    outputs_of,
)

X = floats(2, 3, 8)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("scale", [None, np.array(0.7, np.float32)])
def test_scaled_silu(scale):
    assert_agrees(*contributed("ScaledSiLU", {"x": X, "scale": scale}, alpha=1.5))


@pytest.mark.parametrize("activation", ["silu", "swish", "sigmoid"])
def test_gated_rms_norm_of_parts(activation):
    inputs = {"x": X, "scale": floats(4, seed=1), "gate": floats(2, 3, 8, seed=2)}
    assert_agrees(*contributed("GatedRMSNorm", inputs, activation=activation, epsilon=1e-3))


@pytest.mark.parametrize(
    ("shape", "scale", "options"),
    [
        ((2, 3, 8), (8,), {"num_branches": 2}),
        ((2, 3, 8), (2, 4), {"num_branches": 2}),
        ((2, 3, 2, 4), (4,), {}),
        ((2, 3, 2, 4), None, {}),
    ],
)
def test_branchwise_rms_norm(shape, scale, options):
    inputs = {"x": floats(*shape), "scale": None if scale is None else floats(*scale, seed=1)}
    assert_agrees(*contributed("BranchwiseRMSNorm", inputs, **options))


def test_gated_add():
    inputs = {"x": X, "y": floats(2, 3, 8, seed=1), "gate": floats(2, 3, 1, seed=2)}
    assert_agrees(*contributed("GatedAdd", inputs))
    with pytest.raises(UnsupportedError, match="gate_weight"):
        parse_onnx(contributed("GatedAdd", inputs | {"w": floats(1, 1)})[0])


def test_the_gates_of_linear_attention():
    inputs = {
        "a": floats(2, 3, 4),
        "bias": floats(4, seed=1),
        "scale": -np.abs(floats(4, seed=2)),
        "b": floats(2, 3, 4, seed=3),
    }
    assert_agrees(*contributed("LinearAttentionGate", inputs, (np.float32, np.float32)))


@pytest.mark.parametrize("limit", [0.0, 0.5])
def test_swiglu_of_halves_apart_and_together(limit):
    """onnxruntime has it on GPUs only."""
    gate, up = floats(2, 4), floats(2, 4, seed=1)
    options = {"limit": limit, "activation_alpha": 1.5, "activation_beta": 1.0}
    g, u = (np.minimum(gate, limit), np.clip(up, -limit, limit)) if limit else (gate, up)
    wanted = g * sigmoid(1.5 * g) * (u + 1)
    for inputs in ({"g": gate, "u": up}, {"g": np.concatenate([gate, up], 1)}):
        model, fed = contributed("SwiGLU", inputs, **options)
        assert_close(outputs_of(parse_onnx(model), fed), [wanted])


def test_halves_of_an_odd_width_are_refused():
    with pytest.raises(ModelError, match="two halves of 5 columns"):
        parse_onnx(contributed("SwiGLU", {"g": floats(2, 5)})[0])


OF_BUFFERS = {
    "k": floats(2, 1, 8, seed=1),
    "v": floats(2, 1, 8, seed=2),
    "mask": np.array([[1, 0, 1, 1], [1, 1, 1, 1]], np.int32),
    "scores": None,
    "pk": floats(2, 2, 6, 4, seed=3),
    "pv": floats(2, 2, 6, 4, seed=4),
    "length": np.array([3], np.int32),
}
OF_ANOTHER = {"k": floats(2, 2, 5, 4, seed=1), "v": floats(2, 2, 5, 4, seed=2)}


@pytest.mark.parametrize(
    ("inputs", "shared", "outputs"), [(OF_BUFFERS, 1, 3), (OF_ANOTHER, 0, 1)], ids=["self", "cross"]
)
def test_a_decoders_attention_is_that_of_many_heads(inputs, shared, outputs):
    model, fed = contributed(
        "DecoderMaskedMultiHeadAttention",
        {"q": floats(2, 1, 8)} | inputs,
        (np.float32,) * outputs,
        num_heads=2,
        past_present_share_buffer=shared,
    )
    wanted = expected(model, fed)
    assert_close(outputs_of(parse_onnx(model), fed), wanted)
