"""mgx-eliminate-identities: erases ops whose result is their operand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import ml_dtypes
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.rewriting.graph import main_function, node_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.queries import (
    blocks,
    definition,
    element_type,
    erase_dead,
    op_name,
    replace,
    splat,
)

# For each op: (operand, value) where an operand whose elements are all this value is neutral.
_NEUTRAL = {
    "mgx.add": ((0, 0), (1, 0)),
    "mgx.sub": ((1, 0),),
    "mgx.mul": ((0, 1), (1, 1)),
    "mgx.div": ((1, 1),),
    "mgx.pow": ((1, 1),),
    "mgx.logical_or": ((0, 0), (1, 0)),
    "mgx.logical_and": ((0, 1), (1, 1)),
}
# Ops that are their own inverse, and ops whose second application changes nothing.
_INVOLUTIONS = frozenset({"mgx.neg", "mgx.not", "mgx.bitwise_not"})
_IDEMPOTENT = frozenset(
    {"mgx.abs", "mgx.ceil", "mgx.floor", "mgx.nearbyint", "mgx.relu", "mgx.sign"}
)


@dataclass(frozen=True)
class EliminateIdentities(Pass):
    """Removes x + 0, x - 0, x * 1, x / 1, x ^ 1, double negation, relu of relu and the like.

    Before:  %1 = mgx.mul %0, %ones : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
             %2 = mgx.relu %1 : tensor<2xf32>
             %3 = mgx.relu %2 : tensor<2xf32>
    After:   %2 = mgx.relu %0 : tensor<2xf32>

    `%ones` may be a broadcast of a constant. A conversion to a type that holds every value of
    the first goes where another follows, and a zero point that is 0. Only removals that are
    exact for every value, NaN and infinity included, are made; -0.0 + 0 gives -0.0.
    """

    cleanup: ClassVar[bool] = True
    symbolic: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-eliminate-identities"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                value = _same_value(op)
                with ir.InsertionPoint(op), op.operation.location:
                    value = value or _shorter(op)
                if value is not None and value.type == op.operation.results[0].type:
                    context.note("identity", node_name(op))
                    replace(op, [value])
            erase_dead(block)


def _same_value(op: ir.OpView) -> ir.Value | None:
    """The value that the op's result always equals, if there is one."""
    operation = op.operation
    for position, neutral in _NEUTRAL.get(operation.name, ()):
        found = splat(operation.operands[position])
        if found is not None and found == neutral:
            return operation.operands[1 - position]
    if operation.name in _INVOLUTIONS | _IDEMPOTENT:
        inner = definition(operation.operands[0])
        if op_name(inner) == operation.name:
            assert inner is not None
            undo = operation.name in _INVOLUTIONS
            return inner.operation.operands[0] if undo else operation.operands[0]
    if operation.name == "mgx.convert":
        inner = definition(operation.operands[0])
        if op_name(inner) == "mgx.convert":
            assert inner is not None
            source = inner.operation.operands[0]
            wide = element_type(operation.operands[0])
            if source.type == operation.results[0].type and _holds(wide, element_type(source)):
                return source
    return None


def _shorter(op: ir.OpView) -> ir.Value | None:
    """The op's result without the step or the operand that does not change it."""
    operands = op.operation.operands
    if op.operation.name == "mgx.convert":
        inner = definition(operands[0])
        if op_name(inner) != "mgx.convert":
            return None
        assert inner is not None
        source = inner.operation.operands[0]
        if _holds(element_type(operands[0]), element_type(source)):
            return mgx.convert(source, element_type(op.operation.results[0]))
    is_dequantized = op.operation.name == "mgx.dequantizelinear"
    if is_dequantized and len(operands) == 3 and splat(operands[2]) == 0:
        return mgx.dequantizelinear(operands[0], operands[1])
    return None


def _holds(wide: ir.Type, narrow: ir.Type) -> bool:
    """Whether each value of type `narrow` is a value of type `wide`."""
    a, b = numpy_dtype(narrow), numpy_dtype(wide)
    if isinstance(narrow, ir.FloatType) != isinstance(wide, ir.FloatType):
        return False
    if isinstance(narrow, ir.FloatType):
        few, many = ml_dtypes.finfo(a), ml_dtypes.finfo(b)
        return bool(few.nmant <= many.nmant and few.nexp <= many.nexp)
    if "bool" in (a.name, b.name):
        return False
    few_bits, many_bits = ml_dtypes.iinfo(a), ml_dtypes.iinfo(b)
    return bool(many_bits.min <= few_bits.min and few_bits.max <= many_bits.max)
