"""The values of small integer tensors that hold sizes, in symbols, before the model runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import Sizes
from mgx_mlir.sizes.arithmetic import Number, Size, exact

# Longer vectors hold data.
MAX_ELEMENTS = 64

Values = "np.ndarray"


class _UnknownError(Exception):
    """The value depends on a number that is known only at run time."""


def value_of(
    op: ir.OpView, operands: Sequence[np.ndarray | None], sizes: Sequence[Sizes]
) -> np.ndarray | None:
    """The value of an op's result: an array of ints and Sizes, or of booleans; None if unknown.

    operands: the values of the operands. sizes: the sizes of the operands.
    """
    type_ = ir.RankedTensorType(op.operation.results[0].type)
    small = type_.has_static_shape and int(np.prod(type_.shape)) <= MAX_ELEMENTS
    if not small or not isinstance(type_.element_type, ir.IntegerType):
        return None
    name = op.operation.name.removeprefix("mgx.")
    if name == "constant":
        return mgx.constant_array(op).astype(object)
    if name == "dimensions_of":
        start, end = (_integer(op, word) for word in ("start", "end"))
        found = sizes[0][start:end]
        return None if None in found else _array(found, (end - start,))
    rule = _RULES.get(name)
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


def _integer(op: ir.OpView, name: str) -> int:
    return int(ir.IntegerAttr(op.operation.attributes[name]).value)


def _integers(op: ir.OpView, name: str) -> list[int]:
    return list(ir.DenseI64ArrayAttr(op.operation.attributes[name]))


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


def _max(a: Number, b: Number) -> Number:
    return b if _less(a, b) else a


def _abs(a: Number) -> Number:
    return -a if _less(a, 0) else a


def _where(condition: bool, a: Any, b: Any) -> Any:
    return a if condition else b


def _gather(op: ir.OpView, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    if any(isinstance(i, Size) for i in indices.reshape(-1)):
        raise _UnknownError
    return np.take(x, indices.astype(np.int64), axis=_integer(op, "axis"))


def _slice(op: ir.OpView, x: np.ndarray) -> np.ndarray:
    places = [slice(None)] * x.ndim
    for axis, start, end in zip(
        *(_integers(op, n) for n in ("axes", "starts", "ends")), strict=True
    ):
        places[axis] = slice(start, end)
    return x[tuple(places)]


def _step(op: ir.OpView, x: np.ndarray) -> np.ndarray:
    places = [slice(None)] * x.ndim
    for axis, step in zip(*(_integers(op, n) for n in ("axes", "steps")), strict=True):
        places[axis] = slice(None, None, step)
    return x[tuple(places)]


def _reduce(function: Callable[[Any, Any], Any], start: int) -> Callable[..., np.ndarray]:
    def apply(op: ir.OpView, x: np.ndarray) -> np.ndarray:
        if _integers(op, "axes") != list(range(x.ndim)):
            raise _UnknownError
        return _array([functools.reduce(function, x.reshape(-1), start)], [1] * x.ndim)

    return apply


def _reshape(op: ir.OpView, x: np.ndarray) -> np.ndarray:
    return x.reshape(ir.RankedTensorType(op.operation.results[0].type).shape)


_RULES: dict[str, Callable[..., np.ndarray]] = {
    "abs": _elementwise(_abs),
    "add": _elementwise(lambda a, b: a + b),
    "concat": lambda op, *parts: np.concatenate(parts, axis=_integer(op, "axis")),
    "convert": lambda op, x: x,
    "div": _elementwise(_divide),
    "equal": _elementwise(_equal),
    "gather": _gather,
    "identity": lambda op, x: x,
    "less": _elementwise(_less),
    "max": _elementwise(_max),
    "mul": _elementwise(lambda a, b: a * b),
    "multibroadcast": lambda op, x: x,
    "neg": _elementwise(lambda a: -a),
    "reduce_prod": _reduce(lambda a, b: a * b, 1),
    "reduce_sum": _reduce(lambda a, b: a + b, 0),
    "reshape": _reshape,
    "slice": _slice,
    "squeeze": _reshape,
    "step": _step,
    "sub": _elementwise(lambda a, b: a - b),
    "unsqueeze": _reshape,
    "where": _elementwise(_where),
}
