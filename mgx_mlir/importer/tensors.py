"""Shapes and types of mgx tensors, with symbolic dimensions.

A dimension is an int, a str (the name of a symbol) or None (unknown, without a name).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TypeAlias

from mlir import ir

from mgx_mlir import advice
from mgx_mlir.dialects import mgx, types
from mgx_mlir.errors import ModelError, OpenError, UnsupportedError
from mgx_mlir.importer.tensor_data import MAX_ELEMENTS
from mgx_mlir.rewriting import symbolic as symbolic
from mgx_mlir.scopes import holding
from mgx_mlir.sizes.arithmetic import Number, Size, Symbol
from mgx_mlir.sizes.range import Range

Dim: TypeAlias = "int | str | None"
# The symbols whose sizes may be 0; all others are 1 at least.
_empty: ContextVar[Mapping[str, Symbol]] = ContextVar("_empty", default={})  # noqa: B039


def within(ranges: Mapping[str, Range]) -> AbstractContextManager[object]:
    """Proofs inside of the context allow a symbol to be 0 if its range begins there."""
    found = {
        n: Symbol(n, 0, given.high, given.optimals) for n, given in ranges.items() if given.low == 0
    }
    return holding(_empty, found)


def symbols() -> Mapping[str, Symbol]:
    """The symbols that are not as others: those whose sizes may be 0."""
    return _empty.get()


def tensor_type(element: ir.Type | str, dims: Sequence[Dim]) -> ir.RankedTensorType:
    """The tensor type with those dimensions. Raises UnsupportedError for impossible sizes."""
    if isinstance(element, str):
        element = ir.Type.parse(element)
    if math.prod(d for d in dims if isinstance(d, int)) > MAX_ELEMENTS:
        raise UnsupportedError(f"a tensor of {list(dims)} has too many elements")
    named = [_empty.get().get(d.strip("`"), d) if isinstance(d, str) else d for d in dims]
    return mgx.tensor_type([Size.of(d) if isinstance(d, Symbol) else d for d in named], element)


def dims_of_type(type_: ir.Type) -> tuple[Dim, ...]:
    """The dimensions of a tensor type."""
    sizes = types.dims_of(type_)
    return tuple(d.name if isinstance(d, mgx.DimAttr) else d for d in sizes)


def dims(value: ir.Value) -> tuple[Dim, ...]:
    """The dimensions of a tensor."""
    return dims_of_type(value.type)


def size(dim: Dim) -> Number | None:
    """The size that a dimension's name says; None where it has none."""
    return symbolic.named(dim, symbols()) if isinstance(dim, str) else dim


def sizes(value: ir.Value) -> list[Number | None]:
    """The sizes of a tensor: ints, and formulas of the inputs' symbols."""
    return [size(dim) for dim in dims(value)]


def named(sizes: Sequence[Number]) -> list[Dim]:
    """Sizes as dimensions, named by their formulas."""
    return [n if isinstance(n, int) else str(n) for n in sizes]


def name_dims(result: ir.Value) -> tuple[Dim, ...]:
    """The dimensions of an op's result, unnamed ones called by the formulas of its operands."""
    known = dims(result)
    if isinstance(result.owner, ir.Block):
        return known
    given = result.owner.operation.operands
    operands = [symbolic.sizes_of(operand.type, symbols()) for operand in given]
    found = symbolic.result_sizes(result.owner.operation.opview, operands)
    if found is None:
        return known
    own = [None if size is None else named([size])[0] for size in found]
    merged = [n if k is None else k for k, n in zip(known, own, strict=True)]
    result.set_type(tensor_type(element(result), merged))
    return tuple(merged)


def rank(value: ir.Value) -> int:
    """How many dimensions a tensor has."""
    return int(ir.RankedTensorType(value.type).rank)


def element(value: ir.Value) -> ir.Type:
    """The element type of a tensor."""
    return ir.RankedTensorType(value.type).element_type


def element_name(value: ir.Value) -> str:
    """The element type as IR writes it: 'f32', 'ui8', ..."""
    return str(element(value))


