"""mgx-split-conversions: each reader of a narrow float tensor widens it for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import dims_of
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    definition,
    element_type,
    has_one_use,
    users,
)


@dataclass(frozen=True)
class SplitConversions(Pass):
    """Gives each use of a conversion to a wider float a conversion of its own, behind its views.

    Before:  %f = mgx.convert %x : tensor<2x3xf16> -> tensor<2x3xf32>
             %a = mgx.exp %f : tensor<2x3xf32>
             %b = mgx.sqrt %f : tensor<2x3xf32>
    After:   %f = mgx.convert %x : tensor<2x3xf16> -> tensor<2x3xf32>
             %a = mgx.exp %f : tensor<2x3xf32>
             %g = mgx.convert %x : tensor<2x3xf16> -> tensor<2x3xf32>
             %b = mgx.sqrt %g : tensor<2x3xf32>

    A transpose or reshape of %f becomes one of %x, which is widened then, where other ops read %x
    or %f, or where a reduction reads it.

    Fusion then puts the conversions into the kernels that read, and the tensor that one kernel
    leaves in memory for others is the narrow one.
    """

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-split-conversions"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            # Views come after what they read: those behind views too.
            for op in reversed(list(block.operations)):
                if isinstance(op, mgx.ConvertOp) and _widens(op) and _splits(op):
                    context.note("conversion", node_name(op))
                    _split(op)


def _widens(op: mgx.ConvertOp) -> bool:
    narrow, wide = element_type(op.x), element_type(op.result)
    floats = isinstance(narrow, ir.FloatType) and isinstance(wide, ir.FloatType)
    return floats and narrow.width < wide.width


def _splits(op: mgx.ConvertOp) -> bool:
    """Whether several ops read the wide tensor, or a view of it is read beside the narrow one or
    by a reduction."""
    views = [user for user in users(op.result) if _is_view(user)]
    reduced = any(isinstance(x, mgx.REDUCTION_OPS) for view in views for x in users(view.result))
    shared = bool(views) and (reduced or not has_one_use(op.x))
    return shared or not has_one_use(op.result)


def _is_view(op: ir.OpView) -> bool:
    return isinstance(op, (*mgx.RESHAPES, mgx.TransposeOp)) and len(op.operands) == 1


def _split(op: mgx.ConvertOp) -> None:
    wide = element_type(op.result)
    for use in list(op.result.uses):  # the last one listed is the first
        reader = use.owner.opview
        with ir.InsertionPoint(reader), op.location:
            if not _is_view(reader):
                if not has_one_use(op.result):
                    reader.operands[use.operand_number] = mgx.convert(op.x, wide)
                continue
            view = reader.operation.clone()
            view.operands[0] = op.x
            view.results[0].set_type(
                mgx.tensor_type(dims_of(reader.result.type), element_type(op.x))
            )
            moved = mgx.convert(view.results[0], wide)
            reader.result.replace_all_uses_with(moved)
            reader.erase()
            inner = definition(moved)
            assert isinstance(inner, mgx.ConvertOp)
            _split(inner)
    if not list(op.result.uses):
        op.erase()
