"""Models for tests and benchmarks, built by script, with seeded random weights.

    python test/onnx_models.py bert out.onnx     (bert, gpt2, lstm, resnet, vit; --small)

The graphs are those that PyTorch's exporter writes: decomposed Gelu, shapes computed by
Shape, Gather and Concat.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
_LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


class Builder:
    """Nodes and initialisers of a graph; each method returns the name of its result."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        name = f"/{kind}_{len(self.nodes)}"
        results = [f"{name}_out{i}" if i else f"{name}_out" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), results, name, **attributes))
        return results[0] if outputs == 1 else results

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        return self.add(np.asarray(value, dtype), f"constant_{len(self.weights)}")

    def add(self, array: np.ndarray, name: str) -> str:
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, name: str, *shape: int, scale: float | None = None) -> str:
        scale = 1 / np.sqrt(shape[0]) if scale is None else scale
        return self.add(self.rng.normal(0, scale, shape).astype(np.float32), name)

    def linear(self, x: str, name: str, inputs: int, outputs: int) -> str:
        y = self.op("MatMul", x, self.weight(f"{name}.weight", inputs, outputs))
        return self.op("Add", self.weight(f"{name}.bias", outputs, scale=0.02), y)

    def layer_norm(self, x: str, name: str, width: int) -> str:
        scale = self.add(1 + self.rng.normal(0, 0.02, width).astype(np.float32), f"{name}.weight")
        bias = self.weight(f"{name}.bias", width, scale=0.02)
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def gelu(self, x: str) -> str:
        inner = self.op("Div", x, self.constant(np.sqrt(2), np.float32))
        inner = self.op("Add", self.op("Erf", inner), self.constant(1, np.float32))
        return self.op("Mul", self.op("Mul", x, inner), self.constant(0.5, np.float32))

    def sizes(self, x: str, places: Sequence[int], others: Sequence[int]) -> str:
        """A shape: some sizes of x, then constants."""
        shape = self.op("Shape", x)
        parts = [
            self.op("Unsqueeze", self.op("Gather", shape, self.constant(p), axis=0), zero)
            for p in places
            for zero in [self.constant([0])]
        ]
        parts += [self.constant([n]) for n in others]
        return self.op("Concat", *parts, axis=0)

    def attention(self, x: str, name: str, width: int, heads: int, mask: str | None) -> str:
        each = width // heads

        def split(part: str) -> str:
            y = self.linear(x, f"{name}.{part}", width, width)
            return self.op("Reshape", y, self.sizes(y, (0, 1), (heads, each)))

        q, k, v = (split(part) for part in ("query", "key", "value"))
        q = self.op("Transpose", q, perm=[0, 2, 1, 3])
        k = self.op("Transpose", k, perm=[0, 2, 3, 1])
        v = self.op("Transpose", v, perm=[0, 2, 1, 3])
        scores = self.op("MatMul", q, k)
        scores = self.op("Div", scores, self.constant(np.sqrt(each), np.float32))
        if mask is not None:
            scores = self.op("Add", scores, mask)
        shares = self.op("Softmax", scores, axis=-1)
        y = self.op("Transpose", self.op("MatMul", shares, v), perm=[0, 2, 1, 3])
        y = self.op("Reshape", y, self.sizes(y, (0, 1), (width,)))
        return self.linear(y, f"{name}.output", width, width)

    def model(
        self,
        inputs: dict[str, tuple[int, Sequence[int | str]]],
        outputs: dict[str, tuple[str, Sequence[int | str]]],
        name: str,
    ) -> onnx.ModelProto:
        for result, (source, _) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [source], [result], f"/{result}"))
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
            [
                helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
                for n, (_, s) in outputs.items()
            ],
            self.weights,
        )
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def bert(
    layers: int = 6,
    width: int = 384,
    tokens: int | str = 128,
    heads: int = 12,
    vocabulary: int = 30522,
    batch: int | str = 1,
    seed: int = 0,
) -> onnx.ModelProto:
    """An encoder with post-normalisation. Inputs: input_ids, attention_mask (int64)."""
    b = Builder(seed)
    longest = tokens if isinstance(tokens, int) else 512
    words = b.weight("embeddings.word", vocabulary, width, scale=0.02)
    places = b.weight("embeddings.position", longest, width, scale=0.02)
    x = b.op("Gather", words, "input_ids", axis=0)
    if isinstance(tokens, int):
        x = b.op("Add", x, b.op("Gather", places, b.constant(np.arange(tokens)[None]), axis=0))
    else:
        length = b.op("Gather", b.op("Shape", "input_ids"), b.constant([1]), axis=0)
        x = b.op("Add", x, b.op("Slice", places, b.constant([0]), length, b.constant([0])))
    x = b.layer_norm(x, "embeddings.norm", width)
    mask = b.op("Unsqueeze", "attention_mask", b.constant([1, 2]))
    mask = b.op("Sub", b.constant(1, np.float32), b.op("Cast", mask, to=TensorProto.FLOAT))
    mask = b.op("Mul", mask, b.constant(np.finfo(np.float32).min, np.float32))
    for layer in range(layers):
        name = f"layer.{layer}"
        x = b.op("Add", b.attention(x, f"{name}.attention", width, heads, mask), x)
        x = b.layer_norm(x, f"{name}.attention.norm", width)
        y = b.gelu(b.linear(x, f"{name}.intermediate", width, 4 * width))
        x = b.op("Add", b.linear(y, f"{name}.output", 4 * width, width), x)
        x = b.layer_norm(x, f"{name}.output.norm", width)
    first = b.op("Gather", x, b.constant(0), axis=1)
    pooled = b.op("Gemm", first, b.weight("pooler.weight", width, width),
                  b.weight("pooler.bias", width, scale=0.02), transB=1)  # fmt: skip
    inputs = {n: (TensorProto.INT64, [batch, tokens]) for n in ("input_ids", "attention_mask")}
    outputs = {
        "last_hidden_state": (x, [batch, tokens, width]),
        "pooler_output": (b.op("Tanh", pooled), [batch, width]),
    }
    return b.model(inputs, outputs, "bert")


