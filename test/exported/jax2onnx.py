"""Functions of JAX, and modules of flax and equinox, as jax2onnx writes them."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax
from jax2onnx import to_onnx

from test.exported.registry import Made, floats, integers, model


def _converted(function, *inputs, symbols=None, **more) -> Made:
    """The function's model; `symbols` names axes of the first input that stay open."""
    shapes = [tuple(x.shape) for x in map(np.asarray, inputs)]
    if symbols:
        shapes = [
            tuple(symbols.get(k, n) for k, n in enumerate(s)) if i == 0 else s
            for i, s in enumerate(shapes)
        ]
    specs = [
        jax.ShapeDtypeStruct(s, np.asarray(x).dtype) if not symbols else s
        for s, x in zip(shapes, inputs, strict=True)
    ]
    made = to_onnx(function, inputs=specs, **more)
    names = [v.name for v in made.graph.input]
    return made, dict(zip(names, map(np.asarray, inputs), strict=True))


@model
def mlp_of_flax() -> Made:
    class Network(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(8, 16, rngs=rngs)
            self.norm = nnx.LayerNorm(16, rngs=rngs)
            self.last = nnx.Linear(16, 4, rngs=rngs)

        def __call__(self, x):
            return nnx.softmax(self.last(nnx.gelu(self.norm(self.first(x)))))

    return _converted(Network(nnx.Rngs(0)), floats(3, 8), symbols={0: "B"})


@model
def cnn_of_flax() -> Made:
    class Network(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Conv(3, 8, (3, 3), strides=2, padding="SAME", rngs=rngs)
            self.norm = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
            self.second = nnx.Conv(8, 8, (3, 3), feature_group_count=8, padding="VALID", rngs=rngs)
            self.last = nnx.Linear(8, 4, rngs=rngs)

        def __call__(self, x):
            y = nnx.relu(self.norm(self.first(x)))
            y = nnx.silu(self.second(y))
            y = nnx.max_pool(y, window_shape=(2, 2), strides=(2, 2), padding="SAME")
            return self.last(nnx.avg_pool(y, window_shape=(2, 2)).mean((1, 2)))

    return _converted(Network(nnx.Rngs(0)), floats(2, 17, 19, 3), symbols={0: "B"})


@model
def transposed_convolution_of_flax() -> Made:
    layer = nnx.ConvTranspose(3, 5, (3, 3), strides=(2, 2), rngs=nnx.Rngs(0))
    return _converted(layer, floats(2, 6, 7, 3))


@model
def attention_of_flax() -> Made:
    layer = nnx.MultiHeadAttention(4, 16, decode=False, rngs=nnx.Rngs(0))
    return _converted(lambda x: layer(x), floats(2, 5, 16))


@model
def groups_and_rms_of_flax() -> Made:
    class Network(nnx.Module):
        def __init__(self, rngs):
            self.group = nnx.GroupNorm(8, num_groups=2, rngs=rngs)
            self.rms = nnx.RMSNorm(8, rngs=rngs)

        def __call__(self, x):
            return self.rms(self.group(x))

    return _converted(Network(nnx.Rngs(0)), floats(2, 4, 5, 8))


@model
def lstm_of_flax() -> Made:
    cell = nnx.OptimizedLSTMCell(5, 4, rngs=nnx.Rngs(0))

    def call(x):
        return lax.scan(cell, (jnp.zeros((2, 4)), jnp.zeros((2, 4))), x)

    return _converted(call, floats(6, 2, 5))


@model
def gru_of_flax() -> Made:
    cell = nnx.GRUCell(5, 4, rngs=nnx.Rngs(0))
    return _converted(lambda x: lax.scan(cell, jnp.zeros((2, 4)), x), floats(6, 2, 5))


@model
def embedding_of_flax() -> Made:
    layer = nnx.Embed(20, 8, rngs=nnx.Rngs(0))
    return _converted(lambda t: layer.attend(layer(t)), integers(20, 3, 5, dtype=np.int32))


@model
def mlp_of_equinox() -> Made:
    network = eqx.nn.MLP(6, 3, 8, 2, jax.nn.tanh, key=jax.random.key(0))
    return _converted(jax.vmap(network), floats(4, 6))


@model
def cnn_of_equinox() -> Made:
    keys = jax.random.split(jax.random.key(0), 2)
    network = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(3, 6, 3, key=keys[0]),
            eqx.nn.Lambda(jax.nn.elu),
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Conv2d(6, 2, 3, groups=2, key=keys[1]),
        ]
    )
    return _converted(jax.vmap(network), floats(2, 3, 12, 13))


