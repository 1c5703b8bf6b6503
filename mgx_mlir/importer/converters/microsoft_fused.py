"""Operators of com.microsoft that extend ONNX's, or use another layout.

Source of their meaning: onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import budget, emit, tensors
from mgx_mlir.importer.converters import counted, movement, regions, sampling, spectral
from mgx_mlir.importer.converters.activations import activation_of
from mgx_mlir.importer.converters.contractions import gemm
from mgx_mlir.importer.converters.microsoft import contributed
from mgx_mlir.importer.converters.microsoft_attention import split_heads
from mgx_mlir.importer.converters.windows import convolved, pooled
from mgx_mlir.importer.node import Node

# The operators with ONNX's meaning and attributes.
for _name, _to, _convert in (
    ("GatherND", "gathernd", movement.gather_nd),
    ("GridSample", "gathernd floor mul add where", sampling.grid_sample),
    ("Range", "constant", counted.range_),
    ("Trilu", "greater where", movement.trilu),
):
    contributed(_name, _to)(_convert)


def activated(node: Node, y: ir.Value, parameters: list[float]) -> ir.Value:
    """y through the function that the attribute `activation` names."""
    name = str(node.attribute("activation", "") or "")
    if not name:
        return y
    if name == "Clip":
        return emit.clip(y, *parameters)
    first, second = (*parameters, None, None)[:2]
    return activation_of(name, first, second)(y)


def _layout(x: ir.Value, channels_last: bool, back: bool = False) -> ir.Value:
    """x with its channels second (or back at its end) where a node has them last."""
    rank = tensors.rank(x)
    if not channels_last:
        return x
    order = [0, *range(2, rank), 1] if back else [0, rank - 1, *range(1, rank - 1)]
    return emit.transpose(x, order)


def _conv(channels_last: bool, filters_too: bool = False) -> Callable[[Node], ir.Value]:
    """Conv, then input 3 added, then a function."""

    def convert(node: Node) -> ir.Value:
        parameters = [float(p) for p in node.attribute("activation_params", []) or []]
        w = _layout(node.tensor(1), filters_too)
        y = convolved(node, _layout(node.tensor(0), channels_last), w)
        if node.given(3):
            y = mgx.add(y, _layout(node.tensor(3), channels_last))
        return _layout(activated(node, y, parameters), channels_last, back=True)

    return convert


contributed("FusedConv", "convolution add relu clip")(_conv(False))
# onnxruntime's optimiser writes its filters with channels last too, whatever the schema says.
contributed("NhwcConv", "transpose convolution add")(_conv(True, filters_too=True))
contributed("NhwcFusedConv", "transpose convolution add relu clip")(_conv(True))


@contributed("NhwcMaxPool", "transpose pooling")
def nhwc_max_pool(node: Node) -> ir.Value:
    return _layout(pooled(node, _layout(node.tensor(0), True), "max"), True, back=True)


@contributed("FusedGemm", "dot mul add relu")
def fused_gemm(node: Node) -> ir.Value:
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    parameters = [float(node.attribute(n)) for n in names if node.attribute(n) is not None]
    return activated(node, gemm(node), parameters)


@contributed("ExpandDims", "unsqueeze")
def expand_dims(node: Node) -> ir.Value:
    x = node.tensor(0)
    (axis,) = node.integers(1, "axis")
    return emit.unsqueeze(x, [tensors.axis_in(axis, tensors.rank(x) + 1)])


@contributed("Pad", "pad")
def pad(node: Node) -> ir.Value:
    return movement.padded(node, list(range(len(node.value(0).dims))))


@contributed("TorchEmbedding", "gather")
def torch_embedding(node: Node) -> ir.Value:
    """padding_idx and scale_grad_by_freq, inputs 2 and 3, matter to gradients only."""
    node.ignore(2, 3)
    return mgx.gather(node.tensor(0), node.tensor(1), 0)


@contributed("UnfoldTensor", "gather transpose")
def unfold_tensor(node: Node) -> ir.Value:
    """Windows along one dimension; their elements become the last dimension."""
    x = node.tensor(0)
    axis = tensors.axis_in(int(node.attribute("dim", -1)), tensors.rank(x))
    size, step = int(node.required("size")), int(node.attribute("step", 1))
    count = tensors.size_of(x, axis, "the unfolded size")
    if not 0 < size <= count or step < 1:
        raise ModelError(f"windows of {size} every {step} in {count}")
    budget.check_made((count - size) // step + 1, size)
    starts = np.arange(0, count - size + 1, step)
    windows = mgx.gather(x, node.make(starts[:, None] + np.arange(size)), axis)
    return emit.moved_to_end(windows, axis + 1)[0]


def _complex_mul(conjugated: bool) -> Callable[[Node], ir.Value]:
    """The last dimension holds real and imaginary part."""

    def convert(node: Node) -> ir.Value:
        a, b = emit.broadcast_together(node.tensor(0), node.tensor(1))
        last = tensors.rank(a) - 1
        (ar, ai), (br, bi) = ([emit.take(x, last, i, i + 1) for i in range(2)] for x in (a, b))
        bi = mgx.neg(bi) if conjugated else bi
        real = mgx.sub(mgx.mul(ar, br), mgx.mul(ai, bi))
        return emit.concat([real, mgx.add(mgx.mul(ar, bi), mgx.mul(ai, br))], last)

    return convert


contributed("ComplexMul", "mul sub add concat")(_complex_mul(False))
contributed("ComplexMulConj", "mul sub add concat")(_complex_mul(True))


def _one_signal(node: Node) -> None:
    node.only("normalized", 0)
    node.only("onesided", 1)
    node.only("signal_ndim", 1)


@contributed("Rfft", "dot")
def rfft(node: Node) -> ir.Value:
    _one_signal(node)
    x = node.tensor(0)
    rank = tensors.rank(x)
    return spectral.transform(node, emit.unsqueeze(x, [rank]), rank - 1, None, onesided=True)


@contributed("Irfft", "dot sub mul")
def irfft(node: Node) -> ir.Value:
    _one_signal(node)
    x = node.tensor(0)
    rank = tensors.rank(x)
    y = spectral.transform(node, x, rank - 2, None, inverse=True, onesided=True)
    return emit.squeeze(y, [rank - 1])


@contributed("CDist", "sub mul reduce_sum sqrt")
def cdist(node: Node) -> ir.Value:
    """Distances between all rows of one matrix and all of another."""
    metric = str(node.attribute("metric", "sqeuclidean"))
    if metric not in ("euclidean", "sqeuclidean"):
        raise UnsupportedError(f"metric = {metric}; euclidean and sqeuclidean are supported")
    a, b = emit.unsqueeze(node.tensor(0), [1]), emit.unsqueeze(node.tensor(1), [0])
    difference = emit.sub(a, b)
    total = emit.squeeze(mgx.reduce_sum(mgx.mul(difference, difference), [2]), [2])
    return mgx.sqrt(total) if metric == "euclidean" else total


@contributed("CropAndResize", "gathernd floor mul add where")
def crop_and_resize(node: Node) -> Any:
    """Inputs: images, boxes (y1, x1, y2, x2 in 0 to 1), the image of each, sizes of the result."""
    height, width = node.integers(3, "crop_size")
    mode = str(node.attribute("mode", "bilinear"))
    fill = float(node.attribute("extrapolation_value", 0.0))
    return regions.cropped(
        node.tensor(0), node.tensor(1), node.tensor(2), (height, width), mode, fill
    )


@contributed("BiasDropout", "add")
def bias_dropout(node: Node) -> Any:
    """Inputs: x, a bias, an addend after dropout; nothing is dropped at inference."""
    node.attribute("seed", 0)
    node.ignore(3)  # the ratio
    if node.given(4) and node.constant(4, "training_mode").any():
        raise UnsupportedError("training_mode is true")
    y = emit.add(node.tensor(0), node.tensor(1))
    kept = emit.filled(np.ones((), np.bool_), tensors.dims(y)) if node.wanted(1) else None
    return [emit.add(y, node.tensor(2)) if node.given(2) else y, kept]


@contributed("RelativePositionBias", "gather transpose")
def relative_position_bias(node: Node) -> ir.Value:
    """T5's bias: a row of the table (buckets, heads) for each distance, finer for short ones."""
    table = node.tensor(0)
    rows, columns = (int(node.constant(i, "a length").reshape(())) for i in (1, 2))
    buckets = tensors.size_of(table, 0, "the number of buckets")
    budget.check_made(rows, columns)
    distance = np.arange(columns)[None] - np.arange(rows)[:, None]
    first = np.zeros_like(distance)
    if node.attribute("is_bidirectional", 0):
        buckets //= 2
        first = np.where(distance > 0, buckets, 0)
        distance = np.abs(distance)
    else:
        distance = np.maximum(-distance, 0)
    exact = buckets // 2
    ratio = np.log(np.maximum(distance, 1) / exact) / np.log(node.required("max_distance") / exact)
    coarse = np.minimum(exact + (ratio * (buckets - exact)).astype(np.int64), buckets - 1)
    chosen = first + np.where(distance < exact, distance, coarse)
    return emit.unsqueeze(emit.transpose(mgx.gather(table, node.make(chosen), 0), [2, 0, 1]), [0])


@contributed("GatedRelativePositionBias", "dot add sigmoid mul reduce_sum")
def gated_relative_position_bias(node: Node) -> ir.Value:
    """WavLM's: input 2 times a gate computed from queries. Inputs: queries, their bias, ..."""
    heads = int(node.required("num_heads"))
    if node.given(6):
        raise UnsupportedError("token_offset, of packed sequences")
    x = split_heads(emit.add(node.tensor(0), node.tensor(1)), heads)
    batch, _, length, _ = tensors.dims(x)
    y = emit.add(emit.dot(x, node.tensor(3)), node.tensor(4))
    width = tensors.size_of(y, 3, "the width of the gate")
    y = emit.reshape(y, (batch, heads, length, 2, width // 2))
    y = mgx.sigmoid(emit.squeeze(mgx.reduce_sum(y, [4]), [4]))
    update, reset = (emit.take(y, 3, i, i + 1) for i in range(2))
    gate = emit.add(mgx.mul(update, emit.add(emit.mul(reset, node.tensor(5)), -1)), 2)
    return emit.mul(gate, node.tensor(2))
