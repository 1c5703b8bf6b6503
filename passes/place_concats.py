"""mgx-place-concats: a concat's operands are written into its result, without a copy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.fusing import is_chosen_by_concat
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.plan_attributes import IN_PLACE
from mgx_mlir.rewriting.queries import blocks, definition, memory_of, shape, users


@dataclass(frozen=True)
class PlaceConcats(Pass):
    """Marks concats whose operands can be written into the result's memory directly.

    Before:  %c = mgx.concat %a, %b axis = 1 : tensor<1x8x4x4xf32>, ... -> tensor<1x16x4x4xf32>
    After:   %c = mgx.concat %a, %b axis = 1 {mgx.in_place} : ...

    No dimension before the axis may have more than one element: each operand is one piece of
    the result. The program computes each operand, for this concat alone among concats, and
    each begins at a multiple of `alignment` bytes. Neither the operands nor the result are
    returned, since returned tensors are the caller's memory. A concat of gathers alone is one
    kernel with these, but on a CPU.
    """

    alignment: int = field(default=64, metadata={"least": 16, "multiple_of": 16})

    name: ClassVar[str] = "mgx-place-concats"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in block.operations:
                if isinstance(op, mgx.ConcatOp) and self._fits(op, context.kind):
                    context.note("in place", node_name(op))
                    op.attributes[IN_PLACE] = ir.UnitAttr.get()

    def _fits(self, op: mgx.ConcatOp, kind: str) -> bool:
        made = [definition(value) for value in op.xs]
        if all(each is not None and is_chosen_by_concat(each, kind) for each in made):
            return False
        axis = op.axis.value
        if not op.y.type.has_static_shape or math.prod(shape(op.y)[:axis]) != 1:
            return False
        offset = 0
        for operand in op.xs:
            if offset % self.alignment or not shape(operand)[axis]:
                return False
            if not _is_computed(operand, op.operation.block):
                return False
            offset += mgx.byte_size(operand.type)
        sources = [memory_of(operand) for operand in op.xs]
        if len(set(sources)) != len(sources) or _reaches_host(op.y, None):
            return False
        return not any(_reaches_host(source, op) for source in sources)


def _is_computed(value: ir.Value, block: ir.Block) -> bool:
    """Whether a kernel, or a concat in place, makes the value in the block."""
    op = definition(memory_of(value))
    if op is None or op.operation.block != block:
        return False
    if isinstance(op, mgx.ConcatOp):
        return IN_PLACE in op.attributes
    # A view that is read as it is would be a kernel of its own, and so a copy too.
    return not isinstance(op, (*mgx.SOURCES, *mgx.CONTROL_FLOW)) and not mgx.is_view(op)


def _reaches_host(value: ir.Value, concat: mgx.ConcatOp | None) -> bool:
    """Whether the memory is returned, or is part of another concat in place than `concat`."""
    waiting = users(value)
    while waiting:
        user = waiting.pop()
        if not user.operation.name.startswith("mgx."):
            return True  # returned
        if isinstance(user, (mgx.YieldOp, *mgx.CONTROL_FLOW)):
            return True  # read by the host, or copied to where the region's result lies
        if isinstance(user, mgx.RESHAPES):
            waiting.extend(users(user.result))
        if isinstance(user, mgx.ConcatOp) and IN_PLACE in user.attributes and user != concat:
            return True
    return False
