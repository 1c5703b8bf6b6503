"""mgx-simplify-reshapes: chains of views become as short as they can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.graph import main_function
from mgx_mlir.pass_manager import Pass, PassContext
from mgx_mlir.rewriting import blocks, definition, erase_dead, op_name, replace, shape


@dataclass(frozen=True)
class SimplifyReshapes(Pass):
    """Merges reshapes with reshapes, transposes with transposes, broadcasts with broadcasts.

    Before:  %1 = mgx.transpose %0 permutation = [0, 2, 1] : tensor<1x8x1xf32> -> tensor<1x1x8xf32>
             %2 = mgx.reshape %1 : tensor<1x1x8xf32> -> tensor<8xf32>
    After:   %2 = mgx.reshape %0 : tensor<1x8x1xf32> -> tensor<8xf32>

    A transpose that moves only dimensions of size 1 is a reshape. A reshape that only adds
    leading dimensions of size 1 is part of the broadcast that follows it.
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-simplify-reshapes"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            # Operands come first in a block, so one walk sees each producer simplified.
            for op in list(block.operations):
                rule = _RULES.get(op.operation.name)
                if rule and _is_static(op):
                    with ir.InsertionPoint(op), op.operation.location:
                        rule(op)
            erase_dead(block)


def _is_static(op: ir.OpView) -> bool:
    values = [*op.operation.operands, *op.operation.results]
    return all(ir.RankedTensorType(value.type).has_static_shape for value in values)


def _reshape(op: ir.OpView) -> None:
    source = op.operation.operands[0]
    while op_name(producer := definition(source)) == "mgx.reshape":
        assert producer is not None
        source = producer.operation.operands[0]
    _replace_with_reshape(op, source)


def _replace_with_reshape(op: ir.OpView, source: ir.Value) -> None:
    result = op.operation.results[0]
    if source.type == result.type:
        replace(op, [source])
    elif op.operation.name != "mgx.reshape" or source != op.operation.operands[0]:
        replace(op, [mgx.ReshapeOp(result.type, source).result])


def _transpose(op: ir.OpView) -> None:
    source = op.operation.operands[0]
    permutation = _permutation(op)
    producer = definition(source)
    merged = op_name(producer) == "mgx.transpose"
    if merged:
        assert producer is not None
        inner = _permutation(producer)
        permutation = [inner[p] for p in permutation]
        source = producer.operation.operands[0]
    moved = [p for p in permutation if shape(source)[p] != 1]
    if moved == sorted(moved):
        # The elements keep their order. The source may be a reshape itself.
        while op_name(producer := definition(source)) == "mgx.reshape":
            assert producer is not None
            source = producer.operation.operands[0]
        _replace_with_reshape(op, source)
    elif merged:
        replace(op, [mgx.transpose(source, permutation)])


def _permutation(op: ir.OpView) -> list[int]:
    return list(ir.DenseI64ArrayAttr(op.operation.attributes["permutation"]))


def _multibroadcast(op: ir.OpView) -> None:
    source, result = op.operation.operands[0], op.operation.results[0]
    while True:
        producer = definition(source)
        name = op_name(producer)
        if name == "mgx.multibroadcast" or (name == "mgx.reshape" and _adds_leading_ones(producer)):
            assert producer is not None
            source = producer.operation.operands[0]
        else:
            break
    if shape(source) == shape(result):
        replace(op, [source])
    elif source != op.operation.operands[0]:
        replace(op, [mgx.MultibroadcastOp(result.type, source).result])


def _adds_leading_ones(op: ir.OpView | None) -> bool:
    assert op is not None
    before, after = shape(op.operation.operands[0]), shape(op.operation.results[0])
    extra = len(after) - len(before)
    return extra >= 0 and after == (1,) * extra + before


_RULES = {
    "mgx.reshape": _reshape,
    "mgx.transpose": _transpose,
    "mgx.multibroadcast": _multibroadcast,
}
