"""mgx-layout-convolution: convolutions, and the work between them, with channels last."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar, TypeAlias

import numpy as np
from mlir import ir

from mgx_mlir.capabilities import CHUNK_BYTES, FILTER_BLOCKS
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.images import (
    image_of,
    is_channels_last,
    is_channels_second,
    keeps_channels,
    lies_channels_last,
    origin_of,
    to_last,
    to_second,
)
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    create_like,
    definition,
    element_type,
    erase_dead,
    group_of,
    has_sizes,
    identity,
    in_views,
    replace,
    shape,
    splat,
    stored_array,
    turned_literal,
)
from mgx_mlir.rewriting.view_chains import changes
from mgx_mlir.rewriting.views import trace

# Groups of so few channels suit CPUs with channels first.
FEW_CHANNELS = 8

_Convolution: TypeAlias = mgx.ConvolutionOp | mgx.QuantConvolutionOp


@dataclass(frozen=True)
class LayoutConvolution(Pass):
    """Keeps images that convolutions read or make with channels last.

    Before:  %a = mgx.convolution %x, %v ... : tensor<1x3x8x8xf32>, ... -> tensor<1x16x8x8xf32>
             %b = mgx.relu %a : tensor<1x16x8x8xf32>
             %y = mgx.convolution %b, %w ... -> tensor<1x4x8x8xf32>
    After:   %t = mgx.transpose %x permutation = [0, 2, 3, 1] : ... -> tensor<1x8x8x3xf32>
             %a = mgx.convolution %t, %v' ... {channels_last} : ... -> tensor<1x8x8x16xf32>
             %b = mgx.relu %a : tensor<1x8x8x16xf32>
             %u = mgx.transpose %b permutation = [0, 3, 1, 2] : ... -> tensor<1x16x8x8xf32>
             %y = mgx.convolution %u, %w'' ... -> tensor<1x4x8x8xf32>

    A window's channels are then contiguous, and so are the channels of a constant filter, a new
    weight; of depthwise filters, the elements of all filters for one tap are contiguous. Values
    that pointwise ops, pooling, padding, resizes, reductions or concats tie together have one
    layout. The layout stays as it is where one of them is a concat of channels of one image, whose
    parts are pieces of its memory; where more of them are returned than convolutions gain; and
    where no convolution gains but some have groups of several channels. Other ops read through
    views.

    In a program for CPUs alone, concats make no difference, groups of 2 to 8 channels stay, and
    constant filters of several channels are stored as vectors: [filters / 32, window, channels,
    32], or blocks of 16 or of all filters of a group. Convolutions of three dimensions stay.
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    since: ClassVar[tuple[int, int]] = (1, 1)
    name: ClassVar[str] = "mgx-layout-convolution"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            chosen = _chosen(block, context)
            rewriter = _Rewriter(context, chosen)
            for op in list(block.operations):
                if isinstance(op, mgx.CONVOLUTIONS) or identity(op) in chosen:
                    with ir.InsertionPoint(op), op.location:
                        rewriter.visit(op)
            erase_dead(block)


# Choice ----------------------------------------------------------------------------------


@dataclass
class _Groups:
    """Values that share one layout, and the arguments for and against channels last."""

    context: PassContext
    parent: dict[ir.Value, ir.Value] = field(default_factory=dict)
    fixed: set[ir.Value] = field(default_factory=set)
    # For each value: `gains` counts convolutions that read it in windows, and returns of it with
    # channels last; `touched`: any convolution reads or makes it; `grouped`: one of several
    # groups does; `returned` counts returns of it as it is.
    gains: Counter[ir.Value] = field(default_factory=Counter)
    touched: set[ir.Value] = field(default_factory=set)
    grouped: set[ir.Value] = field(default_factory=set)
    returned: Counter[ir.Value] = field(default_factory=Counter)

    def root(self, value: ir.Value) -> ir.Value:
        while self.parent[value] != value:
            self.parent[value] = self.parent[self.parent[value]]
            value = self.parent[value]
        return value

    def tie(self, a: ir.Value, b: ir.Value) -> None:
        if a in self.parent and b in self.parent:
            self.parent[self.root(a)] = self.root(b)

    def chosen(self) -> set[ir.Value]:
        """The values that get channels last."""
        fixed, touched, grouped = (
            {self.root(v) for v in values} for values in (self.fixed, self.touched, self.grouped)
        )
        gains, returned = Counter[ir.Value](), Counter[ir.Value]()
        for found, counts in ((self.gains, gains), (self.returned, returned)):
            for value, count in found.items():
                counts[self.root(value)] += count
        pays = {
            root
            for root in touched - fixed
            if (gains[root] and gains[root] >= returned[root])
            or not (returned[root] or root in grouped)
        }
        return {value for value in self.parent if self.root(value) in pays}


