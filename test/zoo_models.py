"""Small models of the families that users run with any sizes, in the forms that exporters write."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from test.onnx_models import Builder

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
WIDTH, HEADS = 32, 4


def _scalar(b: Builder, value: float) -> str:
    return b.constant(value, np.float32)


def _rms(b: Builder, x: str, name: str, width: int = WIDTH) -> str:
    mean = b.op("ReduceMean", b.op("Pow", x, _scalar(b, 2)), axes=[-1], keepdims=1)
    root = b.op("Reciprocal", b.op("Sqrt", b.op("Add", mean, _scalar(b, 1e-6))))
    return str(b.op("Mul", b.op("Mul", x, root), b.weight(name, width, scale=1.0)))


def _heads(b: Builder, x: str, name: str, width: int = WIDTH) -> str:
    y = b.op("MatMul", x, b.weight(name, width, width))
    y = b.op("Reshape", y, b.constant([0, 0, HEADS, width // HEADS]))
    return str(b.op("Transpose", y, perm=[0, 2, 1, 3]))


def _merged(b: Builder, shares: str, values: str, name: str, width: int = WIDTH) -> str:
    y = b.op("Transpose", b.op("MatMul", shares, values), perm=[0, 2, 1, 3])
    y = b.op("Reshape", y, b.constant([0, 0, width]))
    return str(b.op("MatMul", y, b.weight(name, width, width)))


def _length(b: Builder, x: str, axis: int) -> str:
    return str(b.op("Gather", b.op("Shape", x), b.constant(axis), axis=0))


def _range(b: Builder, end: str) -> str:
    return str(b.op("Range", b.constant(0), end, b.constant(1)))


def _rotated(b: Builder, x: str, each: int) -> str:
    """Rotary positions from 0, of tables that the graph computes."""
    rates = b.constant(100.0 ** (-np.arange(each // 2) / (each // 2)), np.float32)
    places = b.op("Cast", _range(b, _length(b, x, 2)), to=FLOAT)
    angles = b.op("Mul", b.op("Unsqueeze", places, b.constant([1])), rates)
    angles = b.op("Concat", angles, angles, axis=-1)
    left, right = b.op("Split", x, b.constant([each // 2] * 2), outputs=2, axis=3)
    turned = b.op("Concat", b.op("Neg", right), left, axis=-1)
    return str(
        b.op("Add", b.op("Mul", x, b.op("Cos", angles)), b.op("Mul", turned, b.op("Sin", angles)))
    )


def qwen3() -> onnx.ModelProto:
    """Queries and keys are normalised by head; gated units."""
    return _decoder("qwen3")


def gemma2() -> onnx.ModelProto:
    """Scores and logits are capped, keys lie within a window, norms stand on both sides."""
    return _decoder("gemma2")


def int4() -> onnx.ModelProto:
    """Weights of 4 bits in blocks of 16."""
    return _decoder("int4")


def _decoder(family: str) -> onnx.ModelProto:
    """One layer without a cache. Symbols: batch, seq."""
    b, each = Builder(), WIDTH // HEADS
    x = b.op("Gather", b.weight("embeddings", 48, WIDTH, scale=1.0), "ids")
    if family == "gemma2":
        x = b.op("Mul", x, _scalar(b, WIDTH**0.5))
    y = _rms(b, x, "first")
    q, k, v = (_heads(b, y, part) for part in "qkv")
    if family == "qwen3":
        q, k = _rms(b, q, "q.norm", each), _rms(b, k, "k.norm", each)
    q, k = _rotated(b, q, each), _rotated(b, k, each)
    scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = b.op("Mul", scores, _scalar(b, each**-0.5))
    if family == "gemma2":
        scores = b.op("Mul", b.op("Tanh", b.op("Div", scores, _scalar(b, 50))), _scalar(b, 50))
    keys = _range(b, _length(b, "ids", 1))
    queries = b.op("Unsqueeze", keys, b.constant([1]))
    seen = b.op("LessOrEqual", keys, queries)
    if family == "gemma2":
        near = b.op("Greater", keys, b.op("Sub", queries, b.constant(4)))
        seen = b.op("And", seen, near)
    scores = b.op("Add", scores, b.op("Where", seen, _scalar(b, 0), _scalar(b, -3e38)))
    y = _merged(b, b.op("Softmax", scores, axis=-1), v, "o")
    x = b.op("Add", x, _rms(b, y, "after") if family == "gemma2" else y)
    y = _rms(b, x, "second")
    if family == "int4":
        y = _packed(b, b.op("Relu", _packed(b, y, "up", 64)), "down", WIDTH, 64)
    else:
        gate = b.op("MatMul", y, b.weight("gate", WIDTH, 64))
        gate = b.gelu(gate) if family == "gemma2" else b.op("Mul", gate, b.op("Sigmoid", gate))
        y = b.op("Mul", gate, b.op("MatMul", y, b.weight("up", WIDTH, 64)))
        y = b.op("MatMul", y, b.weight("down", 64, WIDTH))
    x = _rms(b, b.op("Add", x, y), "last")
    logits = b.op("MatMul", x, b.weight("head", WIDTH, 48))
    if family == "gemma2":
        logits = b.op("Mul", b.op("Tanh", b.op("Div", logits, _scalar(b, 30))), _scalar(b, 30))
    model = b.model(
        {"ids": (INT64, ["batch", "seq"])}, {"y": (logits, ["batch", "seq", 48])}, family
    )
    model.opset_import.add(domain="com.microsoft", version=1)
    return model


def _packed(b: Builder, x: str, name: str, columns: int, rows: int = WIDTH) -> str:
    data = b.rng.integers(0, 256, (columns, rows // 16, 8)).astype(np.uint8)
    scales = b.rng.normal(0, 0.02, columns * rows // 16).astype(np.float32)
    held = b.add(data, name), b.add(scales, f"{name}.scales")
    attributes = {"K": rows, "N": columns, "bits": 4, "block_size": 16}
    return str(b.op("MatMulNBits", x, *held, domain="com.microsoft", **attributes))


def t5() -> onnx.ModelProto:
    """An encoder whose scores get a bias by the distance, in buckets. Symbols: batch, seq."""
    b, buckets = Builder(), 16
    x = b.op("Gather", b.weight("embeddings", 48, WIDTH, scale=1.0), "ids")
    places = _range(b, _length(b, "ids", 1))
    apart = b.op("Sub", places, b.op("Unsqueeze", places, b.constant([1])))
    half, near = b.constant(buckets // 2), buckets // 4
    later = b.op("Mul", b.op("Cast", b.op("Greater", apart, b.constant(0)), to=INT64), half)
    apart = b.op("Abs", apart)
    ratio = b.op("Div", b.op("Cast", apart, to=FLOAT), _scalar(b, near))
    far = b.op("Div", b.op("Log", b.op("Max", ratio, _scalar(b, 1e-3))), _scalar(b, np.log(8)))
    far = b.op("Cast", b.op("Mul", far, _scalar(b, near)), to=INT64)
    far = b.op("Min", b.op("Add", far, b.constant(near)), b.constant(buckets // 2 - 1))
    bucket = b.op("Where", b.op("Less", apart, b.constant(near)), apart, far)
    bias = b.op("Gather", b.weight("bias", buckets, HEADS, scale=1.0), b.op("Add", later, bucket))
    bias = b.op("Unsqueeze", b.op("Transpose", bias, perm=[2, 0, 1]), b.constant([0]))
    y = _rms(b, x, "first")
    q, k, v = (_heads(b, y, part) for part in "qkv")
    scores = b.op("Add", b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2])), bias)
    x = b.op("Add", x, _merged(b, b.op("Softmax", scores, axis=-1), v, "o"))
    y = b.op("Relu", b.op("MatMul", _rms(b, x, "second"), b.weight("up", WIDTH, 64)))
    x = _rms(b, b.op("Add", x, b.op("MatMul", y, b.weight("down", 64, WIDTH))), "last")
    return b.model({"ids": (INT64, ["batch", "seq"])}, {"y": (x, ["batch", "seq", WIDTH])}, "t5")


def clip() -> onnx.ModelProto:
    """Texts by images: the end of each text by ArgMax, unit vectors. Symbols: as inputs have."""
    b = Builder()
    x = b.op("Gather", b.weight("embeddings", 48, WIDTH, scale=1.0), "ids")
    y = b.layer_norm(x, "norm", WIDTH)
    q, k, v = (_heads(b, y, part) for part in "qkv")
    scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2]))
    x = b.op("Add", x, _merged(b, b.op("Softmax", scores, axis=-1), v, "o"))
    end = b.op("ArgMax", "ids", axis=1, keepdims=0)
    pairs = b.op("Concat", *(b.op("Unsqueeze", n, b.constant([1]))
                             for n in (_range(b, _length(b, "ids", 0)), end)), axis=1)  # fmt: skip
    text = b.op("MatMul", b.op("GatherND", x, pairs), b.weight("text", WIDTH, 16))
    patches = b.op("Conv", "pixels", b.weight("patch", WIDTH, 3, 8, 8, scale=0.1), strides=[8, 8])
    patches = b.op("Reshape", patches, b.constant([0, WIDTH, -1]))
    image = b.op("ReduceMean", b.gelu(patches), axes=[2], keepdims=0)
    image = b.op("MatMul", image, b.weight("image", WIDTH, 16))
    text, image = (b.op("Div", v, b.op("ReduceL2", v, axes=[-1], keepdims=1))
                   for v in (text, image))  # fmt: skip
    y = b.op("MatMul", text, b.op("Transpose", image, perm=[1, 0]))
    inputs = {"ids": (INT64, ["texts", "seq"]), "pixels": (FLOAT, ["images", 3, 32, 32])}
    return b.model(inputs, {"y": (b.op("Softmax", y, axis=-1), ["texts", "images"])}, "clip")


def gnn() -> onnx.ModelProto:
    """Sums over neighbours by edges, divided by their number. Symbols: nodes, edges."""
    b = Builder()
    sources, targets = (b.op("Gather", "edges", b.constant(i), axis=0) for i in range(2))
    x = "x"
    for layer, (inputs, outputs) in enumerate([(12, 24), (24, 8)]):
        h = b.op("MatMul", x, b.weight(f"{layer}", inputs, outputs))
        sent = b.op("Gather", h, sources, axis=0)
        wide = b.op("Expand", b.op("Unsqueeze", targets, b.constant([1])), b.op("Shape", sent))
        none = b.op("Mul", h, _scalar(b, 0))
        total = b.op("ScatterElements", none, wide, sent, axis=0, reduction="add")
        ones = b.op("Add", b.op("Mul", sent, _scalar(b, 0)), _scalar(b, 1))
        count = b.op("ScatterElements", none, wide, ones, axis=0, reduction="add")
        mean = b.op("Div", total, b.op("Max", count, _scalar(b, 1)))
        x = b.op("Relu", b.op("Add", h, mean))
    y = b.op("LogSoftmax", x, axis=-1)
    inputs = {"x": (FLOAT, ["nodes", 12]), "edges": (INT64, [2, "links"])}
    return b.model(inputs, {"y": (y, ["nodes", 8])}, "gnn")


def dlrm() -> onnx.ModelProto:
    """Tables of features, and the products of each pair of their rows. Symbol: batch."""
    b, tables, width = Builder(), 5, 8
    dense = b.op("Relu", b.linear("x", "bottom", 13, width))
    rows = [b.op("Unsqueeze", dense, b.constant([1]))]
    for n in range(tables):
        ids = b.op("Gather", "ids", b.constant([n]), axis=1)
        rows.append(b.op("Gather", b.weight(f"table.{n}", 12, width, scale=1.0), ids))
    together = b.op("Concat", *rows, axis=1)
    products = b.op("MatMul", together, b.op("Transpose", together, perm=[0, 2, 1]))
    flat = b.op("Reshape", products, b.constant([-1, (tables + 1) ** 2]))
    i, j = np.tril_indices(tables + 1, -1)
    pairs = b.op("Gather", flat, b.constant(i * (tables + 1) + j), axis=1)
    z = b.op("Concat", dense, pairs, axis=1)
    z = b.op("Relu", b.linear(z, "top", width + len(i), 16))
    inputs = {"x": (FLOAT, ["batch", 13]), "ids": (INT64, ["batch", tables])}
    y = b.op("Sigmoid", b.linear(z, "last", 16, 1))
    return b.model(inputs, {"y": (y, ["batch", 1])}, "dlrm")


def wav2vec2() -> onnx.ModelProto:
    """Convolutions over a wave, a norm over time, grouped positions. Symbols: batch, samples."""
    b = Builder()
    x = b.op("Unsqueeze", "wave", b.constant([1]))
    x = b.op("Conv", x, b.weight("a", WIDTH, 1, 10, scale=0.3), strides=[5])
    ones = b.constant(np.ones(WIDTH), np.float32), b.constant(np.zeros(WIDTH), np.float32)
    x = b.gelu(b.op("InstanceNormalization", x, *ones))
    x = b.gelu(b.op("Conv", x, b.weight("b", WIDTH, WIDTH, 3, scale=0.1), strides=[2]))
    places = b.op("Conv", x, b.weight("c", WIDTH, 8, 8, scale=0.1), pads=[4, 4], group=4)
    places = b.op("Slice", places, b.constant([0]), b.constant([-1]), b.constant([2]))
    x = b.op("Transpose", b.op("Add", x, b.gelu(places)), perm=[0, 2, 1])
    x = b.layer_norm(x, "norm", WIDTH)
    q, k, v = (_heads(b, x, part) for part in "qkv")
    scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2]))
    x = b.op("Add", x, _merged(b, b.op("Softmax", scores, axis=-1), v, "o"))
    y = b.linear(x, "letters", WIDTH, 12)
    return b.model(
        {"wave": (FLOAT, ["batch", "samples"])}, {"y": (y, ["batch", "t", 12])}, "wav2vec2"
    )


def stft() -> onnx.ModelProto:
    """The power of a wave by time and pitch, and convolutions. Symbols: batch, samples."""
    b = Builder()
    x = b.op("Unsqueeze", "wave", b.constant([2]))
    window = b.constant(np.hanning(16), np.float32)
    x = b.op("STFT", x, b.constant(8), window, b.constant(16), onesided=1)
    power = b.op("ReduceSumSquare", x, axes=[-1], keepdims=0)
    mel = b.op("MatMul", power, b.weight("mel", 9, 8, scale=0.3))
    x = b.op("Log", b.op("Add", b.op("Abs", mel), _scalar(b, 1)))
    x = b.op("Unsqueeze", x, b.constant([1]))
    x = b.op("Relu", b.op("Conv", x, b.weight("c", 6, 1, 3, 3, scale=0.3), pads=[1, 1, 1, 1]))
    y = b.linear(b.op("Flatten", b.op("GlobalAveragePool", x)), "classes", 6, 5)
    return b.model({"wave": (FLOAT, ["batch", "samples"])}, {"y": (y, ["batch", 5])}, "stft")


def detector() -> onnx.ModelProto:
    """Boxes of each cell of a picture, those that NMS keeps, and scores. Symbols: height, width."""
    b = Builder()
    shape = {"strides": [4, 4], "kernel_shape": [4, 4]}
    x = b.op("Relu", b.op("Conv", "x", b.weight("a", 8, 3, 4, 4, scale=0.2), **shape))
    x = b.op("Relu", b.op("Conv", x, b.weight("b", 8, 8, 3, 3, scale=0.2), pads=[1, 1, 1, 1]))
    cells = b.op("Conv", x, b.weight("c", 6, 8, 1, 1, scale=0.5))
    cells = b.op("Reshape", cells, b.constant([0, 6, -1]))
    corners, scores = b.op("Split", cells, b.constant([4, 2]), outputs=2, axis=1)
    corners = b.op("Transpose", corners, perm=[0, 2, 1])
    scores = b.op("Sigmoid", scores)
    limits = (b.constant([7]), b.constant([0.4], np.float32), b.constant([0.5], np.float32))
    kept = b.op("NonMaxSuppression", corners, scores, *limits)
    boxes = b.op("Gather", b.op("Squeeze", corners, b.constant([0])),
                 b.op("Gather", kept, b.constant(2), axis=1), axis=0)  # fmt: skip
    y = b.op("Mul", boxes, _scalar(b, 4))
    return b.model({"x": (FLOAT, [1, 3, "height", "width"])}, {"y": (y, ["kept", 4])}, "detector")


_TEXT = [{"batch": 2, "seq": 5}, {"batch": 1, "seq": 1}, {"batch": 3, "seq": 11}]
_WAVES = [{"batch": 2, "samples": 160}, {"batch": 1, "samples": 99}, {"batch": 1, "samples": 333}]
ZOO: dict[str, tuple[Any, list[dict[str, int]]]] = {
    "clip": (
        clip,
        [{"texts": 2, "images": 3, "seq": 5}, {"texts": 4, "images": 1, "seq": 9}],
    ),
    "detector": (
        detector,
        [{"height": 32, "width": 48}, {"height": 16, "width": 16}, {"height": 64, "width": 20}],
    ),
    "dlrm": (dlrm, [{"batch": 3}, {"batch": 1}, {"batch": 40}]),
    "gemma2": (gemma2, _TEXT),
    "gnn": (gnn, [{"nodes": 12, "links": 30}, {"nodes": 15, "links": 4}]),
    "int4": (int4, _TEXT),
    "qwen3": (qwen3, _TEXT),
    "stft": (stft, _WAVES),
    "t5": (t5, _TEXT),
    "wav2vec2": (wav2vec2, _WAVES),
}
