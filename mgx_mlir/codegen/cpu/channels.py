"""Work on each channel of images of any size: poolings, and filters of a channel, channels last.

    %y = mgx.convolution %x, %w group = 48 : tensor<?x?x?x48xf32>, tensor<48x3x3x1xf32>

A work item is a row of pixels. Vectors of channels, which are neighbours in memory, go through the
elements of a window that are inside of the image. Images with channels first are copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mlir import ir

from mgx_mlir.codegen.builders import emit
from mgx_mlir.codegen.cpu.channel_windows import Channels, ChannelWindows
from mgx_mlir.codegen.cpu.convolution import add_transpose
from mgx_mlir.codegen.cpu.epilogue import Epilogue
from mgx_mlir.codegen.cpu.frame import Frame, Memory
from mgx_mlir.codegen.cpu.padded import Padding
from mgx_mlir.codegen.cpu.schedule import SUM_DEPTH, Machine
from mgx_mlir.codegen.cpu.windows import PADDED, by_pixels, groups_of
from mgx_mlir.codegen.loops.ops.movement import word
from mgx_mlir.codegen.loops.place import Place
from mgx_mlir.codegen.problem.match import Match, mapped, with_epilogue
from mgx_mlir.codegen.problem.problem import Axis, Contraction, Dimension, Image, Matrix
from mgx_mlir.codegen.problem.views import element_name, resolve
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import shape_of

# The types in which poolings compute, by that of their elements.
_SUMMED_AS = {"bf16": "f32", "f16": "f32", "f32": "f32", "f64": "f64"}


def channels_of(kernel: mgx.KernelOp, match: Match | None) -> Channels | Refusal:
    """The work on channels that a kernel, or its match, is; or why it is none."""
    if match is None:
        found = _pooling_of_channels(kernel)
    else:
        found = _filters_of_channels(match)
    return found or Refusal("no pooling, nor filters of one channel each that lie by channels")


def _filters_of_channels(match: Match) -> Channels | None:
    """A convolution with a filter for each channel; None for others."""
    problem, channels = match.problem, groups_of(match.problem)
    a, b = problem.a, problem.b
    if match.added or problem.M != 1 or type(b) is not Image or type(a) is not Matrix:
        return None
    if not (isinstance(problem.K, int) and isinstance(channels, int)):
        return None
    parts, filters = b.batch.split(channels), a.batch.split(channels)
    sources = {read: _by_channels(read, channels) for read in match.reads}
    if parts is None or filters is None or None in sources.values() or b.channel.size != 1:
        return None
    if problem.accumulator not in (*_SUMMED_AS.values(), "i32"):
        return None
    image = replace(b, batch=parts[0])
    own = Matrix(a.argument, a.element, a.offset, Axis(()), a.column, filters[1])
    place = None if match.place is None else _by_channels(match.place, channels)
    if place is None or {filters[1].stride, place.column.stride} != {1}:
        return None
    copy = None
    if parts[1].stride != 1:
        copy = Padding.without(replace(image, channel=parts[1]), PADDED)
        image = _without_channels(copy, b)
    made = replace(
        match,
        problem=replace(problem, batch=1, M=1, N=channels),
        place=place,
        sources=mapped(match.sources, lambda x: sources[x] or x),
    )
    return Channels(made, image, channels, "filter", own, copy=copy)


def _by_channels(x: Matrix, channels: int) -> Matrix | None:
    """A matrix [image and channel, 1, pixel] as [pixel of all images, channel]."""
    found = by_pixels(x, channels)
    return found and replace(found, batch=Axis(()), column=found.batch)


def largest_of(kernel: mgx.KernelOp) -> Match | None:
    """A largest element of windows that move by several pixels, as a product with nothing; None for
    other kernels: vectors of channels are as fast where windows move by one."""
    found = _pooling(kernel)
    if found is None or found[1] != "max" or found[2].dims[-1].step == 1:
        return None
    op, _, image, problem = found
    planes = Axis.of(*image.batch.factors, *image.channel.factors)
    image = replace(image, batch=planes, channel=Axis(()), fill=-math.inf)
    own = replace(problem, batch=planes.size, N=math.prod(image.outputs), K=image.taps, b=image)
    return with_epilogue(kernel.body.blocks[0], [op], own) if own.K <= SUM_DEPTH else None


def _pooling(kernel: mgx.KernelOp) -> tuple[mgx.PoolingOp, str, Image, Contraction] | None:
    """The pooling of a kernel, its mode and windows, and its pixels; None for other kernels."""
    pools = [op for op in kernel.body.blocks[0].operations if isinstance(op, mgx.PoolingOp)]
    if len(pools) != 1:
        return None
    (op,) = pools
    view, mode, element = resolve(op.x), word(op.mode), element_name(op.y.type)
    if view is None or mode not in ("max", "average") or element not in _SUMMED_AS:
        return None
    if mode == "average" and (op.ceil_mode.value or any(d != 1 for d in op.dilations)):
        return None
    if any(len(dim) != 1 for dim in view.dims):
        return None
    sizes, outputs = shape_of(op.x.type), shape_of(op.y.type)
    places = sizes[2:], [dim[0][1] for dim in view.dims[2:]], outputs[2:]
    dims = zip(*places, op.lengths, op.strides, op.dilations, op.pads, strict=False)
    axes = view.axis(0, 1), view.axis(1, 2), tuple(Dimension(*dim) for dim in dims)
    image = Image(view.argument, element, view.offset, *axes)
    nothing = Matrix(0, element, 0, Axis(()), Axis(()), Axis(()))
    own = Contraction(sizes[0], 1, math.prod(outputs[1:]), 1, nothing, image, _SUMMED_AS[element])
    return op, mode, image, own


def _pooling_of_channels(kernel: mgx.KernelOp) -> Channels | None:
    """A pooling of images with channels last, which have no windows, or first; None for others."""
    found = _pooling(kernel)
    if found is None:
        return None
    op, mode, image, problem = found
    sizes, count, last = shape_of(op.x.type), len(op.lengths), image.dims[-1]
    turned = isinstance(sizes[1], int) and sizes[1] > 1
    channels, copy = sizes[1] if turned else sizes[-1], None
    if turned:
        copy = Padding.without(image, PADDED)
        image = _without_channels(copy, image)
    else:
        alone = (last.window, last.step, last.pad, list(op.pads)[-1], sizes[1]) == (1, 1, 0, 0, 1)
        if count < 2 or not alone or (last.size, last.stride) != (channels, 1):
            return None
        image = replace(image, channel=Axis(()), dims=image.dims[:-1])
    if not isinstance(channels, int):
        return None
    match = with_epilogue(kernel.body.blocks[0], [op], replace(problem, b=image))
    if match is None or (turned and match.reads):
        return None
    # Results [image, 1, (pixel, channel)] in row-major order.
    sources: dict[Matrix, Matrix] = {}
    for read in match.reads:
        parts = read.column.split(channels)
        if parts is None:
            return None
        row = Axis.of(*read.batch.factors, *parts[0].factors)
        sources[read] = replace(read, batch=Axis(()), row=row, column=parts[1])
    made = replace(
        match,
        problem=replace(problem, batch=1, M=1, N=channels),
        sources=mapped(match.sources, lambda x: sources[x]),
    )
    padding = bool(op.count_include_pad.value)
    return Channels(made, image, channels, mode, None, padding, is_turned=turned, copy=copy)


def _without_channels(copy: Padding, image: Image) -> Image:
    """The windows of an image in its copy, without its channels."""
    pads = iter([dim.pad for dim in image.dims])
    own = copy.windows(1)[0].with_dims(lambda dim: replace(dim, pad=next(pads)))
    return replace(own, channel=Axis(()))


def add_channels(work: Channels, machine: Machine, frame: Frame) -> None:
    """Adds the function of the work, and those of copies: channels of the kernel may come first."""
    functions, outputs, made = frame.functions, frame.outputs, frame.outputs
    if work.copy is not None:
        frame = replace(frame, inputs={**frame.inputs, PADDED: work.copy.add(frame)})
    if work.is_turned:
        made = [Place(output.type, output.size) for output in outputs]

    def rows(
        read: Memory, _others: Sequence[ir.Value], store: Epilogue, begin: ir.Value, end: ir.Value
    ) -> None:
        lanes = machine.lanes(work.match.problem.accumulator)
        own = ChannelWindows(work, read, store, lanes, machine.registers)
        emit.count(begin, end, work.image.outputs[:-1], own.row)

    replace(frame, outputs=made).add(work.match, work.arguments(), work.rows, rows)
    if work.is_turned:
        sizes = work.image.batch.size, math.prod(work.image.outputs), work.channels
        for place, output in zip(made, outputs, strict=True):
            add_transpose(functions, place, output, sizes)
