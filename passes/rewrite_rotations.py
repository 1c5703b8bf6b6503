"""mgx-rewrite-rotations: exchanging the halves of a tensor is a view, not a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import (
    broadcast_source,
    broadcast_to,
    definition,
    element_type,
    has_sizes,
    shape,
    slice_bounds,
    users,
)


@rewrites(mgx.ConcatOp)
def read_halves_exchanged(op: mgx.ConcatOp, context: PassContext) -> ir.Value | None:
    """A view of a tensor that exchanges its halves."""
    found = _rotation(op)
    return found.view() if found is not None and found.signs == (1, 1) else None


@rewrites(mgx.MulOp)
def move_signs_to_other_factor(op: mgx.MulOp, context: PassContext) -> ir.Value | None:
    """The product of exchanged halves that are negated: the other factor gets the signs."""
    for value, factor in ((op.a, op.b), (op.b, op.a)):
        concat = definition(value)
        found = _rotation(concat) if isinstance(concat, mgx.ConcatOp) else None
        if found is None or found.signs == (1, 1) or factor == value:
            continue
        # Another reader would need the negated halves themselves.
        if not isinstance(element_type(value), ir.FloatType):
            continue
        if not all(isinstance(user, mgx.MulOp) for user in users(value)):
            continue
        own = found.view(), _negated(factor, found)
        return mgx.mul(*own) if value == op.a else mgx.mul(*reversed(own))
    return None


@rewrites(mgx.ConcatOp)
def rotate_whole(op: mgx.ConcatOp, context: PassContext) -> ir.Value | None:
    """The rotation of both halves at a time."""
    found = _rotated(op)
    if found is None:
        return None
    sizes, axis = list(shape(op.y)), found.axis
    half = sizes[axis] // 2
    parts = [*sizes[:axis], 2, half, *sizes[axis + 1 :]]
    alike = [*sizes[:axis], 1, half, *sizes[axis + 1 :]]
    halves = mgx.reshape(found.source, parts)
    cosines, sines = (
        mgx.multibroadcast(mgx.reshape(table, alike), parts)
        for table in (found.cosines, found.sines)
    )
    signs = np.array([-1.0, 1.0]).reshape(2, *(1 for _ in parts[axis + 1 :]))
    type_ = ir.RankedTensorType.get(list(signs.shape), element_type(found.source))
    constant = mgx.multibroadcast(mgx.constant(signs, type=type_), parts)
    crossed = mgx.mul(mgx.mul(mgx.reverse(halves, [axis]), sines), constant)
    return mgx.reshape(mgx.add(mgx.mul(halves, cosines), crossed), sizes)


@dataclass(frozen=True)
class _Exchange:
    """The halves of `source` along `axis`, exchanged, with a sign for each."""

    source: ir.Value
    axis: int
    signs: tuple[int, ...]

    def view(self) -> ir.Value:
        """The exchanged halves without their signs."""
        sizes, axis = list(shape(self.source)), self.axis
        halves = [*sizes[:axis], 2, sizes[axis] // 2, *sizes[axis + 1 :]]
        return mgx.reshape(mgx.reverse(mgx.reshape(self.source, halves), [axis]), sizes)


def _rotation(concat: mgx.ConcatOp) -> _Exchange | None:
    if len(concat.xs) != 2 or not has_sizes(concat):
        return None
    axis, signs, sources = concat.axis.value, [], []
    for number, part in enumerate(concat.xs):
        op, sign = definition(part), 1
        if isinstance(op, mgx.NegOp):
            part, sign = op.x, -1
        source = _half_of(part, axis, 1 - number)
        if source is None or shape(source)[axis] != shape(concat.y)[axis]:
            return None
        signs.append(sign)
        sources.append(source)
    return _Exchange(sources[0], axis, tuple(signs)) if sources[0] == sources[1] else None


def _negated(factor: ir.Value, found: _Exchange) -> ir.Value:
    """A factor times the signs, along the axis of the halves."""
    rank, axis = len(shape(found.source)), found.axis
    signs = np.repeat(found.signs, shape(found.source)[axis] // 2)
    signs = signs.reshape([1] * axis + [-1] + [1] * (rank - axis - 1))
    # The factor before its broadcast is smaller, and a constant factor stays a constant.
    source = broadcast_source(factor)
    mine = signs.reshape(signs.shape[rank - len(shape(source)) :])
    if shape(source)[int(np.argmax(mine.shape))] != mine.size:
        source, mine = factor, signs
    type_ = ir.RankedTensorType.get(list(mine.shape), element_type(factor))
    constant = mgx.constant(mine.astype(np.float64), type=type_)
    product = mgx.mul(source, broadcast_to(constant, shape(source)))
    return broadcast_to(product, shape(factor))


def _half_of(value: ir.Value, axis: int, number: int) -> ir.Value | None:
    """The value whose half `number` along an axis the value is; else None."""
    op = definition(value)
    if not isinstance(op, mgx.SliceOp):
        return None
    size = shape(op.x)[axis]
    if not isinstance(size, int):
        return None
    half, odd = divmod(size, 2)
    if odd or list(slice_bounds(op)) != [[axis], [number * half], [(number + 1) * half]]:
        return None
    return op.x


@dataclass(frozen=True)
class _Rotated:
    """Halves of `source` along `axis` that are rotated by angles with these tables."""

    source: ir.Value
    axis: int
    cosines: ir.Value
    sines: ir.Value


def _rotated(concat: mgx.ConcatOp) -> _Rotated | None:
    if len(concat.xs) != 2 or not has_sizes(concat):
        return None
    axis, (real, imaginary) = concat.axis.value, map(definition, concat.xs)
    if not isinstance(real, mgx.SubOp) or not isinstance(imaginary, mgx.AddOp):
        return None
    for a, b in ((imaginary.a, imaginary.b), (imaginary.b, imaginary.a)):
        terms = ((real.a, 0), (real.b, 1), (a, 0), (b, 1))
        found = [_scaled_half(value, axis, number) for value, number in terms]
        known = [x for x in found if x is not None]
        if len(known) != 4 or len({source for source, _ in known}) != 1:
            continue
        cosines, sines, *crossed = (factor for _, factor in known)
        if crossed == [sines, cosines] and shape(known[0][0]) == shape(concat.y):
            return _Rotated(known[0][0], axis, cosines, sines)
    return None


def _scaled_half(value: ir.Value, axis: int, number: int) -> tuple[ir.Value, ir.Value] | None:
    """The value whose half `number` a product multiplies, and the other factor; else None."""
    op = definition(value)
    if not isinstance(op, mgx.MulOp) or not isinstance(element_type(value), ir.FloatType):
        return None
    for half, factor in ((op.a, op.b), (op.b, op.a)):
        source = _half_of(half, axis, number)
        if source is not None:
            return source, factor
    return None


@dataclass(frozen=True)
class RewriteRotations(PatternPass):
    """Replaces exchanged halves of a tensor, negated or not, by a view of the tensor.

    Before:  %a = mgx.slice %x axes = [3] starts = [0] ends = [32] ...
             %b = mgx.slice %x axes = [3] starts = [32] ends = [64] ...
             %n = mgx.neg %b ...
             %r = mgx.concat %n, %a axis = 3 ...
             %y = mgx.mul %r, %sin ...
    After:   %h = mgx.reshape %x : tensor<2x8x16x64xf16> -> tensor<2x8x16x2x32xf16>
             %v = mgx.reverse %h axes = [3] ...
             %r = mgx.reshape %v : tensor<2x8x16x2x32xf16> -> tensor<2x8x16x64xf16>
             %s = mgx.mul %sin, [-1, ..., 1, ...] ...
             %y = mgx.mul %r, %s ...

    Exporters write rotary embeddings so; the whole rotation is one kernel then. The signs go to
    the other factors of the products that read the result; where anything else reads negated
    halves, nothing changes. ONNX rotates the halves one by one and joins them, which becomes the
    same:

    Before:  concat(a * cos - b * sin, a * sin + b * cos)        // a and b: halves of %x
    After:   [a, b] * cos + [b, a] * sin * [-1, 1]
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-rewrite-rotations"
    patterns: ClassVar = (read_halves_exchanged, move_signs_to_other_factor, rotate_whole)
