"""mgx-rewrite-deconvolution: a transposed convolution as one whose channels interleave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from typing import ClassVar, cast

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import element_type, group_of, has_sizes, shape
from mgx_mlir.rewriting.symbolic import OPEN_END, tensor_type
from mgx_mlir.sizes.arithmetic import Number, ceil_div


@rewrites(mgx.ConvolutionBackwardsOp)
def convolve_phases(op: mgx.ConvolutionBackwardsOp, context: PassContext) -> ir.Value | None:
    """A convolution whose output channels are the phases, which then interleave."""
    if not has_sizes(op) or not all(isinstance(size, int) for size in shape(op.w)):
        return None
    axes, group = _axes(op), group_of(op)
    if not all(isinstance(axis.after, int) for axis in axes):
        return None  # the result's size does not grow with the input's by the stride
    x: ir.Value = op.x
    cut = [i for i, a in enumerate(axes) if (a.start, a.end) != (0, a.input)]
    if any(not axis.start < axis.end for i, axis in enumerate(axes) if i in cut or axis.end == 0):
        return None  # no element of the input is left by the padding
    if cut:
        parts = [(axes[i].start, axes[i].end) for i in cut]
        x = _part(x, [2 + i for i in cut], parts)
    pads = [max(0, a.before) for a in axes] + [max(0, a.after) for a in axes]
    dilations = [a.step for a in axes]
    w = _filter(op.w, axes, group)
    type_ = tensor_type([shape(x)[0], shape(w)[0], *(a.places for a in axes)], element_type(op.y))
    y = mgx.convolution(x, w, pads, dilations=dilations, group=group, results=[type_])
    return _interleaved(y, axes)


@dataclass(frozen=True)
class RewriteDeconvolution(PatternPass):
    """Writes a transposed convolution as a convolution with the filter reversed.

    Before:  %y = mgx.convolution_backwards %x, %w pads = [0, 0] strides = [2] dilations = [1] ...
                 : tensor<1x8x5xf32>, tensor<8x4x4xf32> -> tensor<1x4x12xf32>
    After:   %v = ... %w                              // reverse, transpose: folded where constant
             %c = mgx.convolution %x, %v pads = [1, 1] strides = [1] dilations = [1]
                 : tensor<1x8x5xf32>, tensor<8x8x2xf32> -> tensor<1x8x6xf32>
             %p = mgx.reshape %c : ... -> tensor<1x4x2x6xf32>
             %t = mgx.transpose %p permutation = [0, 1, 3, 2] : ...
             %y = mgx.reshape %t : ... -> tensor<1x4x12xf32>

    With a stride s, output elements of equal index modulo s (a phase) see every s-th tap of the
    filter. The phases are output channels of one convolution, which multiplies nothing by the
    zeros between the elements. The filter gets more taps where s does not divide it, and in front
    where that saves the slice of a result that starts within a step. Images may be of any size.
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-rewrite-deconvolution"
    patterns: ClassVar = (convolve_phases,)


@dataclass(frozen=True)
class _Axis:
    """A spatial dimension: output o sums input i times tap t where o + pad = i stride + t dilation.

    With `lead` zeros before the filter, o + pad + lead = j stride + phase. Each phase reads the
    taps phase, phase + stride, ..., and these read the inputs j, j - 1, ...
    """

    input: Number
    output: Number
    kernel: int
    stride: int
    dilation: int
    pad: int
    lead: int = 0

    @property
    def window(self) -> int:
        """Taps of one phase; with several phases, the zeros between dilated taps count too."""
        if self.stride == 1:
            return self.kernel
        reach = (self.kernel - 1) * self.dilation + 1 + self.lead
        return ceil_div(reach, self.stride)

    @property
    def step(self) -> int:
        """The dilation of the phases' filters."""
        return self.dilation if self.stride == 1 else 1

    @property
    def first(self) -> int:
        """The first j; `last` is the last j."""
        return (self.pad + self.lead) // self.stride

    @property
    def last(self) -> Number:
        return (self.pad + self.lead + self.output - 1) // self.stride

    @property
    def places(self) -> Number:
        return self.last - self.first + 1

    @property
    def offset(self) -> int:
        """The number of elements that the phases give before the result's first."""
        return (self.pad + self.lead) % self.stride

    @property
    def before(self) -> int:
        """The convolution's padding; negative where the input's first elements are not read."""
        return (self.window - 1) * self.step - self.first

    @property
    def after(self) -> int:
        return cast("int", self.last - (self.input - 1))

    @property
    def start(self) -> int:
        """The start of the part of the input that is read; `end` is its end."""
        return max(0, -self.before)

    @property
    def end(self) -> Number:
        return self.input - max(0, -self.after)


