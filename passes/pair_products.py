"""mgx-pair-products: two products that only their pointwise work brings together become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.alike import computed_together
from mgx_mlir.rewriting.fusing import contraction_of
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    definition,
    element_type,
    erase_dead,
    fused_location,
    has_one_use,
    shape,
)
from mgx_mlir.rewriting.topology import sort_topologically

# Columns of each product are a multiple of this: kernels store whole vectors of results.
_COLUMNS = 16


@dataclass(frozen=True)
class PairProducts(Pass):
    """Makes one product of two that share rows and that one `mgx.pointwise` alone reads.

    Before:  %g = mgx.dot %x, %v : tensor<8x64xf16>, tensor<64x32xf16> -> tensor<8x32xf16>
             %u = mgx.dot %x, %w : tensor<8x64xf16>, tensor<64x32xf16> -> tensor<8x32xf16>
             %y = mgx.pointwise(%g, %u) ...        // silu(%g) * %u
    After:   %p = mgx.dot %x, %vw : ..., tensor<64x64xf16> -> tensor<8x64xf16>
             %g = mgx.step %p axes = [1] steps = [2] : ... -> tensor<8x32xf16>
             %s = mgx.slice %p axes = [1] starts = [1] ends = [64] : ... -> tensor<8x63xf16>
             %u = mgx.step %s axes = [1] steps = [2] : ... -> tensor<8x32xf16>
             %y = mgx.pointwise(%g, %u) ...

    The weights' columns alternate, so that a thread has both factors: all is one kernel, and the
    gate of a gated layer is never written. Weights of few bits that the kernel expands as it reads
    them are expanded so. New weights have at most `max_bytes` bytes. Programs for CPUs alone keep
    two products, which cost them nothing.
    """

    max_bytes: int = 1 << 28

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-pair-products"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        if context.kind == "cpu":
            return
        for block in blocks(main_function(module)):
            tried = False
            for op in list(block.operations):
                if not isinstance(op, mgx.PointwiseOp) or (pair := self._pair(op)) is None:
                    continue
                weights, tried = _alternating(pair, context), True
                if weights is not None:
                    context.note("2 products", node_name(op))
                    _join(op, pair, weights)
            if tried:
                sort_topologically(block)
                erase_dead(block)

    def _pair(self, pointwise: mgx.PointwiseOp) -> tuple[mgx.DotOp, mgx.DotOp] | None:
        """The product whose epilogue an op is, and the other one, in the order of its inputs."""
        last = contraction_of(pointwise)
        if not isinstance(last, mgx.DotOp) or not self._is_plain(last):
            return None
        block = last.operation.block
        for value in pointwise.inputs:
            other = definition(value)
            if not isinstance(other, mgx.DotOp) or other == last or not has_one_use(value):
                continue
            alike = other.a == last.a and other.b.type == last.b.type and value.type == last.c.type
            if alike and other.operation.block == block and self._is_plain(other):
                inputs = list(pointwise.inputs)
                first, second = sorted((last, other), key=lambda dot: inputs.index(dot.c))
                return first, second
        return None

    def _is_plain(self, dot: mgx.DotOp) -> bool:
        """Whether an op multiplies rows by a matrix of floats."""
        weights = ir.RankedTensorType(dot.b.type)
        return (
            weights.has_static_shape
            and weights.rank == 2
            and weights.shape[1] % _COLUMNS == 0
            and isinstance(element_type(dot.b), ir.FloatType)
            and 2 * mgx.byte_size(dot.b.type) <= self.max_bytes
        )


def _alternating(pair: tuple[mgx.DotOp, mgx.DotOp], context: PassContext) -> ir.Value | None:
    """The columns of two weights in turn; None where they are not stored or computed alike."""

    weights = context.weights

    def join(values: Sequence[ir.Value], axis: int) -> ir.Value | None:
        keys = []
        for value in values:
            op = definition(value)
            if isinstance(op, mgx.ConstantOp):
                keys.append(weights.add_array(mgx.constant_array(op)))
            elif isinstance(op, mgx.LiteralOp) and op.key.value in weights:
                keys.append(op.key.value)
        if len(keys) < len(values):
            return None
        key = weights.add_alternating(keys, axis)
        type_ = ir.RankedTensorType.get(weights[key].shape, element_type(values[0]))
        return mgx.literal(key, type_)

    with ir.InsertionPoint(pair[1]), fused_location(pair):
        return computed_together([dot.b for dot in pair], 1, join)


def _join(pointwise: mgx.PointwiseOp, pair: tuple[mgx.DotOp, mgx.DotOp], weights: ir.Value) -> None:
    """Replaces the operands of an op by the even and the odd columns of one product."""
    rows, columns = pair[0].a, shape(weights)[-1]
    *outer, _ = shape(pair[0].c)
    last, element = len(outer), element_type(pair[0].c)
    with ir.InsertionPoint(pointwise), fused_location(pair):
        type_ = mgx.tensor_type([*outer, columns], element)
        both = mgx.DotOp(rows, weights, results=[type_]).c
        type_ = mgx.tensor_type([*outer, columns - 1], element)
        later = mgx.SliceOp(both, [last], [1], [columns], results=[type_]).y
        for dot, x in zip(pair, (both, later), strict=True):
            half = mgx.StepOp(x, [last], [2], results=[dot.c.type]).y
            dot.c.replace_all_uses_with(half)
