"""Operators on windows: convolutions, pooling, local normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError
from mgx_mlir.importer import emit, tensors
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator


class Window:
    """The attributes that convolutions and pooling share, with automatic padding resolved."""

    def __init__(self, node: Node, x: ir.Value, lengths: Sequence[int]) -> None:
        count = tensors.rank(x) - 2
        if count < 1 or len(lengths) != count:
            raise ModelError(
                f"windows of {list(lengths)} on an input of {tensors.show(tensors.dims(x))}"
            )
        self.lengths = list(lengths)
        self.strides = list(node.attribute("strides") or [1] * count)
        self.dilations = list(node.attribute("dilations") or [1] * count)
        self.mode = str(node.attribute("auto_pad") or "NOTSET")
        self.pads = list(node.attribute("pads") or [0] * (2 * count))
        for name in ("strides", "dilations", "pads"):
            wanted = 2 * count if name == "pads" else count
            if len(getattr(self, name)) != wanted:
                raise ModelError(f"{name} has {len(getattr(self, name))} entries, not {wanted}")

    def extent(self, place: int) -> int:
        """The elements that a window spans along one spatial dimension."""
        return self.dilations[place] * (self.lengths[place] - 1) + 1

    def resolve(self, x: ir.Value) -> Window:
        """Turns automatic padding into numbers: as many windows as stride-sized steps."""
        if self.mode == "NOTSET":
            return self
        count = len(self.lengths)
        self.pads = [0] * (2 * count)
        if self.mode == "VALID":
            return self
        for place in range(count):
            size = tensors.size_of(x, 2 + place, "the size that auto_pad needs")
            stride = self.strides[place]
            total = max((-(-size // stride) - 1) * stride + self.extent(place) - size, 0)
            small, large = total // 2, total - total // 2
            first = small if self.mode == "SAME_UPPER" else large
            self.pads[place], self.pads[count + place] = first, total - first
        return self


def with_bias(y: ir.Value, bias: ir.Value | None) -> ir.Value:
    """y plus one number for each channel."""
    return y if bias is None else mgx.add(y, emit.along(y, bias, 1))


@operator("Conv", (1, 22), "convolution broadcast add")
def conv(node: Node) -> ir.Value:
    x, w = node.tensor(0), node.tensor(1)
    window = Window(node, x, kernel_shape(node, w)).resolve(x)
    y = mgx.convolution(
        x,
        w,
        pads=window.pads,
        strides=window.strides,
        dilations=window.dilations,
        group=node.attribute("group"),
    )
    return with_bias(y, node.optional(2))


def kernel_shape(node: Node, w: ir.Value) -> list[int]:
    """The spatial sizes of the weights, which kernel_shape may repeat."""
    sizes = list(tensors.static_dims(w, "its weights"))[2:]
    stated = node.attribute("kernel_shape")
    if stated is not None and list(stated) != sizes:
        raise ModelError(f"kernel_shape {list(stated)} and weights of {sizes}")
    return sizes


@operator("ConvTranspose", (1, 22), "convolution_backwards broadcast add")
def conv_transpose(node: Node) -> ir.Value:
    x, w = node.tensor(0), node.tensor(1)
    window = Window(node, x, kernel_shape(node, w))
    count = len(window.lengths)
    extra = list(node.attribute("output_padding") or [0] * count)
    wanted = node.attribute("output_shape")
    if wanted is not None or window.mode in ("SAME_UPPER", "SAME_LOWER"):
        sizes = [tensors.size_of(x, 2 + i, "the size of its input") for i in range(count)]
        target = list(wanted or [n * s for n, s in zip(sizes, window.strides, strict=True)])
        target = target[-count:]  # some exporters state batch and channels too
        for place in range(count):
            full = window.strides[place] * (sizes[place] - 1) + extra[place] + window.extent(place)
            total = full - target[place]
            if total < 0:  # more than the windows reach: zeros at the end
                extra[place] -= total
                total = 0
            small, large = total // 2, total - total // 2
            first = small if window.mode == "SAME_UPPER" else large
            window.pads[place], window.pads[count + place] = first, total - first
    elif window.mode == "VALID":
        window.pads = [0] * (2 * count)
    y = mgx.convolution_backwards(
        x,
        w,
        pads=window.pads,
        strides=window.strides,
        dilations=window.dilations,
        output_pads=extra,
        group=node.attribute("group"),
    )
    return with_bias(y, node.optional(2))


def _pool(node: Node, mode: str, **attributes: Any) -> ir.Value:
    x = node.tensor(0)
    window = Window(node, x, node.attribute("kernel_shape")).resolve(x)
    # Sizes of automatic padding are rounded up already.
    ceil = bool(node.attribute("ceil_mode")) and window.mode == "NOTSET"
    return mgx.pooling(
        x,
        mgx.PoolingMode[mode],
        window.lengths,
        pads=window.pads,
        strides=window.strides,
        dilations=window.dilations,
        ceil_mode=ceil,
        **attributes,
    )


@operator("MaxPool", (1, 22), "pooling")
def max_pool(node: Node) -> ir.Value:
    node.attribute("storage_order")  # the order of indices, which are not computed
    return _pool(node, "max")


@operator("AveragePool", (7, 22), "pooling")
def average_pool(node: Node) -> ir.Value:
    return _pool(node, "average", count_include_pad=bool(node.attribute("count_include_pad")))


@operator("LpPool", (2, 22), "pooling")
def lp_pool(node: Node) -> ir.Value:
    return _pool(node, "lpnorm", lp_order=node.attribute("p"))


@operator("LRN", (1, 13), "lrn")
def lrn(node: Node) -> ir.Value:
    return mgx.lrn(
        node.tensor(0),
        node.attribute("size"),
        alpha=node.attribute("alpha"),
        beta=node.attribute("beta"),
        bias=node.attribute("bias"),
    )
