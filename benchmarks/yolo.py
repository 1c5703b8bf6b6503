"""YOLOv10n up to the numbers of boxes and classes of each place, with random weights."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto

from test.onnx_models import Builder

CLASSES, BINS = 80, 16


class _Net:
    """The blocks of the network. A tensor is a name and its channels."""

    def __init__(self) -> None:
        self.b = Builder(11)

    def conv(
        self, x: tuple[str, int], outputs: int, size: int = 1, stride: int = 1,
        group: int = 1, act: bool = True,
    ) -> tuple[str, int]:  # fmt: skip
        name, inputs = x
        sizes = (outputs, inputs // group, size, size)
        number = len(self.b.nodes)
        weight = self.b.weight(f"{number}.w", *sizes, scale=math.sqrt(2 / math.prod(sizes[1:])))
        bias = self.b.weight(f"{number}.b", outputs, scale=0.02)
        window = {"strides": [stride] * 2, "pads": [size // 2] * 4, "group": group}
        y = self.b.op("Conv", name, weight, bias, **window)
        return (self.b.op("Mul", y, self.b.op("Sigmoid", y)) if act else y), outputs

    def depthwise(
        self, x: tuple[str, int], size: int, stride: int = 1, act: bool = True
    ) -> tuple[str, int]:
        return self.conv(x, x[1], size, stride, x[1], act)

    def down(self, x: tuple[str, int], outputs: int) -> tuple[str, int]:
        """A product, then a depthwise convolution of stride 2."""
        return self.depthwise(self.conv(x, outputs), 3, 2, act=False)

    def concat(self, *parts: tuple[str, int]) -> tuple[str, int]:
        return self.b.op("Concat", *(name for name, _ in parts), axis=1), sum(n for _, n in parts)

    def add(self, x: tuple[str, int], y: tuple[str, int]) -> tuple[str, int]:
        return self.b.op("Add", x[0], y[0]), x[1]

    def halves(self, x: tuple[str, int]) -> list[tuple[str, int]]:
        sizes = self.b.constant([x[1] // 2] * 2)
        return [(y, x[1] // 2) for y in self.b.op("Split", x[0], sizes, outputs=2, axis=1)]

    def c2f(
        self, x: tuple[str, int], outputs: int, count: int = 1, more: bool = True,
        inverted: bool = False,
    ) -> tuple[str, int]:  # fmt: skip
        """Bottlenecks whose results all reach a product at the end; more: with residuals."""
        parts = self.halves(self.conv(x, outputs))
        for _ in range(count):
            last = parts[-1]
            if inverted:
                y = self.depthwise(self.conv(self.depthwise(last, 3), outputs), 7)
                y = self.depthwise(self.conv(self.depthwise(y, 3), outputs // 2), 3)
            else:
                y = self.conv(self.conv(last, outputs // 2, 3), outputs // 2, 3)
            parts.append(self.add(last, y) if more else y)
        return self.conv(self.concat(*parts), outputs)

    def pooled(self, x: tuple[str, int]) -> tuple[str, int]:
        """Three poolings one after another, and a product of all."""
        parts = [self.conv(x, x[1] // 2)]
        for _ in range(3):
            y = self.b.op("MaxPool", parts[-1][0], kernel_shape=[5, 5], pads=[2] * 4)
            parts.append((y, x[1] // 2))
        return self.conv(self.concat(*parts), x[1])

    def attentive(self, x: tuple[str, int], places: int) -> tuple[str, int]:
        """Attention between the places of half of the channels, by two heads."""
        b, side = self.b, math.isqrt(places)
        kept, y = self.halves(self.conv(x, x[1]))
        width, head, key = y[1], y[1] // 2, y[1] // 4
        both, _ = self.conv(y, 2 * width, act=False)
        both = b.op("Reshape", both, b.constant([1, 2, 2 * key + head, places]))
        q, k, v = b.op("Split", both, b.constant([key, key, head]), outputs=3, axis=2)
        scores = b.op("MatMul", b.op("Transpose", q, perm=[0, 1, 3, 2]), k)
        shares = b.op("Softmax", b.op("Mul", scores, b.constant(key**-0.5, np.float32)), axis=-1)
        z = b.op("MatMul", v, b.op("Transpose", shares, perm=[0, 1, 3, 2]))
        image = b.constant([1, width, side, side])
        z, v = ((b.op("Reshape", part, image), width) for part in (z, v))
        z = self.conv(self.add(z, self.depthwise(v, 3, act=False)), width, act=False)
        y = self.add(y, z)
        y = self.add(y, self.conv(self.conv(y, 2 * width), width, act=False))
        return self.conv(self.concat(kept, y), x[1])

    def up(self, x: tuple[str, int], side: int) -> tuple[str, int]:
        sizes = self.b.constant([1, x[1], side, side])
        return self.b.op("Resize", x[0], "", "", sizes, mode="nearest"), x[1]

    def detected(self, x: tuple[str, int]) -> tuple[str, int]:
        """The bins of boxes and the classes of one scale."""
        boxes = self.conv(self.conv(x, 4 * BINS, 3), 4 * BINS, 3)
        y = self.conv(self.depthwise(x, 3), CLASSES)
        y = self.conv(self.depthwise(y, 3), CLASSES)
        found = [self.conv(part, n, act=False) for part, n in ((boxes, 4 * BINS), (y, CLASSES))]
        return self.concat(*found)


def yolo(batch: int = 1, image: int = 640) -> onnx.ModelProto:
    """The network; outputs: float [1, 144, side, side] for three scales. batch: 1."""
    if batch != 1:
        raise ValueError("yolo: one image at a time")
    net = _Net()
    x = net.conv(net.conv(("images", 3), 16, 3, 2), 32, 3, 2)
    fine = net.c2f(net.conv(net.c2f(x, 32), 64, 3, 2), 64, 2)
    middle = net.c2f(net.down(fine, 128), 128, 2)
    coarse = net.pooled(net.c2f(net.down(middle, 256), 256))
    coarse = net.attentive(coarse, (image // 32) ** 2)
    middle = net.c2f(net.concat(net.up(coarse, image // 16), middle), 128, more=False)
    fine = net.c2f(net.concat(net.up(middle, image // 8), fine), 64, more=False)
    middle = net.c2f(net.concat(net.conv(fine, 64, 3, 2), middle), 128, more=False)
    coarse = net.c2f(net.concat(net.down(middle, 128), coarse), 256, inverted=True)
    found = {}
    for number, y in enumerate((fine, middle, coarse)):
        name, channels = net.detected(y)
        side = image // (8 << number)
        found[f"scale{number}"] = (name, [1, channels, side, side])
    given = {"images": (TensorProto.FLOAT, [1, 3, image, image])}
    return net.b.model(given, found, "yolov10n")
