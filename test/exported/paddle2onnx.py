"""Layers of PaddlePaddle, as paddle2onnx writes them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional

from test.exported.registry import Made, floats, integers, model, named


class _Function(nn.Layer):
    def __init__(self, call, **layers):
        super().__init__()
        self.call = call
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.call(self, x)


class _FunctionOfTwo(_Function):
    def forward(self, x, y):
        return self.call(self, x, y)


def _exported(layer: nn.Layer, *inputs: np.ndarray, dynamic=(0,), opset: int = 17) -> Made:
    """The layer's model, the axes in `dynamic` of every input open (-1)."""
    specs = [
        paddle.static.InputSpec(
            [None if k in dynamic else n for k, n in enumerate(x.shape)], x.dtype.name, f"x{i}"
        )
        for i, x in enumerate(inputs)
    ]
    layer.eval()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        paddle.onnx.export(layer, str(path), specs, opset_version=opset)
        data = path.with_suffix(".onnx").read_bytes()
    return data, {f"x{i}": x for i, x in enumerate(inputs)}


def _of(call, *inputs, **more):
    kind = _Function if len(inputs) == 1 else _FunctionOfTwo
    return _exported(kind(lambda self, *x: call(*x)), *inputs, **more)


_IMAGE = floats(2, 3, 16, 18)
_SEQUENCE = floats(2, 6, 5)


@model
def dense() -> Made:
    paddle.seed(0)
    return _exported(
        nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3), nn.Softmax()), floats(3, 6)
    )


@model
def cnn() -> Made:
    paddle.seed(0)
    return _exported(
        nn.Sequential(
            nn.Conv2D(3, 8, 3, 2, 1, bias_attr=False),
            nn.BatchNorm2D(8),
            nn.Hardswish(),
            nn.Conv2D(8, 8, 3, padding="SAME", groups=8),
            nn.PReLU(8),
            nn.MaxPool2D(3, 2, 1),
            nn.Conv2D(8, 4, 1),
            nn.Hardsigmoid(),
            nn.AdaptiveAvgPool2D(1),
            nn.Flatten(),
            nn.Linear(4, 5),
        ),
        _IMAGE,
    )


@model
def detector_head() -> Made:
    paddle.seed(0)

    def call(self, x):
        y = self.conv(x)
        up = functional.interpolate(y, [32, 36], mode="nearest")
        y = functional.interpolate(up, [20, 21], mode="bilinear", align_corners=False)
        return functional.sigmoid(y).flatten(2).transpose([0, 2, 1])

    return _exported(_Function(call, conv=nn.Conv2D(3, 4, 3, padding=1)), _IMAGE)


@model
def transposed_convolutions() -> Made:
    paddle.seed(0)
    return _exported(
        nn.Sequential(
            nn.Conv2DTranspose(3, 4, 4, 2, 1), nn.Swish(), nn.Conv2DTranspose(4, 2, 3, 2)
        ),
        _IMAGE,
    )


@model
def pools() -> Made:
    def call(x):
        return (
            functional.avg_pool2d(x, 3, 2, 1, exclusive=False),
            functional.max_pool2d(x, 2, ceil_mode=True),
            functional.adaptive_avg_pool2d(x, [4, 6]),
            functional.adaptive_max_pool2d(x, 1),
        )

    return _of(call, _IMAGE)


@model
def pads() -> Made:
    def call(x):
        return [
            functional.pad(x, [1, 2, 3, 0], mode=m) for m in ("constant", "reflect", "replicate")
        ]

    return _of(call, _IMAGE)


@model
def normalizations() -> Made:
    paddle.seed(0)
    return _exported(
        nn.Sequential(
            nn.GroupNorm(1, 3), nn.InstanceNorm2D(3), nn.LayerNorm(18), nn.LocalResponseNorm(3)
        ),
        _IMAGE,
    )


for _name, _kind in {"lstm": nn.LSTM, "gru": nn.GRU}.items():
    for _direction in ("forward", "bidirect"):

        def _make(kind=_kind, direction=_direction):
            paddle.seed(0)
            layer = kind(5, 4, num_layers=2, direction=direction)
            call = _Function(lambda self, x: self.layer(x)[0], layer=layer)
            return _exported(call, _SEQUENCE)

        named(f"{_name}_{_direction}", _make)


@model
def transformer() -> Made:
    paddle.seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", normalize_before=True)
    return _exported(nn.TransformerEncoder(layer, 2), floats(2, 5, 16))


@model
def decoder() -> Made:
    paddle.seed(0)
    layer = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32), 1)
    return _exported(layer, floats(2, 5, 16), floats(2, 7, 16, seed=1))


