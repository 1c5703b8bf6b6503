"""Index expressions with known ranges: the position of a read, before its code is chosen.

An expression is a sum of atoms times constants. Loop dimensions are atoms; so are quotients and
remainders that do not simplify, and index values computed at run time. Ranges decide which
divisions vanish and which accesses need no guard. Extents, factors and divisors are ints, or
sizes that the kernel gets as arguments (`mgx_mlir.sizes`): a comparison of such sizes is a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import arith

from mgx_mlir.codegen.meaning.arithmetic import Arithmetic
from mgx_mlir.codegen.meaning.element import F32, I32
from mgx_mlir.errors import UnsupportedError
from mgx_mlir.scopes import holding
from mgx_mlir.sizes.arithmetic import Floor, Number, Positive, exact
from mgx_mlir.sizes.arithmetic import bounds as size_bounds


@dataclass(frozen=True)
class Dim:
    """A loop dimension; its value is in [0, extent)."""

    position: int
    extent: Number

    @property
    def bounds(self) -> tuple[Number, Number]:
        return 0, self.extent - 1 if self.extent != 0 else 0


@dataclass(frozen=True)
class Quotient:
    """floor(value / divisor), of a value that is not negative."""

    value: Index
    divisor: Number

    @property
    def bounds(self) -> tuple[Number, Number]:
        low, high = self.value.bounds
        return low // self.divisor, high // self.divisor


@dataclass(frozen=True)
class Remainder:
    """value mod divisor, of a value that is not negative."""

    value: Index
    divisor: Number

    @property
    def bounds(self) -> tuple[Number, Number]:
        high = self.value.bounds[1]
        return 0, high if high < self.divisor else self.divisor - 1


@dataclass(frozen=True)
class Runtime:
    """A value of type index that the program computes, within known bounds."""

    value: ir.Value
    low: Number
    high: Number

    @property
    def bounds(self) -> tuple[Number, Number]:
        return self.low, self.high


Atom = Dim | Quotient | Remainder | Runtime


@dataclass(frozen=True)
class Index:
    """constant + the sum of coefficient * atom."""

    terms: tuple[tuple[Atom, Number], ...]
    constant: Number = 0

    @staticmethod
    def of(value: Index | Number) -> Index:
        return value if isinstance(value, Index) else Index((), value)

    @staticmethod
    def runtime(value: ir.Value, low: Number, high: Number) -> Index:
        return Index(((Runtime(value, low, high), 1),))

    @property
    def bounds(self) -> tuple[Number, Number]:
        low = high = self.constant
        for atom, factor in self.terms:
            least, most = (factor * end for end in atom.bounds)
            if size_bounds(factor)[1] < 0:
                least, most = most, least
            low, high = low + least, high + most
        return low, high

    def is_within(self, size: Number) -> bool:
        """Whether every value is known to be a valid index into `size` elements."""
        low, high = self.bounds
        return low >= 0 and high < size

    def __add__(self, other: Index | Number) -> Index:
        other = Index.of(other)
        if not other.terms:
            return _normal(dict(self.terms), self.constant + other.constant)
        merged = dict(self.terms)
        for atom, factor in other.terms:
            merged[atom] = merged.get(atom, 0) + factor
        return _normal(merged, self.constant + other.constant)

    def __sub__(self, other: Index | Number) -> Index:
        return self + Index.of(other) * -1

    def __mul__(self, factor: Number) -> Index:
        if factor == 1:
            return self
        return _normal({a: f * factor for a, f in self.terms}, self.constant * factor)

    def __floordiv__(self, divisor: Number) -> Index:
        if divisor == 1:
            return self
        whole, rest = self._split(divisor)
        if rest.bounds[1] < divisor:
            return whole
        return whole + Index(((Quotient(rest, divisor), 1),))

    def __mod__(self, divisor: Number) -> Index:
        if divisor == 1:
            return Index(())
        _, rest = self._split(divisor)
        if rest.bounds[1] < divisor:
            return rest
        return Index(((Remainder(rest, divisor), 1),))

    def _split(self, divisor: Number) -> tuple[Index, Index]:
        """(q, r) with self = q * divisor + r and r >= 0, where q takes the terms that divide."""
        whole: dict[Atom, Number] = {}
        rest: dict[Atom, Number] = {}
        for atom, factor in self.terms:
            quotient = exact(factor, divisor)
            if quotient is None:
                rest[atom] = factor
            else:
                whole[atom] = quotient
        borrowed: Number = 0
        if isinstance(divisor, int) and isinstance(self.constant, int):
            constant, remainder = divmod(self.constant, divisor)
            low, _ = _normal(rest, remainder).bounds
            if isinstance(low, int):
                borrowed = -(low // divisor) if low < 0 else 0
            else:
                _require_positive(low)
            return (
                _normal(whole, constant - borrowed),
                _normal(rest, remainder + borrowed * divisor),
            )
        even = exact(self.constant, divisor)
        left = _normal(rest, self.constant if even is None else 0)
        _require_positive(left.bounds[0])
        return _normal(whole, even or 0), left


def fixed(size: Number) -> int:
    """The size, which must be known to build the code. Raises UnsupportedError."""
    if not isinstance(size, int):
        raise UnsupportedError(f"it has no form for the size {size}, which only a run knows")
    return size


def _require_positive(low: Number) -> None:
    if not low >= 0:
        raise UnsupportedError(
            f"an index that may be as low as {low} is divided; that needs sizes that are known"
        )


def _normal(terms: dict[Atom, Number], constant: Number) -> Index:
    """The index without zero terms. An atom that is always 0 remains only where it is the only
    term, so that a loop dimension of size 1 still reads `d0` and not `0`."""
    kept = [(a, f) for a, f in terms.items() if f]
    if len(kept) > 1 or constant or any(f != 1 for _, f in kept):
        kept = [(a, f) for a, f in kept if a.bounds != (0, 0)]
    return Index(tuple(kept), constant)


def linear(indices: Sequence[Index], shape: Sequence[Number]) -> Index:
    """The row-major position of an element."""
    total = Index(())
    for index, size in zip(indices, shape, strict=True):
        total = total * size + index
    return total


def delinear(position: Index, shape: Sequence[Number]) -> tuple[Index, ...]:
    """The indices of the element at a row-major position."""
    indices = []
    for axis, size in reversed(list(enumerate(shape))):
        indices.append(position if axis == 0 else position % size)
        position = position if axis == 0 else position // size
    return tuple(reversed(indices))


def bare_dim(index: Index) -> int | None:
    """The loop dimension that the expression is; None for any other expression."""
    if index.constant or len(index.terms) != 1:
        return None
    atom, factor = index.terms[0]
    return atom.position if isinstance(atom, Dim) and factor == 1 else None


def materialize(index: Index, dims: Sequence[ir.Value]) -> ir.Value:
    """The value, of type index; `dims` holds the values of the loop dimensions."""
    total: ir.Value | None = None
    for atom, factor in index.terms:
        value = _atom_value(atom, dims)
        if factor != 1:
            value = arith.muli(value, index_constant(factor))
        total = value if total is None else arith.addi(total, value)
    if total is None:
        return index_constant(index.constant)
    return arith.addi(total, index_constant(index.constant)) if index.constant else total


def _atom_value(atom: Atom, dims: Sequence[ir.Value]) -> ir.Value:
    if isinstance(atom, Dim):
        return dims[atom.position]
    if isinstance(atom, Runtime):
        return atom.value
    value = materialize(atom.value, dims)
    divide = arith.divui if isinstance(atom, Quotient) else arith.remui
    return divide(value, index_constant(atom.divisor))


def index_constant(value: Number) -> ir.Value:
    """A size as a value of type index; `symbol_values` gives the values of its symbols."""
    if isinstance(value, int):
        type_ = ir.IndexType.get()
        return arith.ConstantOp(type_, ir.IntegerAttr.get(type_, value)).result
    total: ir.Value | None = None
    for atoms, factor in value.terms:
        product: ir.Value | None = None
        for atom in atoms:
            if isinstance(atom, Floor):
                parts = index_constant(atom.value), index_constant(atom.divisor)
                # Unsigned ones are shifts where the divisor is a power of 2.
                divide = arith.divui if atom.value >= 0 else arith.floordivsi
                one: ir.Value = divide(*parts)
            elif isinstance(atom, Positive):
                one = arith.maxsi(index_constant(atom.value), index_constant(0))
            elif atom.name in (known := _symbols.get({})):
                one = known[atom.name]
            else:  # no operand and no result has it
                raise UnsupportedError(f"the kernel is not given the size {atom.name}")
            product = one if product is None else arith.muli(product, one)
        if product is None:
            product = index_constant(factor)
        elif factor != 1:
            product = arith.muli(product, index_constant(factor))
        total = product if total is None else arith.addi(total, product)
    assert total is not None
    return total


_symbols: ContextVar[Mapping[str, ir.Value]] = ContextVar("symbols")


def symbol_values(values: Mapping[str, ir.Value]) -> AbstractContextManager[object]:
    """Inside, sizes of these symbols, and of those around, can become values."""
    return holding(_symbols, {**_symbols.get({}), **values})


class Real:
    """An f32 that code computes, with the operators of numbers."""

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    def _with(self, op: Callable[..., ir.Value], other: Any, swapped: bool = False) -> Real:
        pair = (self.value, value_of(other))
        return Real(op(*(pair[::-1] if swapped else pair)))

    def __add__(self, other: Any) -> Real:
        return self._with(arith.addf, other)

    def __sub__(self, other: Any) -> Real:
        return self._with(arith.subf, other)

    def __rsub__(self, other: Any) -> Real:
        return self._with(arith.subf, other, swapped=True)

    def __mul__(self, other: Any) -> Real:
        return self._with(arith.mulf, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Real:
        return self._with(arith.divf, other)

    def __rtruediv__(self, other: Any) -> Real:
        return self._with(arith.divf, other, swapped=True)

    def at_least(self, other: float) -> Real:
        return self._with(arith.maximumf, other)

    def at_most(self, other: float) -> Real:
        return self._with(arith.minimumf, other)

    # numpy's scalars leave the operators to this class.
    __array_ufunc__ = None


def value_of(number: Any) -> ir.Value:
    if isinstance(number, Real):
        return number.value
    return Arithmetic().constant(float(number), F32.storage())


def real(size: Number) -> Any:
    """A size as an f32: numpy's where it is known, else code that computes it."""
    if isinstance(size, int):
        return np.float32(size)
    narrow = arith.index_cast(I32.storage(), index_constant(size))
    return Real(arith.sitofp(F32.storage(), narrow))
