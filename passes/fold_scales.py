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
    CONTRACTIONS,
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
    is_along,
    is_constant,
    is_static,
    op_name,
    replace,
    shape,
    source_sizes,
    splat,
    users,
)

# The most bytes of the offset that a padded convolution's result gets at each position.
MAX_BORDER = 1 << 22
_KERNELS = CONTRACTIONS | mgx.POINTWISE | mgx.REDUCTIONS


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

    So images that a model normalises itself need no kernel for it. Where a kernel makes %x,
    that does such work for nothing, and all stays. Shifts of f16 and bf16 stay: their sums
    could cancel. Constants differ by input channel, or column, at most.
    """

    cleanup: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-fold-scales"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            changed = True
            while changed:  # a scaled value may be shifted too, and the other way round
                changed = False
                for op in list(block.operations):
                    found = _work(op)
                    if found is None or not all(
                        _takes(user, found) for user in users(found.result)
                    ):
                        continue
                    for contraction in users(found.result):
                        context.note(op.operation.name, node_name(op))
                        location = fused_location([op, contraction])
                        with ir.InsertionPoint(contraction), location:
                            replace(contraction, [_behind(contraction, found)])
                    op.operation.erase()
                    changed = True
            erase_dead(block)


@dataclass(frozen=True)
class _Work:
    """`result` is x times, or plus, a constant."""

    result: ir.Value
    x: ir.Value
    constant: ir.Value
    is_scale: bool
    block: ir.Block


def _work(op: ir.OpView, most: int = MOST_BEHIND) -> _Work | None:
    """A scale or an offset of a value that no kernel makes.

    In a chain of them, at most `most` are found.
    """
    name = op.operation.name
    if name not in ("mgx.add", "mgx.mul") or not is_static(op):
        return None
    a, b = op.operation.operands
    if is_constant(a) == is_constant(b):
        return None
    x, constant = (a, b) if is_constant(b) else (b, a)
    element = element_type(x)
    is_scale = name == "mgx.mul"
    if not isinstance(element, ir.FloatType) or (element.width < 32 and not is_scale):
        return None
    maker = definition(x)
    if op_name(maker) in _KERNELS and _work_below(maker, most - 1) is None:
        return None
    return _Work(op.operation.results[0], x, constant, is_scale, op.operation.block)


def _work_below(maker: ir.OpView | None, most: int) -> _Work | None:
    """The scale or offset that makes a value, if it can be folded: then no kernel makes it."""
    assert maker is not None
    below = _work(maker, most) if most else None
    return below if below is not None and len(users(below.result)) == 1 else None


def _takes(user: ir.OpView, work: _Work) -> bool:
    """Whether a contraction with constant weights can include the scale or offset."""
    operation = user.operation
    if operation.name not in ("mgx.convolution", "mgx.dot") or not is_static(user):
        return False
    x, w = operation.operands
    if x != work.result or not is_constant(w) or operation.block != work.block:
        return False
    if operation.name == "mgx.dot":
        return is_along(work.constant, len(shape(x)) - 1)
    if not is_along(work.constant, 1):
        return False
    is_padded = any(ir.DenseI64ArrayAttr(operation.attributes["pads"]))
    return work.is_scale or not is_padded or mgx.byte_size(operation.results[0].type) <= MAX_BORDER


def _behind(contraction: ir.OpView, work: _Work) -> ir.Value:
    """The contraction of the unscaled value, with the scale in its weights or an addition after."""
    dims = list(shape(contraction.operation.results[0]))
    w = contraction.operation.operands[1]
    if work.is_scale:
        factor = _by_column if contraction.operation.name == "mgx.dot" else _by_channel
        scaled = mgx.mul(w, factor(contraction, work.constant))
        return create_like(contraction, [work.x, scaled], dims)
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


def _by_column(dot: ir.OpView, constant: ir.Value) -> ir.Value:
    """The factors, in the shape of a product's right operand."""
    dims = shape(dot.operation.operands[1])
    numbers = _numbers(constant, len(shape(constant)) - 1)
    return broadcast_to(mgx.reshape(numbers, [dims[-2], 1]), dims)


def _by_channel(convolution: ir.OpView, constant: ir.Value) -> ir.Value:
    """The factors, in the shape of a convolution's weights; each group has its own channels."""
    group = group_of(convolution)
    outputs, inputs, *kernel = shape(convolution.operation.operands[1])
    numbers = mgx.reshape(_numbers(constant, 1), [group, 1, inputs])
    rows = broadcast_to(numbers, [group, outputs // group, inputs])
    ones = [1] * len(kernel)
    return broadcast_to(mgx.reshape(rows, [outputs, inputs, *ones]), [outputs, inputs, *kernel])


def _shift(contraction: ir.OpView, constant: ir.Value) -> ir.Value:
    """The contraction of the constant alone: a number for each channel, or for each position."""
    operation = contraction.operation
    w, result = operation.operands[1], operation.results[0]
    dims = list(shape(result))
    if operation.name == "mgx.dot":
        scaled = mgx.mul(w, _by_column(contraction, constant))
        return broadcast_to(mgx.reduce_sum(scaled, [len(shape(w)) - 2]), dims)
    if any(ir.DenseI64ArrayAttr(operation.attributes["pads"])):
        # Taps that see padding add nothing.
        size = list(shape(operation.operands[0]))
        channels = mgx.reshape(_numbers(constant, 1), [1, size[1], *[1] * (len(size) - 2)])
        image = broadcast_to(channels, [1, *size[1:]])
        return broadcast_to(create_like(contraction, [image, w], [1, *dims[1:]]), dims)
    scaled = mgx.mul(w, _by_channel(contraction, constant))
    total = mgx.reduce_sum(scaled, list(range(1, len(dims))))
    return broadcast_to(mgx.reshape(total, [1, dims[1], *[1] * (len(dims) - 2)]), dims)
