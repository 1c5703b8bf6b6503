"""SmoothQuant: outliers of activations move into the weights, channel by channel.

    x w  ->  (x / s) (s w),    s = max|x|^alpha / max|w|^(1 - alpha) of each summed channel

Xiao et al., 2023, https://arxiv.org/abs/2211.10438. A Mul before the products divides; it is part
of the kernel that quantizes x.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from mgx_mlir.compiler import CompileOptions
from mgx_mlir.models.staged import Model
from mgx_mlir.quantization.calibration import Tick, no_tick
from mgx_mlir.quantization.network import Network, Product, with_outputs
from mgx_mlir.quantization.parts import Parts
from mgx_mlir.quantization.samples import Samples

_log = logging.getLogger(__name__)


def smoothed(
    network: Network,
    products: Sequence[Product],
    alpha: float,
    samples: Samples,
    options: CompileOptions,
    tick: Tick = no_tick,
) -> Network:
    """The network with the operands of its MatMul and Gemm among `products` balanced.

    Results are those of the f32 model but for their rounding. The new weights are in memory.
    Tensors with NaN or Inf for a sample stay as they are, which is logged.
    """
    by_x: dict[str, list[Product]] = {}
    for product in products:
        if product.node.op_type != "Conv" and len(network.shape(product.weight) or ()) == 2:
            by_x.setdefault(product.x, []).append(product)
    if not by_x:
        return network
    largest = _largest(network, list(by_x), samples, options, tick)
    parts = Parts.of(network, with_switches=False)
    nodes = {node.name: node for node in parts.source.model.graph.node}
    for x, same in by_x.items():
        if x not in largest:
            continue
        factor = _factor(network, same, largest[x], alpha)
        y = parts.fresh(f"{x}/smooth")
        name = parts.fresh(f"{x}/Smooth")
        inverse = parts.constant(f"{x}/inverse", 1 / factor)
        node = parts.node("Mul", [x, inverse], y)
        node.name = name
        parts.after.setdefault(x, []).append(node)
        for product in same:
            weight = network.array(product.weight)
            wide = factor if product.axis == 0 else factor[:, None]
            new = parts.large(f"{product.weight}/smooth", weight * wide)
            nodes[product.name].input[0], nodes[product.name].input[1] = y, new
    return parts.network()


def _largest(
    network: Network, tensors: list[str], samples: Samples, options: CompileOptions, tick: Tick
) -> dict[str, np.ndarray]:
    """The largest magnitude of each channel, the last dimension, over all samples."""
    found: dict[str, np.ndarray] = {}
    wrong: set[str] = set()
    model = Model(with_outputs(network.source, tensors), "cpu", options)
    for number, sample in enumerate(samples):
        tick("smoothing", number, samples.limit or 0)
        results = model.run(sample)
        for name in tensors:
            array = np.abs(np.asarray(results[name]))
            if not np.isfinite(array).all():
                if name not in wrong:
                    _log.warning("'%s' has NaN or Inf for sample %d: not smoothed", name, number)
                wrong.add(name)
            most = array.reshape(-1, array.shape[-1]).max(0, initial=0)
            found[name] = np.maximum(found.get(name, most), most)
    return {name: most for name, most in found.items() if name not in wrong}


def _factor(
    network: Network, products: Sequence[Product], x: np.ndarray, alpha: float
) -> np.ndarray:
    """s of each channel; 1 where x or all weights are zero."""
    w = np.zeros_like(x)
    for product in products:
        w = np.maximum(w, np.abs(network.array(product.weight)).max(product.axis))
    used = (x > 0) & (w > 0)
    x, w = np.where(used, x, 1), np.where(used, w, 1)
    factor = np.exp(alpha * np.log(x) - (1 - alpha) * np.log(w))
    return np.where(used, np.clip(factor, 1e-5, 1e5), 1).astype(np.float32)
