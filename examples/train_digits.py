"""Trains `digits.onnx`, a small convolutional network, in plain numpy.

    pip install numpy scikit-learn onnx
    python examples/train_digits.py

Writes digits.onnx and digits_test.npz beside this file. The same seed gives the same
files. Nothing else in the project needs this script or scikit-learn.

Data: scikit-learn's copy of UCI's "Optical Recognition of Handwritten Digits", 1797 images
of 8 x 8 pixels with values 0 to 16. Every fifth image is held out of the training.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

HERE = Path(__file__).resolve().parent
SEED = 7
EPOCHS = 45
BATCH = 32
RATE = 2e-3
PIXEL_SCALE = np.float32(1 / 16)


def windows(x: np.ndarray) -> np.ndarray:
    """The 3 x 3 neighbourhoods of x (N, C, H, W), zero outside: (N, H, W, C * 9)."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    n, c, h, w = x.shape
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


class Convolution:
    """A 3 x 3 convolution that keeps the size, followed by Relu."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int) -> None:
        scale = np.sqrt(2 / (inputs * 9))
        self.weight = rng.normal(0, scale, (inputs * 9, outputs)).astype(np.float32)
        self.bias = np.zeros(outputs, np.float32)
        self.inputs = inputs

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.columns = windows(x)
        self.active = (y := self.columns @ self.weight + self.bias) > 0
        return np.where(self.active, y, 0).transpose(0, 3, 1, 2)

    def backward(self, gradient: np.ndarray) -> np.ndarray:
        gradient = gradient.transpose(0, 2, 3, 1) * self.active
        flat = gradient.reshape(-1, gradient.shape[-1])
        self.gradients = [self.columns.reshape(len(flat), -1).T @ flat, flat.sum(0)]
        # The gradient of x is the convolution of y's with the weights turned around.
        turned = self.weight.reshape(self.inputs, 3, 3, -1)[:, ::-1, ::-1]
        turned = turned.transpose(3, 1, 2, 0).reshape(-1, self.inputs)
        return (windows(gradient.transpose(0, 3, 1, 2)) @ turned).transpose(0, 3, 1, 2)

    def onnx_weight(self) -> np.ndarray:
        return self.weight.T.reshape(-1, self.inputs, 3, 3)


class MaxPool:
    """The maximum of each 2 x 2 square."""

    def forward(self, x: np.ndarray) -> np.ndarray:
        n, c, h, w = x.shape
        squares = x.reshape(n, c, h // 2, 2, w // 2, 2)
        y = squares.max((3, 5), keepdims=True)
        self.chosen = squares == y
        return y.reshape(n, c, h // 2, w // 2)

    def backward(self, gradient: np.ndarray) -> np.ndarray:
        n, c, h, w = gradient.shape
        share = self.chosen / self.chosen.sum((3, 5), keepdims=True)
        spread = (gradient.reshape(n, c, h, 1, w, 1) * share).astype(np.float32)
        return spread.reshape(n, c, h * 2, w * 2)


class Linear:
    """A fully connected layer on flattened images."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int) -> None:
        self.weight = rng.normal(0, np.sqrt(1 / inputs), (inputs, outputs)).astype(np.float32)
        self.bias = np.zeros(outputs, np.float32)

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.shape = x.shape
        self.x = x.reshape(len(x), -1)
        return self.x @ self.weight + self.bias

    def backward(self, gradient: np.ndarray) -> np.ndarray:
        self.gradients = [self.x.T @ gradient, gradient.sum(0)]
        return (gradient @ self.weight.T).reshape(self.shape)


