"""mgx-place-concats: a concat's operands are written into its result, without a copy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.plan_attributes import IN_PLACE
from mgx_mlir.rewriting.queries import (
    RESHAPES,
    blocks,
    definition,
    memory_of,
    op_name,
    shape,
    users,
)


@dataclass(frozen=True)
class PlaceConcats(Pass):
    """Marks concats whose operands can be written into the result's memory directly.

    Before:  %c = mgx.concat %a, %b axis = 1 : tensor<1x8x4x4xf32>, ... -> tensor<1x16x4x4xf32>
    After:   %c = mgx.concat %a, %b axis = 1 {mgx.in_place} : ...

    That is so when no dimension before the axis has more than one element, so that each
    operand is one piece of the result; when each operand is computed by the program, for
    this concat alone among concats, and begins at a multiple of `alignment` bytes; and when
    neither the operands nor the result are returned, since those lie in the caller's memory.
    """

    alignment: int = 64

    name: ClassVar[str] = "mgx-place-concats"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in block.operations:
                if op.operation.name == "mgx.concat" and self._fits(op):
                    context.note("in place", node_name(op))
                    op.operation.attributes[IN_PLACE] = ir.UnitAttr.get()

    def _fits(self, op: ir.OpView) -> bool:
        result = op.operation.results[0]
        axis = ir.IntegerAttr(op.operation.attributes["axis"]).value
        type_ = ir.RankedTensorType(result.type)
        if not type_.has_static_shape or math.prod(type_.shape[:axis]) != 1:
            return False
        offset = 0
        for operand in op.operation.operands:
            if offset % self.alignment or not shape(operand)[axis]:
                return False
            if not _is_computed(operand, op.operation.block):
                return False
            offset += mgx.byte_size(operand.type)
        operands = list(op.operation.operands)
        sources = [memory_of(operand) for operand in operands]
        if len(set(sources)) != len(sources) or _reaches_host(result, None):
            return False
        return not any(_reaches_host(source, op) for source in sources)


def _is_computed(value: ir.Value, block: ir.Block) -> bool:
    """Whether a kernel, or a concat in place, makes the value in the block."""
    op = definition(memory_of(value))
    name = op_name(op)
    if op is None or name in ("mgx.constant", "mgx.literal", "mgx.if", "mgx.loop"):
        return False
    if op.operation.block != block:
        return False
    if name == "mgx.concat":
        return IN_PLACE in op.operation.attributes
    # A view that is read as it is would be a kernel of its own, and so a copy too.
    return name not in mgx.VIEWS


def _reaches_host(value: ir.Value, concat: ir.OpView | None) -> bool:
    """Whether the memory is returned, or is part of another concat in place than `concat`."""
    waiting = users(value)
    while waiting:
        user = waiting.pop()
        name = user.operation.name
        if not name.startswith("mgx.") or name in ("mgx.yield", "mgx.if", "mgx.loop"):
            return True  # read by the host, or copied to where the region's result lies
        if name in RESHAPES:
            waiting.extend(users(user.operation.results[0]))
        is_placed = name == "mgx.concat" and IN_PLACE in user.operation.attributes
        if is_placed and (concat is None or user.operation != concat.operation):
            return True
    return False
