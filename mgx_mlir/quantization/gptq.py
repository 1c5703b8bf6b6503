"""GPTQ: weights of few bits whose rounding errors cancel in the results of calibration data.

Columns are rounded one after another; each error is spread over the columns that follow, by the
inverse of H, the sum of x xT over the samples (Frantar et al., 2022, https://arxiv.org/abs/2210.17323).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import groupby

import numpy as np

from mgx_mlir.compiler import CompileOptions
from mgx_mlir.models.staged import Model
from mgx_mlir.quantization.blocks import Blocks, grid
from mgx_mlir.quantization.calibration import Tick, no_tick
from mgx_mlir.quantization.network import Network, Product, with_outputs
from mgx_mlir.quantization.samples import Samples

_log = logging.getLogger(__name__)

# Bytes of the matrices H that one reading of the samples makes.
_MOST_BYTES = 1 << 30
# The share of H's mean diagonal that is added to it, and the columns rounded between two products.
_DAMPING, _TOGETHER = 0.01, 128

Rounded = tuple[np.ndarray, np.ndarray, np.ndarray]


def solve(
    network: Network,
    forms: Mapping[str, Blocks],
    samples: Samples,
    options: CompileOptions,
    tick: Tick = no_tick,
) -> dict[str, Rounded]:
    """Codes, scales and zero points of the products that `forms` names, as Blocks.quantize gives.

    The samples are read once for each GB of matrices H. Products whose x has NaN or Inf are left
    out, which is logged.
    """
    found: dict[str, Rounded] = {}
    products = [p for p in network.products if p.name in forms]
    for part in _parts(products, forms):
        sums = _sums(network, {p.x: forms[p.name].size for p in part}, samples, options, tick)
        for number, product in enumerate(part):
            tick("rounding weights", number, len(part))
            if product.x in sums:
                weight = network.array(product.weight)
                rows = weight if product.axis == 0 else weight.T
                found[product.name] = rounded(rows, sums[product.x], forms[product.name])
    return found


def _parts(products: list[Product], forms: Mapping[str, Blocks]) -> Iterator[list[Product]]:
    """The products in parts, those of one x in the same, whose matrices H fit the memory."""
    order = {x: i for i, x in enumerate(dict.fromkeys(p.x for p in products))}
    part: list[Product] = []
    size = 0
    for _, group in groupby(sorted(products, key=lambda p: order[p.x]), key=lambda p: p.x):
        same = list(group)
        own = 4 * forms[same[0].name].size ** 2
        if part and size + own > _MOST_BYTES:
            yield part
            part, size = [], 0
        part, size = part + same, size + own
    if part:
        yield part


def _sums(
    network: Network,
    depths: Mapping[str, int],
    samples: Samples,
    options: CompileOptions,
    tick: Tick,
) -> dict[str, np.ndarray]:
    """The sum of x xT of each tensor over all samples: f32 (depth, depth)."""
    found = {name: np.zeros((depth, depth), np.float32) for name, depth in depths.items()}
    model = Model(with_outputs(network.source, list(depths)), "cpu", options)
    for number, sample in enumerate(samples):
        tick("calibrating", number, samples.limit or 0)
        results = model.run(sample)
        for name in list(found):
            rows = np.asarray(results[name]).reshape(-1, depths[name])
            if not np.isfinite(rows).all():
                _log.warning(
                    "'%s' has NaN or Inf for sample %d: its weights are rounded to the nearest",
                    name, number,
                )  # fmt: skip
                del found[name]
                continue
            found[name] += rows.T @ rows
    return found


def rounded(weight: np.ndarray, sums: np.ndarray, form: Blocks) -> Rounded:
    """An f32 weight (rows, size) by H (size, size): packed codes, scales and zero points.

    A row whose error is smaller when it is rounded to the nearest is rounded so.
    """
    weight = np.ascontiguousarray(weight, np.float32)
    plain = form.codes(weight)
    found = _compensated(weight, _upper(sums), form)
    better = _loss(weight, found, sums, form) < _loss(weight, plain, sums, form)
    kept = [np.where(better[:, None, None], a, b) for a, b in zip(found, plain, strict=True)]
    parts = zip(form.stored(*kept), form.shapes(), strict=True)
    codes, scales, zeros = (array.reshape(shape) for array, shape in parts)
    return codes, scales, zeros


def _upper(sums: np.ndarray) -> np.ndarray:
    """The upper Cholesky factor of H's inverse, damped until there is one."""
    size = len(sums)
    matrix = sums.astype(np.float64)
    mean = float(np.trace(matrix)) / size or 1.0
    damping = _DAMPING
    while True:
        damped = matrix + np.eye(size) * (damping * mean)
        try:
            return np.linalg.cholesky(np.linalg.inv(damped)).T.astype(np.float32)
        except np.linalg.LinAlgError:
            damping *= 10


def _compensated(weight: np.ndarray, upper: np.ndarray, form: Blocks) -> Rounded:
    """Codes (rows, blocks, block), scales and zero points (rows, blocks, 1)."""
    rows, size = weight.shape
    most = (1 << form.bits) - 1
    left = weight.copy()
    codes = np.zeros((rows, form.count * form.block), np.float32)
    scales = np.ones((rows, form.count, 1), np.float32)
    zeros = np.zeros_like(scales)
    step = max(form.block, _TOGETHER)
    for start in range(0, size, step):
        end = min(start + step, size)
        part = left[:, start:end]
        errors = np.zeros_like(part)
        for i in range(end - start):
            block = (start + i) // form.block
            if (start + i) % form.block == 0:
                own = part[:, None, i : i + form.block]
                scales[:, block : block + 1], zeros[:, block : block + 1] = grid(own, form.bits)
            scale, zero = scales[:, block, 0], zeros[:, block, 0]
            code = np.clip(np.round(part[:, i] / scale + zero), 0, most)
            codes[:, start + i] = code
            error = (part[:, i] - (code - zero) * scale) / upper[start + i, start + i]
            part[:, i + 1 :] -= np.outer(error, upper[start + i, start + i + 1 : end])
            errors[:, i] = error
        left[:, end:] -= errors @ upper[start:end, end:]
    return codes.reshape(rows, form.count, form.block), scales, zeros


def _loss(weight: np.ndarray, found: Rounded, sums: np.ndarray, form: Blocks) -> np.ndarray:
    """The square error of each row's results over the samples: (rows,)."""
    codes, scales, zeros = found
    wide = ((codes - zeros) * scales).reshape(len(weight), -1)[:, : form.size]
    error = weight - wide
    return np.asarray(((error @ sums) * error).sum(1))
