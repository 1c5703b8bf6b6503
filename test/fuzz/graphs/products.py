"""Products, attention, recurrences."""

from __future__ import annotations

import numpy as np

from test.fuzz.graphs.elements import partner
from test.fuzz.graphs.graph import BOOL, Graph, UnsoundError, Value
from test.fuzz.graphs.kinds import kind


def weights(
    g: Graph, shape: tuple[int, ...], k: int, like: Value, weight: bool | None = None
) -> Value:
    """A factor whose products with normal numbers are about as large as they are."""
    return g.fresh(shape, like.dtype, weight, scale=float(1 / np.sqrt(max(k, 1))))


@kind(8)
def matmul(g: Graph) -> Value:
    x = g.real(1, 2, 3, 4)
    k, n = x.shape[-1], g.size(512)
    how = g.rng.randrange(6)
    if how == 0 and x.rank > 2:
        batch = tuple(1 if g.chance(0.3) else s for s in x.shape[:-2])
        y = weights(g, (*batch[g.rng.randint(0, len(batch)) :], k, n), k, x)
    elif how == 1:
        y = weights(g, (k,), k, x)
    elif how == 2 and x.rank >= 2:
        m = x.shape[-2]
        y = g.op("MatMul", weights(g, (g.size(), m), m, x), x)
        return epilogue(g, y)
    elif how == 3 and x.rank >= 2:
        y = weights(g, (n, k), k, x)
        y = g.op("Transpose", y, perm=[1, 0])
    else:
        y = weights(g, (k, n), k, x, g.chance(0.8))
    return epilogue(g, g.op("MatMul", x, y))


@kind(2)
def large_k(g: Graph) -> Value:
    k = g.rng.choice((509, 512, 1000, 1024, 1021, 2048, 4096))
    m = g.rng.choice((1, 1, 2, 7, 16, 17, 33))
    x, y = g.fresh((m, k), weight=False), g.fresh((k, g.size(64)), scale=float(1 / np.sqrt(k)))
    return epilogue(g, g.op("MatMul", x, y))


def epilogue(g: Graph, y: Value) -> Value:
    """Often a bias, an activation or a residual after it."""
    if g.chance(0.4):
        y = g.op("Add", y, g.fresh(y.shape[-1:], y.dtype))
    if g.chance(0.3):
        y = g.op(g.rng.choice(("Relu", "Gelu", "Sigmoid", "Tanh", "HardSwish")), y)
    if g.chance(0.2):
        y = g.op(g.rng.choice(("Add", "Mul")), y, partner(g, y))
    return y


@kind(3)
def gemm(g: Graph) -> Value:
    x = g.real(2)
    first, second = g.rng.randrange(2), g.rng.randrange(2)
    m, k = reversed(x.shape) if first else x.shape
    if k == 0:
        raise UnsoundError("onnxruntime leaves out beta where the product is empty")
    n = g.size()
    y = weights(g, (n, k) if second else (k, n), k, x)
    c = None
    if g.chance(0.7):
        c = g.fresh(g.rng.choice(((n,), (m, n), (1, n), (m, 1), (1,), ())), x.dtype)
    attributes = {"alpha": g.rng.choice((1.0, 0.5)), "beta": g.rng.choice((1.0, 2.0))}
    return g.op("Gemm", x, y, c, transA=first, transB=second, **attributes)


@kind(2)
def einsum(g: Graph) -> Value:
    i, j, k, b, h = (g.size(33) for _ in range(5))
    sizes = {"i": i, "j": j, "k": k, "b": min(b, 4), "h": min(h, 5)}
    equation = g.rng.choice(
        (
            "ij,jk->ik",
            "bij,bjk->bik",
            "bihk,bjhk->bhij",
            "bhij,bjhk->bihk",
            "ij,kj->ki",
            "ij,jk->ikj",
            "ij->ji",
            "bij->bi",
            "bhij,hj->bhi",
            "i,j->ij",
            "ij,ij->",
            "bi,ij,bj->b",
        )
    )
    terms = equation.split("->")[0].split(",")
    return g.op("Einsum", *(g.fresh([sizes[s] for s in term]) for term in terms), equation=equation)


@kind(2)
def product_of_own(g: Graph) -> Value:
    """A tensor times its own transpose, as self-similarity has it."""
    x = g.real(2, 3, 4, most=4096)
    x = g.op("LayerNormalization", x, g.fresh(x.shape[-1:], x.dtype, True), axis=-1)
    perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    y = g.op("MatMul", x, g.op("Transpose", x, perm=perm))
    return g.op("Mul", y, g.number(1 / max(x.shape[-1], 1), x.dtype))


