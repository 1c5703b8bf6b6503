"""Models of Keras 3, as its own `export(format="onnx")` writes them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import keras
import numpy as np
from keras import layers

from test.exported.registry import Made, floats, integers, model, named


def _exported(network: keras.Model, *inputs: np.ndarray, opset: int | None = None) -> Made:
    generator = np.random.default_rng(7)
    for weight in network.weights:  # zeros and ones hide what goes wrong
        if weight.dtype == "float32":
            noise = generator.normal(0, 0.05, weight.shape)
            weight.assign(weight.numpy() + (np.abs(noise) if "variance" in weight.path else noise))
    network(*inputs) if len(inputs) == 1 else network(list(inputs))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        network.export(path, format="onnx", verbose=False, opset_version=opset)
        data = path.read_bytes()
    import onnx

    names = [value.name for value in onnx.load_from_string(data).graph.input]
    ordered = {t.name.split(":")[0]: x for t, x in zip(network.inputs, inputs, strict=True)}
    return data, {name: ordered[name.split(":")[0]] for name in names}


def _sequential(*stack, x: np.ndarray, sizes=None, **options) -> Made:
    keras.utils.set_random_seed(0)
    start = keras.Input(x.shape[1:] if sizes is None else sizes, dtype=x.dtype.name, name="x")
    y = start
    for layer in stack:
        y = layer(y)
    return _exported(keras.Model(start, y), x, **options)


_IMAGE = floats(2, 12, 14, 3)
_SEQUENCE = floats(2, 6, 5)


@model
def dense() -> Made:
    return _sequential(layers.Dense(8, "relu"), layers.Dense(3, "softmax"), x=floats(3, 6))


@model
def cnn() -> Made:
    return _sequential(
        layers.Conv2D(8, 3, 2, "same", activation="relu"),
        layers.BatchNormalization(),
        layers.SeparableConv2D(8, 3, padding="same", activation="swish"),
        layers.MaxPooling2D(2, padding="same"),
        layers.DepthwiseConv2D(3, depth_multiplier=2),
        layers.PReLU(shared_axes=[1, 2]),
        layers.GlobalAveragePooling2D(),
        layers.Dense(4),
        x=_IMAGE,
    )


@model
def cnn_of_any_size() -> Made:
    return _sequential(
        layers.Conv2D(4, 3, padding="same", activation="relu"),
        layers.AveragePooling2D(2),
        layers.Conv2D(4, 1),
        layers.GlobalMaxPooling2D(),
        x=_IMAGE,
        sizes=(None, None, 3),
    )


@model
def unet() -> Made:
    keras.utils.set_random_seed(0)
    start = keras.Input((12, 16, 3), name="x")
    first = layers.Conv2D(4, 3, padding="same", activation="relu")(start)
    low = layers.Conv2D(8, 3, padding="same", activation="relu")(layers.MaxPooling2D(2)(first))
    up = layers.Concatenate()([layers.UpSampling2D(2, interpolation="bilinear")(low), first])
    other = layers.Conv2DTranspose(4, 3, 2, "same")(low)
    y = layers.Conv2D(2, 1)(layers.Concatenate()([up, other]))
    return _exported(keras.Model(start, y), floats(2, 12, 16, 3))


@model
def transposed_convolutions() -> Made:
    return _sequential(
        layers.Conv2DTranspose(4, 3, 2, "valid"),
        layers.Conv2DTranspose(2, 4, 2, "same"),
        layers.Cropping2D(((1, 2), (0, 3))),
        layers.ZeroPadding2D(1),
        x=floats(2, 5, 6, 3),
    )


@model
def convolutions_of_one_dimension() -> Made:
    return _sequential(
        layers.Conv1D(6, 3, padding="causal", dilation_rate=2),
        layers.LeakyReLU(0.1),
        layers.Conv1D(4, 2, 2, "same"),
        layers.MaxPooling1D(2),
        layers.UpSampling1D(2),
        layers.ZeroPadding1D(1),
        layers.Flatten(),
        layers.Dense(3),
        x=floats(2, 16, 5),
    )


@model
def convolutions_of_three_dimensions() -> Made:
    return _sequential(
        layers.Conv3D(4, 2, activation="elu"),
        layers.AveragePooling3D(2),
        layers.UpSampling3D(2),
        layers.Conv3DTranspose(2, 2),
        x=floats(1, 5, 6, 7, 2),
    )


_RECURRENT = {
    "lstm": lambda: layers.LSTM(7),
    "lstm_of_all_steps": lambda: layers.LSTM(7, return_sequences=True, go_backwards=True),
    "lstm_without_bias": lambda: layers.LSTM(
        4, use_bias=False, recurrent_activation="hard_sigmoid"
    ),
    "gru": lambda: layers.GRU(7),
    "gru_reset_before": lambda: layers.GRU(7, reset_after=False, return_sequences=True),
    "simple_rnn": lambda: layers.SimpleRNN(7, activation="relu"),
    "bidirectional_lstm": lambda: layers.Bidirectional(layers.LSTM(5, return_sequences=True)),
    "bidirectional_gru": lambda: layers.Bidirectional(layers.GRU(5), merge_mode="sum"),
    "unrolled_lstm": lambda: layers.LSTM(4, unroll=True),
    "stacked_cells": lambda: layers.RNN([layers.LSTMCell(4), layers.GRUCell(3)]),
    "conv_lstm": lambda: layers.ConvLSTM1D(3, 2, return_sequences=True),
}
for _name, _make in _RECURRENT.items():
    _x = floats(2, 4, 6, 3) if _name == "conv_lstm" else _SEQUENCE
    named(_name, lambda make=_make, x=_x: _sequential(make(), x=x))


@model
def lstm_with_state() -> Made:
    keras.utils.set_random_seed(0)
    start, h, c = (keras.Input(s, name=n) for n, s in (("x", (6, 5)), ("h", (4,)), ("c", (4,))))
    y = layers.LSTM(4, return_sequences=True, return_state=True)(start, initial_state=[h, c])
    return _exported(keras.Model([start, h, c], y), _SEQUENCE, floats(2, 4), floats(2, 4, seed=2))


@model
def tagger_with_mask() -> Made:
    tokens = integers(20, 3, 7, dtype=np.int32)
    tokens[1, 4:] = 0
    return _sequential(
        layers.Embedding(20, 6, mask_zero=True),
        layers.Bidirectional(layers.LSTM(4, return_sequences=True)),
        layers.TimeDistributed(layers.Dense(3)),
        x=tokens,
        sizes=(None,),
    )


@model
def transformer() -> Made:
    keras.utils.set_random_seed(0)
    start = keras.Input((None,), dtype="int32", name="x")
    y = layers.Embedding(30, 16)(start)
    for _ in range(2):
        y = layers.LayerNormalization()(
            y + layers.MultiHeadAttention(4, 4)(y, y, use_causal_mask=True)
        )
        z = layers.Dense(16)(
            layers.Dense(32, lambda v: keras.activations.gelu(v, approximate=True))(y)
        )
        y = layers.LayerNormalization()(y + layers.Dropout(0.1)(z))
    return _exported(keras.Model(start, layers.Dense(5)(y)), integers(30, 2, 6, dtype=np.int32))


@model
def attentions() -> Made:
    keras.utils.set_random_seed(0)
    q, v = keras.Input((4, 8), name="q"), keras.Input((6, 8), name="v")
    y = (
        layers.Attention(use_scale=True)([q, v]),
        layers.AdditiveAttention()([q, v]),
        layers.GroupQueryAttention(4, 4, 2)(q, v),
    )
    return _exported(keras.Model([q, v], y), floats(2, 4, 8), floats(2, 6, 8, seed=1))


@model
def normalizations() -> Made:
    return _sequential(
        layers.GroupNormalization(2),
        layers.LayerNormalization(axis=[1, 2]),
        layers.UnitNormalization(),
        layers.RMSNormalization(),
        layers.BatchNormalization(axis=1),
        x=floats(2, 5, 6, 4),
    )


@model
def merges() -> Made:
    keras.utils.set_random_seed(0)
    a, b = keras.Input((5,), name="a"), keras.Input((5,), name="b")
    y = [
        f([a, b])
        for f in (layers.add, layers.subtract, layers.multiply, layers.maximum, layers.average)
    ]
    y = [layers.Concatenate()(y), layers.Dot(1, normalize=True)([a, b]), layers.minimum([a, b])]
    return _exported(keras.Model([a, b], y), floats(3, 5), floats(3, 5, seed=1))


@model
def activations() -> Made:
    kinds = (
        *("exponential", "hard_sigmoid", "hard_silu", "leaky_relu", "linear", "mish"),
        *("relu6", "sigmoid", "silu", "softplus", "softsign", "softmax", "tanh", "log_softmax"),
        *("glu", "hard_tanh", "hard_shrink", "soft_shrink", "tanh_shrink", "threshold"),
        *("squareplus", "sparse_plus", "sparsemax"),
    )
    start = keras.Input((6,), name="x")
    y = [
        (lambda v: keras.activations.threshold(v, 0.5, 0.1))(start)
        if kind == "threshold"
        else layers.Activation(getattr(keras.activations, kind))(start)
        for kind in kinds
    ]
    return _exported(keras.Model(start, y), floats(3, 6))


@model
def reshapes() -> Made:
    return _sequential(
        layers.Reshape((6, 4)),
        layers.Permute((2, 1)),
        layers.Flatten(),
        layers.RepeatVector(3),
        x=floats(2, 3, 8),
    )


@model
def einsum_dense() -> Made:
    return _sequential(layers.EinsumDense("abc,cd->abd", (None, 7), bias_axes="d"), x=_SEQUENCE)


@model
def images() -> Made:
    return _sequential(
        layers.Rescaling(1 / 127.5, -1),
        layers.CenterCrop(10, 10),
        layers.Resizing(7, 9),
        x=_IMAGE * 60,
    )


@model
def operations() -> Made:
    start = keras.Input((4, 5), name="x")
    ops = keras.ops
    y = [
        ops.cumsum(start, 1),
        ops.top_k(start, 2)[0],
        ops.logsumexp(start, -1),
        ops.roll(start, 1, 1),
        ops.flip(start, 2),
        ops.tril(start),
        ops.einsum("bij,bkj->bik", start, start),
        ops.where(start > 0, start, -start),
        ops.one_hot(ops.cast(ops.abs(start), "int32"), 3),
        ops.pad(start, ((0, 0), (1, 1), (2, 0)), "reflect"),
    ]
    return _exported(keras.Model(start, y), floats(2, 4, 5))


@model
def mobilenet() -> Made:
    keras.utils.set_random_seed(0)
    network = keras.applications.MobileNetV2((32, 32, 3), 0.35, weights=None, classes=5)
    return _exported(network, floats(1, 32, 32, 3))


@model
def densenet() -> Made:
    keras.utils.set_random_seed(0)
    network = keras.applications.DenseNet121(weights=None, input_shape=(32, 32, 3), classes=5)
    return _exported(network, floats(1, 32, 32, 3))


@model
def efficientnet() -> Made:
    keras.utils.set_random_seed(0)
    network = keras.applications.EfficientNetV2B0(
        weights=None, input_shape=(32, 32, 3), classes=5, include_preprocessing=False
    )
    return _exported(network, floats(1, 32, 32, 3))


@model
def half_precision() -> Made:
    keras.utils.set_random_seed(0)
    start = keras.Input((8,), name="x")
    y = layers.Dense(8, "relu", dtype="mixed_float16")(start)
    return _exported(keras.Model(start, layers.Dense(3, dtype="float32")(y)), floats(3, 8))
