"""mgx-sink-reshapes: pointwise work is done in the shape that its producer has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.graph import main_function, node_name
from mgx_mlir.pass_manager import Pass, PassContext
from mgx_mlir.rewriting import (
    CONTRACTIONS,
    blocks,
    broadcast_source,
    definition,
    element_type,
    erase_dead,
    op_name,
    replace,
    shape,
    splat,
    users,
)


@dataclass(frozen=True)
class SinkReshapes(Pass):
    """Moves a reshape of a contraction, or of pointwise work, below the pointwise op that reads it.

    Before:  %r = mgx.reshape %dot : tensor<128x384xf32> -> tensor<1x128x384xf32>
             %y = mgx.add %r, %bias : tensor<1x128x384xf32>, ...
    After:   %a = mgx.add %dot, %bias' : tensor<128x384xf32>, ...
             %y = mgx.reshape %a : tensor<128x384xf32> -> tensor<1x128x384xf32>

    The other operands are reshaped, which costs nothing; a broadcast among them has to be
    one in the new shape too, so it must be of one element or only gain or lose dimensions
    of size 1. The reshape stays where anything but pointwise ops reads it.
    """

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-sink-reshapes"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        for block in blocks(main_function(module)):
            for op in list(block.operations):
                if op.operation.name in mgx.POINTWISE:
                    with ir.InsertionPoint(op), op.operation.location:
                        _sink(op, context)
            erase_dead(block)


def _sink(op: ir.OpView, context: PassContext) -> None:
    source = next((s for v in op.operation.operands if (s := _source(v)) is not None), None)
    if source is None:
        return
    before, after = shape(op.operation.results[0]), shape(source)
    if not all(_fits(value, before, after) for value in op.operation.operands):
        return
    context.note("reshape", node_name(op))
    operands = [_in_shape(value, after) for value in op.operation.operands]
    result = op.operation.results[0].type
    moved = ir.Operation.create(
        op.operation.name,
        results=[ir.RankedTensorType.get(after, ir.RankedTensorType(result).element_type)],
        operands=operands,
        attributes={name: op.operation.attributes[name] for name in op.operation.attributes},
    )
    replace(op, [mgx.ReshapeOp(result, moved.results[0]).result])


def _source(value: ir.Value) -> ir.Value | None:
    """What a reshape is of, where the reshape can sink."""
    reshape = definition(value)
    if op_name(reshape) != "mgx.reshape" or not _all_pointwise(users(value)):
        return None
    assert reshape is not None
    source = reshape.operation.operands[0]
    producer = op_name(definition(source))
    others = [user for user in users(source) if user.operation != reshape.operation]
    if producer not in CONTRACTIONS and producer not in mgx.POINTWISE:
        return None
    return source if _all_pointwise(others) else None


def _all_pointwise(ops: list[ir.OpView]) -> bool:
    return all(op.operation.name in mgx.POINTWISE for op in ops)


def _fits(value: ir.Value, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    if splat(value) is not None or op_name(definition(value)) != "mgx.multibroadcast":
        return True
    return [d for d in before if d != 1] == [d for d in after if d != 1]


def _in_shape(value: ir.Value, dims: tuple[int, ...]) -> ir.Value:
    number = splat(value)
    if number is not None:
        return mgx.splat(number, ir.RankedTensorType.get(dims, element_type(value)))
    producer = definition(value)
    if op_name(producer) == "mgx.multibroadcast":
        return _broadcast_in_shape(value, dims)
    while op_name(producer) == "mgx.reshape":
        assert producer is not None
        value = producer.operation.operands[0]
        producer = definition(value)
    return value if shape(value) == dims else mgx.reshape(value, list(dims))


def _broadcast_in_shape(value: ir.Value, dims: tuple[int, ...]) -> ir.Value:
    """The broadcast to a shape that differs from the value's in dimensions of size 1 only."""
    source = broadcast_source(value)
    sizes = (1,) * (len(shape(value)) - len(shape(source))) + shape(source)
    # The source's sizes at the dimensions that are not 1, in order.
    kept = iter([s for s, d in zip(sizes, shape(value), strict=True) if d != 1])
    wanted = [next(kept) if d != 1 else 1 for d in dims]
    reshaped = source if list(shape(source)) == wanted else mgx.reshape(source, wanted)
    return mgx.multibroadcast(reshaped, list(dims))
