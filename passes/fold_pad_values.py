"""mgx-fold-pad-values: convolutions of integers pad with a number other than 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.passes.eliminate_pads import is_border, joined_pads
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import definition, element_type, with_operand


@rewrites(mgx.QuantConvolutionOp)
def fold_pad_value(op: mgx.QuantConvolutionOp, context: PassContext) -> ir.Value | None:
    """A convolution of an image with a border pads the image with the border's number."""
    pad = definition(op.x)
    if not isinstance(pad, mgx.PadOp) or not is_border(pad) or any(op.pads):
        return None
    if not isinstance(element_type(op.x), ir.IntegerType):
        return None
    value = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(pad.value.value))
    pads = ir.DenseI64ArrayAttr.get(joined_pads(op, pad))
    return with_operand(op, 0, pad.x, pads=pads, pad_value=value)


@dataclass(frozen=True)
class FoldPadValues(PatternPass):
    """Folds a border of one number into the convolution of 8-bit integers that reads it.

    Before:  %p = mgx.pad %x low = [0, 0, 1, 1] high = [0, 0, 1, 1] {value = 3.0 : f32} : ...
             %y = mgx.quant_convolution %p, %w pads = [0, 0, 0, 0] ...
    After:   %y = mgx.quant_convolution %x, %w pads = [1, 1, 1, 1] ... {pad_value = 3 : i64}

    The number is the zero point of x (see mgx-simplify-quantized): as padding stands for 0, each
    result of a channel has the same offset, also at the borders.
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    since: ClassVar[tuple[int, int]] = (1, 1)
    name: ClassVar[str] = "mgx-fold-pad-values"
    patterns: ClassVar = (fold_pad_value,)
