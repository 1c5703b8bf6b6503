"""Whole networks with random weights, for `benchmarks.nets` and others; each of a number of images.

`llama` is one layer of 2048, one token after 1024 others, which memory bounds; `llama7b` is one of
4096 after 2048 others, `prompt` the same with 512 tokens. `decoder` is a step of 16 layers of 2048
after 2048 tokens, as optimum exports them, with symbols; `decoder2` has two of them, `grouped2` as
onnxruntime-genai writes them. `whisper` is the encoder of the smallest one with one layer. The
shufflenet and YOLOv10n have one image always.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from unittest.mock import patch

import numpy as np
import onnx
from onnx import TensorProto

from benchmarks.unet import Pooled, unet
from benchmarks.yolo import yolo
from test import decoder_models
from test.onnx_models import Builder, bert, half, light, resnet, vit

# Expansion, channels, blocks, stride, window of each stage.
Stages = Sequence[tuple[int, int, int, int, int]]
_MOBILENET = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3), (6, 160, 3, 2, 3), (6, 320, 1, 1, 3),
)  # fmt: skip
_EFFICIENTNET = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip
_MOBILENET3 = (
    (1, 16, 1, 1, 3), (4, 24, 2, 2, 3), (3, 40, 3, 2, 5), (6, 80, 4, 2, 3),
    (6, 112, 2, 1, 3), (6, 160, 3, 2, 5),
)  # fmt: skip


def inverted(
    stages: Stages, activation: str, squeeze: bool, batch: int, image: int = 224
) -> onnx.ModelProto:
    """Inverted residuals, as MobileNet v2's; with `squeeze` and 'silu' EfficientNet's.

    With `squeeze` and 'hardswish' they are as MobileNet v3's.
    """
    b = Builder(7)

    def convolution(
        x: str, name: str, sizes: Sequence[int], act: bool = True, **window: int
    ) -> str:
        stride, group, size = window.get("stride", 1), window.get("group", 1), sizes[-1]
        weights = [
            b.weight(f"{name}.w", *sizes, scale=math.sqrt(2 / math.prod(sizes[1:]))),
            b.weight(f"{name}.b", sizes[0], scale=0.02),
        ]
        pads = [size // 2] * 4
        y: str = b.op("Conv", x, *weights, strides=[stride] * 2, pads=pads, group=group)
        return activated(y) if act else y

    def activated(y: str) -> str:
        if activation == "silu":
            return str(b.op("Mul", y, b.op("Sigmoid", y)))
        if activation == "hardswish":
            return str(b.op("HardSwish", y))
        limits = b.constant(0, "float32"), b.constant(6, "float32")
        return str(b.op("Clip", y, *limits))

    x = convolution("pixel_values", "stem", (32, 3, 3, 3), stride=2)
    inputs = 32
    for number, (expand, outputs, count, first, window) in enumerate(stages):
        for block in range(count):
            name, inner, stride = f"{number}.{block}", inputs * expand, 1 if block else first
            y = convolution(x, f"{name}.1", (inner, inputs, 1, 1)) if expand > 1 else x
            y = convolution(y, f"{name}.2", (inner, 1, window, window), stride=stride, group=inner)
            if squeeze:
                few = max(1, inputs // 4)
                z = b.op("GlobalAveragePool", y)
                z = convolution(z, f"{name}.3", (few, inner, 1, 1))
                z = convolution(z, f"{name}.4", (inner, few, 1, 1), act=False)
                y = b.op("Mul", y, b.op("Sigmoid", z))
            y = convolution(y, f"{name}.5", (outputs, inner, 1, 1), act=False)
            x = b.op("Add", x, y) if stride == 1 and inputs == outputs else y
            inputs = outputs
    x = convolution(x, "head", (1280, inputs, 1, 1))
    return _classified(b, x, 1280, batch, image)


def convnext(
    batch: int,
    depths: Sequence[int] = (3, 3, 9, 3),
    widths: Sequence[int] = (96, 192, 384, 768),
    image: int = 224,
) -> onnx.ModelProto:
    """ConvNeXt's blocks: a depthwise 7x7, a normalization and two products with channels last."""
    b = Builder(8)

    def normed(x: str, name: str, width: int) -> str:
        y = b.layer_norm(b.op("Transpose", x, perm=[0, 2, 3, 1]), name, width)
        return str(b.op("Transpose", y, perm=[0, 3, 1, 2]))

    x, inputs = "pixel_values", 3
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        size = 2 if stage else 4
        if stage:
            x = normed(x, f"{stage}.norm", inputs)
        filters = b.weight(f"{stage}.w", width, inputs, size, size, scale=0.05)
        x = b.op("Conv", x, filters, b.weight(f"{stage}.b", width), strides=[size] * 2)
        if not stage:
            x = normed(x, "norm", width)
        for block in range(depth):
            name = f"{stage}.{block}"
            filters = b.weight(f"{name}.w", width, 1, 7, 7, scale=0.1)
            y = b.op("Conv", x, filters, b.weight(f"{name}.b", width), pads=[3] * 4, group=width)
            y = b.layer_norm(b.op("Transpose", y, perm=[0, 2, 3, 1]), f"{name}.norm", width)
            y = b.gelu(b.linear(y, f"{name}.1", width, 4 * width))
            y = b.linear(y, f"{name}.2", 4 * width, width)
            y = b.op("Mul", y, b.weight(f"{name}.s", width))
            x = b.op("Add", x, b.op("Transpose", y, perm=[0, 3, 1, 2]))
        inputs = width
    return _classified(b, x, inputs, batch, image)