def vit(
    layers: int = 12,
    width: int = 192,
    heads: int = 3,
    image: int = 224,
    patch: int = 16,
    classes: int = 1000,
    batch: int | str = 1,
    seed: int = 1,
) -> onnx.ModelProto:
    """A vision transformer with pre-normalisation. Input: pixel_values (float)."""
    b = Builder(seed)
    weight = b.weight("patch.weight", width, 3, patch, patch, scale=0.02)
    bias = b.weight("patch.bias", width, scale=0.02)
    window = {"kernel_shape": [patch, patch], "strides": [patch, patch]}
    x = b.op("Conv", "pixel_values", weight, bias, **window)
    x = b.op("Reshape", x, b.sizes(x, (0, 1), (-1,)))
    x = b.op("Transpose", x, perm=[0, 2, 1])
    token = b.weight("class_token", 1, 1, width, scale=0.02)
    token = b.op("Expand", token, b.sizes(x, (0,), (1, width)))
    x = b.op("Concat", token, x, axis=1)
    patches = (image // patch) ** 2
    x = b.op("Add", x, b.weight("position", 1, patches + 1, width, scale=0.02))
    for layer in range(layers):
        name = f"layer.{layer}"
        y = b.layer_norm(x, f"{name}.norm1", width)
        x = b.op("Add", x, b.attention(y, f"{name}.attention", width, heads, None))
        y = b.linear(b.layer_norm(x, f"{name}.norm2", width), f"{name}.mlp1", width, 4 * width)
        x = b.op("Add", x, b.linear(b.gelu(y), f"{name}.mlp2", 4 * width, width))
    x = b.layer_norm(x, "norm", width)
    first = b.op("Gather", x, b.constant(0), axis=1)
    logits = b.op("Gemm", first, b.weight("head.weight", classes, width),
                  b.weight("head.bias", classes, scale=0.02), transB=1)  # fmt: skip
    inputs = {"pixel_values": (TensorProto.FLOAT, [batch, 3, image, image])}
    return b.model(inputs, {"logits": (logits, [batch, classes])}, "vit")


def gpt2(
    layers: int = 6,
    width: int = 384,
    tokens: int = 64,
    heads: int = 12,
    vocabulary: int = 50257,
    batch: int = 1,
    seed: int = 3,
) -> onnx.ModelProto:
    """A decoder with a causal mask, projections as Gemm, and Gelu by tanh. Input: input_ids."""
    b = Builder(seed)
    words = b.weight("wte", vocabulary, width, scale=0.02)
    x = b.op("Gather", words, "input_ids", axis=0)
    x = b.op("Add", x, b.weight("wpe", 1, tokens, width, scale=0.02))
    causal = b.add(np.tril(np.ones((1, 1, tokens, tokens), bool)), "causal")

    def projection(y: str, name: str, inputs: int, outputs: int) -> str:
        shape = b.sizes(y, (0, 1), (outputs,))
        y = b.op("Reshape", y, b.constant([-1, inputs]))
        weight = b.weight(f"{name}.weight", inputs, outputs)
        y = b.op("Gemm", y, weight, b.weight(f"{name}.bias", outputs, scale=0.02))
        return b.op("Reshape", y, shape)

    def attention(y: str, name: str) -> str:
        parts = b.op("Split", projection(y, f"{name}.c_attn", width, 3 * width),
                     b.constant([width] * 3), axis=2, outputs=3)  # fmt: skip
        split = [b.op("Reshape", p, b.sizes(p, (0, 1), (heads, width // heads))) for p in parts]
        orders = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        q, k, v = (b.op("Transpose", p, perm=o) for p, o in zip(split, orders, strict=True))
        scores = b.op("Div", b.op("MatMul", q, k), b.constant(np.sqrt(width // heads), np.float32))
        low = b.constant(np.finfo(np.float32).min, np.float32)
        shares = b.op("Softmax", b.op("Where", causal, scores, low), axis=-1)
        y = b.op("Transpose", b.op("MatMul", shares, v), perm=[0, 2, 1, 3])
        y = b.op("Reshape", y, b.sizes(y, (0, 1), (width,)))
        return projection(y, f"{name}.c_proj", width, width)

    def gelu(y: str) -> str:
        cube = b.op(
            "Mul", b.op("Pow", y, b.constant(3, np.float32)), b.constant(0.044715, np.float32)
        )
        inner = b.op("Mul", b.op("Add", y, cube), b.constant(np.sqrt(2 / np.pi), np.float32))
        inner = b.op("Add", b.op("Tanh", inner), b.constant(1, np.float32))
        return b.op("Mul", b.op("Mul", y, b.constant(0.5, np.float32)), inner)

    for layer in range(layers):
        name = f"h.{layer}"
        x = b.op("Add", attention(b.layer_norm(x, f"{name}.ln_1", width), f"{name}.attn"), x)
        y = projection(b.layer_norm(x, f"{name}.ln_2", width), f"{name}.c_fc", width, 4 * width)
        x = b.op("Add", x, projection(gelu(y), f"{name}.c_proj", 4 * width, width))
    x = b.layer_norm(x, "ln_f", width)
    logits = b.op("MatMul", x, b.op("Transpose", words, perm=[1, 0]))
    inputs = {"input_ids": (TensorProto.INT64, [batch, tokens])}
    return b.model(inputs, {"logits": (logits, [batch, tokens, vocabulary])}, "gpt2")


def resnet(
    stages: Sequence[int] = (3, 4, 6, 3),
    width: int = 64,
    image: int = 224,
    classes: int = 1000,
    batch: int = 1,
    seed: int = 4,
) -> onnx.ModelProto:
    """Bottlenecks with a residual, as ResNet-50's. Input: pixel_values (float)."""
    b = Builder(seed)

    def convolution(
        x: str, name: str, sizes: Sequence[int], relu: bool = True, **window: Any
    ) -> str:
        scale = np.sqrt(2 / np.prod(sizes[1:]))
        y = b.op("Conv", x, b.weight(f"{name}.weight", *sizes, scale=scale), **window)
        norm = [b.add(np.ones(sizes[0], np.float32), f"{name}.scale")]
        norm += [b.weight(f"{name}.{part}", sizes[0], scale=0.02) for part in ("bias", "mean")]
        norm.append(b.add(np.ones(sizes[0], np.float32), f"{name}.variance"))
        y = b.op("BatchNormalization", y, *norm)
        return b.op("Relu", y) if relu else y

    x = convolution("pixel_values", "stem", (width, 3, 7, 7), strides=[2, 2], pads=[3] * 4)
    x = b.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = width
    for stage, count in enumerate(stages):
        inner, outer = width << stage, 4 * width << stage
        for block in range(count):
            name = f"stage.{stage}.{block}"
            stride = [2, 2] if stage and not block else [1, 1]
            y = convolution(x, f"{name}.1", (inner, inputs, 1, 1))
            y = convolution(y, f"{name}.2", (inner, inner, 3, 3), strides=stride, pads=[1] * 4)
            y = convolution(y, f"{name}.3", (outer, inner, 1, 1), relu=False)
            if not block:
                x = convolution(x, f"{name}.0", (outer, inputs, 1, 1), relu=False, strides=stride)
            x = b.op("Relu", b.op("Add", y, x))
            inputs = outer
    x = b.op("Flatten", b.op("GlobalAveragePool", x))
    logits = b.op("Gemm", x, b.weight("head.weight", classes, inputs, scale=0.02),
                  b.weight("head.bias", classes, scale=0.02), transB=1)  # fmt: skip
    given = {"pixel_values": (TensorProto.FLOAT, [batch, 3, image, image])}
    return b.model(given, {"logits": (logits, [batch, classes])}, "resnet")


def lstm(
    layers: int = 2,
    width: int = 128,
    tokens: int | str = 32,
    vocabulary: int = 5000,
    classes: int = 5,
    batch: int | str = 1,
    seed: int = 2,
) -> onnx.ModelProto:
    """A classifier of token sequences: bidirectional LSTMs. Input: input_ids (int64)."""
    b = Builder(seed)
    x = b.op("Gather", b.weight("embedding", vocabulary, width, scale=1.0), "input_ids", axis=0)
    x = b.op("Transpose", x, perm=[1, 0, 2])
    size, last = width, ""
    for layer in range(layers):
        name = f"lstm.{layer}"
        scale = 1 / np.sqrt(width)
        weights = [
            b.weight(f"{name}.W", 2, 4 * width, size, scale=scale),
            b.weight(f"{name}.R", 2, 4 * width, width, scale=scale),
            b.weight(f"{name}.B", 2, 8 * width, scale=scale),
        ]
        zeros = b.op(
            "ConstantOfShape",
            b.op("Concat", b.constant([2]), b.sizes("input_ids", (0,), (width,)), axis=0),
            value=helper.make_tensor("value", TensorProto.FLOAT, [1], [0.0]),
        )
        attributes = {"hidden_size": width, "direction": "bidirectional"}
        y, last, _ = b.op("LSTM", x, *weights, "", zeros, zeros, outputs=3, **attributes)
        y = b.op("Transpose", y, perm=[0, 2, 1, 3])
        x = b.op("Reshape", y, b.constant([0, 0, -1]))
        size = 2 * width
    both = b.op("Transpose", last, perm=[1, 0, 2])
    both = b.op("Reshape", both, b.constant([-1, 2 * width]))
    scores = b.op("Gemm", both, b.weight("head.weight", classes, 2 * width),
                  b.weight("head.bias", classes, scale=0.02), transB=1)  # fmt: skip
    inputs = {"input_ids": (TensorProto.INT64, [batch, tokens])}
    outputs = {"probabilities": (b.op("Softmax", scores, axis=-1), [batch, classes])}
    return b.model(inputs, outputs, "lstm")


def light_names() -> list[str]:
    """The models that the onnx package brings: their structure, with constants as weights."""
    return sorted(path.stem.removeprefix("light_") for path in _LIGHT.glob("light_*.onnx"))


def light(name: str, seed: int | None = None) -> onnx.ModelProto:
    """One of them; with a seed, its weights are random instead of constant.

    The random weights keep the size of activations about the same from layer to layer.
    """
    model = onnx.load(_LIGHT / f"light_{name}.onnx")
    if seed is None:
        return model
    rng = np.random.default_rng(seed)
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    variances = {n.input[4] for n in model.graph.node if n.op_type == "BatchNormalization"}
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        (result,), shape = node.output, shapes[node.input[0]]
        scale = 0.05 if len(shape) < 2 else np.sqrt(2 / np.prod(shape[1:]))
        array = rng.normal(0, scale, shape).astype(np.float32)
        if result in variances or (len(shape) == 1 and "_s" in result):
            array = np.abs(array) + 1
        model.graph.initializer.append(numpy_helper.from_array(array, result))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    inputs = [v for v in model.graph.input if not v.name.endswith("__SHAPE")]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    used = {name for node in kept for name in node.input}
    tensors = [t for t in model.graph.initializer if t.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(tensors)
    model.ir_version = 4  # initialisers need not be inputs
    return model


MODELS = {"bert": bert, "gpt2": gpt2, "lstm": lstm, "resnet": resnet, "vit": vit}
SMALL: dict[str, dict[str, Any]] = {
    "bert": {"layers": 2, "width": 32, "tokens": 12, "heads": 4, "vocabulary": 100},
    "gpt2": {"layers": 2, "width": 32, "tokens": 12, "heads": 4, "vocabulary": 100},
    "lstm": {"layers": 2, "width": 8, "tokens": 5, "vocabulary": 50},
    "resnet": {"stages": (1, 1), "width": 16, "image": 32, "classes": 10},
    "vit": {"layers": 2, "width": 24, "heads": 3, "image": 32, "patch": 8, "classes": 10},
}


def small(name: str, **changes: Any) -> onnx.ModelProto:
    """The model in a size for fast tests."""
    return MODELS[name](**(SMALL[name] | changes))


def half(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with floats of 16 bits in place of its floats of 32; scales of Resize stay."""
    scales = {n.input[2] for n in model.graph.node if n.op_type == "Resize" and len(n.input) > 2}
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.name not in scales:
            array = np.clip(numpy_helper.to_array(tensor), -65504, 65504).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
    return model


def random_inputs(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """An array for each input: token numbers, masks of ones and zeros, or normal numbers."""
    rng = np.random.default_rng(seed)
    initializers = {t.name for t in model.graph.initializer}
    arrays = {}
    for value in model.graph.input:
        if value.name in initializers:
            continue
        tensor = value.type.tensor_type
        shape = [d.dim_value if d.HasField("dim_value") else 2 for d in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if "mask" in value.name:
            array = np.ones(shape)
            array[..., -shape[-1] // 4 :] = 0
        elif np.issubdtype(dtype, np.integer):
            array = rng.integers(0, 40, shape)
        else:
            array = rng.normal(size=shape)
        arrays[value.name] = np.asarray(array).astype(dtype)
    return arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("path")
    parser.add_argument("--small", action="store_true", help="the size that tests use")
    arguments = parser.parse_args()
    make = small if arguments.small else lambda name: MODELS[name]()
    onnx.save(make(arguments.model), arguments.path)


if __name__ == "__main__":
    main()
