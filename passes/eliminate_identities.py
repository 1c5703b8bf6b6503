"""mgx-eliminate-identities: erases ops whose result is their operand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import ml_dtypes
import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.patterns import PatternPass, rewrites
from mgx_mlir.rewriting.queries import definition, element_type, splat


@rewrites(*mgx.NEUTRAL_RIGHT)
def drop_neutral_operand(op: ir.OpView, context: PassContext) -> ir.Value | None:
    """x + 0, x - 0, x * 1, x / 1, x ^ 1 and the like are x."""
    a, b = op.operands
    for x, other in ((b, a), (a, b)) if isinstance(op, mgx.COMMUTATIVE) else ((a, b),):
        found = splat(other)
        if found is None or x.type != op.result.type:
            continue
        if found != np.asarray(mgx.NEUTRAL_RIGHT[type(op)]).astype(found.dtype):
            continue
        # -0 + 0 is 0, and so is -0 - -0.
        signed = found == 0 and isinstance(element_type(x), ir.FloatType)
        if not context.exact or not signed or np.signbit(found) == isinstance(op, mgx.AddOp):
            return x
    return None


@rewrites(mgx.ConvertOp)
def drop_wider_type(op: mgx.ConvertOp, context: PassContext) -> ir.Value | None:
    """A conversion to a type that holds every value of x's, and then to another, is one."""
    inner = definition(op.x)
    if not isinstance(inner, mgx.ConvertOp):
        return None
    kinds = [element_type(x) for x in (inner.x, op.x, op.result)]
    if not _holds(kinds[1], kinds[0]):
        return None
    # An integer that becomes another by way of a float saturates, one by itself wraps.
    if [isinstance(kind, ir.FloatType) for kind in kinds] == [False, True, False]:
        return None
    same = inner.x.type == op.result.type
    return inner.x if same else mgx.convert(inner.x, element_type(op.result), saturate=op.saturate)


@rewrites(mgx.DequantizelinearOp)
def drop_zero_point(op: mgx.DequantizelinearOp, context: PassContext) -> ir.Value | None:
    """A zero point of 0 is left out."""
    if op.zero_point is None or splat(op.zero_point) != 0:
        return None
    value = mgx.dequantizelinear(op.x, op.scale)
    return value if value.type == op.result.type else None


@dataclass(frozen=True)
class EliminateIdentities(PatternPass):
    """Removes x + 0, x - 0, x * 1, x / 1, x ^ 1 and the like.

    Before:  %1 = mgx.mul %0, %ones : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
             %2 = mgx.relu %1 : tensor<2xf32>
             %3 = mgx.relu %2 : tensor<2xf32>
    After:   %2 = mgx.relu %0 : tensor<2xf32>

    `%ones` may be a broadcast of a constant. A conversion to a type that holds every value of
    the first goes where another follows, and a zero point that is 0. Only removals that are
    exact for every value, NaN and infinity included, are made; -0.0 + 0 gives -0.0, but for
    `--exact`. The clean-up after the pass folds double negation, relu of relu and the like.
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-eliminate-identities"
    patterns: ClassVar = (
        drop_neutral_operand,
        drop_wider_type,
        drop_zero_point,
    )


def _holds(wide: ir.Type, narrow: ir.Type) -> bool:
    """Whether each value of type `narrow` is a value of type `wide`."""
    a, b = numpy_dtype(narrow), numpy_dtype(wide)
    if "bool" in (a.name, b.name):
        return False
    if not isinstance(narrow, ir.FloatType) and isinstance(wide, ir.FloatType):
        return bool(ml_dtypes.iinfo(a).bits <= ml_dtypes.finfo(b).nmant + 1)
    if isinstance(narrow, ir.FloatType):
        if not isinstance(wide, ir.FloatType):
            return False
        few, many = ml_dtypes.finfo(a), ml_dtypes.finfo(b)
        return bool(few.nmant <= many.nmant and few.nexp <= many.nexp)
    few_bits, many_bits = ml_dtypes.iinfo(a), ml_dtypes.iinfo(b)
    return bool(many_bits.min <= few_bits.min and few_bits.max <= many_bits.max)
