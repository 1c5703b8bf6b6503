"""Constants that are computed alike, such as expanded weights, as one that is computed so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.queries import definition, element_type, shape, splat
from mgx_mlir.rewriting.views import is_view

# Ops of a computation, at the most.
_DEEPEST = 16


def computed_together(
    values: Sequence[ir.Value],
    axis: int,
    join: Callable[[Sequence[ir.Value], int], ir.Value | None],
    deepest: int = _DEEPEST,
) -> ir.Value | None:
    """One value for several that the same ops compute from constants, at the insertion point.

    Its size along `axis` is the sum of theirs: `join` makes one stored constant of several, along
    the dimension that becomes the axis. None where the ops differ or mix what lies along it.
    """
    ops = [op for op in map(definition, values) if op is not None]
    if len(ops) < len(values) or not deepest:
        return None
    first = ops[0]
    sizes = [shape(value)[axis] for value in values]
    dims = [*shape(values[0])[:axis], sum(sizes), *shape(values[0])[axis + 1 :]]
    numbers = [splat(value) for value in values]
    if numbers[0] is not None and all(number == numbers[0] for number in numbers):
        return mgx.splat(numbers[0], mgx.tensor_type(dims, element_type(values[0])))
    if isinstance(first, mgx.SOURCES):
        return join(values, axis) if all(isinstance(op, mgx.SOURCES) for op in ops) else None
    if not first.operands or len({_text(op) for op in ops}) > 1:
        return None
    operands = []
    for number in range(len(first.operands)):
        own = [op.operands[number] for op in ops]
        place = _place(first, own[0], axis)
        if place is None:
            return None
        one = computed_together(own, place, join, deepest - 1)
        if one is None:
            return None
        operands.append(one)
    made = first.operation.clone()
    for number, operand in enumerate(operands):
        made.operands[number] = operand
    made.results[0].set_type(mgx.tensor_type(dims, element_type(values[0])))
    value: ir.Value = made.results[0]
    return value


def _text(op: ir.OpView) -> str:
    """An op's name, attributes, element types and bodies, without its operands and sizes."""
    attributes = [f"{name} = {op.attributes[name]}" for name in op.attributes]
    bodies = [str(inner) for region in op.regions for block in region.blocks for inner in block]
    types = [str(element_type(value)) for value in (*op.operands, op.results[0])]
    return "\n".join([op.operation.name, *attributes, *types, *bodies])


def _place(op: ir.OpView, operand: ir.Value, axis: int) -> int | None:
    """The dimension of an operand that becomes a dimension of the result, element by element."""
    dims, have = shape(op.results[0]), shape(operand)
    if isinstance(op, mgx.TransposeOp):
        return list(op.permutation)[axis]
    if isinstance(op, mgx.MultibroadcastOp):
        place = axis - (len(dims) - len(have))
        return place if place >= 0 and have[place] == dims[axis] else None
    if isinstance(op, mgx.RESHAPES):
        return axis if axis < len(have) and have[: axis + 1] == dims[: axis + 1] else None
    if isinstance(op, mgx.UnpackOp):
        return axis if axis < len(dims) - 1 else None
    alike = not is_view(op) and (mgx.is_pointwise(op) or isinstance(op, mgx.PointwiseOp))
    return axis if alike and have == dims else None
