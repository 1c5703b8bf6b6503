"""Operators that move elements: views, slices, concats, pads, gathers, scatters."""

from __future__ import annotations

import numpy as np

from test.fuzz.graphs.graph import Graph, UnsoundError, Value
from test.fuzz.graphs.kinds import kind


@kind(4)
def transpose(g: Graph) -> Value:
    x = g.real(2, 3, 4, 5)
    perm = list(range(x.rank))
    g.rng.shuffle(perm)
    return g.op("Transpose", x, perm=perm)


@kind(5)
def reshape(g: Graph) -> Value:
    x = g.pick(lambda v: True) or g.real()
    total = x.exact.size
    how = g.rng.randrange(6)
    if how == 0:
        return g.op("Flatten", x, axis=g.rng.randint(0, x.rank))
    if how == 1:
        places = sorted(g.rng.sample(range(x.rank + 2), g.rng.choice((1, 2))))
        return g.op("Unsqueeze", x, g.ints(*places))
    if how == 2 and 1 in x.shape:
        return g.op("Squeeze", x, g.ints(*(i for i, s in enumerate(x.shape) if s == 1)))
    if how == 3 and x.rank >= 2:  # two neighbours become one
        at = g.rng.randrange(x.rank - 1)
        return g.op(
            "Reshape", x, g.ints(*x.shape[:at], x.shape[at] * x.shape[at + 1], *x.shape[at + 2 :])
        )
    sizes, left = [], total
    for _ in range(g.rng.randint(1, 4)):
        divisors = [d for d in range(1, min(left, 256) + 1) if left % d == 0] or [1]
        sizes.append(g.rng.choice(divisors))
        left //= max(sizes[-1], 1)
    if total == 0:
        raise UnsoundError("empty")
    sizes.insert(g.rng.randint(0, len(sizes)), -1 if g.chance(0.5) else left)
    return g.op("Reshape", x, g.ints(*sizes))


@kind(2)
def expand(g: Graph) -> Value:
    x = g.pick(lambda v: v.exact.size < 2048) or g.real()
    shape = [g.size(9) if s == 1 else (s if g.chance(0.7) else 1) for s in x.shape]
    if g.chance(0.4):
        shape = [g.rng.choice((1, 2, 3)), *shape]
    if g.chance(0.3) and x.rank:
        return g.op("Tile", x, g.ints(*(g.rng.choice((1, 1, 2, 3)) for _ in x.shape)))
    return g.op("Expand", x, g.ints(*shape))


@kind(5)
def slices(g: Graph) -> Value:
    x = g.pick(lambda v: v.rank > 0) or g.real(1, 2, 3)
    count = g.rng.randint(1, min(3, x.rank))
    chosen = g.rng.sample(range(x.rank), count)
    starts, ends, steps = [], [], []
    for axis in chosen:
        size = x.shape[axis]
        step = g.rng.choice((1, 1, 1, 2, 3, -1, -2))
        first, last = sorted(g.rng.sample(range(size + 1), 2)) if size else (0, 0)
        if step < 0:
            starts.append(last - 1 if last > 0 else 0)
            ends.append(first - 1 if first > 0 else -size - 1)
        else:
            starts.append(first - size if g.chance(0.3) and first < size else first)
            ends.append(last if g.chance(0.7) else (last + 1000 if last == size else last))
        steps.append(step)
    return g.op("Slice", x, g.ints(*starts), g.ints(*ends), g.ints(*chosen), g.ints(*steps))