def _chosen(block: ir.Block, context: PassContext) -> set[ir.Value]:
    groups = _Groups(context)
    for op in block.operations:
        if not op.operation.name.startswith("mgx.") or op.regions:
            for value in op.operands:
                origin = origin_of(value)
                if origin not in groups.parent or len(shape(value)) < 3:
                    continue
                counts = groups.gains if is_channels_last(value) else groups.returned
                counts[origin] += prod(shape(value)[2:]) != 1
        elif not has_sizes(op):
            continue
        elif isinstance(op, mgx.CONVOLUTIONS):
            _add_convolution(groups, op)
        elif _is_movable(op):
            _add_movable(groups, op)
    return groups.chosen()


def _add_convolution(groups: _Groups, op: _Convolution) -> None:
    result, origin = op.y, image_of(op.x)
    groups.parent[result] = result
    groups.touched.add(result)
    if op.channels_last:
        groups.fixed.add(result)
        groups.fixed.update({origin} & groups.parent.keys())
    if groups.context.kind == "cpu":
        if not _suits_cpus(op, groups.context):
            groups.fixed.update({result, origin} & groups.parent.keys())
    elif group_of(op) > 1 and not _is_depthwise(op):
        groups.grouped.update({result, origin} & groups.parent.keys())
    if origin not in groups.parent:
        return
    groups.touched.add(origin)
    if lies_channels_last(op.x):
        groups.fixed.add(origin)  # the layout is right already
    elif _gains(op):
        groups.gains[origin] += 1


def _suits_cpus(op: _Convolution, context: PassContext) -> bool:
    """Whether kernels of CPUs take a convolution with channels last (`cpu.pixels`, `depthwise`)."""
    _, depth, *window = shape(op.w)
    return (
        len(window) <= 2
        and stored_array(op.w, context.weights) is not None
        and (depth == 1 or group_of(op) == 1 or depth > FEW_CHANNELS)
    )


def _is_depthwise(op: _Convolution) -> bool:
    """Whether each channel has one filter of its own."""
    filters, depth, *_ = shape(op.w)
    return filters == group_of(op) and depth == 1


def _gains(op: _Convolution) -> bool:
    """Whether a convolution would have to rearrange an image whose channels are not last.

    Kernels rearrange images of few channels anyway.
    """
    _, channels, *window = shape(op.w)
    size = channels * mgx.numpy_dtype(element_type(op.x)).itemsize
    return prod(window) > 1 and size % CHUNK_BYTES == 0


def _is_movable(op: ir.OpView) -> bool:
    """Whether an op works equally well with channels last."""
    if len(op.results) != 1 or len(shape(op.result)) < 3:
        return False
    sizes = shape(op.result)
    if mgx.is_pointwise(op):
        return all(shape(value) == sizes for value in op.operands)
    alike = all(len(shape(value)) == len(sizes) for value in op.operands)
    kinds = mgx.ConcatOp | mgx.PadOp | mgx.PoolingOp | mgx.ResizeOp
    return alike and (mgx.is_reduction(op) or isinstance(op, kinds))


def _add_movable(groups: _Groups, op: ir.OpView) -> None:
    result = op.result
    groups.parent[result] = result
    for value in op.operands:
        origin = image_of(value)
        if keeps_channels(value) or origin != origin_of(value):
            groups.tie(result, origin)
        elif is_channels_last(value) and origin in groups.parent:
            groups.gains[origin] += 1
        elif is_channels_second(value):
            groups.gains[result] += 1
    pieces = groups.context.kind != "cpu" and isinstance(op, mgx.ConcatOp) and op.axis.value == 1
    if pieces and shape(result)[0] == 1:
        groups.fixed.add(result)


# Rewriting -------------------------------------------------------------------------------