def _axes(op: mgx.ConvolutionBackwardsOp) -> list[_Axis]:
    sizes = zip(
        shape(op.x)[2:],
        shape(op.y)[2:],
        shape(op.w)[2:],
        op.strides,
        op.dilations,
        list(op.pads)[: len(op.strides)],
        strict=True,
    )
    return [_with_lead(_Axis(*parts)) for parts in sizes]


def _with_lead(axis: _Axis) -> _Axis:
    """The axis with zeros before its filter, where they cost no tap and save a slice."""
    lead = -axis.pad % axis.stride
    led = replace(axis, lead=lead)
    return led if led.window * led.places <= axis.window * axis.places else axis


def _filter(w: ir.Value, axes: list[_Axis], group: int) -> ir.Value:
    """The filter (C, M / group, taps...) as (M phases, C / group, window...), taps reversed.

    A channel's phases follow each other.
    """
    inputs, outputs, *_ = shape(w)
    spread = [i for i, a in enumerate(axes) if a.stride > 1 and a.dilation > 1 and a.kernel > 1]
    for i in spread:  # zeros between the taps
        dims = list(shape(w))
        dilation, size = axes[i].dilation, axes[i].kernel
        w = mgx.reshape(w, [*dims[: 2 + i], size, 1, *dims[3 + i :]])
        high = [0] * len(shape(w))
        high[3 + i] = dilation - 1
        w = mgx.pad(w, [0] * len(high), high)
        w = mgx.reshape(w, [*dims[: 2 + i], size * dilation, *dims[3 + i :]])
        w = mgx.slice(w, [2 + i], [0], [(size - 1) * dilation + 1])
    low = [0, 0, *(a.lead for a in axes)]
    sizes = [inputs, outputs, *(a.window * a.stride for a in axes)]
    high = [n - m - k for n, m, k in zip(sizes, shape(w), low, strict=True)]
    if any(low) or any(high):
        w = mgx.pad(w, low, high)
    # (group, C / group, M / group, window, phase, window, phase, ...)
    parts = chain.from_iterable((a.window, a.stride) for a in axes)
    w = mgx.reshape(w, [group, inputs // group, outputs, *parts])
    windows = [3 + 2 * i for i in range(len(axes))]
    phases = [4 + 2 * i for i in range(len(axes))]
    w = mgx.transpose(w, [0, 2, *phases, 1, *windows])
    channels = group * outputs * prod(a.stride for a in axes)
    w = mgx.reshape(w, [channels, inputs // group, *(a.window for a in axes)])
    reversed_axes = [2 + i for i, a in enumerate(axes) if a.window > 1]
    return mgx.reverse(w, reversed_axes) if reversed_axes else w


def _interleaved(y: ir.Value, axes: list[_Axis]) -> ir.Value:
    """Interleaves each channel's phases: element j of phase p is at j * stride + p."""
    rank = len(axes)
    if all(a.stride == 1 for a in axes):
        return y
    batch, channels, *places = shape(y)
    channels //= prod(a.stride for a in axes)
    y = mgx.reshape(y, [batch, channels, *(a.stride for a in axes), *places])
    pairs = chain.from_iterable((2 + rank + i, 2 + i) for i in range(rank))
    y = mgx.transpose(y, [0, 1, *pairs])
    y = mgx.reshape(y, [batch, channels, *(a.places * a.stride for a in axes)])
    part = [i for i, a in enumerate(axes) if a.places * a.stride != a.output]
    if not part:
        return y
    bounds = [(axes[i].offset, axes[i].offset + axes[i].output) for i in part]
    return _part(y, [2 + i for i in part], bounds)


def _part(x: ir.Value, axes: list[int], bounds: list[tuple[int, Number]]) -> ir.Value:
    """The slice of a tensor from one place along each axis to another."""
    sizes: list[Number] = list(shape(x))
    ends = []
    for axis, (start, end) in zip(axes, bounds, strict=True):
        sizes[axis] = end - start
        ends.append(end if isinstance(end, int) else OPEN_END)
    type_ = tensor_type(sizes, element_type(x))
    return mgx.SliceOp(x, axes, [start for start, _ in bounds], ends, results=[type_]).y
