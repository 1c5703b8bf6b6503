"""The benchmark's kernels in Triton's language, for sizes that the tiles divide.

The product has the hints of Triton's own tutorial: what strides and numbers of blocks are above,
and that rows and columns of a tile follow each other.
"""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a, b, c, n, k, STRIDE_BK: tl.constexpr, STRIDE_BN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    down, across = tl.program_id(0), tl.program_id(1)
    tl.assume(down >= 0)
    tl.assume(across >= 0)
    tl.assume(n > 0)
    tl.assume(k > 0)
    rows = down * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = across * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = tl.max_contiguous(tl.multiple_of(rows, BLOCK_M), BLOCK_M)
    columns = tl.max_contiguous(tl.multiple_of(columns, BLOCK_N), BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    left = a + rows[:, None] * k + inner[None, :]
    right = b + inner[:, None] * STRIDE_BK + columns[None, :] * STRIDE_BN
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, k, BLOCK_K):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += BLOCK_K
        right += BLOCK_K * STRIDE_BK
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))


@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    values = tl.load(x + at).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + at, (powers / tl.sum(powers, axis=0)).to(y.dtype.element_ty))


@triton.jit
def layernorm(x, weight, bias, y, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + column
    values = tl.load(x + at).to(tl.float32)
    centred = values - tl.sum(values, axis=0) / columns
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + 1e-5)
    w, b = tl.load(weight + column).to(tl.float32), tl.load(bias + column).to(tl.float32)
    tl.store(y + at, (centred * scale * w + b).to(y.dtype.element_ty))


@triton.jit
def add_gelu(a, b, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(a + at).to(tl.float32) + tl.load(b + at).to(tl.float32)
    tl.store(y + at, (0.5 * x * (1 + tl.erf(x * 0.7071067811865476))).to(y.dtype.element_ty))


@triton.jit
def attention(
    q, k, v, y, length, scale,
    WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) * length * WIDTH
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    across = tl.arange(0, WIDTH)
    query = tl.load(q + head + rows[:, None] * WIDTH + across[None, :])
    highest = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    result = tl.zeros((BLOCK_M, WIDTH), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        at = start + tl.arange(0, BLOCK_N)
        key = tl.load(k + head + at[None, :] * WIDTH + across[:, None])
        scores = tl.dot(query, key) * (scale * 1.4426950408889634)
        top = tl.maximum(highest, tl.max(scores, axis=1))
        powers = tl.exp2(scores - top[:, None])
        shrink = tl.exp2(highest - top)
        total = total * shrink + tl.sum(powers, axis=1)
        value = tl.load(v + head + at[:, None] * WIDTH + across[None, :])
        result = tl.dot(powers.to(value.dtype), value, result * shrink[:, None])
        highest = top
    result = result / total[:, None]
    at = head + rows[:, None] * WIDTH + across[None, :]
    tl.store(y + at, result.to(y.dtype.element_ty))