@dataclass
class _Rewriter:
    """Builds the chosen results again. `twins`: the channels-last form of each value."""

    context: PassContext
    chosen: set[ir.Value]
    twins: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def visit(self, op: ir.OpView) -> None:
        if identity(op) not in self.chosen:
            if isinstance(op, mgx.CONVOLUTIONS):
                self._relay_filter(op)
            return
        if isinstance(op, mgx.CONVOLUTIONS):
            operands = [self._with_channels_last(op.x), self._filter(op)]
            twin = self._made(op, operands, channels_last=ir.UnitAttr.get())
        elif isinstance(op, mgx.PoolingOp):
            twin = self._pooling(op)
        else:
            operands = [self._with_channels_last(value) for value in op.operands]
            twin = self._made(op, operands, **self._axes(op))
        self.context.note("channels last", node_name(op))
        second = mgx.transpose(twin, to_second(len(shape(op.result))))
        self.twins[second] = twin
        replace(op, [second])

    def _made(
        self, op: ir.OpView, operands: list[ir.Value], **attributes: ir.Attribute
    ) -> ir.Value:
        sizes = shape(op.result)
        dims = [sizes[i] for i in to_last(len(sizes))]
        return create_like(op, operands, dims, **attributes)

    def _axes(self, op: ir.OpView) -> dict[str, ir.Attribute]:
        """The attributes of a reduction, concat, padding or resize that name axes, reordered."""
        order = to_last(len(shape(op.result)))
        if isinstance(op, mgx.REDUCTION_OPS):
            axes = sorted(order.index(a) for a in op.axes)
            return {"axes": ir.DenseI64ArrayAttr.get(axes)}
        if isinstance(op, mgx.ConcatOp):
            return {"axis": ir.IntegerAttr.get(op.axis.type, order.index(op.axis.value))}
        if isinstance(op, mgx.PadOp):
            ends = {"low": op.low, "high": op.high}
            return {
                name: ir.DenseI64ArrayAttr.get([end[i] for i in order])
                for name, end in ends.items()
            }
        if isinstance(op, mgx.ResizeOp):
            own = {"scales": [op.scales[i] for i in order]}
            if op.roi is not None:
                own["roi"] = [op.roi[i + end] for end in (0, len(order)) for i in order]
            return {name: ir.DenseF32ArrayAttr.get(numbers) for name, numbers in own.items()}
        return {}

    def _pooling(self, op: mgx.PoolingOp) -> ir.Value:
        """Pools with channels as one more dimension, along which windows have one element."""
        rank = len(shape(op.y)) - 2
        own = {
            "lengths": [*op.lengths, 1],
            "strides": [*op.strides, 1],
            "dilations": [*op.dilations, 1],
            "pads": [*list(op.pads)[:rank], 0, *list(op.pads)[rank:], 0],
        }
        x = self._with_channels_last(op.x)
        count, *sizes = shape(x)
        images = mgx.reshape(x, [count, 1, *sizes])
        count, channels, *outputs = shape(op.y)
        pooled = create_like(
            op,
            [images],
            [count, 1, *outputs, channels],
            **{name: ir.DenseI64ArrayAttr.get(numbers) for name, numbers in own.items()},
        )
        return mgx.reshape(pooled, [count, *outputs, channels])

    def _filter(self, op: _Convolution) -> ir.Value:
        """A filter with channels last; a constant depthwise one is stored with its filters last."""
        rank = len(shape(op.w))
        if self.context.kind == "cpu" and not _is_depthwise(op):
            return self._blocks(op)
        if self._constant(op.w) is None or not _is_depthwise(op):
            return self._relaid(op.w, to_last(rank))
        stored = self._relaid(op.w, [*range(2, rank), 1, 0])
        return mgx.transpose(stored, [rank - 1, *range(rank - 1)])

    def _blocks(self, op: _Convolution) -> ir.Value:
        """A constant filter with channels last, stored as blocks of filters for each element."""
        array = self._constant(op.w)
        if array is None:
            return mgx.transpose(op.w, to_last(len(shape(op.w))))
        count, channels, *window = shape(op.w)
        own = count // group_of(op)
        block = next((size for size in FILTER_BLOCKS if own % size == 0), own)
        order = [0, *range(3, 3 + len(window)), 2, 1]
        found = array.reshape(count // block, block, channels, *window).transpose(order)
        source, weights = definition(op.w), self.context.weights
        if isinstance(source, mgx.LiteralOp):
            key = weights.add_copy(found, f"{source.key.value}.blocks{own}x{block}")
        else:
            key = weights.add_array(found)
        stored = mgx.literal(key, ir.RankedTensorType.get(found.shape, element_type(op.w)))
        last = len(window) + 2
        back = mgx.transpose(stored, [0, last, *range(1, last)])
        return mgx.reshape(back, [count, *window, channels])

    def _relay_filter(self, op: _Convolution) -> None:
        """Stores a constant filter in the layout of the image that it is used on."""
        rank = len(shape(op.w))
        if self._constant(op.w) is None or not _gains(op) or not lies_channels_last(op.x):
            return
        op.operands[1] = mgx.transpose(self._relaid(op.w, to_last(rank)), to_second(rank))

    def _with_channels_last(self, value: ir.Value) -> ir.Value:
        """A value, or a view of one, with channels last."""
        if value in self.twins:
            return self.twins[value]
        order = to_last(len(shape(value)))
        number = splat(value)
        dims = [shape(value)[i] for i in order]
        if number is not None and all(isinstance(size, int) for size in dims):
            return mgx.splat(number, ir.RankedTensorType.get(dims, element_type(value)))
        if self._constant(value) is not None:
            return self._relaid(value, order)
        source, layout, _ = trace(value)
        steps = changes(layout.transposed(order), shape(source))
        return mgx.transpose(value, order) if steps is None else in_views(source, steps)

    def _relaid(self, value: ir.Value, order: list[int]) -> ir.Value:
        """A value transposed; a constant is transposed where it is stored."""
        array = self._constant(value)
        if array is None:
            return mgx.transpose(value, order)
        op = definition(value)
        if isinstance(op, mgx.LiteralOp):
            return turned_literal(op, order, self.context.weights)
        turned = array.transpose(order)
        type_ = ir.RankedTensorType.get(turned.shape, element_type(value))
        return mgx.constant(np.ascontiguousarray(turned), type=type_)

    def _constant(self, value: ir.Value) -> np.ndarray | None:
        return stored_array(value, self.context.weights)
