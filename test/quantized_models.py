"""Generated models that onnxruntime.quantization quantizes, in each of its forms."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnxruntime import quantization

from test.onnx_models import Builder, bert, random_inputs

_QDQ, _OPERATORS = quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator
_S8, _U8 = quantization.QuantType.QInt8, quantization.QuantType.QUInt8
# The options of quantize_static, by name; those of quantize_dynamic are its weights' type.
# Signed weights of unsigned numbers have 7 bits: on CPUs without VNNI onnxruntime saturates sums.
_BOTH = {"ActivationSymmetric": True, "WeightSymmetric": True}
FORMS: dict[str, dict[str, Any]] = {
    "qdq_s8s8": {"quant_format": _QDQ, "activation_type": _S8, "weight_type": _S8},
    "qdq_s8s8_symmetric": {
        "quant_format": _QDQ, "activation_type": _S8, "weight_type": _S8, "extra_options": _BOTH,
    },
    "qdq_s8s8_channel": {
        "quant_format": _QDQ, "activation_type": _S8, "weight_type": _S8, "per_channel": True,
    },
    "qdq_u8s8_channel": {
        "quant_format": _QDQ, "activation_type": _U8, "weight_type": _S8, "per_channel": True,
        "reduce_range": True,
    },
    "qdq_u8u8": {"quant_format": _QDQ, "activation_type": _U8, "weight_type": _U8},
    "operators_u8u8": {"quant_format": _OPERATORS, "activation_type": _U8, "weight_type": _U8},
    "operators_u8s8": {
        "quant_format": _OPERATORS, "activation_type": _U8, "weight_type": _S8,
        "reduce_range": True,
    },
    "operators_s8s8_channel": {
        "quant_format": _OPERATORS, "activation_type": _S8, "weight_type": _S8,
        "per_channel": True,
    },
    "dynamic_s8": {"weight_type": _S8, "reduce_range": True},
    "dynamic_u8": {"weight_type": _U8},
    "dynamic_s8_channel": {"weight_type": _S8, "per_channel": True, "reduce_range": True},
}  # fmt: skip


class _Convolutions(Builder):
    """Convolutions with a bias, as normalisation leaves them once it is folded."""

    def convolution(
        self, x: str, name: str, sizes: Sequence[int], act: str = "", **rest: Any
    ) -> str:
        stride, size = rest.pop("stride", 1), sizes[-1]
        scale = math.sqrt(2 / math.prod(sizes[1:]))
        weight = self.weight(f"{name}.weight", *sizes, scale=scale)
        bias = self.weight(f"{name}.bias", sizes[0], scale=0.1)
        y = self.op("Conv", x, weight, bias, strides=[stride] * 2, pads=[size // 2] * 4, **rest)
        if act == "Clip":
            return str(self.op(act, y, *(self.constant(n, np.float32) for n in (0, 6))))
        return str(self.op(act, y)) if act else y

    def classified(self, x: str, width: int, image: int, classes: int, name: str) -> Any:
        x = self.op("Flatten", self.op("GlobalAveragePool", x))
        weight, bias = self.weight("head.weight", classes, width), self.weight("head.bias", classes)
        logits = self.op("Gemm", x, weight, bias, transB=1)
        given = {"pixel_values": (TensorProto.FLOAT, [1, 3, image, image])}
        return self.model(given, {"logits": (logits, [1, classes])}, name)


def resnet18(
    widths: Sequence[int] = (64, 128, 256, 512), blocks: int = 2, image: int = 224,
    classes: int = 1000, seed: int = 11,
) -> onnx.ModelProto:  # fmt: skip
    """Basic blocks: two 3x3 convolutions and a residual. Input: pixel_values (float)."""
    b = _Convolutions(seed)
    x = b.convolution("pixel_values", "stem", (widths[0], 3, 7, 7), "Relu", stride=2)
    x = b.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = widths[0]
    for stage, width in enumerate(widths):
        for block in range(blocks):
            name, stride = f"stage.{stage}.{block}", 2 if stage and not block else 1
            y = b.convolution(x, f"{name}.1", (width, inputs, 3, 3), "Relu", stride=stride)
            y = b.convolution(y, f"{name}.2", (width, width, 3, 3))
            if width != inputs:
                x = b.convolution(x, f"{name}.0", (width, inputs, 1, 1), stride=stride)
            x, inputs = b.op("Relu", b.op("Add", y, x)), width
    return b.classified(x, inputs, image, classes, "resnet18")  # type: ignore[no-any-return]


def resnext(
    width: int = 256, groups: int = 32, blocks: int = 4, image: int = 64, classes: int = 1000,
    seed: int = 14,
) -> onnx.ModelProto:  # fmt: skip
    """Residual blocks whose 3x3 convolutions have groups. Input: pixel_values (float)."""
    b = _Convolutions(seed)
    x = b.convolution("pixel_values", "stem", (width, 3, 3, 3), "Relu", stride=2)
    for block in range(blocks):
        y = b.convolution(x, f"{block}.1", (width, width, 1, 1), "Relu")
        y = b.convolution(y, f"{block}.2", (width, width // groups, 3, 3), "Relu", group=groups)
        x = b.op("Relu", b.op("Add", b.convolution(y, f"{block}.3", (width, width, 1, 1)), x))
    return b.classified(x, width, image, classes, "resnext")  # type: ignore[no-any-return]


_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
           (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip


def mobilenet(
    stages: Sequence[tuple[int, int, int, int]] = _STAGES, stem: int = 32, head: int = 1280,
    image: int = 224, classes: int = 1000, seed: int = 12,
) -> onnx.ModelProto:  # fmt: skip
    """Inverted residuals with depthwise convolutions and Clip to 6, as MobileNet v2's.

    A stage is its expansion, channels, blocks and first stride. Input: pixel_values (float).
    """
    b = _Convolutions(seed)
    x = b.convolution("pixel_values", "stem", (stem, 3, 3, 3), "Clip", stride=2)
    inputs = stem
    for number, (expand, width, count, first) in enumerate(stages):
        for block in range(count):
            name, inner, stride = f"{number}.{block}", inputs * expand, 1 if block else first
            y = x
            if expand > 1:
                y = b.convolution(y, f"{name}.1", (inner, inputs, 1, 1), "Clip")
            y = b.convolution(y, f"{name}.2", (inner, 1, 3, 3), "Clip", stride=stride, group=inner)
            y = b.convolution(y, f"{name}.3", (width, inner, 1, 1))
            x = b.op("Add", x, y) if stride == 1 and inputs == width else y
            inputs = width
    x = b.convolution(x, "head.convolution", (head, inputs, 1, 1), "Clip")
    return b.classified(x, head, image, classes, "mobilenet")  # type: ignore[no-any-return]


def llama(
    layers: int = 2, width: int = 256, heads: int = 4, inner: int = 512, tokens: int = 32,
    vocabulary: int = 500, seed: int = 13,
) -> onnx.ModelProto:  # fmt: skip
    """A decoder with RMS normalisation, rotations and a gated MLP. Input: input_ids (int64)."""
    b, each = Builder(seed), width // heads
    angles = np.arange(tokens)[:, None] / 10000 ** (np.arange(each // 2) * 2 / each)
    angles = np.concatenate([angles, angles], -1)[None, None]
    cos, sin = b.constant(np.cos(angles), np.float32), b.constant(np.sin(angles), np.float32)
    late = np.triu(np.full((1, 1, tokens, tokens), -1e9), 1)
    mask = b.constant(late, np.float32)

    def norm(x: str, name: str) -> str:
        mean = b.op("ReduceMean", b.op("Mul", x, x), axes=[-1], keepdims=1)
        root = b.op("Sqrt", b.op("Add", mean, b.constant(1e-5, np.float32)))
        scale = b.add(np.ones(width, np.float32), f"{name}.weight")
        return str(b.op("Mul", b.op("Div", x, root), scale))

    def dense(x: str, name: str, inputs: int, outputs: int) -> str:
        return str(b.op("MatMul", x, b.weight(f"{name}.weight", inputs, outputs)))

    def split(x: str, name: str) -> str:
        y = b.op("Reshape", dense(x, name, width, width), b.constant([1, tokens, heads, each]))
        return str(b.op("Transpose", y, perm=[0, 2, 1, 3]))

    def rotated(x: str) -> str:
        low, high = b.op("Split", x, axis=3, outputs=2)
        turned = b.op("Concat", b.op("Neg", high), low, axis=3)
        return str(b.op("Add", b.op("Mul", x, cos), b.op("Mul", turned, sin)))

    x = b.op("Gather", b.weight("embedding", vocabulary, width, scale=1.0), "input_ids", axis=0)
    for layer in range(layers):
        name = f"layer.{layer}"
        y = norm(x, f"{name}.norm1")
        q, k = (rotated(split(y, f"{name}.{part}")) for part in "qk")
        scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = b.op("Add", b.op("Mul", scores, b.constant(each**-0.5, np.float32)), mask)
        y = b.op("MatMul", b.op("Softmax", scores, axis=-1), split(y, f"{name}.v"))
        y = b.op("Reshape", b.op("Transpose", y, perm=[0, 2, 1, 3]), b.constant([1, tokens, width]))
        x = b.op("Add", x, dense(y, f"{name}.o", width, width))
        y = norm(x, f"{name}.norm2")
        gate = dense(y, f"{name}.gate", width, inner)
        gate = b.op("Mul", gate, b.op("Sigmoid", gate))
        y = b.op("Mul", gate, dense(y, f"{name}.up", width, inner))
        x = b.op("Add", x, dense(y, f"{name}.down", inner, width))
    logits = dense(norm(x, "norm"), "head", width, vocabulary)
    inputs = {"input_ids": (TensorProto.INT64, [1, tokens])}
    return b.model(inputs, {"logits": (logits, [1, tokens, vocabulary])}, "llama")


def masked_bert(**sizes: Any) -> onnx.ModelProto:
    """The encoder with a mask of -30: quantizers round scores by the mask's range."""
    model = bert(**sizes)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.size == 1 and array == np.finfo(np.float32).min:
            tensor.CopyFrom(numpy_helper.from_array(np.float32(-30), tensor.name))
    return model


