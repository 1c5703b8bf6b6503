"""mgx-rewrite-rotations: exchanging the halves of a tensor is a view, not a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    broadcast_source,
    broadcast_to,
    definition,
    element_type,
    erase_dead,
    is_static,
    op_name,
    replace,
    shape,
    slice_bounds,
    users,
)


@dataclass(frozen=True)
class RewriteRotations(Pass):
    """Turns two halves of a tensor that change places, perhaps negated, into a view of it.

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

    That is how exporters write rotary embeddings: the rest of the rotation and this are one
    kernel then. What negates goes to the other factors of the products that read the result;
    where anything else reads it, nothing changes. ONNX's own way, halves that are rotated one
    by one and joined, becomes the same:

    Before:  concat(a * cos - b * sin, a * sin + b * cos)        // a and b: halves of %x
    After:   [a, b] * cos + [b, a] * sin * [-1, 1]
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-rewrite-rotations"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if op.operation.name == "mgx.concat" and is_static(op):
                    found = _rotation(op)
                    turned = _turned(op)
                    if found is not None:
                        context.note("halves", node_name(op))
                        _rewrite(op, found)
                    elif turned is not None:
                        context.note("rotation", node_name(op))
                        _rotate(op, turned)
            erase_dead(block)


@dataclass(frozen=True)
class _Rotation:
    """The halves of `source` along `axis`, exchanged, with a sign for each."""

    source: ir.Value
    axis: int
    signs: tuple[int, int]


def _rotation(concat: ir.OpView) -> _Rotation | None:
    operation = concat.operation
    axis, size = _axis(concat)
    if len(operation.operands) != 2:
        return None
    signs, sources = [], []
    for number, part in enumerate(operation.operands):
        op, sign = definition(part), 1
        if op_name(op) == "mgx.neg":
            assert op is not None
            op, sign = definition(op.operation.operands[0]), -1
        source = None if op is None else _half_of(op.operation.results[0], axis, size, 1 - number)
        if source is None:
            return None
        signs.append(sign)
        sources.append(source)
    if sources[0] != sources[1]:
        return None
    result = operation.results[0]
    if -1 in signs:
        # Negations move to other factors.
        if not isinstance(element_type(result), ir.FloatType):
            return None
        if not all(op_name(user) == "mgx.mul" for user in users(result)):
            return None
    return _Rotation(sources[0], axis, (signs[0], signs[1]))


def _rewrite(concat: ir.OpView, found: _Rotation) -> None:
    result = concat.operation.results[0]
    sizes, axis = list(shape(result)), found.axis
    half = sizes[axis] // 2
    with ir.InsertionPoint(concat), concat.operation.location:
        halves = mgx.reshape(found.source, [*sizes[:axis], 2, half, *sizes[axis + 1 :]])
        turned = mgx.reshape(mgx.reverse(halves, [axis]), sizes)
    if found.signs != (1, 1):
        signs = np.repeat(found.signs, half).reshape(
            [1] * axis + [-1] + [1] * (len(sizes) - axis - 1)
        )
        for product in users(result):
            _negate(product, result, signs)
    replace(concat, [turned])


def _negate(product: ir.OpView, result: ir.Value, signs: np.ndarray) -> None:
    """Multiplies the factors beside `result` by numbers along one of its axes."""
    for number, factor in enumerate(product.operation.operands):
        if factor == result:
            continue
        # The factor before its broadcast is smaller, and a constant factor stays a constant.
        source = broadcast_source(factor)
        offset = len(shape(factor)) - len(shape(source))
        mine = signs.reshape(signs.shape[offset:])
        with ir.InsertionPoint(product), product.operation.location:
            if shape(source)[int(np.argmax(mine.shape))] != mine.size:
                source = factor
                mine = signs
            type_ = ir.RankedTensorType.get(list(mine.shape), element_type(factor))
            constant = mgx.constant(mine.astype(np.float64), type=type_)
            product.operation.operands[number] = broadcast_to(
                mgx.mul(source, broadcast_to(constant, shape(source))), shape(factor)
            )


def _axis(concat: ir.OpView) -> tuple[int, int]:
    """The axis of a concat, and the size of its result along it."""
    axis = int(ir.IntegerAttr(concat.operation.attributes["axis"]).value)
    return axis, int(shape(concat.operation.results[0])[axis])


def _half_of(value: ir.Value, axis: int, size: int, number: int) -> ir.Value | None:
    """The value whose half `number`, along an axis of size `size`, the value is; else None."""
    op = definition(value)
    if op_name(op) != "mgx.slice" or size % 2:
        return None
    assert op is not None
    half = size // 2
    if list(slice_bounds(op)) != [[axis], [number * half], [(number + 1) * half]]:
        return None
    (source,) = op.operation.operands
    return source if shape(source)[axis] == size else None


@dataclass(frozen=True)
class _Turned:
    """Halves of `source` along `axis` that are rotated by angles with these tables."""

    source: ir.Value
    axis: int
    cosines: ir.Value
    sines: ir.Value


def _turned(concat: ir.OpView) -> _Turned | None:
    axis, size = _axis(concat)
    real, *others = (definition(part) for part in concat.operation.operands)
    if len(others) != 1 or (op_name(real), op_name(others[0])) != ("mgx.sub", "mgx.add"):
        return None
    assert real is not None and others[0] is not None
    minuend, subtrahend = real.operation.operands
    for a, b in (others[0].operation.operands, reversed(others[0].operation.operands)):
        terms = ((minuend, 0), (subtrahend, 1), (a, 0), (b, 1))
        found = [_scaled_half(value, axis, size, number) for value, number in terms]
        known = [x for x in found if x is not None]
        if len(known) != 4 or len({source for source, _ in known}) != 1:
            continue
        cosines, sines, *crossed = (factor for _, factor in known)
        if crossed == [sines, cosines]:
            return _Turned(known[0][0], axis, cosines, sines)
    return None


def _scaled_half(
    value: ir.Value, axis: int, size: int, number: int
) -> tuple[ir.Value, ir.Value] | None:
    """The value whose half `number` a product multiplies, and the other factor; else None."""
    op = definition(value)
    if op_name(op) != "mgx.mul" or not isinstance(element_type(value), ir.FloatType):
        return None
    assert op is not None
    for half, factor in (op.operation.operands, reversed(op.operation.operands)):
        source = _half_of(half, axis, size, number)
        if source is not None:
            return source, factor
    return None


def _rotate(concat: ir.OpView, found: _Turned) -> None:
    sizes, axis = list(shape(concat.operation.results[0])), found.axis
    half = sizes[axis] // 2
    parts = [*sizes[:axis], 2, half, *sizes[axis + 1 :]]
    alike = [*sizes[:axis], 1, half, *sizes[axis + 1 :]]
    with ir.InsertionPoint(concat), concat.operation.location:
        halves = mgx.reshape(found.source, parts)
        cosines, sines = (
            mgx.multibroadcast(mgx.reshape(table, alike), parts)
            for table in (found.cosines, found.sines)
        )
        signs = np.array([-1.0, 1.0]).reshape(2, *(1 for _ in parts[axis + 1 :]))
        type_ = ir.RankedTensorType.get(list(signs.shape), element_type(found.source))
        constant = mgx.multibroadcast(mgx.constant(signs, type=type_), parts)
        crossed = mgx.mul(mgx.mul(mgx.reverse(halves, [axis]), sines), constant)
        result = mgx.reshape(mgx.add(mgx.mul(halves, cosines), crossed), sizes)
    replace(concat, [result])
