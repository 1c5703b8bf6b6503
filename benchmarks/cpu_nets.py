"""Networks that `benchmarks.cpu` runs beside those of other benchmarks: batch 1, random weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import onnx
from onnx import TensorProto, helper

from mgx_mlir import Precision, quantize
from test import decoder_models, quantized_models
from test.onnx_models import Builder, lstm


def _convolution(b: Builder, x: str, name: str, sizes: Sequence[int], **window: int) -> str:
    """With `stride` and `group`; as many zeros around the image as keep its size."""
    size, stride = sizes[-1], window.get("stride", 1)
    weights = [
        b.weight(f"{name}.w", *sizes, scale=math.sqrt(2 / math.prod(sizes[1:]))),
        b.weight(f"{name}.b", sizes[0], scale=0.02),
    ]
    pads, group = [size // 2] * 4, window.get("group", 1)
    return str(b.op("Conv", x, *weights, strides=[stride] * 2, pads=pads, group=group))


def perceptron() -> onnx.ModelProto:
    """Three layers of 64."""
    b, x = Builder(), "x"
    for number in range(3):
        x = b.op("Relu", b.linear(x, f"layer.{number}", 64, 64))
    return b.model({"x": (TensorProto.FLOAT, [1, 64])}, {"y": (x, [1, 64])}, "perceptron")


def regnet(
    widths: Sequence[int] = (48, 104, 208, 440), depths: Sequence[int] = (1, 3, 6, 6), each: int = 8
) -> onnx.ModelProto:
    """RegNetY-400MF: bottlenecks of grouped convolutions, `each` channels a group, and gates."""
    b = Builder(20)
    x, inputs = b.op("Relu", _convolution(b, "pixel_values", "stem", (32, 3, 3, 3), stride=2)), 32
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        for block in range(depth):
            name, stride = f"{stage}.{block}", 1 if block else 2
            y = b.op("Relu", _convolution(b, x, f"{name}.1", (width, inputs, 1, 1)))
            sizes = (width, each, 3, 3)
            y = _convolution(b, y, f"{name}.2", sizes, stride=stride, group=width // each)
            y, few = b.op("Relu", y), inputs // 4
            z = _convolution(b, b.op("GlobalAveragePool", y), f"{name}.3", (few, width, 1, 1))
            z = _convolution(b, b.op("Relu", z), f"{name}.4", (width, few, 1, 1))
            y = b.op("Mul", y, b.op("Sigmoid", z))
            y = _convolution(b, y, f"{name}.5", (width, width, 1, 1))
            if not block:
                x = _convolution(b, x, f"{name}.0", (width, inputs, 1, 1), stride=stride)
            x, inputs = b.op("Relu", b.op("Add", x, y)), width
    x = b.op("Flatten", b.op("GlobalAveragePool", x))
    given = {"pixel_values": (TensorProto.FLOAT, [1, 3, 224, 224])}
    return b.model(given, {"logits": (b.linear(x, "classes", inputs, 1000), [1, 1000])}, "regnet")


def segformer(
    widths: Sequence[int] = (32, 64, 160, 256),
    heads: Sequence[int] = (1, 2, 5, 8),
    steps: Sequence[int] = (8, 4, 2, 1),
    image: int = 256,
) -> onnx.ModelProto:
    """SegFormer-B0: attention over images whose keys are reduced, and a head of all stages."""
    b, decoded, classes = Builder(21), 256, 150
    x, inputs, side, found = "pixel_values", 3, image, []

    def tokens(y: str, width: int) -> str:
        y = b.op("Reshape", y, b.constant([1, width, -1]))
        return str(b.op("Transpose", y, perm=[0, 2, 1]))

    def pixels(y: str, width: int, side: int) -> str:
        y = b.op("Transpose", y, perm=[0, 2, 1])
        return str(b.op("Reshape", y, b.constant([1, width, side, side])))

    def attention(y: str, name: str, width: int, count: int, step: int) -> str:
        each, z = width // count, y
        if step > 1:
            filters = b.weight(f"{name}.r", width, width, step, step, scale=0.05)
            z = b.op("Conv", pixels(y, width, side), filters, strides=[step] * 2)
            z = b.layer_norm(tokens(z, width), f"{name}.rn", width)
        q, k, v = (
            b.op("Reshape", b.linear(t, f"{name}.{part}", width, width),
                 b.constant([1, -1, count, each]))
            for t, part in ((y, "q"), (z, "k"), (z, "v"))
        )  # fmt: skip
        q, v = (b.op("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
        scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 2, 3, 1]))
        scores = b.op("Mul", scores, b.constant(each**-0.5, np.float32))
        y = b.op("MatMul", b.op("Softmax", scores, axis=-1), v)
        y = b.op("Reshape", b.op("Transpose", y, perm=[0, 2, 1, 3]), b.constant([1, -1, width]))
        return b.linear(y, f"{name}.o", width, width)

    for stage, (width, count, step) in enumerate(zip(widths, heads, steps, strict=True)):
        size, stride = (3, 2) if stage else (7, 4)
        x = _convolution(b, x, f"{stage}", (width, inputs, size, size), stride=stride)
        side //= stride
        x = b.layer_norm(tokens(x, width), f"{stage}.n", width)
        for block in range(2):
            name = f"{stage}.{block}"
            y = b.layer_norm(x, f"{name}.n1", width)
            x = b.op("Add", x, attention(y, name, width, count, step))
            y = b.linear(b.layer_norm(x, f"{name}.n2", width), f"{name}.up", width, 4 * width)
            y = pixels(y, 4 * width, side)
            y = _convolution(b, y, f"{name}.d", (4 * width, 1, 3, 3), group=4 * width)
            y = b.linear(b.gelu(tokens(y, 4 * width)), f"{name}.down", 4 * width, width)
            x = b.op("Add", x, y)
        x = b.layer_norm(x, f"{stage}.last", width)
        y = pixels(b.linear(x, f"{stage}.head", width, decoded), decoded, side)
        sizes = b.constant([1, decoded, image // 4, image // 4])
        found.append(b.op("Resize", y, "", "", sizes, mode="linear") if stage else y)
        x, inputs = pixels(x, width, side), width
    x = b.op("Concat", *reversed(found), axis=1)
    x = b.op("Relu", _convolution(b, x, "fuse", (decoded, 4 * decoded, 1, 1)))
    x = _convolution(b, x, "classes", (classes, decoded, 1, 1))
    given = {"pixel_values": (TensorProto.FLOAT, [1, 3, image, image])}
    return b.model(given, {"y": (x, [1, classes, image // 4, image // 4])}, "segformer")


def forest(rows: int, trees: int = 100, depth: int = 8, features: int = 20) -> onnx.ModelProto:
    """A random forest of complete trees with three classes."""
    rng, count = np.random.default_rng(22), 2 ** (depth + 1) - 1
    ids, inner = np.tile(np.arange(count), trees), 2**depth - 1
    leaves = ids >= inner
    tree, total = np.repeat(np.arange(trees), count), trees * count
    shares = rng.dirichlet([1] * 3, trees * 2**depth) / trees
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml",
        nodes_treeids=tree.tolist(), nodes_nodeids=ids.tolist(),
        nodes_featureids=rng.integers(0, features, total).tolist(),
        nodes_values=rng.standard_normal(total).tolist(),
        nodes_modes=["LEAF" if leaf else "BRANCH_LEQ" for leaf in leaves],
        nodes_truenodeids=np.where(leaves, 0, 2 * ids + 1).tolist(),
        nodes_falsenodeids=np.where(leaves, 0, 2 * ids + 2).tolist(),
        class_treeids=np.repeat(tree[leaves], 3).tolist(),
        class_nodeids=np.repeat(ids[leaves], 3).tolist(),
        class_ids=np.tile(np.arange(3), trees * 2**depth).tolist(),
        class_weights=shares.ravel().tolist(), classlabels_int64s=[0, 1, 2],
    )  # fmt: skip
    values = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("x", TensorProto.FLOAT, [rows, features]),
            ("label", TensorProto.INT64, [rows]),
            ("scores", TensorProto.FLOAT, [rows, 3]),
        )
    ]
    graph = helper.make_graph([node], "forest", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def kmeans(rows: int = 1000, features: int = 16, clusters: int = 8) -> onnx.ModelProto:
    """Distances to centres of clusters, and the nearest one, as exporters write them."""
    b = Builder(23)
    centres = b.weight("centres", clusters, features, scale=1.0)
    squares = b.weight("squares", 1, clusters, scale=1.0)
    products = b.op("Gemm", "x", centres, alpha=-2.0, transB=1)
    own = b.op("ReduceSumSquare", "x", axes=[1], keepdims=1)
    distances = b.op("Add", squares, b.op("Add", own, products))
    label = b.op("ArgMin", distances, axis=1, keepdims=0)
    model = b.model(
        {"x": (TensorProto.FLOAT, [rows, features])},
        {"scores": (b.op("Sqrt", b.op("Abs", distances)), [rows, clusters])}, "kmeans",
    )  # fmt: skip
    model.graph.output.append(helper.make_tensor_value_info(label, TensorProto.INT64, [rows]))
    return model


def _int8(make: Callable[[], onnx.ModelProto]) -> onnx.ModelProto:
    return quantized_models.quantized(make(), "qdq_s8s8_channel")


def decode(weights: str = "") -> onnx.ModelProto:
    """A step of a LLaMA of 87 million weights with its cache; in blocks of `weights`, as "int4"."""
    sizes = {"VOCABULARY": 20000, "WIDTH": 768, "INNER": 2048, "HEADS": 12, "SHARED": 12,
             "EACH": 64, "LAYERS": 8, "POSITIONS": 512}  # fmt: skip
    with patch.multiple(decoder_models, **sizes):
        model = decoder_models.llama()
    if not weights:
        return model
    with TemporaryDirectory() as folder:
        quantize(model.SerializeToString(), Precision(weights=weights)).save(f"{folder}/small.onnx")
        return onnx.load(f"{folder}/small.onnx")


# Models whose sizes are open, which one program for any sizes runs, and the sizes of a run.
SIZES: dict[str, dict[str, int]] = {
    "decode": decoder_models.step(),
    "decode int4": decoder_models.step(),
    "bilstm": {"batch": 1, "tokens": 200},
    "bilstm of 8": {"batch": 8, "tokens": 200},
}
MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "regnet": regnet,
    "segformer": segformer,
    "mobilenet int8": partial(_int8, quantized_models.mobilenet),
    "resnet18 int8": partial(_int8, quantized_models.resnet18),
    # 87 million weights, 32 tokens.
    "prefill": partial(
        quantized_models.llama, layers=8, width=768, heads=12, inner=2048, vocabulary=20000
    ),
    "perceptron": perceptron,
    "step": partial(lstm, layers=1, tokens=1),
    "forest": partial(forest, 1),
    "forest of 1000": partial(forest, 1000),
    "kmeans": kmeans,
    "decode": decode,
    "decode int4": partial(decode, "int4"),
    "bilstm": partial(lstm, batch="batch", tokens="tokens"),
    "bilstm of 8": partial(lstm, batch="batch", tokens="tokens"),
}
