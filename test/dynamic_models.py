"""Small models with symbolic sizes: perceptron, encoder, decoder, convolutional network."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
from onnx import TensorProto, helper

from mgx_mlir.sizes.arithmetic import evaluate
from mgx_mlir.sizes.parser import parse
from test.onnx_models import Builder, small


def mlp() -> onnx.ModelProto:
    """Symbol: batch."""
    b = Builder()
    x = b.op("Relu", b.linear("x", "first", 16, 32))
    y = b.op("Softmax", b.linear(x, "second", 32, 10), axis=-1)
    inputs = {"x": (TensorProto.FLOAT, ["batch", 16])}
    return b.model(inputs, {"y": (y, ["batch", 10])}, "mlp")


def bert() -> onnx.ModelProto:
    """An encoder whose positions are an input. Symbols: batch, seq (at most 12)."""
    model = small("bert", batch="batch")
    for value in (*model.graph.input, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims) == 3 or value.name in ("input_ids", "attention_mask"):
            dims[1].dim_param = "seq"
    for node in model.graph.node:
        if node.op_type == "Gather" and node.input[0] == "embeddings.position":
            node.input[1] = "position_ids"
    positions = helper.make_tensor_value_info("position_ids", TensorProto.INT64, [1, "seq"])
    model.graph.input.append(positions)
    return model


def conv() -> onnx.ModelProto:
    """Convolutions, pooling, a residual sum and a classifier. Symbol: batch."""
    b = Builder()
    w = b.weight("w1", 8, 3, 3, 3)
    x = b.op("Conv", "x", w, b.weight("b1", 8), pads=[1, 1, 1, 1], strides=[2, 2])
    x = b.op("MaxPool", b.op("Relu", x), kernel_shape=[2, 2], strides=[2, 2])
    x = b.op("Add", x, b.op("Conv", x, b.weight("w2", 8, 8, 3, 3), pads=[1, 1, 1, 1]))
    y = b.linear(b.op("Flatten", b.op("GlobalAveragePool", x)), "classes", 8, 10)
    inputs = {"x": (TensorProto.FLOAT, ["batch", 3, 16, 16])}
    return b.model(inputs, {"y": (y, ["batch", 10])}, "conv")


def images(*sizes: str) -> onnx.ModelProto:
    """A residual block, one of depthwise convolutions, and poolings.

    sizes: the names of height and width; 32 each without. Symbols: batch, and these.
    """
    b = Builder()

    def conv(
        x: str, channels: int, filters: int, window: int, group: int = 1, step: int = 1
    ) -> str:
        name = f"w{len(b.weights)}"
        scale = (channels // group * window**2) ** -0.5
        w = b.weight(name, filters, channels // group, window, window, scale=scale)
        pads, strides = [window // 2] * 4, [step, step]
        bias = b.weight(f"{name}.bias", filters, scale=0.1)
        return b.op("Conv", x, w, bias, pads=pads, strides=strides, group=group)

    x = b.op("Relu", conv("x", 3, 16, 7, step=2))
    x = b.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = b.op("Relu", conv(x, 16, 16, 3))
    x = b.op("Relu", b.op("Add", conv(y, 16, 16, 3), x))
    y = b.op("HardSwish", conv(x, 16, 48, 1))
    y = b.op("HardSwish", conv(y, 48, 48, 5, group=48, step=2))
    x = b.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    x = b.op("Add", conv(y, 48, 32, 1), conv(x, 16, 32, 1))
    y = b.op("Relu", conv(x, 32, 40, 3, group=2, step=2))
    y = b.linear(b.op("Flatten", b.op("GlobalAveragePool", y)), "classes", 40, 10)
    inputs = {"x": (TensorProto.FLOAT, ["batch", 3, *(sizes or (32, 32))])}
    return b.model(inputs, {"y": (y, ["batch", 10])}, "images")


def decoder(heads: int = 4, each: int = 8, inner: int = 64) -> onnx.ModelProto:
    """A layer with a cache of keys and values. Symbols: batch, seq, past."""
    b, width = Builder(), heads * each
    normal = b.layer_norm("x", "first", width)
    parts = b.op("Split", b.linear(normal, "qkv", width, 3 * width), outputs=3, axis=-1)
    shape = b.constant([0, 0, heads, each])
    q, k, v = (b.op("Transpose", b.op("Reshape", part, shape), perm=[0, 2, 1, 3]) for part in parts)
    k = b.op("Concat", "past_keys", k, axis=2)
    v = b.op("Concat", "past_values", v, axis=2)
    scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = b.op("Mul", scores, b.constant(each**-0.5, np.float32))
    hidden = b.op("Sub", b.constant(1, np.float32), b.op("Cast", "mask", to=TensorProto.FLOAT))
    bias = b.op("Mul", hidden, b.constant(-1e4, np.float32))
    scores = b.op("Add", scores, b.op("Unsqueeze", bias, b.constant([1, 2])))
    y = b.op("MatMul", b.op("Softmax", scores, axis=-1), v)
    y = b.op("Transpose", y, perm=[0, 2, 1, 3])
    y = b.op("Reshape", y, b.constant([0, 0, width]))
    x = b.op("Add", "x", b.linear(y, "output", width, width))
    z = b.gelu(b.linear(b.layer_norm(x, "second", width), "up", width, inner))
    y = b.op("Add", x, b.linear(z, "down", inner, width))
    past = ["batch", heads, "past", each]
    inputs = {
        "x": (TensorProto.FLOAT, ["batch", "seq", width]),
        "mask": (TensorProto.INT64, ["batch", "past+seq"]),
        "past_keys": (TensorProto.FLOAT, past),
        "past_values": (TensorProto.FLOAT, past),
    }
    total = ["batch", heads, "past+seq", each]
    outputs = {"y": (y, ["batch", "seq", width]), "keys": (k, total), "values": (v, total)}
    return b.model(inputs, outputs, "decoder")


def products() -> onnx.ModelProto:
    """A product of two batches of matrices, with a sum. Symbols: batch, m, k, n."""
    b = Builder()
    shapes = {"x": ["batch", "m", "k"], "w": ["batch", "k", "n"], "z": ["m", "n"]}
    y = b.op("Add", b.op("MatMul", "x", "w"), "z")
    inputs = {name: (TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    return b.model(inputs, {"y": (y, ["batch", "m", "n"])}, "products")


MODELS = {
    "bert": bert,
    "conv": conv,
    "decoder": decoder,
    "images": images,
    "mlp": mlp,
    "pictures": partial(images, "h", "w"),
    "products": products,
}
SIZES: dict[str, list[dict[str, int]]] = {
    "bert": [{"batch": 2, "seq": 5}, {"batch": 1, "seq": 12}, {"batch": 3, "seq": 1}],
    "conv": [{"batch": 1}, {"batch": 3}],
    "decoder": [
        {"batch": 1, "seq": 1, "past": 7},
        {"batch": 2, "seq": 3, "past": 1},
        {"batch": 1, "seq": 5, "past": 70},
    ],
    "images": [{"batch": 1}, {"batch": 3}, {"batch": 17}],
    "mlp": [{"batch": 1}, {"batch": 7}],
    "pictures": [
        {"batch": 1, "h": 32, "w": 32},
        {"batch": 2, "h": 37, "w": 51},
        {"batch": 1, "h": 9, "w": 2},
        {"batch": 2, "h": 140, "w": 300},
    ],
    "products": [
        {"batch": 2, "m": 13, "k": 24, "n": 32},
        {"batch": 2, "m": 13, "k": 27, "n": 32},
        {"batch": 3, "m": 1, "k": 40, "n": 31},
        {"batch": 1, "m": 270, "k": 72, "n": 264},
    ],
}


def named_sizes(model: onnx.ModelProto, sizes: dict[str, int]) -> dict[str, int]:
    """The size of each name in the inputs' shapes, formulas among them."""
    shapes = (value.type.tensor_type.shape for value in model.graph.input)
    names = {d.dim_param for shape in shapes for d in shape.dim if d.dim_param}
    return sizes | {name: evaluate(parse(name), sizes) for name in names}


def inputs_of(
    model: onnx.ModelProto, sizes: dict[str, int], seed: int = 0
) -> dict[str, np.ndarray]:
    """Random inputs where the symbols have these sizes."""
    rng, named = np.random.default_rng(seed), named_sizes(model, sizes)
    arrays, weights = {}, {i.name for i in model.graph.initializer}
    for value in model.graph.input:
        if value.name in weights:
            continue
        tensor = value.type.tensor_type
        shape = [named.get(d.dim_param, d.dim_value) for d in tensor.shape.dim]
        if "mask" in value.name:
            array = (rng.random(shape) < 0.8) | (np.arange(shape[-1]) == 0)
        elif tensor.elem_type == TensorProto.INT64:
            array = rng.integers(0, 12, shape)
        else:
            array = rng.normal(size=shape)
        arrays[value.name] = array.astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return arrays
