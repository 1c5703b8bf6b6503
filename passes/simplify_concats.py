"""mgx-simplify-concats: what is put together and taken apart again."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.graph import main_function, node_name
from mgx_mlir.pass_manager import Pass, PassContext
from mgx_mlir.rewriting import (
    blocks,
    definition,
    erase_dead,
    has_one_use,
    is_static,
    op_name,
    replace,
    shape,
    slice_bounds,
)


@dataclass(frozen=True)
class SimplifyConcats(Pass):
    """Removes concats of neighbouring slices and of copies, and slices of concats.

    Before:  %a = mgx.slice %x axes = [0] starts = [0] ends = [2] : ... -> tensor<2x3xf32>
             %b = mgx.slice %x axes = [0] starts = [2] ends = [4] : ... -> tensor<2x3xf32>
             %c = mgx.concat %a, %b axis = 0 ... -> tensor<4x3xf32>
             %d = mgx.slice %c axes = [0] starts = [1] ends = [2] : ... -> tensor<1x3xf32>
    After:   %d = mgx.slice %x axes = [0] starts = [1] ends = [2] : ... -> tensor<1x3xf32>

    Neighbours become one slice, and one value again and again, with one element along the
    axis, a broadcast. A slice within one part of a concat is a slice of that part; one over
    some of several parts, of a concat that nothing else reads, is a concat of fewer.
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-simplify-concats"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        rules = {"mgx.concat": _concat, "mgx.slice": _slice}
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                rule = rules.get(op.operation.name)
                if rule is None or not is_static(op):
                    continue
                node = node_name(op)
                with ir.InsertionPoint(op), op.operation.location:
                    value = rule(op)
                if value is not None:
                    context.note("concat", node)
                    replace(op, [value])
            erase_dead(block)


@dataclass(frozen=True)
class _Part:
    """Elements `start` .. `end` of `source` along the concat's axis."""

    source: ir.Value
    start: int
    end: int


def _concat(op: ir.OpView) -> ir.Value | None:
    operands = list(op.operation.operands)
    result = op.operation.results[0]
    axis = ir.IntegerAttr(op.operation.attributes["axis"]).value
    parts = [part for value in operands for part in _parts(value, axis)]
    merged = parts[:1]
    for part in parts[1:]:
        last = merged[-1]
        if last.source == part.source and last.end == part.start:
            merged[-1] = _Part(last.source, last.start, part.end)
        else:
            merged.append(part)
    if len(merged) > 1 and all(part == merged[0] for part in merged):
        one = _value(merged[0], axis)
        if shape(one)[axis] == 1:
            return mgx.multibroadcast(one, shape(result))
    if len(merged) >= len(operands):
        return None
    values = [_value(part, axis) for part in merged]
    return values[0] if len(values) == 1 else mgx.concat(values, axis)


def _parts(value: ir.Value, axis: int) -> list[_Part]:
    """A value as slices of others along the axis, through slices and concats of that axis."""
    op = definition(value)
    if op_name(op) == "mgx.concat":
        assert op is not None
        if ir.IntegerAttr(op.operation.attributes["axis"]).value == axis:
            return [part for operand in op.operation.operands for part in _parts(operand, axis)]
    if op_name(op) == "mgx.slice":
        assert op is not None
        axes, starts, ends = slice_bounds(op)
        if axes == [axis]:
            return [_Part(op.operation.operands[0], starts[0], ends[0])]
    return [_Part(value, 0, shape(value)[axis])]


def _value(part: _Part, axis: int) -> ir.Value:
    if part.start == 0 and part.end == shape(part.source)[axis]:
        return part.source
    return mgx.slice(part.source, [axis], [part.start], [part.end])


def _slice(op: ir.OpView) -> ir.Value | None:
    concat = definition(op.operation.operands[0])
    axes, starts, ends = slice_bounds(op)
    if op_name(concat) != "mgx.concat" or len(axes) != 1:
        return None
    assert concat is not None
    axis = axes[0]
    if ir.IntegerAttr(concat.operation.attributes["axis"]).value != axis:
        return None
    operands = list(concat.operation.operands)
    borders = [0, *accumulate(shape(value)[axis] for value in operands)]
    kept = []
    for value, (low, high) in zip(operands, pairwise(borders), strict=True):
        start, end = max(starts[0], low) - low, min(ends[0], high) - low
        if start < end:
            kept.append(_value(_Part(value, start, end), axis))
    if len(kept) == len(operands) or not kept:
        return None
    if len(kept) > 1 and not has_one_use(op.operation.operands[0]):
        return None
    return kept[0] if len(kept) == 1 else mgx.concat(kept, axis)