@kind(2)
def split_and_more(g: Graph) -> Value:
    x = g.real(1, 2, 3, 4)
    axis = g.rng.randrange(x.rank)
    size = x.shape[axis]
    if size < 2:
        raise UnsoundError("too small")
    if g.chance(0.5) and size % 2 == 0:
        parts = g.op("Split", x, g.ints(size // 2, size // 2), axis=axis, outputs=2)
        first = g.op(g.rng.choice(("Sigmoid", "Tanh", "Relu", "Neg")), parts[0])
        how = g.rng.randrange(3)
        if how == 2:
            return g.op("Concat", parts[1], first, axis=axis)
        return g.op("Mul" if how else "Add", first, parts[1])
    cut = g.rng.randint(1, size - 1)
    parts = g.op("Split", x, g.ints(cut, size - cut), axis=axis, outputs=2)
    order = [parts[1], parts[0]] if g.chance(0.5) else [parts[0], g.op("Relu", parts[1])]
    return g.op("Concat", *order, axis=axis)


@kind(4)
def concat(g: Graph) -> Value:
    x = g.real(1, 2, 3, 4)
    axis = g.rng.randrange(x.rank)
    parts = [x]
    for _ in range(g.rng.choice((1, 1, 2, 4))):
        other = g.pick(
            lambda v: (
                v.dtype == x.dtype
                and v.rank == x.rank
                and all(
                    a == b
                    for i, (a, b) in enumerate(zip(v.shape, x.shape, strict=True))
                    if i != axis
                )
            )
        )
        if other is None or (other is x and g.chance(0.7)):
            shape = list(x.shape)
            shape[axis] = g.size(17)
            other = g.fresh(shape, x.dtype)
        parts.append(other)
    g.rng.shuffle(parts)
    return g.op("Concat", *parts, axis=axis - x.rank if g.chance(0.3) else axis)


@kind(3)
def pad(g: Graph) -> Value:
    x = g.real(1, 2, 3, 4)
    mode = g.rng.choice(("constant", "constant", "edge", "reflect", "wrap"))
    most = [min(3, s - 1 if mode in ("reflect", "wrap") else s + 2) for s in x.shape]
    if min(most) < 0:
        raise UnsoundError("empty")
    pads = [g.rng.randint(0, m) if g.chance(0.6) else 0 for m in most * 2]
    if mode == "constant" and g.chance(0.2):
        pads = [-1 if p == 0 and s > 2 else p for p, s in zip(pads, x.shape * 2, strict=True)]
    value = (
        g.number(g.rng.choice((0, 0.5, -1)), x.dtype)
        if mode == "constant" and g.chance(0.5)
        else None
    )
    return g.op("Pad", x, g.ints(*pads), value, mode=mode)


@kind(4)
def gather(g: Graph) -> Value:
    x = g.pick(lambda v: v.rank > 0) or g.real(1, 2, 3)
    axis = g.rng.randrange(x.rank)
    size = x.shape[axis]
    if not size:
        raise UnsoundError("empty")
    how = g.rng.randrange(3)
    dtype = g.rng.choice((np.int64, np.int32))
    if how == 0:
        shape = g.rng.choice(((), (1,), (5,), (2, 3), (17,)))
        return g.op("Gather", x, g.fresh(shape, dtype, low=-size, high=size - 1), axis=axis)
    if how == 1:
        shape = [g.rng.randint(1, s) if s else 0 for s in x.shape]
        return g.op("GatherElements", x, g.fresh(shape, dtype, low=-size, high=size - 1), axis=axis)
    depth = g.rng.randint(1, x.rank)
    columns = [g.numpy.integers(-s, s, (g.size(9), 1)) for s in x.shape[:depth] if s]
    count = min(c.shape[0] for c in columns) if len(columns) == depth else 0
    if not count:
        raise UnsoundError("empty")
    return g.op(
        "GatherND", x, g.hold(np.concatenate([c[:count] for c in columns], 1), g.chance(0.5))
    )


@kind(3)
def scatter(g: Graph) -> Value:
    x = g.real(1, 2, 3, most=4096)
    if not x.exact.size:
        raise UnsoundError("empty")
    reduction = g.rng.choice(("none", "none", "add", "mul", "max", "min"))
    if g.chance(0.5):
        axis = g.rng.randrange(x.rank)
        shape = [g.rng.randint(1, s) for s in x.shape]
        if reduction == "none":
            rows = np.argsort(g.numpy.random(x.shape), axis=axis)
            places = g.hold(rows[tuple(slice(s) for s in shape)].astype(np.int64), g.chance(0.5))
        else:
            places = g.fresh(shape, np.int64, low=0, high=x.shape[axis] - 1)
        return g.op(
            "ScatterElements", x, places, g.fresh(shape, x.dtype), axis=axis, reduction=reduction
        )
    depth = g.rng.randint(1, x.rank)
    total = int(np.prod(x.shape[:depth]))
    flat = g.numpy.permutation(total)[: g.rng.randint(1, min(total, 33))]
    rows = np.stack(np.unravel_index(flat, x.shape[:depth]), 1).astype(np.int64)
    updates = g.fresh((len(flat), *x.shape[depth:]), x.dtype)
    return g.op("ScatterND", x, g.hold(rows, g.chance(0.5)), updates, reduction=reduction)


@kind(1)
def triangle(g: Graph) -> Value:
    x = g.real(2, 3, 4)
    return g.op("Trilu", x, g.number(g.rng.randint(-3, 3), np.int64), upper=g.rng.randrange(2))


@kind(1)
def one_hot(g: Graph) -> Value:
    depth = g.size(17)
    values = g.hold(np.array([0, 1]).astype(g.float))
    places = g.fresh(g.shape(g.rng.choice((1, 2)), 256), np.int64, False, low=-depth, high=depth)
    return g.op("OneHot", places, g.ints(depth), values, axis=g.rng.choice((-1, 0)))


@kind(1)
def reverse(g: Graph) -> Value:
    x = g.real(2, 3, 4)
    lengths = g.hold(
        g.numpy.integers(1, max(x.shape[0], 1) + 1, x.shape[1]).astype(np.int64), g.chance(0.5)
    )
    return g.op("ReverseSequence", x, lengths, batch_axis=1, time_axis=0)
