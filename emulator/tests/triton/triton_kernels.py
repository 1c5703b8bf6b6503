"""Kernels in Triton's language: programs such as its tutorials have."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        at = start + inner
        x = tl.load(
            a + rows[:, None] * k + at[None, :],
            mask=(rows[:, None] < m) & (at[None, :] < k),
            other=0.0,
        )
        y = tl.load(
            b + at[:, None] * n + columns[None, :],
            mask=(at[:, None] < k) & (columns[None, :] < n),
            other=0.0,
        )
        total = tl.dot(x, y, total, input_precision="ieee")
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=mask)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row + at, powers / tl.sum(powers, axis=0), mask=at < columns)


@triton.jit
def layernorm(x, weight, bias, out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row + at, mask=at < columns, other=0.0)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row + at, mask=at < columns, other=0.0)
        centred = tl.where(at < columns, values - mean, 0.0)
        squares += centred * centred
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < columns
        values = tl.load(x + row + at, mask=mask, other=0.0)
        w = tl.load(weight + at, mask=mask)
        b = tl.load(bias + at, mask=mask)
        tl.store(out + row + at, (values - mean) * scale * w + b, mask=mask)


@triton.jit
def flash_attention(
    q,
    k,
    v,
    out,
    length,
    scale,
    WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    head = tl.program_id(1) * length * WIDTH
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    across = tl.arange(0, WIDTH)
    query = tl.load(q + head + rows[:, None] * WIDTH + across[None, :])
    highest = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    result = tl.zeros((BLOCK_M, WIDTH), dtype=tl.float32)
    end = (tl.program_id(0) + 1) * BLOCK_M if CAUSAL else length
    for start in range(0, end, BLOCK_N):
        at = start + tl.arange(0, BLOCK_N)
        key = tl.load(k + head + at[None, :] * WIDTH + across[:, None])
        scores = tl.dot(query, key) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= at[None, :], scores, -float("inf"))
        top = tl.maximum(highest, tl.max(scores, axis=1))
        powers = tl.exp(scores - top[:, None])
        shrink = tl.exp(highest - top)
        total = total * shrink + tl.sum(powers, axis=1)
        value = tl.load(v + head + at[:, None] * WIDTH + across[None, :])
        result = result * shrink[:, None]
        result = tl.dot(powers.to(value.dtype), value, result)
        highest = top
    tl.store(out + head + rows[:, None] * WIDTH + across[None, :], result / total[:, None])