@model
def embedding_and_mask() -> Made:
    paddle.seed(0)

    def call(self, tokens):
        y = self.table(tokens)
        mask = (tokens != 0).astype("float32").unsqueeze(-1)
        return (y * mask).sum(1) / mask.sum(1).clip(min=1.0)

    return _exported(_Function(call, table=nn.Embedding(20, 6)), integers(20, 3, 7), dynamic=(0, 1))


@model
def control_flow() -> Made:
    def call(x):
        return paddle.static.nn.cond(x.sum() > 0, lambda: x * 2, lambda: paddle.exp(x))

    made, inputs = _of(call, np.abs(floats(3, 4)), dynamic=())
    return made, [inputs, {name: -x for name, x in inputs.items()}]


@model
def while_loop() -> Made:
    def call(x):
        i = paddle.zeros([1], "int64")
        condition = lambda i, y: i < 4  # noqa: E731
        return paddle.static.nn.while_loop(
            condition, lambda i, y: [i + 1, paddle.tanh(y) + 0.5], [i, x]
        )[1]

    return _of(call, floats(3, 4), dynamic=())


@model
def einsums() -> Made:
    def call(x, y):
        return (
            paddle.einsum("bij,bjk->bik", x, y),
            paddle.matmul(x, x, transpose_y=True),
            paddle.bmm(x, y),
        )

    return _of(call, floats(2, 3, 4), floats(2, 4, 5))


@model
def indexing() -> Made:
    def call(x, i):
        return (
            x[:, 1:-1],
            x[:, ::2, 0],
            paddle.gather(x, i, 1),
            paddle.index_select(x, i, 2),
            paddle.flip(x, [1]),
            paddle.concat([x, x * 2], 1),
            paddle.stack([x, x], 1),
            *paddle.split(x, [1, -1], 2),
            paddle.take_along_axis(x, paddle.zeros([2, 1, 5], "int64"), 1),
            paddle.roll(x, 1, 1),
            paddle.tile(x, [1, 2, 1]),
            paddle.expand(x.unsqueeze(1), [-1, 3, -1, -1]),
            paddle.squeeze(x[:, :1], 1),
        )

    return _of(call, floats(2, 4, 5), np.array([2, 0], np.int64), dynamic=())


@model
def sorts() -> Made:
    def call(x):
        return (
            *paddle.topk(x, 3),
            paddle.argmax(x, 1),
            paddle.sort(x, 1),
            paddle.argsort(x, 0),
            paddle.argmin(x, 0),
        )

    return _of(call, floats(4, 6), dynamic=())


@model
def reductions() -> Made:
    def call(x):
        return (
            x.mean([1, 2]),
            x.max(1, keepdim=True),
            x.prod(-1),
            paddle.logsumexp(x, -1),
            paddle.cumsum(x, 1),
            paddle.norm(x, 2, 1),
            x.sum(),
            paddle.any(x > 1, 1),
            x.std(1),
        )

    return _of(call, floats(3, 4, 5))


@model
def activations() -> Made:
    kinds = (
        *("elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu"),
        *("log_sigmoid", "mish", "relu6", "selu", "silu", "softshrink", "softsign", "swish"),
        *("tanhshrink", "thresholded_relu"),
    )
    return _of(lambda x: [getattr(functional, kind)(x) for kind in kinds], floats(3, 6))


@model
def arithmetic() -> Made:
    def call(x, i):
        return (
            i // 3,
            i % 3,
            paddle.floor(x),
            paddle.round(x),
            paddle.pow(x, 2.0),
            paddle.rsqrt(x.abs() + 1),
            paddle.erf(x),
            paddle.log1p(x.abs()),
            x.clip(-0.5, 0.5),
            paddle.where(x > 0, x, x * 2),
            paddle.atan(x),
            paddle.sign(x),
            x.astype("int32"),
            paddle.maximum(x, x * 2),
        )

    return _of(call, floats(3, 5), integers(10, 3, 5))


@model
def shuffles() -> Made:
    def call(x):
        return functional.pixel_shuffle(x, 2), functional.unfold(x, 3, 1, 1)

    return _of(call, floats(2, 4, 6, 8))


@model
def grid_sample() -> Made:
    def call(x, grid):
        return functional.grid_sample(x, grid, padding_mode="border", align_corners=False)

    return _of(call, _IMAGE, np.tanh(floats(2, 5, 6, 2)), dynamic=())


@model
def mobilenet() -> Made:
    paddle.seed(0)
    return _exported(
        paddle.vision.models.mobilenet_v3_small(scale=0.35, num_classes=5), floats(1, 3, 32, 32)
    )


@model
def resnet_of_opset_9() -> Made:
    paddle.seed(0)
    return _exported(paddle.vision.models.resnet18(num_classes=5), floats(1, 3, 32, 32), opset=9)


@model
def shufflenet() -> Made:
    paddle.seed(0)
    return _exported(paddle.vision.models.shufflenet_v2_x0_25(num_classes=5), floats(1, 3, 64, 64))
