"""Operators on windows: convolutions, pooling, local normalisation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError
from mgx_mlir.importer import budget, emit, tensors
from mgx_mlir.importer.converters import movement
from mgx_mlir.importer.converters.slices import part_of
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.importer.tensors import Dim
from mgx_mlir.sizes.arithmetic import Number, Size, ceil_div, maximum

_Amount = TypeVar("_Amount", int, Size)


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
        ways = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "", None)
        self.mode = str(node.choice("auto_pad", *ways) or "NOTSET")
        self.pads = list(node.attribute("pads") or [0] * (2 * count))
        # Automatic padding that only a run knows, before and behind together, by place.
        self._margins: dict[int, Size] = {}
        for name in ("strides", "dilations", "pads"):
            wanted = 2 * count if name == "pads" else count
            if len(getattr(self, name)) != wanted:
                raise ModelError(f"{name} has {len(getattr(self, name))} entries, not {wanted}")
        if min(self.lengths) < 1:
            raise ModelError(f"windows of {self.lengths}; they have at least one element")

    def extent(self, place: int) -> int:
        """The elements that a window spans along one spatial dimension."""
        return self.dilations[place] * (self.lengths[place] - 1) + 1

    def resolve(self, x: ir.Value) -> Window:
        """Resolves automatic padding to numbers: as many windows as stride-sized steps."""
        if self.mode == "NOTSET":
            return self
        count = len(self.lengths)
        self.pads = [0] * (2 * count)
        if self.mode == "VALID":
            return self
        for place in range(count):
            size = tensors.size(tensors.dims(x)[2 + place])
            stride, extent = self.strides[place], self.extent(place)
            if size is None:
                tensors.size_of(x, 2 + place, "the size that auto_pad needs")  # it has to be
            assert size is not None
            total: Number = 0
            if extent > 1:
                total = maximum((ceil_div(size, stride) - 1) * stride + extent - size, 0)
            if isinstance(total, int):
                first = self._first(total)
                self.pads[place], self.pads[count + place] = first, total - first
            else:
                self._margins[place] = total
        return self

    def _first(self, total: _Amount) -> _Amount:
        """The padding before, of all along one dimension."""
        half: _Amount = total // 2  # type: ignore[assignment]
        return half if self.mode == "SAME_UPPER" else total - half  # type: ignore[return-value]

    def around(self, x: ir.Value, fill: float) -> ir.Value:
        """x with the automatic padding whose amounts follow from open sizes."""
        for place, total in self._margins.items():
            size = tensors.size(tensors.dims(x)[2 + place])
            assert size is not None
            most = self.extent(place) - 1
            before, first = self._first(most), self._first(total)
            amounts = [before, most - before]
            axis, zeros = 2 + place, [0] * tensors.rank(x)
            low, high = ([*zeros[:axis], n, *zeros[axis + 1 :]] for n in amounts)
            wide = mgx.pad(x, low, high, value=fill)
            start = before - first
            x = part_of(wide, axis, start, start + total + size, size + most)
        return x

    @property
    def befores(self) -> list[Number]:
        """The padding before x along each dimension."""
        margins = self._margins
        return [
            self._first(margins[place]) if place in margins else self.pads[place]
            for place in range(len(self.lengths))
        ]

    def may_leave(self, place: int) -> bool:
        """Whether a window may begin before x, or end behind it, along a dimension."""
        count = len(self.lengths)
        return place in self._margins or bool(self.pads[place] or self.pads[count + place])

    def ends(self, x: ir.Value, y: ir.Value, ceil: bool) -> list[int]:
        """The most elements behind x, and its margins, that windows of y read in each dimension."""
        found, count = [], len(self.lengths)
        for place in range(count):
            size, outputs = (tensors.size(tensors.dims(v)[2 + place]) for v in (x, y))
            end = self.pads[count + place] + (self.strides[place] - 1 if ceil else 0)
            if place in self._margins:
                end = 0
            elif isinstance(size, int) and isinstance(outputs, int):
                last = (outputs - 1) * self.strides[place] + self.extent(place)
                end = last - size - self.pads[place]
            found.append(end)
        return found

    def tap(self, padded: ir.Value, y: ir.Value, offset: Sequence[int]) -> ir.Value:
        """The element of each window of y at an offset, of x with its padding."""
        for place, at in enumerate(offset):
            axis, first, step = 2 + place, at * self.dilations[place], self.strides[place]
            outputs, have = (tensors.size(tensors.dims(v)[axis]) for v in (y, padded))
            assert outputs is not None and have is not None
            padded = part_of(padded, axis, first, first + (outputs - 1) * step + 1, have)
            if step > 1:
                padded = mgx.step(padded, [axis], [step])
                tensors.name_dims(padded)
        return padded

    def cut_to(self, sizes: Sequence[Dim]) -> None:
        """Cuts windows that are larger than the padded image and start, rounded up, once.

        A cut window reads the whole image: exporters write average pools of a network's widest
        size for those of the whole image.
        """
        count = len(self.lengths)
        for place, size in enumerate(sizes):
            if not isinstance(size, int) or self.dilations[place] != 1:
                continue
            padded = size + self.pads[place] + self.pads[count + place]
            if 0 < padded < self.lengths[place] < padded + self.strides[place]:
                self.lengths[place] = padded


def with_bias(y: ir.Value, bias: ir.Value | None) -> ir.Value:
    """y plus one number for each channel."""
    tensors.name_dims(y)
    return y if bias is None else mgx.add(y, emit.along(y, bias, 1))


@operator("Conv", (1, 22), "convolution broadcast add")
def conv(node: Node) -> ir.Value:
    return convolved(node, node.tensor(0))


def convolved(node: Node, x: ir.Value, w: ir.Value | None = None) -> ir.Value:
    """The convolution of x (batch, channels, ...) with the weights and bias of the node.

    `w`: its weights (filters, channels, ...), where the node has them in another order.
    """
    w = node.tensor(1) if w is None else w
    window = Window(node, x, kernel_shape(node, w)).resolve(x)
    require_channels(node, x, w)
    y = mgx.convolution(
        window.around(x, 0.0),
        w,
        pads=window.pads,
        strides=window.strides,
        dilations=window.dilations,
        group=node.attribute("group", 1),
    )
    return with_bias(y, node.optional(2))


def require_channels(node: Node, x: ir.Value, w: ir.Value) -> None:
    """Raises UnequalError where x may have other channels than the filters of all groups."""
    each = tensors.static_dims(w, "its weights")[1]
    tensors.require_same(tensors.dims(x)[1], each * int(node.attribute("group", 1)))


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
    tensors.require_same(tensors.dims(x)[1], tensors.dims(w)[0])
    for dim in tensors.dims(x)[2:]:
        node.require_some(tensors.size(dim))
    count = len(window.lengths)
    extra = list(node.attribute("output_padding") or [0] * count)
    steps = [max(pair) for pair in zip(window.strides, window.dilations, strict=True)]
    if len(extra) != count or any(not 0 <= e < n for e, n in zip(extra, steps, strict=True)):
        raise ModelError(f"output_padding = {extra}; {count} numbers below {steps} are defined")
    wanted = node.attribute("output_shape")
    if wanted is not None or window.mode in ("SAME_UPPER", "SAME_LOWER"):
        for place in range(count):
            # More than one step for each element of x, which is as many as SAME asks for.
            total = extra[place] + window.extent(place) - window.strides[place]
            if wanted is not None:
                size = tensors.size_of(x, 2 + place, "the size of its input")
                # Some exporters state batch and channels too.
                total += window.strides[place] * size - wanted[place - count]
            if total < 0:  # the windows do not reach so far: zeros at the end
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


def pooled(node: Node, x: ir.Value, mode: str, **attributes: Any) -> ir.Value:
    """x (batch, channels, ...) by the windows that the node's attributes say."""
    window = Window(node, x, node.required("kernel_shape")).resolve(x)
    ceil = bool(node.attribute("ceil_mode", 0))
    padded = window.around(x, _lowest(x) if mode == "max" else 0.0)
    if ceil:
        window.cut_to(tensors.dims(x)[2:])

    def made(of: ir.Value) -> ir.Value:
        y = mgx.pooling(
            of,
            mgx.PoolingMode[mode],
            window.lengths,
            pads=window.pads,
            strides=window.strides,
            dilations=window.dilations,
            ceil_mode=ceil,
            **attributes,
        )
        tensors.name_dims(y)
        return y

    if padded is x or attributes.get("count_include_pad") is not False:
        return made(padded)
    # The padding is part of x here: the share of each window that it leaves divides the mean.
    ones = emit.filled(np.ones((), emit.numpy_type(x)), [1, 1, *tensors.dims(x)[2:]])
    attributes["count_include_pad"] = True
    return emit.div(made(padded), made(window.around(ones, 0.0)))


