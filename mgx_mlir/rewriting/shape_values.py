"""The values of small integer tensors that hold sizes, in symbols, before the model runs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import Sizes
from mgx_mlir.sizes.arithmetic import Number, Size, exact, maximum, minimum

# Longer vectors hold data.
MAX_ELEMENTS = 64
_MOST_POWER = 8

Values = "np.ndarray"


class _UnknownError(Exception):
    """The value depends on a number that is known only at run time."""


def value_of(
    op: ir.OpView, operands: Sequence[np.ndarray | None], sizes: Sequence[Sizes]
) -> np.ndarray | None:
    """The value of an op's result: an array of ints and Sizes, or of booleans; None if unknown.

    operands: the values of the operands. sizes: the sizes of the operands.
    """
    type_ = ir.RankedTensorType(op.results[0].type)
    small = type_.has_static_shape and int(np.prod(type_.shape)) <= MAX_ELEMENTS
    if not small or not isinstance(type_.element_type, ir.IntegerType):
        return None
    if isinstance(op, mgx.ConstantOp):
        return mgx.constant_array(op).astype(object)
    if isinstance(op, mgx.DimensionsOfOp):
        start, end = op.start.value, op.end.value
        found = sizes[0][start:end]
        return None if None in found else _array(found, (end - start,))
    rule = _RULES.get(type(op))
    if rule is None or any(operand is None for operand in operands):
        return None
    try:
        return _shaped(rule(op, *operands), type_.shape)
    except (_UnknownError, IndexError):
        return None


def broadcast(x: Sizes, wanted: Sizes) -> Sizes | None:
    """The sizes of x broadcast with a shape; None where they are not known to fit."""
    result: Sizes = list(wanted)
    for place, size in enumerate(x, len(wanted) - len(x)):
        if wanted[place] == 1:
            result[place] = size
        elif size not in (1, wanted[place]):
            return None
    return result


def _array(values: Sequence[Any], shape: Sequence[int]) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array.reshape(shape)


def _shaped(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    return np.broadcast_to(np.asarray(array, object), tuple(shape))


def _elementwise(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def apply(op: ir.OpView, *operands: np.ndarray) -> np.ndarray:
        arrays = np.broadcast_arrays(*operands)
        values = [function(*parts) for parts in zip(*(a.reshape(-1) for a in arrays), strict=True)]
        return _array(values, arrays[0].shape)

    return apply


def _divide(a: Number, b: Number) -> Number:
    """The quotient, rounded towards 0."""
    whole = exact(a, b) if b != 0 else None
    if whole is not None:
        return whole
    if a >= 0 and b >= 1:
        return a // b
    raise _UnknownError


def _modulo(a: Number, b: Number) -> Number:
    """The rest of a division that rounds down."""
    if b >= 1:
        return a - b * (a // b)
    raise _UnknownError


def _power(a: Number, b: Number) -> Number:
    if isinstance(b, int) and 0 <= b <= _MOST_POWER:
        return math.prod([a] * b)
    raise _UnknownError


def _equal(a: Number, b: Number) -> bool:
    if a == b:
        return True
    if a < b or b < a:
        return False
    raise _UnknownError


def _less(a: Number, b: Number) -> bool:
    if a < b:
        return True
    if b <= a:
        return False
    raise _UnknownError


def _where(condition: bool, a: Any, b: Any) -> Any:
    return a if condition else b


def _gather(op: mgx.GatherOp, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    if any(isinstance(i, Size) for i in indices.reshape(-1)):
        raise _UnknownError
    return np.take(x, indices.astype(np.int64), axis=op.axis.value)


def _slice(op: mgx.SliceOp, x: np.ndarray) -> np.ndarray:
    places = [slice(None)] * x.ndim
    for axis, start, end in zip(op.axes, op.starts, op.ends, strict=True):
        places[axis] = slice(start, end)
    return x[tuple(places)]


def _step(op: mgx.StepOp, x: np.ndarray) -> np.ndarray:
    places = [slice(None)] * x.ndim
    for axis, step in zip(op.axes, op.steps, strict=True):
        places[axis] = slice(None, None, step)
    return x[tuple(places)]


def _reduce(function: Callable[[Any, Any], Any], start: int) -> Callable[..., np.ndarray]:
    def apply(op: mgx.ReduceProdOp | mgx.ReduceSumOp, x: np.ndarray) -> np.ndarray:
        if list(op.axes) != list(range(x.ndim)):
            raise _UnknownError
        return _array([functools.reduce(function, x.reshape(-1), start)], [1] * x.ndim)

    return apply


def _reshape(op: ir.OpView, x: np.ndarray) -> np.ndarray:
    return x.reshape(ir.RankedTensorType(op.results[0].type).shape)


_RULES: dict[type[ir.OpView], Callable[..., np.ndarray]] = {
    mgx.AbsOp: _elementwise(lambda a: maximum(a, -a)),
    mgx.AddOp: _elementwise(lambda a, b: a + b),
    mgx.ConcatOp: lambda op, *parts: np.concatenate(parts, axis=op.axis.value),
    mgx.ConvertOp: lambda op, x: x,
    mgx.DivOp: _elementwise(_divide),
    mgx.EqualOp: _elementwise(_equal),
    mgx.GatherOp: _gather,
    mgx.IdentityOp: lambda op, x: x,
    mgx.LessOp: _elementwise(_less),
    mgx.MaxOp: _elementwise(maximum),
    mgx.MinOp: _elementwise(minimum),
    mgx.ModOp: _elementwise(_modulo),
    mgx.MulOp: _elementwise(lambda a, b: a * b),
    mgx.MultibroadcastOp: lambda op, x: x,
    mgx.NegOp: _elementwise(lambda a: -a),
    mgx.PowOp: _elementwise(_power),
    mgx.ReduceProdOp: _reduce(lambda a, b: a * b, 1),
    mgx.ReduceSumOp: _reduce(lambda a, b: a + b, 0),
    mgx.ReshapeOp: _reshape,
    mgx.ReverseOp: lambda op, x: np.flip(x, tuple(op.axes)),
    mgx.SliceOp: _slice,
    mgx.SqueezeOp: _reshape,
    mgx.StepOp: _step,
    mgx.SubOp: _elementwise(lambda a, b: a - b),
    mgx.TransposeOp: lambda op, x: x.transpose(list(op.permutation)),
    mgx.UnsqueezeOp: _reshape,
    mgx.WhereOp: _elementwise(_where),
}
