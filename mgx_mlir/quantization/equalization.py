"""Cross-layer equalization: neighbouring layers share their channels' ranges.

    w2 f(w1 x + b1)  ->  (w2 s) f((w1 x + b1) / s),    s = sqrt(max|w1| / max|w2|) of each channel

f scales with its operand, as Relu and pooling do. Nagel et al., 2019, https://arxiv.org/abs/1906.04721.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from onnx import AttributeProto

from mgx_mlir.quantization.network import Network, Product
from mgx_mlir.quantization.parts import Parts

_SCALES = frozenset(
    ("AveragePool", "Dropout", "GlobalAveragePool", "GlobalMaxPool", "Identity", "LeakyRelu",
     "MaxPool", "Relu")
)  # fmt: skip
_ROUNDS, _STEADY = 20, 1e-3


@dataclass(frozen=True)
class _Pair:
    """Products whose channels are neighbours; `added` is the bias of the first, '' for none."""

    first: Product
    second: Product
    added: str


def equalized(network: Network, names: Collection[str]) -> Network:
    """The network with pairs of products among `names` equalized.

    Results are those of the f32 model but for their rounding. The new weights are in memory.
    """
    pairs = [p for product in network.products if (p := _pair(network, product)) is not None]
    pairs = [p for p in pairs if p.first.name in names and p.second.name in names]
    if not pairs:
        return network
    arrays: dict[str, np.ndarray] = {}
    for pair in pairs:
        for name in (pair.first.weight, pair.second.weight, pair.added):
            if name and name not in arrays:
                arrays[name] = network.array(name).astype(np.float32)
    for _ in range(_ROUNDS):
        if max([_balance(pair, arrays) for pair in pairs]) < _STEADY:
            break
    parts = Parts.of(network, with_switches=False)
    renamed = {name: parts.large(f"{name}/equal", array) for name, array in arrays.items()}
    for node in parts.source.model.graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = renamed.get(name, name)
    return parts.network()


def _balance(pair: _Pair, arrays: dict[str, np.ndarray]) -> float:
    """Scales the channels between two products once; gives the largest change."""
    first, second = arrays[pair.first.weight], arrays[pair.second.weight]
    out, into = pair.first.axis, _channels(pair.second, second)
    most, next_ = _ranges(first, out), _ranges(second, into)
    used = (most > 0) & (next_ > 0)
    scale = np.sqrt(np.where(used, most, 1) / np.where(used, next_, 1)).astype(np.float32)
    arrays[pair.first.weight] = first / _along(scale, out, first.ndim)
    arrays[pair.second.weight] = second * _along(scale, into, second.ndim)
    if pair.added:
        arrays[pair.added] = arrays[pair.added] / scale
    return float(np.abs(scale - 1).max())


def _channels(product: Product, weight: np.ndarray) -> int:
    """The axis of a weight that runs along the channels of x; filters of one channel each: 0."""
    if product.node.op_type != "Conv":
        return 1 - product.axis
    return 0 if _group(product) > 1 else 1


def _group(product: Product) -> int:
    return next((a.i for a in product.node.attribute if a.name == "group"), 1)


def _ranges(weight: np.ndarray, axis: int) -> np.ndarray:
    return np.asarray(np.abs(weight).max(tuple(i for i in range(weight.ndim) if i != axis)))


def _along(vector: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return vector.reshape([-1 if i == axis else 1 for i in range(rank)])


def _pair(network: Network, first: Product) -> _Pair | None:
    """The product that alone reads a product's channels, which only scale between them."""
    shape = network.shape(first.weight)
    assert shape is not None
    kinds = {"Conv": len(shape) > 2, "Gemm": True, "MatMul": len(shape) == 2}
    if not kinds[first.node.op_type] or not _is_plain(network, first, first.bias):
        return None
    added, value = first.bias, first.node.output[0]
    outputs = {output.name for output in network.graph.output}
    second = {p.name: p for p in network.products}
    while True:
        readers = network.readers.get(value, [])
        if len(readers) != 1 or value in outputs:
            return None
        (reader,) = readers
        product = second.get(reader.name)
        if product is not None and product.x == value:
            fits = _fits(network, first, product) and _is_plain(network, product, "")
            return _Pair(first, product, added) if fits else None
        if reader.op_type == "Add" and not added and first.node.op_type == "MatMul":
            others = [name for name in reader.input if name != value]
            if len(others) != 1 or network.shape(others[0]) != (shape[first.axis],):
                return None
            added = others[0]
            if len(network.readers[added]) != 1:
                return None
        elif reader.op_type not in _SCALES or reader.domain or reader.input[0] != value:
            return None
        value = reader.output[0]


def _is_plain(network: Network, product: Product, bias: str) -> bool:
    """Whether a product reads its constants alone, and scales no more."""
    if len(network.readers[product.weight]) != 1:
        return False
    if any(a.name in ("alpha", "beta") and a.f != 1 for a in product.node.attribute
           if a.type == AttributeProto.FLOAT):  # fmt: skip
        return False
    if not bias:
        return True
    count = (network.shape(product.weight) or ())[product.axis]
    return network.shape(bias) == (count,) and len(network.readers[bias]) == 1


def _fits(network: Network, first: Product, second: Product) -> bool:
    """Whether the channels of the first are those that the second sums, or filters each."""
    made, read = network.shape(first.weight), network.shape(second.weight)
    assert made is not None and read is not None
    count = made[first.axis]
    if (first.node.op_type == "Conv") != (second.node.op_type == "Conv"):
        return False
    if second.node.op_type != "Conv":
        return len(read) == 2 and read[1 - second.axis] == count
    group = _group(second)
    return read[1] == count if group == 1 else group == read[0] == count and read[1] == 1
