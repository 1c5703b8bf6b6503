"""mgx-simplify-concats: slices of concats, and concats of slices and concats, become simpler."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    definition,
    erase_dead,
    has_one_use,
    is_static,
    replace,
    shape,
    slice_bounds,
)

# The most parts of nested concats that are considered, in addition to a concat's operands.
_MOST_PARTS = 4096


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
        for block in blocks(main_function(module)):
            borders: dict[ir.Value, list[int]] = {}
            for op in list(block.operations):
                if not isinstance(op, mgx.ConcatOp | mgx.SliceOp) or not is_static(op):
                    continue
                node, is_concat = node_name(op), isinstance(op, mgx.ConcatOp)
                with ir.InsertionPoint(op), op.location:
                    value = _concat(op) if isinstance(op, mgx.ConcatOp) else _slice(op, borders)
                if value is not None:
                    context.note("concat" if is_concat else "slice", node)
                    replace(op, [value])
                    if is_concat:
                        borders.clear()
            erase_dead(block)


@dataclass(frozen=True)
class _Part:
    """Elements `start` .. `end` of `source` along the concat's axis."""

    source: ir.Value
    start: int
    end: int


def _concat(op: mgx.ConcatOp) -> ir.Value | None:
    operands, axis = list(op.xs), op.axis.value
    merged: list[_Part] = []
    repeated = True
    for number, part in enumerate(_parts(operands, axis)):
        last = merged[-1] if merged else None
        if last is not None and last.source == part.source and last.end == part.start:
            merged[-1] = _Part(last.source, last.start, part.end)
        else:
            merged.append(part)
        repeated = repeated and part == merged[0] and part.end - part.start == 1
        # Only neighbours merge: with as many merged parts as operands, nothing can be gained.
        if number > len(operands) + _MOST_PARTS or (len(merged) >= len(operands) and not repeated):
            return None
    if repeated and len(merged) > 1:
        return mgx.multibroadcast(_value(merged[0], axis), shape(op.y))
    if len(merged) >= len(operands):
        return None
    values = [_value(part, axis) for part in merged]
    return values[0] if len(values) == 1 else mgx.concat(values, axis)


def _parts(values: Sequence[ir.Value], axis: int) -> Iterator[_Part]:
    """Values as slices of others along the axis, through slices and concats of that axis."""
    waiting = list(reversed(values))
    while waiting:
        value = waiting.pop()
        op = definition(value)
        if isinstance(op, mgx.ConcatOp) and op.axis.value == axis:
            waiting.extend(reversed(op.xs))
        elif isinstance(op, mgx.SliceOp) and list(op.axes) == [axis]:
            yield _Part(op.x, op.starts[0], op.ends[0])
        else:
            yield _Part(value, 0, shape(value)[axis])


def _value(part: _Part, axis: int) -> ir.Value:
    if part.start == 0 and part.end == shape(part.source)[axis]:
        return part.source
    return mgx.slice(part.source, [axis], [part.start], [part.end])


def _slice(op: mgx.SliceOp, borders: dict[ir.Value, list[int]]) -> ir.Value | None:
    """The slice of only the parts that it reads. `borders`: where the parts of concats begin."""
    concat = definition(op.x)
    axes, starts, ends = slice_bounds(op)
    if not isinstance(concat, mgx.ConcatOp) or axes != [concat.axis.value]:
        return None
    axis, whole, operands = axes[0], op.x, concat.xs
    if whole not in borders:
        borders[whole] = [0, *accumulate(shape(value)[axis] for value in operands)]
    known = borders[whole]
    places = range(bisect_right(known, starts[0]) - 1, bisect_left(known, ends[0]))
    parts = [
        _Part(operands[i], max(starts[0] - known[i], 0), min(ends[0], known[i + 1]) - known[i])
        for i in places
        if known[i] < known[i + 1]
    ]
    if len(parts) == len(operands) or not parts:
        return None
    if len(parts) > 1 and not has_one_use(whole):
        return None
    kept = [_value(part, axis) for part in parts]
    return kept[0] if len(kept) == 1 else mgx.concat(kept, axis)
