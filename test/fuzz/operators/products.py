"""Operators that multiply matrices, and attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from test.fuzz.operators.draw import BOOL, F16, F32, FLOATS, I32, I64, WIDE, Draw, is_float
from test.fuzz.operators.form import Form, Input, operator

_SIZES = (1, 2, 3, 8, 17, 32, 64)
_EQUATIONS = (
    "...i->...",
    "...ij,...jk->...ik",
    "a,b,c->cab",
    "abc,cd->abd",
    "bhid,bhjd->bhij",
    "bi,ij,bj->b",
    "bij,bjk->bik",
    "i,i",
    "i,j->ij",
    "i...,j...->ij...",
    "ii->",
    "ii->i",
    "ij,ij->",
    "ij,ij->i",
    "ij,jk->ik",
    "ij,kj->ik",
    "ij->ji",
    "ijj->i",
    "ijk->kj",
)


def _sizes(draw: Draw) -> tuple[int, int, int]:
    found = [draw.among(_SIZES) for _ in "mkn"]
    if draw.empty:
        found[draw.rng.randrange(3)] = 0
    return found[0], found[1], found[2]


@operator("MatMul")
def _matmul(draw: Draw) -> Form:
    dtype, (m, k, n) = draw.among(FLOATS + WIDE), _sizes(draw)
    batch = draw.shape(0, 2, empty=False)
    first, second = [*batch, m, k], [*draw.broadcast(batch), k, n]
    vector = draw.pick("", "", "", "first", "second")
    first, second = ([k] if vector == "first" else first), ([k] if vector == "second" else second)
    return Form([draw.plain(first, dtype), draw.fixed(draw.plain(second, dtype), 0.4)])


@operator("Gemm")
def _gemm(draw: Draw) -> Form:
    dtype, (m, k, n) = draw.among(FLOATS + WIDE), _sizes(draw)
    turned = {"transA": draw.pick(0, 1), "transB": draw.pick(0, 1)}
    first = draw.plain([k, m] if turned["transA"] else [m, k], dtype)
    second = draw.plain([n, k] if turned["transB"] else [k, n], dtype)
    inputs: list[Input] = [first, draw.fixed(second, 0.4)]
    if draw.chance(0.7):
        inputs.append(draw.fixed(draw.plain(draw.broadcast([m, n]), dtype), 0.5))
    scales = {"alpha": draw.pick(1.0, 0.5, 2.0), "beta": draw.pick(1.0, 0.5, 0.0, 2.0)}
    return Form(inputs, turned | (scales if is_float(dtype) else {}))


@operator("Einsum")
def _einsum(draw: Draw) -> Form:
    equation, dtype = draw.among(_EQUATIONS), draw.among((*FLOATS, I32, I64))
    sizes = {letter: draw.pick(1, 2, 3, 5) for letter in "abcdhijk"}
    more = draw.shape(0, 2, empty=False)
    inputs = []
    for term in equation.split("->")[0].split(","):
        before, dots, after = term.partition("...")
        shape = [sizes[c] for c in before] + (more if dots else []) + [sizes[c] for c in after]
        inputs.append(draw.plain(shape, dtype))
    return Form(list(inputs), {"equation": equation.replace(",", draw.pick(",", " , "))})


@operator("Det")
def _det(draw: Draw) -> Form:
    size = draw.pick(1, 2, 3, 5)
    return Form([draw.plain([*draw.shape(0, 2), size, size])])


@operator("Attention")
def _attention(draw: Draw) -> Form:
    batch, heads, shared = draw.pick(1, 2), 4, draw.pick(1, 2, 4)
    queries, keys, past = draw.pick(1, 3, 5), draw.pick(1, 4, 7), draw.pick(0, 0, 3)
    depth, wide, dtype = draw.pick(4, 8), draw.pick(4, 8), draw.pick(F32, F32, F16)
    stated: dict[str, Any] = {"is_causal": draw.pick(0, 1), "softcap": draw.pick(0.0, 0.0, 2.0)}
    if draw.chance(0.5):
        stated["scale"] = 0.3
    shapes = [(heads, queries, depth), (shared, keys, depth), (shared, keys, wide)]
    if draw.chance(0.5):
        inputs: list[Input] = [draw.plain([batch, *s], dtype) for s in shapes]
    else:
        inputs = [draw.plain([batch, s[1], s[0] * s[2]], dtype) for s in shapes]
        stated |= {"q_num_heads": heads, "kv_num_heads": shared}
    inputs.append(_mask(draw, batch, heads, queries, keys + past, dtype))
    if past:
        inputs += [draw.plain([batch, shared, past, size], dtype) for size in (depth, wide)]
    return Form(inputs, stated, 3 if past else 1)


def _mask(draw: Draw, batch: int, heads: int, queries: int, keys: int, dtype: Any) -> Input:
    """A bias, conditions, or none. Each query sees a key."""
    kind = draw.pick("none", "bias", "condition")
    if kind == "none":
        return None
    if kind == "condition":
        seen = draw.array([queries, keys], BOOL)
        seen[:, 0] = True
        return seen
    lead: list[int] = draw.pick([], [1, 1], [batch, 1], [batch, heads])
    return draw.plain([*lead, queries, keys], dtype)


@operator("RotaryEmbedding")
def _rotary(draw: Draw) -> Form:
    batch, heads, length, depth = draw.pick(1, 2), 2, draw.pick(1, 3), 8
    turned = draw.pick(0, 4)
    stated = {"interleaved": draw.pick(0, 1)}
    if turned:
        stated["rotary_embedding_dim"] = turned
    half = (turned or depth) // 2
    values = draw.plain([batch, heads, length, depth])
    if draw.chance(0.5):
        values = draw.plain([batch, length, heads * depth])
        stated["num_heads"] = heads
    if draw.chance(0.5):
        places = draw.array([batch, length], I64, 0, 9)
        return Form([values, draw.plain([10, half]), draw.plain([10, half]), places], stated)
    tables = [draw.plain([batch, length, half]) for _ in range(2)]
    return Form([values, *tables], stated)


def _recurrent(draw: Draw, name: str) -> Form:
    """Layout, peepholes and functions have a test of their own: test.fuzz.recurrent."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[name]
    length, batch, given, hidden = (
        draw.pick(1, 3, 5),
        draw.pick(1, 2),
        draw.pick(2, 3),
        draw.pick(2, 4),
    )
    direction = draw.pick("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1

    def small(*shape: int) -> np.ndarray:
        return (draw.plain(shape) * np.float32(0.5)).astype(np.float32)

    inputs: list[Input] = [small(length, batch, given)]
    inputs += [draw.fixed(small(ways, gates * hidden, size)) for size in (given, hidden)]
    inputs.append(draw.fixed(small(ways, 2 * gates * hidden)) if draw.chance(0.6) else None)
    lengths = draw.array([batch], I32, 1, length)
    inputs.append(lengths if draw.chance(0.4) else None)
    inputs.append(small(ways, batch, hidden) if draw.chance(0.5) else None)
    stated = {"hidden_size": hidden, "direction": direction}
    return Form(inputs, stated, 3 if name == "LSTM" else 2)


operator("RNN", "GRU", "LSTM")(_recurrent)
