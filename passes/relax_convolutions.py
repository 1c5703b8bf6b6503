"""mgx-relax-convolutions: convolutions that kernels may compute by Winograd's formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.graph import main_function
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import blocks, element_type, has_sizes, shape


@dataclass(frozen=True)
class RelaxConvolutions(Pass):
    """Marks convolutions of f32 with channels last whose windows have 3x3 elements and step 1.

    Before:  %y = mgx.convolution %x, %w strides = [1, 1] ... {channels_last} : ...
    After:   %y = mgx.convolution %x, %w strides = [1, 1] ... {channels_last, relaxed} : ...

    A kernel may then sum transformed products, where its estimate says that this is faster: 36
    multiplications for 16 results instead of 144. The rounding error is about twice as large.
    Kernels of CPUs do so.
    """

    name: ClassVar[str] = "mgx-relax-convolutions"
    rounds: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in block.operations:
                if isinstance(op, mgx.ConvolutionOp) and has_sizes(op) and _may_gain(op):
                    op.relaxed = True


def _may_gain(op: mgx.ConvolutionOp) -> bool:
    _, *window, _ = shape(op.w)
    return (
        bool(op.channels_last)
        and window == [3, 3]
        and list(op.strides) == list(op.dilations) == [1, 1]
        and isinstance(element_type(op.x), ir.F32Type)
    )
