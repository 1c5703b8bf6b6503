"""Matches kernels that are a local response normalization."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from mgx_mlir.codegen.gpu.builders.operands import MemoryOperand
from mgx_mlir.codegen.gpu.families.family import anchor_of
from mgx_mlir.codegen.meaning.element import element_of
from mgx_mlir.codegen.problem.views import resolve
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.dialects import mgx

# The most channels of a sum; the generic path sums more in a loop.
MAX_SIZE = 16


@dataclass(frozen=True)
class Lrn:
    """x / (bias + alpha / size * sum of squares of `size` channels)^beta.

    `source` has images and channels as its outer index, `pixels` as its inner one.
    """

    images: int
    channels: int
    pixels: int
    source: MemoryOperand
    size: int
    alpha: float
    beta: float
    bias: float
    name: ClassVar[str] = mgx.LrnOp.OPERATION_NAME


def match_lrn(kernel: mgx.KernelOp) -> Lrn | Refusal | None:
    """The kernel as a normalization, or why it does not match; None where it holds other work."""
    op = anchor_of(kernel, mgx.LrnOp)
    if op is None or isinstance(op, Refusal):
        return op
    view = resolve(op.operands[0])
    if view is None:
        return Refusal(f"{Lrn.name}: an input that is no strided view")
    element = element_of(op.results[0].type)
    if not element.is_float or element.is_byte_float:
        return Refusal(f"{Lrn.name}: elements of type {element.name}")
    if op.size.value > MAX_SIZE:
        return Refusal(f"{Lrn.name}: {op.size.value} channels are more than {MAX_SIZE}")
    images, channels, *rest = view.shape
    source = MemoryOperand(
        view.argument, element, view.offset, view.axis(0, 2), view.axis(2, len(view.shape))
    )
    numbers = op.alpha.value, op.beta.value, op.bias.value
    return Lrn(images, channels, math.prod(rest), source, op.size.value, *numbers)
