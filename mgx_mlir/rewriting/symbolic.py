"""The sizes of the dialect's tensors: read from types, written into types, and inferred by op.

The dialect's own inference carries names of dimensions along; sizes computed from other sizes
get no name there. Here such a dimension gets the text of its size as its name, so that
equal names remain equal sizes (see mgx_mlir.sizes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from mlir import ir

from mgx_mlir.dialects import mgx, types
from mgx_mlir.scopes import holding
from mgx_mlir.sizes.arithmetic import (
    Number,
    Size,
    Symbol,
    alone,
    ceil_div,
    exact,
    minimum,
    substitute,
    symbols,
)
from mgx_mlir.sizes.parser import parse

# None: a size that is not known.
Sizes: TypeAlias = "list[Number | None]"
# The end of a slice whose length the result's type gives.
OPEN_END = (1 << 63) - 1


def named_symbols(tensors: Iterable[ir.Type]) -> dict[str, Symbol]:
    """The symbols of some types' dimensions, by name, with their bounds.

    A name that is a formula of symbols is no symbol; a formula of an unknown name is one.
    """
    found: dict[str, Symbol] = {}
    formulas: list[mgx.DimAttr] = []
    for type_ in tensors:
        for dim in types.dims_of(type_):
            if isinstance(dim, mgx.DimAttr):
                own = alone(named(dim.name, None))
                if own is None:
                    formulas.append(dim)
                else:
                    found.setdefault(own.name, _symbol(own.name, dim))
    for dim in formulas:
        if not {symbol.name for symbol in symbols(named(dim.name, None))} <= found.keys():
            name = _quotable(dim.name)
            found.setdefault(name, _symbol(name, dim))
    return found


def _symbol(name: str, dim: mgx.DimAttr) -> Symbol:
    return Symbol(name, dim.min, dim.max, tuple(dim.optimals))


def _quotable(name: str) -> str:
    return name.replace("`", "'")


def named(name: str, known: Mapping[str, Symbol] | None) -> Number:
    """The size that a dimension's name gives; a name that is no size is a symbol of its own.

    Where symbols are `known`, a formula of other symbols is a symbol of its own too. None: each
    may be 0.
    """
    try:
        size = parse(name, known)
        if not known or {symbol.name for symbol in symbols(size)} <= known.keys():
            return size
    except ValueError:
        pass
    else:
        if _quotable(name) not in known:
            return size
    name = _quotable(name)
    return Size.of((known or {}).get(name, Symbol(name)))


def sizes_of(type_: ir.Type, known: Mapping[str, Symbol] | None) -> Sizes:
    """The sizes of a tensor type, by its dimensions' names."""
    return [
        named(dim.name, known) if isinstance(dim, mgx.DimAttr) else dim
        for dim in types.dims_of(type_)
    ]


def tensor_type(sizes: Sequence[Number | None], element: ir.Type) -> ir.RankedTensorType:
    """The tensor type with these sizes, its dimensions named by their texts."""
    return mgx.tensor_type(list(sizes), element)


def shape_of(type_: ir.Type) -> tuple[int, ...]:
    """The sizes of a tensor type; named dimensions have sizes of mgx_mlir.sizes.

    They have the operators of ints and are typed as such: a comparison is a proof, and equal
    names are equal sizes. A dimension without a name has MLIR's number for dynamic sizes.
    """
    shape = tuple(ir.RankedTensorType(type_).shape)
    if ir.RankedTensorType(type_).has_static_shape:
        return shape
    whole, shapes = _multiples.get(), _shapes.get()
    if shapes is None or whole:
        return _shape(type_, shape, whole)
    found = shapes.get(type_)
    if found is None:
        found = shapes[type_] = _shape(type_, shape, whole)
    return found


def _shape(type_: ir.Type, shape: tuple[int, ...], whole: Mapping[str, Number]) -> tuple[int, ...]:
    pairs = zip(shape, sizes_of(type_, _scope.get()), strict=True)
    return tuple(n if x is None else cast(int, substitute(x, whole)) for n, x in pairs)


def is_named(type_: ir.Type) -> bool:
    """Whether each size of a tensor type has a value or a name."""
    if ir.RankedTensorType(type_).has_static_shape:
        return True
    return all(dim is not None for dim in types.dims_of(type_))


@contextmanager
def symbols_of(tensors: Iterable[ir.Type]) -> Iterator[None]:
    """Inside, the sizes that `shape_of` gives have the bounds of these types' symbols."""
    with holding(_scope, named_symbols(tensors)), holding(_shapes, {}):
        yield


_scope: ContextVar[Mapping[str, Symbol]] = ContextVar("symbols", default=MappingProxyType({}))
# The sizes of types that were asked for in the scope.
_shapes: ContextVar[dict[ir.Type, tuple[int, ...]] | None] = ContextVar("shapes", default=None)