MODELS = {
    "bert": masked_bert, "llama": llama, "mobilenet": mobilenet, "resnet18": resnet18,
    "resnext": resnext,
}  # fmt: skip
# Sizes for tests, with more channels than fit a constant in the program.
SMALL: Mapping[str, dict[str, Any]] = {
    "bert": {"layers": 1, "width": 96, "tokens": 12, "heads": 4, "vocabulary": 100},
    "llama": {"layers": 1, "width": 96, "heads": 4, "inner": 160, "tokens": 8, "vocabulary": 100},
    "mobilenet": {
        "stages": ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 1, 2)),
        "stem": 16, "head": 96, "image": 32, "classes": 20,
    },
    "resnet18": {"widths": (16, 96), "image": 32, "classes": 20},
    "resnext": {"width": 96, "groups": 3, "blocks": 2, "image": 16, "classes": 20},
}  # fmt: skip


class _Reader(quantization.CalibrationDataReader):
    def __init__(self, model: onnx.ModelProto, samples: int) -> None:
        self.rest = [random_inputs(model, seed) for seed in range(samples)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.rest.pop() if self.rest else None


def quantized(model: onnx.ModelProto, form: str, samples: int = 2) -> onnx.ModelProto:
    """The model as onnxruntime.quantization writes it, calibrated with random inputs."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "source.onnx", Path(folder) / "made.onnx"
        onnx.save(onnx.shape_inference.infer_shapes(model), source)
        if "quant_format" in FORMS[form]:
            quantization.quantize_static(source, made, _Reader(model, samples), **FORMS[form])
        else:
            quantization.quantize_dynamic(source, made, **FORMS[form])
        return onnx.load(made)