@model
def cell_of_equinox() -> Made:
    cell = eqx.nn.GRUCell(5, 4, key=jax.random.key(0))

    def call(x):
        return lax.scan(lambda h, row: (cell(row, h),) * 2, jnp.zeros(4), x)

    return _converted(call, floats(6, 5))


@model
def scan() -> Made:
    def call(x):
        def step(carry, row):
            total = jnp.tanh(carry * 0.5 + row)
            return total, (total * 2, jnp.sum(row))

        return lax.scan(step, jnp.zeros(4), x)

    return _converted(call, floats(6, 4))


@model
def nested_scans() -> Made:
    def call(x):
        def row(carry, r):
            inner = lax.scan(lambda c, v: (c * 0.5 + v, c), carry, r)
            return inner[0], inner[1].sum()

        return lax.scan(row, jnp.float32(0), x)

    return _converted(call, floats(5, 4))


@model
def while_loop() -> Made:
    def call(x):
        return lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * 0.5 + s[0]), (0, x))[
            1
        ]

    return _converted(call, floats(3, 4))


@model
def while_loop_of_data() -> Made:
    return _converted(
        lambda x: lax.while_loop(lambda y: jnp.sum(y * y) > 0.5, lambda y: y * 0.8, x), floats(3, 4)
    )


@model
def fori_loop() -> Made:
    def call(x):
        return lax.fori_loop(0, 4, lambda i, y: y.at[i].set(jnp.sin(y[i]) + i), x)

    return _converted(call, floats(6, 4))


@model
def cond() -> Made:
    def call(x):
        return lax.cond(jnp.sum(x) > 0, lambda y: y * 2, lambda y: jnp.exp(y), x)

    made, inputs = _converted(call, np.abs(floats(3, 4)))
    return made, [inputs, {name: -x for name, x in inputs.items()}]


@model
def einsums() -> Made:
    def call(x, y):
        return (
            jnp.einsum("bij,bjk->bik", x, y),
            jnp.einsum("bij->ji", x),
            jnp.einsum("bij,bjk,bkl->bil", x, y, y.transpose(0, 2, 1)),
            jnp.einsum("bii->bi", x[:, :3, :3]),
            jnp.tensordot(x[0], y[0], 1),
        )

    return _converted(call, floats(2, 3, 4), floats(2, 4, 5))


@model
def attention_by_hand() -> Made:
    weights = floats(16, 48) / 4

    def call(x):
        q, k, v = (p.reshape(2, 5, 4, 4) for p in jnp.split(x @ weights, 3, -1))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2
        scores = jnp.where(jnp.tril(jnp.ones((5, 5), bool)), scores, -jnp.inf)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v).reshape(2, 5, 16)

    return _converted(call, floats(2, 5, 16))


