"""Index expressions with known ranges: what a read is at, before it is known how to read there.

An expression is a sum of atoms times constants. Loop dimensions are atoms; so are quotients and
remainders that do not simplify, and index values computed at run time. Ranges decide which
divisions vanish and which accesses need no guard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith


@dataclass(frozen=True)
class Dim:
    """A loop dimension; its value is in [0, extent)."""

    position: int
    extent: int

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, max(self.extent - 1, 0)


@dataclass(frozen=True)
class Quotient:
    """floor(value / divisor), of a value that is not negative."""

    value: Index
    divisor: int

    @property
    def bounds(self) -> tuple[int, int]:
        low, high = self.value.bounds
        return low // self.divisor, high // self.divisor


@dataclass(frozen=True)
class Remainder:
    """value mod divisor, of a value that is not negative."""

    value: Index
    divisor: int

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, min(self.divisor - 1, self.value.bounds[1])


@dataclass(frozen=True)
class Runtime:
    """A value of type index that the program computes, within known bounds."""

    value: ir.Value
    low: int
    high: int

    @property
    def bounds(self) -> tuple[int, int]:
        return self.low, self.high


Atom = Dim | Quotient | Remainder | Runtime


@dataclass(frozen=True)
class Index:
    """constant + the sum of coefficient * atom."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int = 0

    @staticmethod
    def of(value: Index | int) -> Index:
        return value if isinstance(value, Index) else Index((), value)

    @staticmethod
    def runtime(value: ir.Value, low: int, high: int) -> Index:
        return Index(((Runtime(value, low, high), 1),))

    @property
    def bounds(self) -> tuple[int, int]:
        low = high = self.constant
        for atom, factor in self.terms:
            ends = [factor * end for end in atom.bounds]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def is_within(self, size: int) -> bool:
        """Whether every value is a valid index into `size` elements."""
        low, high = self.bounds
        return low >= 0 and high < size

    def __add__(self, other: Index | int) -> Index:
        other = Index.of(other)
        if not other.terms:
            return self._with_constant(self.constant + other.constant)
        merged = dict(self.terms)
        for atom, factor in other.terms:
            merged[atom] = merged.get(atom, 0) + factor
        return _normal(merged, self.constant + other.constant)

    def __sub__(self, other: Index | int) -> Index:
        return self + Index.of(other) * -1

    def __mul__(self, factor: int) -> Index:
        if factor == 1:
            return self
        return _normal({a: f * factor for a, f in self.terms}, self.constant * factor)

    def __floordiv__(self, divisor: int) -> Index:
        if divisor == 1:
            return self
        whole, rest = self._split(divisor)
        if rest.bounds[1] < divisor:
            return whole
        return whole + Index(((Quotient(rest, divisor), 1),))

    def __mod__(self, divisor: int) -> Index:
        if divisor == 1:
            return Index(())
        _, rest = self._split(divisor)
        if rest.bounds[1] < divisor:
            return rest
        return Index(((Remainder(rest, divisor), 1),))

    def _split(self, divisor: int) -> tuple[Index, Index]:
        """(q, r) with self = q * divisor + r and r >= 0, where q takes what divides evenly."""
        whole = {a: f // divisor for a, f in self.terms if f % divisor == 0}
        rest = {a: f for a, f in self.terms if f % divisor}
        quotient, remainder = divmod(self.constant, divisor)
        low, _ = _normal(rest, remainder).bounds
        borrowed = -(low // divisor) if low < 0 else 0
        return (
            _normal(whole, quotient - borrowed),
            _normal(rest, remainder + borrowed * divisor),
        )

    def _with_constant(self, constant: int) -> Index:
        return _normal(dict(self.terms), constant)


def _normal(terms: dict[Atom, int], constant: int) -> Index:
    """Without zero terms; an atom that is always 0 stays only where it stands alone, so that a
    loop dimension of size 1 still reads `d0` and not `0`."""
    kept = [(a, f) for a, f in terms.items() if f]
    if len(kept) > 1 or constant or any(f != 1 for _, f in kept):
        kept = [(a, f) for a, f in kept if a.bounds != (0, 0)]
    return Index(tuple(kept), constant)


def linear(indices: Sequence[Index], shape: Sequence[int]) -> Index:
    """The row-major position of an element."""
    total = Index(())
    for index, size in zip(indices, shape, strict=True):
        total = total * size + index
    return total


def delinear(position: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """The indices of the element at a row-major position."""
    indices = []
    for axis, size in reversed(list(enumerate(shape))):
        indices.append(position if axis == 0 else position % size)
        position = position if axis == 0 else position // size
    return tuple(reversed(indices))


def affine(index: Index) -> ir.AffineExpr | None:
    """The expression over loop dimensions; None if it needs a value known at run time only."""
    total: ir.AffineExpr | None = None
    for atom, factor in index.terms:
        if isinstance(atom, Runtime):
            return None
        if isinstance(atom, Dim):
            term = ir.AffineExpr.get_dim(atom.position)
        else:
            inner = affine(atom.value)
            if inner is None:
                return None
            divide = isinstance(atom, Quotient)
            combine = ir.AffineExpr.get_floor_div if divide else ir.AffineExpr.get_mod
            term = combine(inner, atom.divisor)
        term = term * factor if factor != 1 else term
        total = term if total is None else total + term
    if total is None:
        return ir.AffineExpr.get_constant(index.constant)
    return total + index.constant if index.constant else total


def bare_dim(index: Index) -> int | None:
    """The loop dimension that the expression is, if it is one."""
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


def index_constant(value: int) -> ir.Value:
    type_ = ir.IndexType.get()
    return arith.ConstantOp(type_, ir.IntegerAttr.get(type_, value)).result
