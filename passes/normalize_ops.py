"""mgx-normalize-ops: one form for each computation, so that later passes match one."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import broadcast_source, has_sizes, is_static, shape, source_sizes


@rewrites(mgx.ContiguousOp, mgx.IdentityOp)
def drop_identity(op: mgx.ContiguousOp | mgx.IdentityOp, context: PassContext) -> ir.Value | None:
    """The operand itself."""
    return op.x


@rewrites(mgx.FlattenOp, mgx.SqueezeOp, mgx.UnsqueezeOp)
def write_as_reshape(
    op: mgx.FlattenOp | mgx.SqueezeOp | mgx.UnsqueezeOp, context: PassContext
) -> ir.Value | None:
    """A reshape to the type of the result."""
    if not op.y.type.has_static_shape:
        return None
    return mgx.ReshapeOp(op.y.type, op.x).result


@rewrites(mgx.BroadcastOp)
def write_as_multibroadcast(op: mgx.BroadcastOp, context: PassContext) -> ir.Value | None:
    """A reshape that adds the dimensions behind the operand's, and a multibroadcast."""
    source, result = op.x.type, op.y.type
    if not (source.has_static_shape and result.has_static_shape):
        return None
    trailing = result.rank - op.axis.value - source.rank
    padded = mgx.reshape(op.x, [*source.shape, *[1] * trailing])
    return mgx.MultibroadcastOp(result, padded).result


@rewrites(mgx.DotOp)
def multiply_all_rows_by_one_matrix(op: mgx.DotOp, context: PassContext) -> ir.Value | None:
    """A batch of products with the same right operand as one product with more rows.

    The importer does so where the sizes are known.
    """
    *batch, rows, depth = shape(op.a)
    source, dims = broadcast_source(op.b), source_sizes(op.b)
    if is_static(op) or not has_sizes(op) or not batch or any(size != 1 for size in dims[:-2]):
        return None
    flat = mgx.reshape(op.a, [prod([*batch, rows]), depth])
    matrix = source if len(shape(source)) == 2 else mgx.reshape(source, dims[-2:])
    return mgx.reshape(mgx.dot(flat, matrix), shape(op.c))


@dataclass(frozen=True)
class NormalizeOps(PatternPass):
    """Writes squeeze, unsqueeze and flatten as reshape, broadcast as multibroadcast.

    Before:  %1 = mgx.unsqueeze %0 axes = [0] : tensor<3xf32> -> tensor<1x3xf32>
             %2 = mgx.broadcast %0 axis = 1 : tensor<3xf32> -> tensor<2x3x4xf32>
    After:   %1 = mgx.reshape %0 : tensor<3xf32> -> tensor<1x3xf32>
             %r = mgx.reshape %0 : tensor<3xf32> -> tensor<3x1xf32>
             %2 = mgx.multibroadcast %r : tensor<3x1xf32> -> tensor<2x3x4xf32>

    Identity and contiguous, which say nothing about values, go away. Shapes that are not
    static are left as they are, but rows of any number of matrices that one matrix multiplies are
    one product's.
    """

    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-normalize-ops"
    patterns: ClassVar = (
        drop_identity,
        write_as_reshape,
        write_as_multibroadcast,
        multiply_all_rows_by_one_matrix,
    )