def _lowest(x: ir.Value) -> float:
    """The value of x's type that is no maximum of others."""
    return -math.inf if tensors.is_float(x) else float(np.iinfo(emit.numpy_type(x)).min)


@operator("MaxPool", (1, 22), "pooling slice step equal where")
def max_pool(node: Node) -> list[ir.Value]:
    columns_first = bool(node.attribute("storage_order"))
    y = pooled(node, node.tensor(0), "max")
    return [y, _places(node, y, columns_first)] if node.wanted(1) else [y]


def _places(node: Node, y: ir.Value, columns_first: bool) -> ir.Value:
    """The index into the whole x of each maximum y: the first of equal ones."""
    x = node.tensor(0)
    window = Window(node, x, node.required("kernel_shape")).resolve(x)
    if ceil := bool(node.attribute("ceil_mode", 0)):
        window.cut_to(tensors.dims(x)[2:])
    tensors.name_dims(y)
    if 0 in tensors.dims(y):
        return emit.filled(np.zeros((), np.int64), tensors.dims(y))
    taps, count = math.prod(window.lengths), len(window.lengths)
    budget.check_work(taps, "elements of a window, each a step of its own")
    ends = window.ends(x, y, ceil)
    padded = window.around(x, _lowest(x))
    low, high = window.pads[:count], [max(end, 0) for end in ends]
    if any(low) or any(high):
        padded = mgx.pad(padded, [0, 0, *low], [0, 0, *high], value=_lowest(x))
        tensors.name_dims(padded)
    # Where windows begin along each dimension of x.
    begins = []
    for place, before in enumerate(window.befores):
        number = movement.counted(node, tensors.dims(y)[2 + place])
        begin = emit.mul(number, window.strides[place])
        begins.append(emit.sub(begin, emit.amount(before)) if before != 0 else begin)
    found = emit.filled(np.zeros((), np.int64), tensors.dims(y))
    offsets = list(itertools.product(*(range(n) for n in window.lengths)))
    for tap, offset in reversed(list(enumerate(offsets))):
        largest = mgx.equal(window.tap(padded, y, offset), y)
        for axis, at in enumerate(offset):
            if not window.may_leave(axis) and ends[axis] <= 0:
                continue  # the padding is as low as an element may be
            here = emit.add(begins[axis], at * window.dilations[axis])
            inside = _within(here, emit.size_of(x, 2 + axis))
            largest = mgx.logical_and(largest, emit.along(y, inside, 2 + axis))
        found = emit.where(largest, tap, found)
    order = list(range(len(begins)))
    if columns_first:
        order.reverse()
    return _indices(node, found, window, begins, order)


