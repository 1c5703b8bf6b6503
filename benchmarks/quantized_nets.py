"""Networks with random weights for benchmarks.quantization, beside those of test/onnx_models.py."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx
from onnx import TensorProto

from test.onnx_models import Builder


def whisper(
    layers: int = 4, width: int = 384, heads: int = 6, frames: int = 1000, batch: int = 1
) -> onnx.ModelProto:
    """Whisper's encoder: two convolutions along time, then a transformer. Input: mel (float)."""
    b, mels = Builder(21), 80
    x = "mel"
    for number, (inputs, stride) in enumerate(((mels, 1), (width, 2))):
        weight = b.weight(f"conv{number}.w", width, inputs, 3, scale=(3 * inputs) ** -0.5)
        bias = b.weight(f"conv{number}.b", width)
        x = b.gelu(b.op("Conv", x, weight, bias, pads=[1, 1], strides=[stride]))
    x = b.op("Transpose", x, perm=[0, 2, 1])
    x = b.op("Add", x, b.weight("position", frames // 2, width, scale=0.1))
    for layer in range(layers):
        y = b.layer_norm(x, f"{layer}.norm1", width)
        x = b.op("Add", x, b.attention(y, f"{layer}.attention", width, heads, None))
        y = b.linear(b.layer_norm(x, f"{layer}.norm2", width), f"{layer}.1", width, 4 * width)
        x = b.op("Add", x, b.linear(b.gelu(y), f"{layer}.2", 4 * width, width))
    x = b.layer_norm(x, "norm", width)
    given = {"mel": (TensorProto.FLOAT, [batch, mels, frames])}
    return b.model(given, {"states": (x, [batch, frames // 2, width])}, "whisper")


class _Detector(Builder):
    """The blocks of YOLOv10's smallest network."""

    def convolution(
        self, x: str, name: str, sizes: Sequence[int], act: bool = True, **rest: int
    ) -> str:
        stride, group = rest.get("stride", 1), rest.get("group", 1)
        weight = self.weight(f"{name}.w", *sizes, scale=math.sqrt(2 / math.prod(sizes[1:])))
        window = {"pads": [sizes[-1] // 2] * 4, "strides": [stride] * 2, "group": group}
        y = self.op("Conv", x, weight, self.weight(f"{name}.b", sizes[0], scale=0.02), **window)
        return str(self.op("Mul", y, self.op("Sigmoid", y))) if act else str(y)

    def stage(self, x: str, name: str, inputs: int, width: int, count: int, residual: bool) -> str:
        """C2f: half of the channels passes through bottlenecks, all parts are joined."""
        half = width // 2
        x = self.convolution(x, f"{name}.in", (width, inputs, 1, 1))
        parts = list(self.op("Split", x, outputs=2, axis=1))
        for number in range(count):
            y = self.convolution(parts[-1], f"{name}.{number}.1", (half, half, 3, 3))
            y = self.convolution(y, f"{name}.{number}.2", (half, half, 3, 3))
            parts.append(self.op("Add", y, parts[-1]) if residual else y)
        joined = self.op("Concat", *parts, axis=1)
        return self.convolution(joined, f"{name}.out", (width, half * len(parts), 1, 1))

    def narrowed(self, x: str, name: str, inputs: int, width: int) -> str:
        """Half the image: a pointwise convolution, then one of a channel a group."""
        x = self.convolution(x, f"{name}.1", (width, inputs, 1, 1))
        return self.convolution(x, f"{name}.2", (width, 1, 3, 3), False, stride=2, group=width)

    def pooled(self, x: str, name: str, width: int) -> str:
        """SPPF: three maxima, one of the other, beside their operand."""
        parts = [self.convolution(x, f"{name}.in", (width // 2, width, 1, 1))]
        for _ in range(3):
            parts.append(self.op("MaxPool", parts[-1], kernel_shape=[5, 5], pads=[2] * 4))
        joined = self.op("Concat", *parts, axis=1)
        return self.convolution(joined, f"{name}.out", (width, 2 * width, 1, 1))


def yolo(image: int = 320, classes: int = 80, batch: int = 1) -> onnx.ModelProto:
    """A detector as YOLOv10n, without the search for the best boxes. Input: images (float)."""
    b = _Detector(22)
    x = b.convolution("images", "stem", (16, 3, 3, 3), stride=2)
    x = b.stage(b.convolution(x, "1", (32, 16, 3, 3), stride=2), "2", 32, 32, 1, True)
    low = b.stage(b.convolution(x, "3", (64, 32, 3, 3), stride=2), "4", 64, 64, 2, True)
    middle = b.stage(b.narrowed(low, "5", 64, 128), "6", 128, 128, 2, True)
    high = b.stage(b.narrowed(middle, "7", 128, 256), "8", 256, 256, 1, True)
    high = b.pooled(high, "9", 256)

    def wider(x: str) -> str:
        scales = b.constant([1, 1, 2, 2], "float32")
        return str(b.op("Resize", x, "", scales, mode="nearest"))

    middle = b.stage(b.op("Concat", wider(high), middle, axis=1), "13", 384, 128, 1, False)
    low = b.stage(b.op("Concat", wider(middle), low, axis=1), "16", 192, 64, 1, False)
    down = b.convolution(low, "17", (64, 64, 3, 3), stride=2)
    middle = b.stage(b.op("Concat", down, middle, axis=1), "19", 192, 128, 1, False)
    found = []
    for name, x, width, size in (
        ("low", low, 64, image // 8),
        ("middle", middle, 128, image // 16),
    ):
        boxes = b.convolution(x, f"{name}.box", (64, width, 3, 3))
        boxes = b.convolution(boxes, f"{name}.box.out", (64, 64, 1, 1), False)
        kinds = b.convolution(x, f"{name}.kind", (classes, width, 3, 3))
        kinds = b.convolution(kinds, f"{name}.kind.out", (classes, classes, 1, 1), False)
        both = b.op("Concat", boxes, kinds, axis=1)
        found.append(b.op("Reshape", both, b.constant([batch, 64 + classes, size * size], "int64")))
    cells = sum((image // step) ** 2 for step in (8, 16))
    y = b.op("Transpose", b.op("Concat", *found, axis=2), perm=[0, 2, 1])
    given = {"images": (TensorProto.FLOAT, [batch, 3, image, image])}
    return b.model(given, {"cells": (y, [batch, cells, 64 + classes])}, "yolo")
