"""A tiny Whisper with random weights, in the three files that optimum writes."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from test.onnx_models import Builder

BANDS, FRAMES, WIDTH, HEADS, LAYERS, VOCABULARY, PLACES = 80, 40, 32, 2, 2, 29, 64
EACH = WIDTH // HEADS
Types = dict[str, Any]


class _Named(Builder):
    """Weights of a name are the same in each file."""

    def weight(self, name: str, *shape: int, scale: float | None = None) -> str:
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        return super().weight(name, *shape, scale=scale)

    def layer_norm(self, x: str, name: str, width: int) -> str:
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        return super().layer_norm(x, name, width)


def _heads(b: Builder, x: str) -> str:
    return str(b.op("Transpose", b.op("Reshape", x, b.constant([0, 0, HEADS, EACH])),
                    perm=[0, 2, 1, 3]))  # fmt: skip


def _attention(b: Builder, name: str, x: str, keys: str, values: str, mask: str | None) -> str:
    q = _heads(b, b.linear(x, f"{name}.q", WIDTH, WIDTH))
    scores = b.op("MatMul", q, b.op("Transpose", keys, perm=[0, 1, 3, 2]))
    scores = b.op("Mul", scores, b.constant(EACH**-0.5, np.float32))
    scores = b.op("Add", scores, mask) if mask else scores
    y = b.op("Transpose", b.op("MatMul", b.op("Softmax", scores, axis=-1), values),
             perm=[0, 2, 1, 3])  # fmt: skip
    y = b.op("Reshape", y, b.constant([0, 0, WIDTH]))
    return b.linear(y, f"{name}.out", WIDTH, WIDTH)


def _keys(b: Builder, name: str, x: str) -> tuple[str, ...]:
    return (
        _heads(b, b.linear(x, f"{name}.k", WIDTH, WIDTH)),
        _heads(b, b.linear(x, f"{name}.v", WIDTH, WIDTH)),
    )


def _mlp(b: Builder, name: str, x: str) -> str:
    y = b.linear(b.layer_norm(x, f"{name}.norm", WIDTH), f"{name}.up", WIDTH, 2 * WIDTH)
    return str(b.op("Add", x, b.linear(b.gelu(y), f"{name}.down", 2 * WIDTH, WIDTH)))


def encoder() -> onnx.ModelProto:
    """Two convolutions over time, positions, and layers of attention."""
    b = _Named()
    shape = {"kernel_shape": [3], "pads": [1, 1]}
    x = b.gelu(b.op("Conv", "input_features", b.weight("a", WIDTH, BANDS, 3, scale=0.1), **shape))
    x = b.gelu(b.op("Conv", x, b.weight("b", WIDTH, WIDTH, 3, scale=0.1), strides=[2], **shape))
    x = b.op("Transpose", x, perm=[0, 2, 1])
    x = b.op("Add", x, b.weight("places", FRAMES // 2, WIDTH, scale=0.5))
    for layer in range(LAYERS):
        y = b.layer_norm(x, f"{layer}.norm", WIDTH)
        x = b.op("Add", x, _attention(b, f"{layer}.self", y, *_keys(b, f"{layer}.self", y), None))
        x = _mlp(b, f"{layer}.mlp", x)
    x = b.layer_norm(x, "norm", WIDTH)
    inputs = {"input_features": (TensorProto.FLOAT, ["batch", BANDS, FRAMES])}
    return b.model(inputs, {"last_hidden_state": (x, ["batch", FRAMES // 2, WIDTH])}, "encoder")


def decoder(past: bool) -> onnx.ModelProto:
    """The first step, which gives all caches, or a later one, which takes them."""
    b = _Named()
    words = b.weight("words", VOCABULARY, WIDTH, scale=1)
    zero = b.constant([0])
    start = zero
    if past:
        shape = b.op("Shape", "past_key_values.0.decoder.key")
        start = b.op("Gather", shape, b.constant([2]), axis=0)
    count = b.op("Gather", b.op("Shape", "input_ids"), b.constant([1]), axis=0)
    end = b.op("Add", start, count)
    places = b.op("Slice", b.weight("places", PLACES, WIDTH, scale=1), start, end, zero)
    x = b.op("Add", b.op("Gather", words, "input_ids"), places)
    one = b.constant(1)
    first, last = (b.op("Squeeze", bound, zero) for bound in (start, end))
    queries = b.op("Unsqueeze", b.op("Range", first, last, one), b.constant([1]))
    later = b.op("Greater", b.op("Range", b.constant(0), last, one), queries)
    mask = b.op("Where", later, b.constant(-1e9, np.float32), b.constant(0, np.float32))
    inputs: Types = {"input_ids": (TensorProto.INT64, ["batch", "tokens"])}
    if not past:
        inputs["encoder_hidden_states"] = (TensorProto.FLOAT, ["batch", "frames", WIDTH])
    outputs: Types = {}
    for layer in range(LAYERS):
        y = b.layer_norm(x, f"{layer}.norm", WIDTH)
        own = _keys(b, f"{layer}.self", y)
        if past:
            caches = _cached(inputs, layer, "decoder", "past")
            own = tuple(b.op("Concat", *pair, axis=2) for pair in zip(caches, own, strict=True))
            across = _cached(inputs, layer, "encoder", "frames")
        else:
            across = _keys(b, f"{layer}.cross", "encoder_hidden_states")
            _present(outputs, layer, "encoder", across)
        _present(outputs, layer, "decoder", own)
        x = b.op("Add", x, _attention(b, f"{layer}.self", y, *own, mask))
        y = b.layer_norm(x, f"{layer}.cross.norm", WIDTH)
        x = b.op("Add", x, _attention(b, f"{layer}.cross", y, *across, None))
        x = _mlp(b, f"{layer}.mlp", x)
    logits = b.op("MatMul", b.layer_norm(x, "norm", WIDTH), b.op("Transpose", words, perm=[1, 0]))
    outputs = {"logits": (logits, ["batch", "tokens", VOCABULARY]), **outputs}
    return b.model(inputs, outputs, "decoder")


def _cached(inputs: Types, layer: int, kind: str, length: str) -> tuple[str, ...]:
    names = tuple(f"past_key_values.{layer}.{kind}.{part}" for part in ("key", "value"))
    inputs |= {n: (TensorProto.FLOAT, ["batch", HEADS, length, EACH]) for n in names}
    return names


def _present(outputs: Types, layer: int, kind: str, values: tuple[str, ...]) -> None:
    for part, value in zip(("key", "value"), values, strict=True):
        shape = ["batch", HEADS, f"{kind}_length", EACH]
        outputs[f"present.{layer}.{kind}.{part}"] = value, shape