@model
def dot_product_attention() -> Made:
    def call(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    return _converted(call, *(floats(2, 5, 4, 8, seed=s) for s in range(3)))


@model
def indexing() -> Made:
    def call(x, i):
        return (
            x[:, ::-1, 1:],
            x[:, i],
            x[i % 2, i],
            jnp.take_along_axis(x, i[None, :, None] % 4, 1),
            x.at[:, i].add(1.0),
            lax.dynamic_slice(x, (0, i[0], 0), (2, 2, 3)),
            lax.dynamic_update_slice(x, jnp.zeros((1, 2, 2)), (1, i[1], 0)),
            jax.nn.one_hot(i, 5),
        )

    return _converted(call, floats(2, 4, 5), np.array([1, 0, 3], np.int32))


@model
def sorts() -> Made:
    def call(x):
        return (
            *lax.top_k(x, 3),
            jnp.sort(x, 0),
            jnp.argsort(x, 1),
            jnp.argmax(x, 1),
            jnp.median(x, 1),
        )

    return _converted(call, floats(4, 6))


@model
def reductions() -> Made:
    def call(x):
        return (
            lax.cumsum(x, 1),
            jnp.std(x, (0, 2)),
            jax.nn.logsumexp(x, -1),
            jnp.linalg.norm(x, axis=1),
            jnp.any(x > 1, 0),
            lax.cummax(x, 1),
            jnp.prod(x, 0),
        )

    return _converted(call, floats(3, 4, 5))


@model
def arithmetic() -> Made:
    def call(x, i):
        return (
            i // 3,
            i % 3,
            jnp.mod(x, 0.7),
            lax.rem(i - 5, 3),
            i * 2,
            jnp.bitwise_xor(i, 5),
            jnp.arctan2(x, x + 1),
            jnp.expm1(x),
            jnp.log1p(jnp.abs(x)),
            lax.erf_inv(jnp.tanh(x)),
            jnp.round(x * 3),
            jnp.sign(x),
            jax.nn.softplus(x),
            jax.nn.hard_swish(x),
            jnp.clip(x, -0.5, 0.5),
            jnp.logaddexp(x, 1.0),
            jnp.cbrt(x),
            jnp.floor_divide(x, 0.3),
            jnp.isfinite(x / jnp.maximum(x, 0)),
        )

    return _converted(call, floats(3, 5), integers(10, 3, 5, dtype=np.int32))


@model
def rearranged() -> Made:
    def call(x):
        return (
            jnp.pad(x, ((0, 0), (1, 2), (3, 0)), constant_values=1.5),
            jnp.tile(x, (1, 2, 1)),
            jnp.repeat(x, 2, 1),
            jnp.flip(x, (0, 2)),
            jnp.stack([x, x * 2], 1),
            jnp.triu(x),
            jnp.moveaxis(x, 0, 2),
        )

    return _converted(call, floats(2, 5, 6))


@model
def images() -> Made:
    def call(x):
        return (
            jax.image.resize(x, (2, 9, 13, 3), "linear", antialias=False),
            jax.image.resize(x, (2, 12, 14, 3), "nearest"),
        )

    return _converted(call, floats(2, 6, 7, 3))


@model
def convolutions() -> Made:
    def call(x):
        kernel = floats(3, 3, 4, 6) / 6
        return (
            lax.conv_general_dilated(
                x,
                kernel,
                (1, 1),
                "SAME",
                rhs_dilation=(2, 1),
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            ),
            lax.conv_general_dilated(
                x, kernel, (2, 1), ((1, 2), (0, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
            ),
            lax.conv(x.transpose(0, 3, 1, 2), kernel.transpose(3, 2, 0, 1), (1, 1), "VALID"),
        )

    return _converted(call, floats(2, 9, 8, 4))


@model
def mapped_twice() -> Made:
    def call(x):
        return jax.vmap(jax.vmap(lambda a, b: jnp.sum(a * b), (None, 0)), (0, None))(x, x * 2)

    return _converted(call, floats(4, 6))


@model
def gradient() -> Made:
    weights = floats(4, 3)
    return _converted(jax.grad(lambda x: jnp.sum(jnp.tanh(x @ weights) ** 2)), floats(5, 4))


@model
def doubles() -> Made:
    jax.config.update("jax_enable_x64", True)
    try:
        return _converted(
            lambda x: jnp.exp(x) @ x.T, floats(3, 4, dtype=np.float64), enable_double_precision=True
        )
    finally:
        jax.config.update("jax_enable_x64", False)
