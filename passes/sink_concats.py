"""mgx-sink-concats: pointwise work is done on the parts of a concat, where they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.prologues import prologue_leaves
from mgx_mlir.rewriting.queries import (
    blocks,
    broadcast_source,
    broadcast_to,
    create_like,
    definition,
    element_type,
    erase_dead,
    is_constant,
    replace,
    shape,
    source_sizes,
    splat,
    users,
)

# A concat of more parts stays: each op that reads it would become one op for each part.
_MOST_PARTS = 256


@dataclass(frozen=True)
class SinkConcats(Pass):
    """Moves a concat, concats of it too, below the pointwise ops with constants that read it.

    Before:  %c = mgx.concat %a, %b axis = 1 : tensor<1x8x4x4xf32>, ... -> tensor<1x16x4x4xf32>
             %y = mgx.relu %c : tensor<1x16x4x4xf32>
    After:   %p = mgx.relu %a : tensor<1x8x4x4xf32>
             %q = mgx.relu %b : tensor<1x8x4x4xf32>
             %y = mgx.concat %p, %q axis = 1 : ...

    The work becomes part of the kernels that make %a and %b, and no kernel reads the concat for
    it. All parts but one must come from contractions or pointwise ops. Only pointwise ops with
    constants, and concats that sink too, may read the concat: it is not computed any more. A
    concat that a product's kernel reads through pointwise work stays (see `prologues`).
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-sink-concats"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            # A product's work on the whole as it reads it costs nothing more, and needs no parts.
            known = dict.fromkeys(prologue_leaves(block), False)
            for op in list(block.operations):
                concat = _concat(op) if mgx.is_pointwise(op) else None
                if concat is not None and _sinks(concat, known):
                    context.note("concat", node_name(op))
                    with ir.InsertionPoint(op), op.location:
                        replace(op, [_on_parts(op, concat)])
            erase_dead(block)


def _concat(op: ir.OpView) -> mgx.ConcatOp | None:
    """The concat that a pointwise op reads, where all its other operands are constant."""
    found = {value: definition(value) for value in op.operands}
    concats = [concat for concat in found.values() if isinstance(concat, mgx.ConcatOp)]
    if len(concats) != 1:
        return None
    others = (value for value in op.operands if value != concats[0].y)
    return concats[0] if all(is_constant(value) for value in others) else None


def _parts(concat: mgx.ConcatOp) -> list[ir.Value]:
    """The operands of a concat; nested concats of the same axis are replaced by theirs.

    Gives the first _MOST_PARTS + 1 where there are more.
    """
    parts: list[ir.Value] = []
    waiting = list(reversed(concat.xs))
    while waiting and len(parts) <= _MOST_PARTS:
        value = waiting.pop()
        inner = definition(value)
        if isinstance(inner, mgx.ConcatOp) and inner.axis.value == concat.axis.value:
            waiting.extend(reversed(inner.xs))
        else:
            parts.append(value)
    return parts


def _sinks(concat: mgx.ConcatOp, known: dict[ir.Value, bool]) -> bool:
    """Whether no reader of the concat is left once all ops that can have moved above it."""
    waiting = [concat]
    while waiting:
        result = waiting[-1].y
        readers = users(result) if result not in known else []
        # Concats are read by later ones, so this ends.
        concats = [user for user in readers if isinstance(user, mgx.ConcatOp)]
        later = [user for user in concats if user.y not in known]
        if later:
            waiting.extend(later)
            continue
        last = waiting.pop()
        if result not in known:
            moves = all(_moves(user, last, known) for user in readers)
            known[result] = moves and _has_makers(last)
    return known[concat.y]


def _moves(user: ir.OpView, concat: mgx.ConcatOp, known: dict[ir.Value, bool]) -> bool:
    if user.operation.block != concat.operation.block:
        return False
    if isinstance(user, mgx.ConcatOp):
        return user.axis.value == concat.axis.value and known[user.y]
    return mgx.is_pointwise(user) and _concat(user) is not None


def _has_makers(concat: mgx.ConcatOp) -> bool:
    """Whether kernels that can do more work make all parts but one."""
    parts = _parts(concat) if concat.y.type.has_static_shape else []
    if not 1 < len(parts) <= _MOST_PARTS:
        return False
    makers = map(definition, parts)
    others = [op for op in makers if not isinstance(op, mgx.CONTRACTIONS)]
    others = [op for op in others if not mgx.is_pointwise(op)]
    return len(others) <= 1 and not any(is_constant(part) for part in parts)


def _on_parts(op: ir.OpView, concat: mgx.ConcatOp) -> ir.Value:
    """The concat of the op's results on each part."""
    axis = concat.axis.value
    results, start = [], 0
    for part in _parts(concat):
        dims = list(shape(part))
        operands = [
            part if value == concat.y else _part_of(value, axis, start, dims)
            for value in op.operands
        ]
        results.append(create_like(op, operands, dims))
        start += dims[axis]
    return mgx.concat(results, axis)


def _part_of(value: ir.Value, axis: int, start: int, dims: list[int]) -> ir.Value:
    """A constant from `start` along `axis`, in the shape `dims`."""
    number = splat(value)
    if number is not None:
        return mgx.splat(number, ir.RankedTensorType.get(dims, element_type(value)))
    sizes = source_sizes(value)
    source = mgx.reshape(broadcast_source(value), sizes)
    if sizes[axis] != 1:
        source = mgx.slice(source, [axis], [start], [start + dims[axis]])
    return broadcast_to(source, dims)
