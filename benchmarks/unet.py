"""The UNet of Stable Diffusion 1.5, as PyTorch's exporter writes it, with random weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from test.onnx_models import Builder, half


class Pooled(Builder):
    """Weights are parts of one array of random numbers, since fresh ones would take minutes."""

    def __init__(self, seed: int = 0, dtype: Any = np.float16) -> None:
        super().__init__(seed)
        self.pool = self.rng.standard_normal(1 << 20).astype(dtype)

    def weight(self, name: str, *shape: int, scale: float | None = None) -> str:
        scale = shape[0] ** -0.5 if scale is None else scale
        start = int(self.rng.integers(len(self.pool)))
        numbers = np.resize(np.roll(self.pool, -start), math.prod(shape)) * self.pool.dtype.type(
            scale
        )
        self.weights.append(numpy_helper.from_array(numbers.reshape(shape), name))
        return name


class _Net(Pooled):
    """The blocks of the network."""

    def __init__(self, heads: int, groups: int, context: int) -> None:
        super().__init__(12)
        self.heads, self.groups, self.context = heads, groups, context

    def conv(self, x: str, name: str, sizes: tuple[int, int, int], step: int = 1) -> str:
        outputs, inputs, size = sizes
        scale = (inputs * size * size) ** -0.5
        filters = self.weight(f"{name}.w", outputs, inputs, size, size, scale=scale)
        window = {"kernel_shape": [size] * 2, "pads": [size // 2] * 4, "strides": [step] * 2}
        return str(self.op("Conv", x, filters, self.bias(name, outputs), **window))

    def bias(self, name: str, count: int) -> str:
        return self.add(self.rng.normal(0, 0.02, count).astype(np.float16), f"{name}.b")

    def dense(self, x: str, name: str, inputs: int, outputs: int, bias: bool = True) -> str:
        y = self.op("MatMul", x, self.weight(f"{name}.w", inputs, outputs))
        return str(self.op("Add", y, self.bias(name, outputs)) if bias else y)

    def silu(self, x: str) -> str:
        return str(self.op("Mul", x, self.op("Sigmoid", x)))

    def group_norm(self, x: str, name: str, shape: Sequence[int]) -> str:
        """InstanceNormalization of groups, then a scale and a bias for each channel."""
        ones, zeros = np.ones(self.groups, np.float16), np.zeros(self.groups, np.float16)
        rows = self.op("Reshape", x, self.constant([0, self.groups, -1]))
        plain = self.add(ones, f"{name}.1"), self.add(zeros, f"{name}.0")
        rows = self.op("InstanceNormalization", rows, *plain, epsilon=1e-5)
        y = self.op("Reshape", rows, self.constant(shape))
        scale, bias = (
            self.rng.normal(n, 0.02, (shape[1], 1, 1)).astype(np.float16) for n in (1, 0)
        )
        y = self.op("Mul", y, self.add(scale, f"{name}.scale"))
        return str(self.op("Add", y, self.add(bias, f"{name}.bias")))

    def residual(self, x: str, name: str, shape: list[int], outputs: int, time: str) -> str:
        """Two convolutions, with the time's embedding between them."""
        batch, inputs, side, _ = shape
        y = self.conv(
            self.silu(self.group_norm(x, f"{name}.n1", shape)), f"{name}.1", (outputs, inputs, 3)
        )
        added = self.dense(self.silu(time), f"{name}.t", 1280, outputs)
        y = self.op("Add", y, self.op("Unsqueeze", added, self.constant([2, 3])))
        shape = [batch, outputs, side, side]
        y = self.conv(
            self.silu(self.group_norm(y, f"{name}.n2", shape)), f"{name}.2", (outputs, outputs, 3)
        )
        if inputs != outputs:
            x = self.conv(x, f"{name}.0", (outputs, inputs, 1))
        return str(self.op("Add", x, y))

    def attention_of(self, x: str, y: str, name: str, width: int, inputs: int) -> str:
        """Attention from the rows of x to those of y, `inputs` numbers each."""
        each = width // self.heads

        def split(z: str, part: str, size: int, order: list[int]) -> str:
            z = self.dense(z, f"{name}.{part}", size, width, bias=False)
            z = self.op("Reshape", z, self.constant([0, -1, self.heads, each]))
            return str(self.op("Transpose", z, perm=order))

        root = self.constant(each**-0.25, np.float16)
        q = self.op("Mul", split(x, "q", width, [0, 2, 1, 3]), root)
        k = self.op("Mul", split(y, "k", inputs, [0, 2, 3, 1]), root)
        shares = self.op("Softmax", self.op("MatMul", q, k), axis=-1)
        z = self.op("MatMul", shares, split(y, "v", inputs, [0, 2, 1, 3]))
        z = self.op("Transpose", z, perm=[0, 2, 1, 3])
        z = self.op("Reshape", z, self.constant([0, -1, width]))
        return self.dense(z, f"{name}.o", width, width)

    def transformer(self, x: str, name: str, shape: list[int]) -> str:
        """A layer of attention to the image, to the text, and a gated perceptron."""
        batch, width, side, _ = shape
        y = self.conv(self.group_norm(x, f"{name}.n", shape), f"{name}.in", (width, width, 1))
        y = self.op("Transpose", y, perm=[0, 2, 3, 1])
        y = self.op("Reshape", y, self.constant([batch, side * side, width]))
        z = self.layer_norm(y, f"{name}.n1", width)
        y = self.op("Add", self.attention_of(z, z, f"{name}.own", width, width), y)
        z = self.layer_norm(y, f"{name}.n2", width)
        z = self.attention_of(z, "text", f"{name}.text", width, self.context)
        y = self.op("Add", z, y)
        z = self.dense(self.layer_norm(y, f"{name}.n3", width), f"{name}.up", width, 8 * width)
        left, right = self.op("Split", z, self.constant([4 * width] * 2), outputs=2, axis=-1)
        z = self.op("Mul", left, self.gelu(right))
        y = self.op("Add", self.dense(z, f"{name}.down", 4 * width, width), y)
        y = self.op("Reshape", y, self.constant([batch, side, side, width]))
        y = self.conv(self.op("Transpose", y, perm=[0, 3, 1, 2]), f"{name}.out", (width, width, 1))
        return str(self.op("Add", y, x))

    def embedded(self, time: str, width: int) -> str:
        """Sines and cosines of the step's number, and two layers."""
        rates = np.exp(-np.log(10000) * np.arange(width // 2) / (width // 2)).astype(np.float16)
        angles = self.op(
            "Mul", self.op("Unsqueeze", time, self.constant([1])), self.add(rates, "t")
        )
        both = self.op("Concat", self.op("Cos", angles), self.op("Sin", angles), axis=-1)
        return self.dense(self.silu(self.dense(both, "t1", width, 1280)), "t2", 1280, 1280)


def unet(
    batch: int = 2,
    widths: Sequence[int] = (320, 640, 1280, 1280),
    side: int = 64,
    heads: int = 8,
    tokens: int = 77,
    context: int = 768,
    groups: int = 32,
) -> onnx.ModelProto:
    """Inputs: sample [batch, 4, side, side], timestep [batch], text [batch, tokens, context]."""
    net, last = _Net(heads, groups, context), len(widths) - 1
    time = net.embedded("timestep", widths[0])
    x = net.conv("sample", "in", (widths[0], 4, 3))
    shape, kept = [batch, widths[0], side, side], [(x, widths[0])]

    def block(x: str, name: str, shape: list[int], width: int, attends: bool) -> str:
        y = net.residual(x, name, shape, width, time)
        size = [batch, width, *shape[2:]]
        return net.transformer(y, f"{name}.a", size) if attends else y

    for stage, width in enumerate(widths):
        for number in range(2):
            x = block(x, f"down{stage}.{number}", shape, width, stage < last)
            shape = [batch, width, *shape[2:]]
            kept.append((x, width))
        if stage < last:
            x = net.conv(x, f"down{stage}.out", (width, width, 3), step=2)
            shape = [batch, width, shape[2] // 2, shape[3] // 2]
            kept.append((x, width))
    x = block(x, "middle.0", shape, shape[1], True)
    x = block(x, "middle.1", shape, shape[1], False)
    for stage, width in reversed(list(enumerate(widths))):
        for number in range(3):
            other, more = kept.pop()
            x = net.op("Concat", x, other, axis=1)
            shape = [batch, shape[1] + more, *shape[2:]]
            x = block(x, f"up{stage}.{number}", shape, width, stage < last)
            shape = [batch, width, *shape[2:]]
        if stage:
            scales = net.add(np.array([1, 1, 2, 2], np.float32), f"up{stage}.scales")
            x = net.op("Resize", x, "", scales, mode="nearest", nearest_mode="floor",
                       coordinate_transformation_mode="asymmetric")  # fmt: skip
            x = net.conv(x, f"up{stage}.out", (width, width, 3))
            shape = [batch, width, 2 * shape[2], 2 * shape[3]]
    x = net.conv(net.silu(net.group_norm(x, "n", shape)), "out", (4, widths[0], 3))
    image = [batch, 4, side, side]
    given = {"sample": image, "timestep": [batch], "text": [batch, tokens, context]}
    inputs = {name: (TensorProto.FLOAT, sizes) for name, sizes in given.items()}
    return half(net.model(inputs, {"y": (x, image)}, "unet"))
