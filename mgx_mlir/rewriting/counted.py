"""Values that are computed from sizes alone, where they are read: no memory has to hold them.

    %n = mgx.iota : tensor<?xi64, #mgx.dims<[seq]>>
    %d = mgx.dimensions_of %n start = 0 end = 1 : ... -> tensor<1xi64>

A number of a run's sizes is the length of a `mgx.iota`: it waits for no other value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import (
    create_like,
    definition,
    element_type,
    has_one_use,
    shape,
    splat,
)
from mgx_mlir.sizes.arithmetic import Size

# Up to this many ops, computing a value again costs less than a launch and its bytes.
_MOST_OPS = 8


def is_count(op: ir.OpView | None) -> bool:
    """Whether an op gives indices, or the length of indices."""
    if isinstance(op, mgx.DimensionsOfOp):
        op = definition(op.x)
    return isinstance(op, mgx.IotaOp)


def number_of(size: Size, type_: ir.Type) -> ir.Value:
    """A size that is never negative, as a tensor of one i64: of that type."""
    count = mgx.dimensions_of(mgx.iota(size, np.int64), 0, 1)
    dims = ir.RankedTensorType(type_).shape
    return count if count.type == type_ else mgx.reshape(count, list(dims))


def is_counted(value: ir.Value) -> bool:
    """Whether a few cheap pointwise ops, and views, compute a value from sizes alone.

    One input of the program may be among its leaves where nothing else reads what comes between,
    and the value, of symbolic sizes, is not known to repeat elements.
    """
    waiting, seen, inputs, counts, work = [value], {value}, list[ir.Value](), 0, 0
    alone = True
    while waiting and work <= _MOST_OPS and len(inputs) < 2:
        x = waiting.pop()
        op = definition(x)
        if splat(x) is not None:
            continue
        if is_count(op):
            counts += 1
        elif op is None:
            inputs.append(x)
        elif _is_read_through(op) or _is_cheap(op):
            alone = alone and has_one_use(x)
            work += mgx.is_pointwise(op)
            waiting += [operand for operand in op.operands if operand not in seen]
            seen.update(op.operands)
        else:
            return False
    if waiting or len(inputs) > 1 or work > _MOST_OPS:
        return False
    if not inputs:
        return counts > 0
    size = math.prod(shape(value))
    repeats = isinstance(size, int) or size > math.prod(shape(inputs[0]))
    return alone and work > 0 and not repeats


def recomputed(value: ir.Value, views: Sequence[ir.OpView] = ()) -> ir.Value:
    """Views of a value that is counted, as the same work on views of indices and lengths.

    views: the last one first.
    """
    op = definition(value)
    dims = shape(views[0].results[0] if views else value)
    if (number := splat(value)) is not None:
        return mgx.splat(number, mgx.tensor_type(dims, element_type(value)))
    if op is not None and mgx.is_pointwise(op):
        return create_like(op, [recomputed(x, views) for x in op.operands], dims)
    if op is not None and _is_read_through(op):
        return recomputed(op.operands[0], [*views, op])
    for view in reversed(views):
        value = create_like(view, [value], shape(view.results[0]), element_type(value))
    return value


def _is_read_through(op: ir.OpView) -> bool:
    return mgx.is_view(op) and len(op.operands) == 1


def _is_cheap(op: ir.OpView) -> bool:
    """Whether a pointwise op takes an instruction or few; integers divide slowly."""
    if not mgx.is_pointwise(op) or isinstance(op, (*mgx.COSTLY, mgx.DivOp, mgx.ModOp, mgx.FmodOp)):
        return False
    return all(shape(x) == shape(op.results[0]) for x in op.operands)
