"""Quantization: pairs of QuantizeLinear and DequantizeLinear, and operators on 8-bit integers."""

from __future__ import annotations

import numpy as np

from test.fuzz.graphs.graph import F32, I8, U8, Graph, UnsoundError, Value
from test.fuzz.graphs.kinds import kind
from test.fuzz.graphs.windows import window


def points(
    g: Graph, shape: tuple[int, ...], dtype: np.dtype, symmetric: bool
) -> tuple[Value, Value]:
    scale = g.hold(g.numpy.uniform(0.01, 0.03, shape).astype(np.float32))
    if symmetric:
        return scale, g.hold(np.zeros(shape, dtype))
    low, high = (100, 150) if dtype == U8 else (-20, 20)
    return scale, g.hold(g.numpy.integers(low, high, shape).astype(dtype))


def images(g: Graph) -> Value:
    c = g.rng.choice((1, 3, 8, 16, 17, 32))
    return g.fresh((g.rng.choice((1, 2)), c, g.size(17), g.size(17)), F32, False)


@kind(2)
def pair(g: Graph) -> Value:
    """Quantized and back, of an input: rounding ties must not hang on the last bit."""
    shape = g.shape(g.rng.choice((1, 2, 3, 4)))
    x = g.fresh(shape, F32, False)
    dtype = g.rng.choice((I8, U8))
    if g.chance(0.5) and x.rank > 1:
        axis = g.rng.randrange(x.rank)
        scale, zero = points(g, (x.shape[axis],), dtype, False)
        q = g.op("QuantizeLinear", x, scale, zero, axis=axis)
        return g.op("DequantizeLinear", q, scale, zero, axis=axis)
    scale, zero = points(g, (), dtype, False)
    q = g.op("QuantizeLinear", x, scale, zero)
    return g.op("DequantizeLinear", q, scale, zero)


@kind(2)
def quantized_product(g: Graph) -> Value:
    m, k, n = g.size(), g.size(), g.size()
    batch = g.rng.choice(((), (), (2,), (2, 3)))
    x = g.fresh((*batch, m, k), F32, False)
    dtype = g.rng.choice((I8, U8))
    scale, zero = points(g, (), dtype, g.chance(0.5))
    x = g.op("DequantizeLinear", g.op("QuantizeLinear", x, scale, zero), scale, zero)
    w = g.hold(g.numpy.integers(-127, 128, (k, n)).astype(np.int8))
    each = g.chance(0.5)
    scale, zero = points(g, (n,) if each else (), I8, g.chance(0.7))
    w = g.op("DequantizeLinear", w, scale, zero, axis=1)
    y = g.op("MatMul", x, w)
    return g.op("Add", y, g.fresh((n,), F32, True)) if g.chance(0.4) else y


@kind(2)
def quantized_convolution(g: Graph) -> Value:
    x = images(g)
    attributes = window(g, x)
    channels = x.shape[1]
    group = g.rng.choice((1, 1, channels))
    out = group * g.rng.choice((1, 4, 5)) if group > 1 else g.rng.choice((1, 4, 16, 17, 32))
    dtype = g.rng.choice((I8, U8))
    scale, zero = points(g, (), dtype, g.chance(0.5))
    x = g.op("DequantizeLinear", g.op("QuantizeLinear", x, scale, zero), scale, zero)
    shape = (out, channels // group, *attributes["kernel_shape"])
    w = g.hold(g.numpy.integers(-127, 128, shape).astype(np.int8))
    scale, zero = points(g, (out,) if g.chance(0.5) else (), I8, True)
    w = g.op("DequantizeLinear", w, scale, zero, axis=0)
    b = g.fresh((out,), F32, True) if g.chance(0.5) else None
    y = g.op("Conv", x, w, b, group=group, **attributes)
    return g.op("Relu", y) if g.chance(0.5) else y


@kind(1)
def integer_product(g: Graph) -> Value:
    a, b = g.rng.choice((I8, U8)), g.rng.choice((I8, U8))
    m, k, n = g.size(), g.size(), g.size()
    x, y = g.fresh((m, k), a, False, low=-128, high=127), g.fresh((k, n), b, low=-128, high=127)
    zero = g.number(3, a) if g.chance(0.5) else None
    other = g.number(2, b) if g.chance(0.5) else None
    y = g.op("MatMulInteger", x, y, zero, other)
    return g.op("Mul", g.op("Cast", y, to=1), g.number(1e-3, F32))


@kind(1)
def linear_product(g: Graph) -> Value:
    dtype = g.rng.choice((I8, U8))
    m, k, n = g.size(65), g.size(65), g.size(65)
    x, y = g.fresh((m, k), dtype, False, low=-99, high=99), g.fresh((k, n), dtype, low=-99, high=99)
    (s, z), (t, w), (r, v) = (points(g, (), dtype, g.chance(0.5)) for _ in range(3))
    y = g.op("QLinearMatMul", x, s, z, y, t, w, g.number(0.217 * max(k, 1) ** 0.5, F32), v)
    assert r is not None
    return g.op("DequantizeLinear", y, t, v)


@kind(1)
def dynamic(g: Graph) -> Value:
    m, k, n = g.size(65), g.size(130), g.size(65)
    x = g.fresh((m, k), F32, False)
    q, scale, zero = g.op("DynamicQuantizeLinear", x, outputs=3)
    w = g.hold(g.numpy.integers(-127, 128, (k, n)).astype(np.int8))
    y = g.op("Cast", g.op("MatMulInteger", q, w, zero), to=1)
    return g.op("Mul", y, g.op("Mul", scale, g.number(0.01, F32)))


@kind(1)
def blocked_weights(g: Graph) -> Value:
    """Weights of 8 bits with a scale a block of rows."""
    block, blocks, n, m = g.rng.choice((16, 32)), g.rng.choice((1, 2, 3)), g.size(65), g.size(33)
    k = block * blocks
    w = g.hold(g.numpy.integers(-127, 128, (k, n)).astype(np.int8))
    scale = g.hold(g.numpy.uniform(0.001, 0.01, (blocks, n)).astype(np.float32))
    w = g.op("DequantizeLinear", w, scale, None, axis=0, block_size=block)
    if not w.exact.size:
        raise UnsoundError("empty")
    return g.op("MatMul", g.fresh((m, k), F32, False), w)