def _within(place: ir.Value, size: ir.Value) -> ir.Value:
    """Whether places are from 0 to a size."""
    start = mgx.greater(place, emit.like(place, -1))
    return mgx.logical_and(start, mgx.less(*emit.broadcast_together(place, size)))


def _indices(
    node: Node, taps: ir.Value, window: Window, begins: Sequence[ir.Value], order: Sequence[int]
) -> ir.Value:
    """The indices into the whole x of elements number `taps` of windows.

    order: of the spatial dimensions, the one whose neighbours are apart the most first.
    """
    x, count = node.tensor(0), len(window.lengths)
    sizes = [emit.size_of(x, axis) for axis in range(2 + count)]
    places: list[ir.Value] = []
    rest = taps
    for axis in reversed(range(count)):
        length = window.lengths[axis]
        at = rest if axis == 0 else emit.sub(rest, emit.mul(emit.div(rest, length), length))
        rest = emit.div(rest, length) if axis else rest
        begin = emit.along(taps, begins[axis], 2 + axis)
        places.insert(0, emit.add(emit.mul(at, window.dilations[axis]), begin))
    first = [
        emit.along(taps, movement.counted(node, size), axis)
        for axis, size in enumerate(tensors.dims(x)[:2])
    ]
    index, *others = [*first, *(places[axis] for axis in order)]
    for axis, place in zip((1, *(2 + axis for axis in order)), others, strict=True):
        index = emit.add(emit.mul(index, sizes[axis]), place)
    return index


@operator("AveragePool", (7, 22), "pooling")
def average_pool(node: Node) -> ir.Value:
    return pooled(
        node, node.tensor(0), "average", count_include_pad=bool(node.attribute("count_include_pad"))
    )


@operator("LpPool", (2, 22), "pooling")
def lp_pool(node: Node) -> ir.Value:
    order = node.attribute("p")
    if order < 1:
        raise ModelError(f"p = {order}; numbers from 1 on are defined")
    return pooled(node, node.tensor(0), "lpnorm", lp_order=order)


@operator("LRN", (1, 13), "lrn")
def lrn(node: Node) -> ir.Value:
    x, size = node.tensor(0), int(node.required("size"))
    if tensors.rank(x) < 2:
        raise ModelError(f"an input of {tensors.show(tensors.dims(x))}; it has to have channels")
    channels = tensors.dims(x)[1]
    # A window of more than twice the channels sees no more of them.
    seen = min(size, 2 * channels + 1) if isinstance(channels, int) else size
    return mgx.lrn(
        x,
        seen,
        alpha=node.attribute("alpha") * (seen / size),
        beta=node.attribute("beta"),
        bias=node.attribute("bias"),
    )
