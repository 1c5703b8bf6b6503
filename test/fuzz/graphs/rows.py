"""Reductions, normalizations, scans and sorts."""

from __future__ import annotations

from typing import Any

import numpy as np

from test.fuzz.graphs.graph import F32, F64, I32, Graph, UnsoundError, Value
from test.fuzz.graphs.kinds import kind
from test.fuzz.graphs.windows import image


def axes(g: Graph, rank: int) -> list[int]:
    chosen = g.rng.sample(range(rank), g.rng.randint(1, rank))
    return [a - rank if g.chance(0.4) else a for a in chosen]


@kind(6)
def reduction(g: Graph) -> Value:
    x = g.real(1, 2, 3, 4, 5)
    name = g.rng.choice(
        (
            "Sum",
            "Mean",
            "Mean",
            "Max",
            "Min",
            "Prod",
            "L1",
            "L2",
            "LogSum",
            "LogSumExp",
            "SumSquare",
        )
    )
    if name in ("L1", "L2", "LogSum", "Prod"):
        x = g.op("Add", g.op("Sigmoid", x), g.number(0.5, x.dtype))
    if not x.exact.size:
        raise UnsoundError("onnxruntime gives other shapes than onnx says")
    if name == "Prod" and x.exact.size > 256:
        raise UnsoundError("a part may overflow whose product with others does not")
    keep = g.rng.randrange(2)
    if g.chance(0.15):
        return g.op("Reduce" + name, x, keepdims=keep)
    return g.op("Reduce" + name, x, g.ints(*axes(g, x.rank)), keepdims=keep)


@kind(1)
def long_row(g: Graph) -> Value:
    n = g.rng.choice((1000, 1024, 2047, 4096, 5000, 16384, 20011))
    x = g.fresh((g.rng.choice((1, 2, 3)), n), weight=False)
    if g.chance(0.5):
        return g.op("Softmax", x, axis=-1)
    return g.op(
        g.rng.choice(("ReduceMean", "ReduceMax", "ReduceLogSumExp", "ReduceL2")), x, g.ints(-1)
    )


@kind(1)
def integer_reduction(g: Graph) -> Value:
    x = g.pick(lambda v: v.dtype == I32 and v.rank > 0) or g.fresh(
        g.shape(g.rng.choice((1, 2, 3))), I32, False
    )
    name = g.rng.choice(("Sum", "Max", "Min", "Prod", "Mean"))
    if not x.exact.size:
        raise UnsoundError("onnxruntime gives other shapes than onnx says")
    if name == "Prod":
        x = g.op("Clip", x, g.number(-1, I32), g.number(1, I32))
    return g.op("Reduce" + name, x, g.ints(*axes(g, x.rank)), keepdims=g.rng.randrange(2))


@kind(1)
def arg(g: Graph) -> Value:
    x = g.real(1, 2, 3, 4)
    if not x.exact.size or x.dtype.itemsize < 4:
        raise UnsoundError("empty, or equal where rounded")
    return g.op(
        g.rng.choice(("ArgMax", "ArgMin")),
        x,
        axis=g.rng.randrange(-x.rank, x.rank),
        keepdims=g.rng.randrange(2),
        select_last_index=g.rng.randrange(2),
    )


@kind(4)
def softmax(g: Graph) -> Value:
    x = g.real(1, 2, 3, 4)
    return g.op(
        g.rng.choice(("Softmax", "Softmax", "LogSoftmax")), x, axis=g.rng.randrange(-x.rank, x.rank)
    )


@kind(4)
def normalization(g: Graph) -> Value:
    x = g.real(2, 3, 4)
    axis = g.rng.randrange(1, x.rank) if g.chance(0.3) else x.rank - 1
    shape = x.shape[axis:]
    scale = g.fresh(shape, x.dtype, True)
    if g.chance(0.6):
        bias = g.fresh(shape, x.dtype, True) if g.chance(0.6) else None
        return g.op("LayerNormalization", x, scale, bias, axis=axis - x.rank, epsilon=1e-3)
    return g.op("RMSNormalization", x, scale, axis=axis - x.rank, epsilon=1e-3)


@kind(2)
def group_normalization(g: Graph) -> Value:
    x = image(g)
    c = x.shape[1]
    scale, bias = g.fresh((c,), x.dtype, True), g.fresh((c,), x.dtype, True)
    if g.chance(0.4):
        return g.op("InstanceNormalization", x, scale, bias, epsilon=1e-2)
    groups = g.rng.choice([d for d in range(1, c + 1) if c % d == 0])
    return g.op("GroupNormalization", x, scale, bias, num_groups=groups, epsilon=1e-2)


@kind(1)
def other_normalization(g: Graph) -> Value:
    x = g.real(2, 3, 4)
    if g.chance(0.5) and x.rank == 4:
        return g.op(
            "MeanVarianceNormalization", g.op("Add", x, g.number(0.1, x.dtype)), axes=[0, 2, 3]
        )
    axis = g.rng.randrange(x.rank)
    if x.shape[axis] == 1:
        raise UnsoundError("jumps")
    return g.op("LpNormalization", x, axis=axis, p=g.rng.choice((1, 2)))


@kind(1)
def by_hand(g: Graph) -> Value:
    """A normalization from its parts, over some axes, as old exporters write it."""
    x = g.real(2, 3, 4)
    over = g.ints(*axes(g, x.rank))
    centred = g.op("Sub", x, g.op("ReduceMean", x, over))
    square = (
        g.op("Mul", centred, centred)
        if g.chance(0.5)
        else g.op("Pow", centred, g.number(2, x.dtype))
    )
    spread = g.op("Sqrt", g.op("Add", g.op("ReduceMean", square, over), g.number(0.01, x.dtype)))
    return g.op("Div", centred, spread)


@kind(1)
def cumulative(g: Graph) -> Value:
    x = g.real(1, 2, 3)
    if x.dtype not in (F32, F64):
        x = g.fresh(x.shape, F32, False)
    return g.op(
        "CumSum",
        x,
        g.number(g.rng.randrange(x.rank), np.int64),
        exclusive=g.rng.randrange(2),
        reverse=g.rng.randrange(2),
    )


@kind(2)
def top_k(g: Graph) -> Value:
    x = g.real(1, 2, 3, most=4096)
    axis = g.rng.randrange(x.rank)
    if x.shape[axis] == 0:
        raise UnsoundError("empty")
    k = g.rng.choice((1, 2, x.shape[axis], max(1, x.shape[axis] // 2)))
    k = min(k, x.shape[axis])
    attributes: dict[str, Any] = {"axis": axis, "largest": g.rng.randrange(2), "sorted": 1}
    values, _ = g.op("TopK", x, g.ints(k), outputs=2, **attributes)
    return values