class Adam:
    """Adam's rule (Kingma and Ba, 2015) for the weights and biases of some layers."""

    def __init__(self, layers: list[Convolution | Linear]) -> None:
        self.layers = layers
        parameters = [p for layer in layers for p in (layer.weight, layer.bias)]
        self.first = [np.zeros_like(p) for p in parameters]
        self.second = [np.zeros_like(p) for p in parameters]
        self.step = 0

    def update(self, rate: float) -> None:
        self.step += 1
        parameters = [p for layer in self.layers for p in (layer.weight, layer.bias)]
        gradients = [g for layer in self.layers for g in layer.gradients]
        for p, g, m, v in zip(parameters, gradients, self.first, self.second, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            corrected = np.sqrt(v / (1 - 0.999**self.step)) + 1e-8
            p -= (rate / (1 - 0.9**self.step) * m / corrected).astype(np.float32)


def shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each image moved by up to one pixel, as the training's variation."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moves = rng.integers(0, 3, (len(images), 2))
    return np.stack([p[:, r : r + 8, c : c + 8] for p, (r, c) in zip(padded, moves, strict=True)])


def batches(count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    order = rng.permutation(count)
    for start in range(0, count, BATCH):
        yield order[start : start + BATCH]


def train(images: np.ndarray, labels: np.ndarray) -> list[Convolution | MaxPool | Linear]:
    rng = np.random.default_rng(SEED)
    learned = [
        Convolution(rng, 1, 16),
        Convolution(rng, 16, 32),
        Convolution(rng, 32, 32),
        Linear(rng, 32 * 4 * 4, 10),
    ]
    layers = [learned[0], learned[1], MaxPool(), learned[2], learned[3]]
    adam = Adam(learned)
    for epoch in range(EPOCHS):
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        loss = 0.0
        for chosen in batches(len(images), rng):
            x = shifted(images[chosen], rng) * PIXEL_SCALE
            for layer in layers:
                x = layer.forward(x)
            shares = np.exp(x - x.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            target = np.eye(10, dtype=np.float32)[labels[chosen]]
            loss -= float(np.log((shares * target).sum(1) + 1e-9).sum())
            gradient = ((shares - target) / len(chosen)).astype(np.float32)
            for layer in reversed(layers):
                gradient = layer.backward(gradient)
            adam.update(rate)
        print(f"epoch {epoch + 1:2}  loss {loss / len(images):.4f}")
    return layers


def accuracy(layers: list, images: np.ndarray, labels: np.ndarray) -> float:
    x = images * PIXEL_SCALE
    for layer in layers:
        x = layer.forward(x)
    return float((x.argmax(1) == labels).mean())


def export(layers: list) -> onnx.ModelProto:
    """The trained layers as an ONNX model: image (1, 1, 8, 8) in 0..16 to ten probabilities."""
    first, second, _, third, last = layers
    weights: dict[str, np.ndarray] = {"pixel_scale": np.array(PIXEL_SCALE)}
    nodes = [helper.make_node("Mul", ["image", "pixel_scale"], ["scaled"], "scale_pixels")]
    x = "scaled"
    for name, layer in (("conv1", first), ("conv2", second), ("conv3", third)):
        weights[f"{name}.weight"] = layer.onnx_weight()
        weights[f"{name}.bias"] = layer.bias
        inputs = [x, f"{name}.weight", f"{name}.bias"]
        window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        nodes.append(helper.make_node("Conv", inputs, [f"{name}.out"], name, **window))
        x = f"{name}.relu"
        nodes.append(helper.make_node("Relu", [f"{name}.out"], [x], x))
        if name == "conv2":
            window = {"kernel_shape": [2, 2], "strides": [2, 2]}
            nodes.append(helper.make_node("MaxPool", [x], ["pooled"], "pool", **window))
            x = "pooled"
    weights["classifier.weight"], weights["classifier.bias"] = last.weight, last.bias
    nodes += [
        helper.make_node("Flatten", [x], ["features"], "flatten"),
        helper.make_node(
            "Gemm", ["features", "classifier.weight", "classifier.bias"], ["scores"], "classifier"
        ),
        helper.make_node("Softmax", ["scores"], ["probabilities"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(np.ascontiguousarray(w), n) for n, w in weights.items()],
        doc_string="Handwritten digits, 8 x 8 pixels of 0 to 16. Trained by train_digits.py.",
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    data = load_digits()
    images = data.images.astype(np.float32)[:, None]
    labels = data.target.astype(np.uint8)
    held_out = np.arange(len(images)) % 5 == 4
    layers = train(images[~held_out], labels[~held_out])
    print(f"held-out accuracy {accuracy(layers, images[held_out], labels[held_out]):.4f}")
    onnx.save(export(layers), HERE / "digits.onnx")
    np.savez_compressed(
        HERE / "digits_test.npz",
        images=data.images[held_out].astype(np.uint8),
        labels=labels[held_out],
    )


if __name__ == "__main__":
    main()