@kind(4)
def attention(g: Graph) -> Value:
    """Attention as exporters write it: heads split, scaled, masked, merged."""
    batch, length, heads = g.rng.choice((1, 2, 3)), g.size(130), g.rng.choice((1, 2, 4, 5))
    width = g.rng.choice((8, 16, 32, 40, 64, 20, 6, 80, 128))
    keys = length if g.chance(0.6) else g.size(200)
    groups = (
        g.rng.choice([h for h in range(1, heads + 1) if heads % h == 0]) if g.chance(0.4) else heads
    )

    def side(tokens: int, heads: int) -> Value:
        if g.chance(0.4):
            return g.fresh((batch, heads, tokens, width), weight=False)
        x = g.fresh((batch, tokens, heads * width), weight=False)
        if g.chance(0.4):
            inner = g.size(64)
            x = g.op(
                "MatMul",
                g.fresh((batch, tokens, inner), weight=False),
                g.fresh((inner, heads * width), scale=float(inner**-0.5)),
            )
        x = g.op("Reshape", x, g.ints(batch, tokens, heads, width))
        return g.op("Transpose", x, perm=[0, 2, 1, 3])

    q, k, v = side(length, heads), side(keys, groups), side(keys, groups)
    if groups != heads:
        each = heads // groups
        k, v = (
            g.op(
                "Reshape",
                g.op(
                    "Expand",
                    g.op("Unsqueeze", t, g.ints(2)),
                    g.ints(batch, groups, each, keys, width),
                ),
                g.ints(batch, heads, keys, width),
            )
            for t in (k, v)
        )
    scale = g.number(width**-0.5, q.dtype)
    if g.chance(0.3):
        q = g.op("Mul", q, scale)
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
    if g.nodes[-2].op_type != "Mul":
        scores = g.op("Mul", scores, scale)
    masked = g.rng.randrange(5)
    if masked == 1:
        shape = g.rng.choice(
            (
                (batch, 1, 1, keys),
                (length, keys),
                (1, 1, length, keys),
                (batch, heads, length, keys),
            )
        )
        scores = g.op("Add", scores, g.fresh(shape, q.dtype, False))
    elif masked in (2, 3):
        visible = np.tril(np.ones((length, keys), bool), keys - length if masked == 3 else 0)
        visible[:, 0] = True
        if g.chance(0.5):
            bias = np.where(visible, 0, -1e3).astype(q.dtype)
            scores = g.op("Add", scores, g.hold(bias))
        else:
            scores = g.op("Where", g.hold(visible, g.chance(0.5)), scores, g.number(-1e3, q.dtype))
    shares = g.op("Softmax", scores, axis=-1)
    y = g.op("MatMul", shares, v)
    if g.chance(0.6):
        y = g.op(
            "Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), g.ints(batch, length, heads * width)
        )
    return y


@kind(2)
def attention_operator(g: Graph) -> Value:
    batch, length, keys = g.rng.choice((1, 2)), g.size(66), g.size(130)
    groups, each, width = (
        g.rng.choice((1, 2, 3)),
        g.rng.choice((1, 2, 4)),
        g.rng.choice((8, 16, 32, 64, 24)),
    )
    out = g.rng.choice((width, width, 16))
    heads = groups * each
    causal = g.chance(0.4)
    if causal:
        keys = length
    q = g.fresh((batch, heads, length, width), weight=False)
    k = g.fresh((batch, groups, keys, width), weight=False)
    v = g.fresh((batch, groups, keys, out), weight=False)
    mask = None
    if g.chance(0.4):
        mask = g.fresh((length, keys), q.dtype, False)
    elif g.chance(0.2):
        mask = g.hold(np.tril(np.ones((length, keys), bool)))
        assert mask.dtype == BOOL
    attributes = {"is_causal": int(causal)}
    if g.chance(0.3):
        attributes["scale"] = 0.3
    if g.chance(0.2):
        attributes["softcap"] = 5.0
    return g.op("Attention", q, k, v, mask, **attributes)


@kind(1)
def recurrent(g: Graph) -> Value:
    steps, batch, inputs, hidden = (
        g.rng.choice((1, 2, 3, 7)),
        g.rng.choice((1, 2, 5)),
        g.size(33),
        g.size(24),
    )
    directions, name = g.rng.choice((1, 2)), g.rng.choice(("LSTM", "GRU", "RNN"))
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    x = g.fresh((steps, batch, inputs), weight=False)
    w = weights(g, (directions, gates * hidden, inputs), inputs, x, True)
    r = weights(g, (directions, gates * hidden, hidden), hidden, x, True)
    b = g.fresh((directions, 2 * gates * hidden), x.dtype, True, 0.1)
    attributes = {
        "hidden_size": hidden,
        "direction": "bidirectional" if directions == 2 else g.rng.choice(("forward", "reverse")),
    }
    if name == "GRU":
        attributes["linear_before_reset"] = g.rng.randrange(2)
    y, _ = g.op(name, x, w, r, b, outputs=2, **attributes)
    return y


@kind(1)
def feed_forward(g: Graph) -> Value:
    x = g.real(2, 3)
    width, inner = x.shape[-1], g.size(130)
    y = g.op(
        "LayerNormalization",
        x,
        g.fresh((width,), x.dtype, True),
        g.fresh((width,), x.dtype, True),
        axis=-1,
    )
    gate = g.op("MatMul", y, weights(g, (width, inner), width, x, True))
    gate = g.op("Mul", gate, g.op("Sigmoid", gate))
    up = g.op("MatMul", y, weights(g, (width, inner), width, x, True))
    y = g.op("MatMul", g.op("Mul", gate, up), weights(g, (inner, width), inner, x, True))
    if y.exact.size == 0:
        raise UnsoundError("empty")
    return g.op("Add", x, y)