def multiples(symbols: Iterable[Symbol], of: int) -> AbstractContextManager[object]:
    """Inside, the sizes that `shape_of` gives say that these symbols are multiples of a number."""
    whole = {symbol.name: Size.of(symbol) // of * of for symbol in symbols}
    return holding(_multiples, whole)


_multiples: ContextVar[Mapping[str, Number]] = ContextVar("multiples", default=MappingProxyType({}))


def result_sizes(op: ir.OpView, operands: Sequence[Sizes]) -> Sizes | None:
    """The sizes of the result of an op whose inference gives no names; None for other ops.

    Sizes that do not follow from those of the operands are None.
    """
    rule = _RULES.get(type(op))
    return rule(op, operands) if rule is not None else None


Rule: TypeAlias = "Callable[[Any, Sequence[Sizes]], Sizes]"


def equal_sizes(op: ir.OpView, operands: Sequence[Sizes], result: Sizes) -> Pairs:
    """The sizes that an op needs to be equal in every run, two by two; None where one is unknown.

    Types only say which sizes may be equal: to MLIR `?` and 3 are, and so are two names.
    """
    if mgx.is_pointwise(op):
        return [pair for x in operands[1:] for pair in zip(operands[0], x, strict=True)]
    rule = _EQUAL.get(type(op))
    return rule(op, [*operands, result]) if rule is not None else []


Pairs: TypeAlias = "list[tuple[Number | None, Number | None]]"


# Windows over images; their channels may be the last dimension.
Convolution: TypeAlias = mgx.ConvolutionOp | mgx.QuantConvolutionOp


def _product(sizes: Sequence[Number | None]) -> Number | None:
    total: Number = 1
    for size in sizes:
        if size is None:
            return None
        total = total * size
    return total


def _flatten(op: mgx.FlattenOp, operands: Sequence[Sizes]) -> Sizes:
    axis = op.axis.value
    return [_product(operands[0][:axis]), _product(operands[0][axis:])]


def _concat(op: mgx.ConcatOp, operands: Sequence[Sizes]) -> Sizes:
    axis, sizes = op.axis.value, list(operands[0])
    total: Number | None = 0
    for operand in operands:
        one = operand[axis]
        total = None if total is None or one is None else total + one
    sizes[axis] = total
    return sizes


def _pad(op: mgx.PadOp, operands: Sequence[Sizes]) -> Sizes:
    added = zip(operands[0], op.low, op.high, strict=True)
    return [None if size is None else size + low + high for size, low, high in added]


def _slice(op: mgx.SliceOp, operands: Sequence[Sizes]) -> Sizes:
    sizes = list(operands[0])
    stated = sizes_of(op.y.type, _known(operands))
    for axis, start, end in zip(op.axes, op.starts, op.ends, strict=True):
        size = sizes[axis]
        if end != OPEN_END:
            sizes[axis] = end - start
        elif stated[axis] is not None:
            sizes[axis] = stated[axis]
        else:
            sizes[axis] = None if size is None else size - start
    return sizes


def _step(op: mgx.StepOp, operands: Sequence[Sizes]) -> Sizes:
    sizes = list(operands[0])
    for axis, step in zip(op.axes, op.steps, strict=True):
        size = sizes[axis]
        sizes[axis] = None if size is None else ceil_div(size, step)
    return sizes


def _windows(op: Convolution | mgx.PoolingOp, x: Sizes, lengths: Sequence[Number | None]) -> Sizes:
    """The number of windows along each spatial dimension of x."""
    pads, strides, dilations = list(op.pads), list(op.strides), list(op.dilations)
    round_up = isinstance(op, mgx.PoolingOp) and op.ceil_mode.value
    result: Sizes = []
    for i, (size, length) in enumerate(zip(x[2:], lengths, strict=True)):
        if size is None or not isinstance(length, int):
            result.append(None)
            continue
        extent, behind = dilations[i] * (length - 1) + 1, pads[len(strides) + i]
        room = size + (pads[i] + behind - extent)
        count = 1 + (ceil_div(room, strides[i]) if round_up else room // strides[i])
        if round_up and extent - behind < strides[i]:
            # The last window may start behind the image, and is none then.
            count = minimum(count, ceil_div(size + pads[i], strides[i]))
        result.append(count)
    return result


def _convolution(op: Convolution, operands: Sequence[Sizes]) -> Sizes:
    x, w = operands[:2]
    if op.channels_last:
        x, w = [x[0], x[-1], *x[1:-1]], [w[0], w[-1], *w[1:-1]]
        return [x[0], *_windows(op, x, w[2:]), w[0]]
    return [x[0], w[0], *_windows(op, x, w[2:])]


def _transposed_convolution(op: mgx.ConvolutionBackwardsOp, operands: Sequence[Sizes]) -> Sizes:
    """A stride for each element of x but one, and one window, without the padding."""
    x, w = operands
    count = len(op.strides)
    result: Sizes = [x[0], None if w[1] is None else w[1] * op.group.value]
    for i, (size, length) in enumerate(zip(x[2:], w[2:], strict=True)):
        if size is None or not isinstance(length, int):
            result.append(None)
            continue
        extent = op.dilations[i] * (length - 1) + 1 + op.output_pads[i]
        result.append((size - 1) * op.strides[i] + extent - op.pads[i] - op.pads[count + i])
    return result


def _pooling(op: mgx.PoolingOp, operands: Sequence[Sizes]) -> Sizes:
    (x,) = operands
    return [*x[:2], *_windows(op, x, list(op.lengths))]


def _reshape(op: mgx.ReshapeOp, operands: Sequence[Sizes]) -> Sizes:
    """The one size that is not stated is the number of elements divided by the other sizes."""
    stated = sizes_of(op.y.type, _known(operands))
    open_places = [i for i, size in enumerate(stated) if size is None]
    total = _product(operands[0])
    if len(open_places) == 1 and total is not None:
        taken = _product([size for size in stated if size is not None])
        assert taken is not None
        stated[open_places[0]] = exact(total, taken)
    return stated


def _multibroadcast(op: mgx.MultibroadcastOp, operands: Sequence[Sizes]) -> Sizes:
    stated = sizes_of(op.y.type, _known(operands))
    leading = len(stated) - len(operands[0])
    for i, size in enumerate(operands[0], leading):
        if stated[i] is None and size != 1:
            stated[i] = size
    return stated


def _same_inner(op: mgx.DotOp | mgx.QuantDotOp, operands: Sequence[Sizes]) -> Pairs:
    a, b, _ = operands
    return [(a[-1], b[-2]), *zip(a[:-2], b[:-2], strict=True)]


def _same_channels(op: Convolution, operands: Sequence[Sizes]) -> Pairs:
    place = -1 if op.channels_last else 1
    x, w = (sizes[place] for sizes in operands[:2])
    return [(x, None if w is None else w * op.group.value)]


def _same_filters(op: mgx.ConvolutionBackwardsOp, operands: Sequence[Sizes]) -> Pairs:
    x, w, _ = operands
    return [(x[1], w[0])]


def _same_others(op: mgx.ConcatOp, operands: Sequence[Sizes]) -> Pairs:
    first, *rest = ([*x[: op.axis.value], *x[op.axis.value + 1 :]] for x in operands[:-1])
    return [pair for x in rest for pair in zip(first, x, strict=True)]


def _same_count(op: mgx.ReshapeOp, operands: Sequence[Sizes]) -> Pairs:
    x, y = operands
    return [(_product(x), _product(y))]


def _same_or_one(op: mgx.MultibroadcastOp, operands: Sequence[Sizes]) -> Pairs:
    x, y = operands
    return [(a, b) for a, b in zip(x, y[len(y) - len(x) :], strict=True) if a != 1]


def _known(operands: Sequence[Sizes]) -> dict[str, Symbol] | None:
    """The symbols of a program's inputs, where `symbols_of` says them, and those of operands."""
    own = {
        symbol.name: symbol
        for sizes in operands
        for size in sizes
        if size is not None
        for symbol in symbols(size)
    }
    return {**_scope.get(), **own} or None


_RULES: dict[type[ir.OpView], Rule] = {
    mgx.ConcatOp: _concat,
    mgx.ConvolutionBackwardsOp: _transposed_convolution,
    mgx.ConvolutionOp: _convolution,
    mgx.FlattenOp: _flatten,
    mgx.MultibroadcastOp: _multibroadcast,
    mgx.PadOp: _pad,
    mgx.PoolingOp: _pooling,
    mgx.QuantConvolutionOp: _convolution,
    mgx.ReshapeOp: _reshape,
    mgx.SliceOp: _slice,
    mgx.StepOp: _step,
}

_EQUAL: dict[type[ir.OpView], Callable[[Any, Sequence[Sizes]], Pairs]] = {
    mgx.ConcatOp: _same_others,
    mgx.ConvolutionBackwardsOp: _same_filters,
    mgx.ConvolutionOp: _same_channels,
    mgx.DotOp: _same_inner,
    mgx.MultibroadcastOp: _same_or_one,
    mgx.QuantConvolutionOp: _same_channels,
    mgx.QuantDotOp: _same_inner,
    mgx.ReshapeOp: _same_count,
}
