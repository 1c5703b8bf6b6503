"""mgx-eliminate-pads: padding becomes part of the window that reads it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.reference.meanings import enum
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import definition, with_operand

Window: TypeAlias = mgx.ConvolutionOp | mgx.PoolingOp | mgx.QuantConvolutionOp


@rewrites(mgx.ConvolutionOp, mgx.PoolingOp, mgx.QuantConvolutionOp)
def fold_pad(op: Window, context: PassContext) -> ir.Value | None:
    """A window over an image with padding is a window with padding over the image."""
    pad = definition(op.x)
    if not isinstance(pad, mgx.PadOp) or not is_border(pad) or not _takes(op, pad):
        return None
    counted = {}
    if isinstance(op, mgx.PoolingOp) and enum(op.mode) == "average":
        counted["count_include_pad"] = ir.BoolAttr.get(True)
    pads = ir.DenseI64ArrayAttr.get(joined_pads(op, pad))
    return with_operand(op, 0, pad.x, pads=pads, **counted)


@dataclass(frozen=True)
class EliminatePads(PatternPass):
    """Folds a pad of the spatial dimensions into the convolution or pooling that reads it.

    Before:  %p = mgx.pad %x low = [0, 0, 1, 1] high = [0, 0, 1, 1] : ...
             %y = mgx.convolution %p, %w pads = [0, 0, 0, 0] ...
    After:   %y = mgx.convolution %x, %w pads = [1, 1, 1, 1] ...

    A convolution and an average (which then counts the padding) take padding of zeros; a
    maximum takes one of -inf, or of zeros where no element is negative and each window sees
    one.
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-eliminate-pads"
    patterns: ClassVar = (fold_pad,)


def is_border(pad: mgx.PadOp) -> bool:
    """Whether a pad adds one value around the spatial dimensions."""
    low, high = list(pad.low), list(pad.high)
    return enum(pad.mode) == "constant" and not any(low[:2] + high[:2]) and min(low + high) >= 0


def _takes(op: Window, pad: mgx.PadOp) -> bool:
    value = pad.value.value
    if not isinstance(op, mgx.PoolingOp):
        return bool(value == 0) and not (isinstance(op, mgx.QuantConvolutionOp) and op.pad_value)
    if op.ceil_mode.value:
        return False
    match enum(op.mode):
        case "max":
            return value == -math.inf or (value == 0 and _is_max_of_some(op, pad))
        case "average":
            return value == 0 and (op.count_include_pad.value or not any(op.pads))
    return False


def _is_max_of_some(op: mgx.PoolingOp, pad: mgx.PadOp) -> bool:
    """Whether each window holds an element that is not negative."""
    # A window of dilated taps could step over all elements.
    if not isinstance(definition(pad.x), mgx.ReluOp) or any(d != 1 for d in op.dilations):
        return False
    return all(
        n < length for n, length in zip(joined_pads(op, pad), [*op.lengths] * 2, strict=True)
    )


def joined_pads(op: Window, pad: mgx.PadOp) -> list[int]:
    """The pads of a window over the image that a pad widens."""
    added = [*pad.low][2:] + [*pad.high][2:]
    return [a + b for a, b in zip(op.pads, added, strict=True)]
