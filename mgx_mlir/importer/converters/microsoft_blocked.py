"""Operators of com.microsoft.nchwc, which onnxruntime's optimiser writes for one machine.

Their tensors lie in memory in blocks of channels; here they are (batch, channels, height, width),
with the channels that fill up the last block. Only filters are stored in blocks. Source of their
layout: onnxruntime's mlas/lib/reorder.cpp and core/optimizer/nchwc_transformer.cc.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.channel_blocks import BLOCK, DOMAIN
from mgx_mlir.importer.converters.microsoft_fused import activated
from mgx_mlir.importer.converters.windows import convolved, pooled
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import Converter, operator


def _blocked(name: str, to: str) -> Callable[[Converter], Converter]:
    return operator(name, (1, 1), to, DOMAIN)


def _block(node: Node) -> int:
    return int(node.required(BLOCK))


@_blocked("ReorderInput", "pad transpose")
def reorder_input(node: Node) -> ir.Value:
    x, rank = node.tensor(0), tensors.rank(node.tensor(0))
    if node.attribute("channels_last", 0):
        x = emit.transpose(x, [0, rank - 1, *range(1, rank - 1)])
    missing = -tensors.size_of(x, 1, "the number of channels") % _block(node)
    zeros = [0] * rank
    return mgx.pad(x, zeros, [0, missing, *zeros[2:]]) if missing else x


@_blocked("ReorderOutput", "slice transpose")
def reorder_output(node: Node) -> ir.Value:
    _block(node)
    x, rank = node.tensor(0), tensors.rank(node.tensor(0))
    have = tensors.size_of(x, 1, "the number of channels")
    channels = int(node.attribute("channels", 0)) or have
    if channels > have:
        raise ModelError(f"channels = {channels} of {tensors.show(tensors.dims(x))}")
    x = emit.take(x, 1, 0, channels)
    return emit.transpose(x, [0, *range(2, rank), 1]) if node.attribute("channels_last", 0) else x


@_blocked("Conv", "transpose convolution add relu clip")
def conv(node: Node) -> ir.Value:
    """Input 3 is added before the function. Fewer channels than a block's are in no blocks."""
    parameters = [float(p) for p in node.attribute("activation_params", []) or []]
    width, w = _block(node), node.tensor(1)
    filters, channels, *sizes = tensors.static_dims(w, "its weights")
    if filters % width:
        raise ModelError(f"{filters} filters in blocks of {width}")
    inner = width if channels >= width else 1
    if channels % inner:
        raise ModelError(f"filters of {channels} channels in blocks of {width}")
    each = channels // inner
    # Outer blocks, then the window, then the channels and the filters of a block.
    shape = (filters // width, each, *sizes, inner, width)
    last = len(shape) - 1
    order = [0, last, 1, last - 1, *range(2, last - 1)]
    w = emit.reshape(emit.transpose(emit.reshape(w, shape), order), (filters, channels, *sizes))
    y = convolved(node, node.tensor(0), w)
    if node.given(3):
        y = mgx.add(y, node.tensor(3))
    return activated(node, y, parameters)


@_blocked("MaxPool", "pooling")
def max_pool(node: Node) -> ir.Value:
    _block(node)
    node.attribute("storage_order", 0)  # of indices, which it has none of
    return pooled(node, node.tensor(0), "max")


@_blocked("AveragePool", "pooling")
def average_pool(node: Node) -> ir.Value:
    _block(node)
    padded = bool(node.attribute("count_include_pad", 0))
    return pooled(node, node.tensor(0), "average", count_include_pad=padded)


def _global(reduce: Callable[[ir.Value, list[int]], ir.Value]) -> Converter:
    def convert(node: Node) -> ir.Value:
        _block(node)
        x = node.tensor(0)
        return reduce(x, list(range(2, tensors.rank(x))))

    return convert


_blocked("GlobalAveragePool", "reduce_mean")(_global(mgx.reduce_mean))
_blocked("GlobalMaxPool", "reduce_max")(_global(mgx.reduce_max))


@_blocked("Upsample", "resize")
def upsample(node: Node) -> ir.Value:
    """`scales` are whole."""
    _block(node)
    x = node.tensor(0)
    scales = node.required("scales")
    if len(scales) != tensors.rank(x) or min(scales) < 1:
        raise ModelError(f"scales = {list(scales)} for {tensors.show(tensors.dims(x))}")
    sizes = tensors.known_sizes(x)
    mode = node.choice("mode", "nearest", "linear", default="nearest")
    coordinates = node.choice(
        "coordinate_transformation_mode",
        "asymmetric", "half_pixel", "align_corners",
        default="asymmetric",
    )  # fmt: skip
    return mgx.resize(
        x,
        tensors.named([size * scale for size, scale in zip(sizes, scales, strict=True)]),
        [float(s) for s in scales],
        mode=mgx.ResizeMode[mode],
        coordinate_mode=mgx.CoordinateMode[coordinates],
        nearest_mode=mgx.NearestMode.floor,
    )
