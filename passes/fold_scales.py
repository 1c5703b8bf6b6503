"""mgx-fold-scales: a scale and an offset before a contraction are part of its weights and bias."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    MOST_BEHIND,
    blocks,
    broadcast_source,
    broadcast_to,
    create_like,
    definition,
    element_type,
    erase_dead,
    fused_location,
    group_of,
    has_one_use,
    is_along,
    is_constant,
    is_static,
    replace,
    shape,
    source_sizes,
    splat,
    users,
)

# The most bytes of the offset that a padded convolution's result gets at each position.
MAX_BORDER = 1 << 22
# Weights of 16 bits times a smaller scale may leave the type's range.
_LEAST_SCALE = 2.0**-8
_WORK = (mgx.AddOp, mgx.MulOp)
_TAKING = (mgx.ConvolutionOp, mgx.DotOp)


@dataclass(frozen=True)
class FoldScales(Pass):
    """Moves constants that scale and shift an image, or rows, behind the contraction.

    Before:  %m = mgx.mul %x, %scale ...          // %x: an input of the program
             %a = mgx.add %m, %shift ...
             %y = mgx.convolution %a, %w ...
    After:   %v = mgx.mul %w, %scale' ...         // constants, folded by mgx-fold-constants
             %c = mgx.convolution %x, %v ...
             %b = mgx.convolution %shift, %w ...
             %y = mgx.add %c, %b ...

    So a model that normalises its images needs no kernel for it; a conversion of %x stays, as
    contractions convert what they read. Where a kernel makes %x, it
    scales and shifts for nothing, and all stays. Shifts of f16 and bf16 stay: their sums
    could cancel. Constants differ by input channel, or column, at most.
    """

    cleanup: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-fold-scales"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            changed = True
            while changed:  # a scaled value may be shifted too, and the other way round
                ops = [op for op in block.operations if isinstance(op, _WORK)]
                changed = sum(_fold(op, context) for op in ops) > 0
            erase_dead(block)


@dataclass(frozen=True)
class _Work:
    """An op whose result is x times, or plus, a constant."""

    op: mgx.AddOp | mgx.MulOp
    x: ir.Value
    constant: ir.Value


def _fold(op: mgx.AddOp | mgx.MulOp, context: PassContext) -> bool:
    """Moves a scale or an offset behind the contractions that read it, if all of them take it."""
    work = _work(op)
    if work is None or not all(_takes(reader, work) for reader in users(op.c)):
        return False
    for contraction in users(op.c):
        context.note(op.name, node_name(op))
        with ir.InsertionPoint(contraction), fused_location([op, contraction]):
            replace(contraction, [_behind(contraction, work)])
    op.erase()
    return True


def _work(op: ir.OpView | None, most: int = MOST_BEHIND) -> _Work | None:
    """A scale or an offset of a value that no kernel makes.

    In a chain of them, at most `most` are found.
    """
    if not isinstance(op, _WORK) or not is_static(op):
        return None
    if is_constant(op.a) == is_constant(op.b):
        return None
    x, constant = (op.a, op.b) if is_constant(op.b) else (op.b, op.a)
    element = element_type(x)
    if not isinstance(element, ir.FloatType):
        return None
    if element.width < 32 and isinstance(op, mgx.AddOp):
        return None
    source = x
    maker = definition(x)
    # A contraction converts the numbers that it reads.
    if isinstance(maker, mgx.ConvertOp) and isinstance(element_type(maker.x), ir.FloatType):
        number = splat(constant)
        if number is None or abs(number.item()) < _LEAST_SCALE:
            return None
        source = maker.x
    return None if _is_made_by_kernel(source, most) else _Work(op, x, constant)


def _is_made_by_kernel(x: ir.Value, most: int) -> bool:
    """Whether an op makes a value that is no scale or offset that is folded too."""
    maker = definition(x)
    is_work = mgx.is_pointwise(maker) or mgx.is_reduction(maker)
    if not is_work and not isinstance(maker, mgx.CONTRACTIONS):
        return False
    below = _work(maker, most - 1) if most > 1 else None
    return below is None or not has_one_use(x)


def _takes(user: ir.OpView, work: _Work) -> bool:
    """Whether a contraction with constant weights can include the scale or offset."""
    if not isinstance(user, _TAKING) or not is_static(user):
        return False
    x, w = user.operands
    if x != work.op.c or not is_constant(w) or user.operation.block != work.op.operation.block:
        return False
    if isinstance(user, mgx.DotOp):
        return is_along(work.constant, len(shape(x)) - 1)
    if not is_along(work.constant, 1):
        return False
    if isinstance(work.op, mgx.MulOp) or not any(user.pads):
        return True
    return mgx.byte_size(user.y.type) <= MAX_BORDER


def _behind(contraction: ir.OpView, work: _Work) -> ir.Value:
    """The contraction of the unscaled value, with the scale in its weights or an addition after."""
    dims = list(shape(contraction.result))
    w = contraction.operands[1]
    if isinstance(work.op, mgx.MulOp):
        return create_like(contraction, [work.x, _scaled(contraction, work.constant)], dims)
    whole = create_like(contraction, [work.x, w], dims)
    return mgx.add(whole, _shift(contraction, work.constant))


def _numbers(value: ir.Value, axis: int) -> ir.Value:
    """The constant's numbers along a dimension, one for each index."""
    size = shape(value)[axis]
    number = splat(value)
    if number is not None:
        return mgx.splat(number, ir.RankedTensorType.get([size], element_type(value)))
    source = broadcast_source(value)
    return broadcast_to(mgx.reshape(source, [prod(source_sizes(value))]), [size])


def _scaled(contraction: ir.OpView, constant: ir.Value) -> ir.Value:
    """The weights of a contraction, times the factors of the columns or channels they multiply."""
    weights = contraction.operands[1]
    if isinstance(contraction, mgx.DotOp):
        dims = shape(weights)
        numbers = _numbers(constant, len(shape(constant)) - 1)
        return mgx.mul(weights, broadcast_to(mgx.reshape(numbers, [dims[-2], 1]), dims))
    group = group_of(contraction)  # each has its own channels
    outputs, inputs, *kernel = shape(weights)
    numbers = mgx.reshape(_numbers(constant, 1), [group, 1, inputs])
    rows = broadcast_to(numbers, [group, outputs // group, inputs])
    pixels = mgx.reshape(rows, [outputs, inputs, *[1] * len(kernel)])
    return mgx.mul(weights, broadcast_to(pixels, shape(weights)))


def _shift(contraction: ir.OpView, constant: ir.Value) -> ir.Value:
    """The contraction of the constant alone: a number for each channel, or for each position."""
    x, w = contraction.operands
    dims = list(shape(contraction.result))
    if isinstance(contraction, mgx.DotOp):
        columns = mgx.reduce_sum(_scaled(contraction, constant), [len(shape(w)) - 2])
        return broadcast_to(columns, dims)
    if isinstance(contraction, mgx.ConvolutionOp) and any(contraction.pads):
        # Taps that see padding add nothing.
        size = list(shape(x))
        channels = mgx.reshape(_numbers(constant, 1), [1, size[1], *[1] * (len(size) - 2)])
        image = broadcast_to(channels, [1, *size[1:]])
        return broadcast_to(create_like(contraction, [image, w], [1, *dims[1:]]), dims)
    total = mgx.reduce_sum(_scaled(contraction, constant), list(range(1, len(dims))))
    return broadcast_to(mgx.reshape(total, [1, dims[1], *[1] * (len(dims) - 2)]), dims)