def llama(
    batch: int,
    width: int = 2048,
    heads: int = 32,
    few: int = 4,
    inner: int = 5632,
    past: int = 1024,
    tokens: int = 1,
) -> onnx.ModelProto:
    """A decoder's layer: grouped queries, keys and values of `past` tokens, SwiGLU.

    Several tokens see those before them alone, and the first of them all that are past.
    """
    b, head = Builder(9), width // heads

    def normed(x: str, name: str) -> str:
        size = b.op("ReduceMean", b.op("Mul", x, x), axes=[-1], keepdims=1)
        root = b.op("Sqrt", b.op("Add", size, b.constant(1e-5, "float32")))
        return str(b.op("Mul", b.op("Div", x, root), b.weight(name, width)))

    def product(x: str, name: str, *sizes: int) -> str:
        return str(b.op("MatMul", x, b.weight(name, *sizes, scale=sizes[0] ** -0.5)))

    def split(x: str, count: int) -> str:
        parts = b.op("Reshape", x, b.constant([batch, tokens, count, head], "int64"))
        return str(b.op("Transpose", parts, perm=[0, 2, 1, 3]))

    def cached(name: str) -> str:
        """Keys or values of all tokens, each head's for the queries that share it."""
        new = split(product(x, f"{name}.w", width, few * head), few)
        both = b.op("Concat", name, new, axis=2) if past else new
        both = b.op("Unsqueeze", both, b.constant([2], "int64"))
        groups = [batch, few, heads // few, past + tokens, head]
        shape = b.constant([batch, heads, past + tokens, head], "int64")
        return str(b.op("Reshape", b.op("Expand", both, b.constant(groups, "int64")), shape))

    x = normed("x", "first")
    queries = split(product(x, "q.w", width, width), heads)
    scores = b.op("MatMul", queries, b.op("Transpose", cached("keys"), perm=[0, 1, 3, 2]))
    scores = b.op("Mul", scores, b.constant(head**-0.5, "float32"))
    if tokens > 1:
        seen = np.tri(tokens, past + tokens, past, bool)
        scores = b.op("Where", b.add(seen, "seen"), scores, b.constant(-65504, "float32"))
    shares = b.op("Softmax", scores, axis=-1)
    found = b.op("Transpose", b.op("MatMul", shares, cached("values")), perm=[0, 2, 1, 3])
    found = b.op("Reshape", found, b.constant([batch, tokens, width], "int64"))
    middle = b.op("Add", "x", product(found, "o.w", width, width))
    x = normed(middle, "second")
    gate = product(x, "gate.w", width, inner)
    gate = b.op("Mul", b.op("Mul", gate, b.op("Sigmoid", gate)), product(x, "up.w", width, inner))
    y = b.op("Add", middle, product(gate, "down.w", inner, width))
    old, token = [batch, few, past, head], [batch, tokens, width]
    given = {"x": token} | ({"keys": old, "values": old} if past else {})
    inputs = {name: (TensorProto.FLOAT, shape) for name, shape in given.items()}
    return b.model(inputs, {"y": (y, token)}, "llama")


def decoder(layers: int, grouped: bool = False) -> onnx.ModelProto:
    """Layers of 2048 with a cache; by `grouped` with GroupQueryAttention. Many are of f16."""
    width, each = (1024, 32) if grouped else (2048, 64)  # the grouped model doubles both
    sizes = {"VOCABULARY": 32000, "WIDTH": width, "INNER": 5632, "HEADS": 32, "SHARED": 4,
             "EACH": each, "LAYERS": layers, "POSITIONS": 4096}  # fmt: skip
    dtype = np.float32 if layers < 8 else np.float16  # a model of 2 GB cannot be written
    with patch.multiple(decoder_models, **sizes, Builder=partial(Pooled, dtype=dtype)):
        return decoder_models.grouped() if grouped else decoder_models.llama()


def whisper(batch: int, layers: int = 1, width: int = 384, heads: int = 6) -> onnx.ModelProto:
    """Whisper's encoder: two convolutions of 3000 frames, and layers of 1500 tokens."""
    b = Builder(10)

    def convolution(x: str, name: str, inputs: int, stride: int) -> str:
        weights = [b.weight(f"{name}.w", width, inputs, 3), b.weight(f"{name}.b", width)]
        return b.gelu(b.op("Conv", x, *weights, strides=[stride], pads=[1, 1]))

    x = convolution(convolution("mel", "first", 80, 1), "second", width, 2)
    x = b.op("Add", b.op("Transpose", x, perm=[0, 2, 1]), b.weight("places", 1500, width))
    for layer in range(layers):
        y = b.layer_norm(x, f"{layer}.norm1", width)
        x = b.op("Add", x, b.attention(y, f"{layer}.attention", width, heads, None))
        y = b.linear(b.layer_norm(x, f"{layer}.norm2", width), f"{layer}.up", width, 4 * width)
        x = b.op("Add", x, b.linear(b.gelu(y), f"{layer}.down", 4 * width, width))
    given = {"mel": (TensorProto.FLOAT, [batch, 80, 3000])}
    found = {"y": (b.layer_norm(x, "norm", width), [batch, 1500, width])}
    return b.model(given, found, "whisper")


def _classified(b: Builder, x: str, width: int, batch: int, image: int) -> onnx.ModelProto:
    x = b.op("Flatten", b.op("GlobalAveragePool", x))
    logits = b.linear(x, "classes", width, 1000)
    given = {"pixel_values": (TensorProto.FLOAT, [batch, 3, image, image])}
    return b.model(given, {"logits": (logits, [batch, 1000])}, "net")


# The sizes of symbols in a run, but for the number of images or texts.
SIZES: dict[str, dict[str, int]] = {
    name: decoder_models.step(1, 2047) for name in ("decoder", "decoder2", "grouped2")
}
MODELS: dict[str, Callable[[int], onnx.ModelProto]] = {
    "mobilenet": partial(inverted, _MOBILENET, "relu6", False),
    "mobilenet3": partial(inverted, _MOBILENET3, "hardswish", True),
    "efficientnet": partial(inverted, _EFFICIENTNET, "silu", True),
    "convnext": convnext,
    "bert": lambda batch: bert(layers=12, width=768, batch=batch),
    "vit": lambda batch: vit(width=768, heads=12, batch=batch),
    "llama": llama,
    "llama7b": partial(llama, width=4096, few=32, inner=11008, past=2048),
    "prompt": partial(llama, width=4096, few=32, inner=11008, past=0, tokens=512),
    "decoder": lambda batch: half(decoder(16)),
    "decoder2": lambda batch: decoder(2),
    "grouped2": lambda batch: decoder(2, grouped=True),
    "unet": lambda batch: unet(2 * batch),
    "whisper": whisper,
    "yolov10n": yolo,
    "shufflenet": lambda batch: light("shufflenet", seed=0),
    "resnet50": lambda batch: resnet(batch=batch),
}