def is_float(value: ir.Value) -> bool:
    """Whether the elements are floating-point numbers."""
    return isinstance(element(value), ir.FloatType)


def static_dims(value: ir.Value, what: str = "its input") -> tuple[int, ...]:
    """The sizes of a tensor. Raises OpenError where one is not known."""
    sizes = dims(value)
    for size in sizes:
        if not isinstance(size, int):
            raise OpenError(
                f"{what} has a size that is not known: {show(sizes)}; {advice.GIVE_SIZES}"
            )
    return tuple(s for s in sizes if isinstance(s, int))


def known_sizes(value: ir.Value, what: str = "its input") -> list[Number]:
    """The sizes of a tensor: ints, and formulas. Raises OpenError where one has no name."""
    found = [n for n in sizes(value) if n is not None]
    return found if len(found) == rank(value) else list(static_dims(value, what))


def size_of(value: ir.Value, axis: int, what: str) -> int:
    """The size of one dimension. Raises OpenError where it is not known."""
    size = dims(value)[axis]
    if not isinstance(size, int):
        raise OpenError(f"{what} is not known ({show(dims(value))}); {advice.GIVE_SIZES}")
    return size


def require(value: ir.Value, wanted: Sequence[Dim], what: str) -> None:
    """Raises ModelError where a tensor's known dimensions differ from the wanted ones.

    A wanted dimension of None fits any; `what` is the tensor's name in the message.
    """
    have = dims(value)
    pairs = list(zip(have, wanted, strict=False))
    known = [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)]
    if len(have) != len(wanted) or any(a != b for a, b in known):
        raise ModelError(f"{what} is {show(have)}; {show(wanted)} is needed")


def show(sizes: Sequence[Dim]) -> str:
    """Dimensions as messages show them."""
    return "[" + ", ".join("?" if s is None else str(s) for s in sizes) + "]"


class UnequalError(OpenError):
    """Two dimensions, `pair`, have to be equal, and that does not follow from their names."""

    def __init__(self, pair: tuple[Dim, Dim], message: str) -> None:
        super().__init__(message)
        self.pair = pair


def require_equal(a: Sequence[Dim], b: Sequence[Dim]) -> None:
    """Raises ModelError where dimensions differ, UnequalError where that is not known."""
    for one, other in zip(a, b, strict=True):
        if one == other:
            continue
        shown = f"{show(a)} and {show(b)}"
        if isinstance(one, int) and isinstance(other, int):
            raise ModelError(f"shapes do not fit: {shown}")
        raise UnequalError((one, other), f"whether sizes are equal is not known: {shown}")


def require_same(one: Dim, other: Dim) -> None:
    """Raises UnequalError where two dimensions are not known to be equal; sizes are the op's."""
    if not (isinstance(one, int) and isinstance(other, int)):
        require_equal([one], [other])


def broadcast_dims(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The shape by numpy's broadcast rule.

    Raises ModelError where there is none, UnsupportedError where that is not known.
    """
    result: list[Dim] = []
    for place in range(-max(len(s) for s in shapes), 0):
        sizes = [s[place] for s in shapes if len(s) >= -place]
        others = list(dict.fromkeys(s for s in sizes if s != 1))
        fixed = [s for s in others if isinstance(s, int)]
        if len(fixed) > 1:
            raise ModelError("shapes do not fit: " + " and ".join(map(show, shapes)))
        symbols = [s for s in others if not isinstance(s, int)]
        if len(others) > 1:
            shown = " and ".join(map(show, shapes))
            pair = (symbols[0], fixed[0] if fixed else symbols[1])
            raise UnequalError(pair, f"whether sizes are equal is not known: {shown}")
        result.append(others[0] if others else 1)
    return tuple(result)


def axis_in(axis: int, ranks: int) -> int:
    """An axis counted from the front. Raises ModelError where there is no such axis."""
    if not -ranks <= axis < ranks:
        raise ModelError(f"axis {axis} of a tensor with {ranks} dimensions")
    return axis % ranks
