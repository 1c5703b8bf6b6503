"""mgx-split-conversions: each reader of a narrow float tensor widens it for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import blocks, element_type, has_one_use


@dataclass(frozen=True)
class SplitConversions(Pass):
    """Gives each use of a conversion to a wider float a conversion of its own.

    Before:  %f = mgx.convert %x : tensor<2x3xf16> -> tensor<2x3xf32>
             %a = mgx.exp %f : tensor<2x3xf32>
             %b = mgx.sqrt %f : tensor<2x3xf32>
    After:   %f = mgx.convert %x : tensor<2x3xf16> -> tensor<2x3xf32>
             %a = mgx.exp %f : tensor<2x3xf32>
             %g = mgx.convert %x : tensor<2x3xf16> -> tensor<2x3xf32>
             %b = mgx.sqrt %g : tensor<2x3xf32>

    Fusion then puts the conversions into the kernels that read, and the tensor that one kernel
    leaves in memory for others is the narrow one.
    """

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-split-conversions"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if isinstance(op, mgx.ConvertOp) and _widens(op) and not has_one_use(op.result):
                    context.note("conversion", node_name(op))
                    _split(op)


def _widens(op: mgx.ConvertOp) -> bool:
    narrow, wide = element_type(op.x), element_type(op.result)
    floats = isinstance(narrow, ir.FloatType) and isinstance(wide, ir.FloatType)
    return floats and narrow.width < wide.width


def _split(op: mgx.ConvertOp) -> None:
    for use in list(op.result.uses)[:-1]:  # the last one listed is the first
        reader = use.owner
        with ir.InsertionPoint(reader), op.location:
            reader.operands[use.operand_number] = mgx.convert(op.x, element_type(op.result))
