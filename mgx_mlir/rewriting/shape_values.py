"""The values of small integer tensors that hold sizes, in symbols, before the model runs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.rewriting.symbolic import Sizes
from mgx_mlir.scopes import holding
from mgx_mlir.sizes import cases
from mgx_mlir.sizes.arithmetic import Number, Size, exact, maximum, minimum, root, symbols
from mgx_mlir.sizes.cases import Case, UnknownError

# Longer vectors hold data.
MAX_ELEMENTS = 64
_MOST_POWER = 8
# The largest denominator of a factor of sizes.
_MOST_PARTS = 1 << 10

Values = "np.ndarray"


# What takes a number that values are computed as if it were never below 0.
_assume: ContextVar[Callable[[Size], None] | None] = ContextVar("assume", default=None)


def assuming(assume: Callable[[Size], None]) -> AbstractContextManager[object]:
    """Inside, values may be computed that hold only where some numbers are not below 0."""
    return holding(_assume, assume)


def value_of(
    op: ir.OpView, operands: Sequence[np.ndarray | None], sizes: Sequence[Sizes]
) -> np.ndarray | None:
    """The value of an op's result: an array of ints and Sizes, or of booleans; None if unknown.

    Where unproven comparisons decide they are Cases, of which `plain` makes Sizes. Floats, as
    exporters scale sizes by, may be Fractions and Ratios too. operands: the values of the
    operands. sizes: the sizes of the operands.
    """
    type_ = ir.RankedTensorType(op.results[0].type)
    small = type_.has_static_shape and int(np.prod(type_.shape)) <= MAX_ELEMENTS
    if not small:
        return None
    if isinstance(op, mgx.ConstantOp):
        return constants(mgx.constant_array(op))
    if isinstance(op, mgx.DimensionsOfOp):
        start, end = op.start.value, op.end.value
        found = sizes[0][start:end]
        return None if None in found else _array(found, (end - start,))
    floats = any(_is_float(operand.type) for operand in op.operands)
    rule = (_OF_FLOATS if floats else _RULES).get(type(op))
    if rule is None or any(operand is None for operand in operands):
        return None
    try:
        return _held(_shaped(rule(op, *operands), type_.shape), type_.element_type)
    except (UnknownError, IndexError):
        return None


def plain(values: np.ndarray) -> np.ndarray:
    """The values without Cases: each a formula."""
    return _array([cases.plain(value) for value in values.reshape(-1)], values.shape)


def constants(array: np.ndarray) -> np.ndarray | None:
    """The numbers of a constant, floats as Fractions; None where one is not finite."""
    if array.dtype.kind in "iub":
        return array.astype(object)
    numbers = array.astype(np.float64).reshape(-1)
    if array.dtype.kind != "f" or numbers.size > MAX_ELEMENTS or not np.isfinite(numbers).all():
        return None
    return _array([Fraction(float(number)) for number in numbers], array.shape)


def names(values: np.ndarray) -> set[str]:
    """The names of the symbols that values are formulas of."""
    found: set[str] = set()
    parts = list(values.reshape(-1))
    while parts:
        part = parts.pop()
        if isinstance(part, Case):
            parts += [part.test.size, part.yes, part.no]
        elif isinstance(part, Ratio):
            parts.append(part.size)
        elif isinstance(part, Size):
            found |= {symbol.name for symbol in symbols(part)}
    return found


def _is_boolean(type_: ir.Type) -> bool:
    element = ir.RankedTensorType(type_).element_type
    return isinstance(element, ir.IntegerType) and element.width == 1


def _is_float(type_: ir.Type) -> bool:
    return isinstance(ir.RankedTensorType(type_).element_type, ir.FloatType)


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


def _held(values: np.ndarray, element: ir.Type) -> np.ndarray:
    """The values, where an integer of few bits holds them for certain: it wraps others."""
    if isinstance(element, ir.IntegerType) and 1 < element.width < 32:
        count = 1 << element.width
        low = 0 if element.is_unsigned else -count // 2
        numbers = [x for x in values.reshape(-1) if isinstance(x, int | Size)]
        if len(numbers) < values.size or not all(low <= x < low + count for x in numbers):
            raise UnknownError
    return values


def _elementwise(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    return _pairwise(cases.lifted(function))


def _pairwise(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """The rule of a function that takes Cases itself."""

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
    b = _positive(b)
    if not a >= 0 and isinstance(a, Size) and (assume := _assume.get()) is not None:
        if any(factor < 0 for atoms, factor in a.terms if atoms):
            raise UnknownError  # as sizes grow it is below 0
        assume(a)
        return a // b
    if a >= 0:
        return a // b
    raise UnknownError


def _modulo(a: Number, b: Number) -> Number:
    """The rest of a division that rounds down."""
    rest = a - b * (a // _positive(b))
    # Proofs do not know that the rest of a number is not below 0.
    return maximum(rest, 0) if isinstance(a, int) else rest


def _positive(divisor: Number) -> Number:
    """A divisor as a number that is 1 or more: where it is 0, no quotient is defined."""
    if (isinstance(divisor, int) and divisor < 1) or not divisor >= 0:
        raise UnknownError
    return maximum(divisor, 1)


def _power(a: Number, b: Number) -> Number:
    if isinstance(b, int) and 0 <= b <= _MOST_POWER:
        return math.prod([a] * b)
    raise UnknownError


def _where(condition: bool, a: Any, b: Any) -> Any:
    return a if condition else b


def _gather(op: mgx.GatherOp, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    if any(isinstance(i, Size) for i in indices.reshape(-1)):
        raise UnknownError
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
            raise UnknownError
        each = cases.lifted(function)
        return _array([functools.reduce(each, x.reshape(-1), start)], [1] * x.ndim)

    return apply


def _reshape(op: ir.OpView, x: np.ndarray) -> np.ndarray:
    return x.reshape(ir.RankedTensorType(op.results[0].type).shape)


@dataclass(frozen=True)
class Ratio:
    """A size over a number that may not divide it."""

    size: Number
    divisor: int


Real: TypeAlias = "Number | Fraction | Ratio"


def _scaled(a: Real, b: Real) -> Real:
    """The product, of which one factor at least is a number."""
    if isinstance(a, Fraction | int):
        a, b = b, a
    if isinstance(a, Ratio):
        return _scaled(a.size, _fraction(b) / a.divisor)
    factor = _fraction(b)
    if not isinstance(a, Size):
        return _fraction(a) * factor
    size = a * factor.numerator
    whole = exact(size, factor.denominator)
    if whole is not None:
        return whole
    assert isinstance(size, Size)
    return Ratio(size, factor.denominator)


def _fraction(a: Real) -> Fraction:
    """The number as it is; one that floats would round is not known."""
    if not isinstance(a, Fraction | int) or Fraction(a).denominator > _MOST_PARTS:
        raise UnknownError
    return Fraction(a)


def _over(a: Real, b: Real) -> Real:
    if b == 0:
        raise UnknownError
    return _scaled(a, 1 / _fraction(b))


def _added(a: Real, b: Real) -> Real:
    first, second, divisor = _in_parts(a, b)
    return _scaled(first + second, Fraction(1, divisor))


def _compared(compare: Callable[[Number, Number], Any]) -> Callable[[Real, Real], Any]:
    return lambda a, b: compare(*_in_parts(a, b)[:2])


def _in_parts(a: Real, b: Real) -> tuple[Number, Number, int]:
    """Two numbers as sizes over one divisor."""
    parts = [_parts(a), _parts(b)]
    divisor = math.lcm(*(part.divisor for part in parts))
    first, second = (part.size * (divisor // part.divisor) for part in parts)
    return first, second, divisor


def _parts(a: Real) -> Ratio:
    if isinstance(a, Ratio):
        return a
    if isinstance(a, Size):
        return Ratio(a, 1)
    return Ratio(_fraction(a).numerator, _fraction(a).denominator)


def _real_power(a: Real, b: Real) -> Real:
    if isinstance(a, Size):
        power = _fraction(b)
        if power == Fraction(1, 2) and (whole := root(a)) is not None:
            return whole
        return _power(a, int(power) if power.denominator == 1 else -1)
    with np.errstate(all="ignore"):
        found = np.float32(_fraction(a)) ** np.float32(_fraction(b))
    if not np.isfinite(found):
        raise UnknownError
    return Fraction(float(found))


def _down(a: Real) -> Number:
    if isinstance(a, Ratio):
        return a.size // a.divisor
    return math.floor(a) if isinstance(a, Fraction) else a


def _up(a: Real) -> Number:
    return -_down(_scaled(a, -1))


def _to_integer(a: Real) -> Number:
    """The number, rounded towards 0."""
    if isinstance(a, Ratio) and not a.size >= 0:
        raise UnknownError
    return int(a) if isinstance(a, Fraction) else _down(a)


_VIEWS: dict[type[ir.OpView], Callable[..., np.ndarray]] = {
    mgx.ConcatOp: lambda op, *parts: np.concatenate(parts, axis=op.axis.value),
    mgx.GatherOp: _gather,
    mgx.IdentityOp: lambda op, x: x,
    mgx.MultibroadcastOp: lambda op, x: x,
    mgx.ReshapeOp: _reshape,
    mgx.ReverseOp: lambda op, x: np.flip(x, tuple(op.axes)),
    mgx.SliceOp: _slice,
    mgx.SqueezeOp: _reshape,
    mgx.StepOp: _step,
    mgx.TransposeOp: lambda op, x: x.transpose(list(op.permutation)),
    mgx.UnsqueezeOp: _reshape,
}
_to_integers = _elementwise(_to_integer)
_is_true = _elementwise(lambda a: cases.lifted(lambda equal: not equal)(cases.equal(a, 0)))
_OF_FLOATS = _VIEWS | {
    mgx.AddOp: _elementwise(_added),
    mgx.CeilOp: _elementwise(_up),
    mgx.DivOp: _elementwise(_over),
    mgx.EqualOp: _elementwise(_compared(cases.equal)),
    mgx.FloorOp: _elementwise(_down),
    mgx.GreaterOp: _elementwise(_compared(lambda a, b: cases.less(b, a))),
    mgx.LessOp: _elementwise(_compared(cases.less)),
    mgx.MulOp: _elementwise(_scaled),
    mgx.PowOp: _elementwise(_real_power),
    mgx.SqrtOp: _elementwise(lambda a: _real_power(a, Fraction(1, 2))),
    mgx.SubOp: _elementwise(lambda a, b: _added(a, _scaled(b, -1))),
    mgx.ConvertOp: lambda op, x: (
        x if _is_float(op.result.type) else _elementwise(_to_integer)(op, x)
    ),
}
_RULES: dict[type[ir.OpView], Callable[..., np.ndarray]] = _VIEWS | {
    mgx.AbsOp: _elementwise(lambda a: maximum(a, -a)),
    mgx.AddOp: _elementwise(lambda a, b: a + b),
    mgx.ClipOp: _elementwise(lambda a, low, high: minimum(maximum(a, low), high)),
    mgx.ConvertOp: lambda op, x: _is_true(op, x) if _is_boolean(op.result.type) else x,
    mgx.DivOp: _elementwise(_divide),
    mgx.EqualOp: _elementwise(cases.equal),
    mgx.GreaterOp: _elementwise(lambda a, b: cases.less(b, a)),
    mgx.LessOp: _elementwise(cases.less),
    mgx.LogicalAndOp: _elementwise(lambda a, b: bool(a and b)),
    mgx.LogicalOrOp: _pairwise(cases.either),
    mgx.LogicalXorOp: _elementwise(lambda a, b: bool(a) != bool(b)),
    mgx.MaxOp: _elementwise(maximum),
    mgx.MinOp: _elementwise(minimum),
    mgx.ModOp: _elementwise(_modulo),
    mgx.MulOp: _elementwise(lambda a, b: a * b),
    mgx.NegOp: _elementwise(lambda a: -a),
    mgx.NotOp: _elementwise(lambda a: not a),
    mgx.PowOp: _elementwise(_power),
    mgx.ReduceProdOp: _reduce(lambda a, b: a * b, 1),
    mgx.ReduceSumOp: _reduce(lambda a, b: a + b, 0),
    mgx.SubOp: _elementwise(lambda a, b: a - b),
    mgx.WhereOp: _elementwise(_where),
}
