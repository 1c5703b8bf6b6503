"""Sizes that are known when a program runs: polynomials of named dimensions, with bounds.

A size is an int where it is known and a `Size` elsewhere; arithmetic gives an int wherever
it can. The text of a Size is canonical, so equal sizes have equal texts, and a dimension of
the dialect is called by it: `batch*seq`, `2*seq+1`, `(seq+1)//2`, `max(seq-8, 0)`.

Every size is at least 1 unless its symbol says otherwise. Comparisons are proofs: `a < b` is
whether it holds for all sizes within the bounds, so `not a < b` says nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeAlias, overload

_PLAIN = re.compile(r"[^\W\d][\w.]*")

Number: TypeAlias = "int | Size"


@dataclass(frozen=True)
class Symbol:
    """A named dimension, with sizes in [low, high]; high None: no bound.

    `optimals` are sizes worth a program of their own; they tell no symbols apart.
    """

    name: str
    low: int = 1
    high: int | None = None
    optimals: tuple[int, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return self.name if _PLAIN.fullmatch(self.name) else f"`{self.name}`"


@dataclass(frozen=True)
class Floor:
    """value // divisor, rounded down, of a divisor that is positive."""

    value: Size
    divisor: Number

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return f"({self.value})//{_factor_text(self.divisor)}"


@dataclass(frozen=True)
class Positive:
    """The value, or 0 where it is less."""

    value: Size

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return f"max({self.value}, 0)"


# Proofs look into up to this many rounded quotients and maxima of a size.
_MOST_ATOMS = 4
# Sizes whose bounds are kept: those of nested windows are looked at again and again.
_MOST_KEPT = 1 << 14

Atom: TypeAlias = "Symbol | Floor | Positive"
Monomial: TypeAlias = "tuple[Atom, ...]"


@dataclass(frozen=True)
class Size:
    """A sum of products: each term has its atoms, sorted by text, and a factor that is not 0."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(symbol: Symbol) -> Number:
        """A dimension as a size; an int where it has one size only."""
        return symbol.low if symbol.low == symbol.high else Size((((symbol,), 1),))

    def __str__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Size], tuple[object]]:
        return Size, (self.terms,)  # another process has other hashes of strings

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    @cached_property
    def _text(self) -> str:
        text = ""
        for atoms, factor in self.terms:
            alone = len(atoms) == abs(factor) == 1
            names = [str(a) if alone or isinstance(a, Symbol) else f"({a})" for a in atoms]
            parts = names if abs(factor) == 1 and names else [str(abs(factor)), *names]
            text += ("-" if factor < 0 else "+") + "*".join(parts)
        return text.removeprefix("+")

    def __add__(self, other: Number) -> Number:
        return _sum([*self.terms, *_terms(other)]) if other != 0 else self

    __radd__ = __add__

    def __neg__(self) -> Number:
        return self * -1

    def __sub__(self, other: Number) -> Number:
        return self + other * -1

    def __rsub__(self, other: int) -> Number:
        return self * -1 + other

    def __mul__(self, other: Number) -> Number:
        if isinstance(other, int):
            return Size(tuple((a, f * other) for a, f in self.terms)) if other else 0
        products = [
            (tuple(sorted((*a, *b), key=str)), f * g)
            for a, f in self.terms
            for b, g in _terms(other)
        ]
        return _sum(products)

    __rmul__ = __mul__

    def __floordiv__(self, divisor: Number) -> Number:
        if divisor == 1:
            return self
        whole: Number = 0
        rest: Number = 0
        for term in self.terms:
            one = _sum([term])
            quotient = exact(one, divisor)
            if quotient is None:
                rest = rest + one
            else:
                whole = whole + quotient
        if isinstance(rest, int):
            if isinstance(divisor, int):
                return whole + rest // divisor
            if rest < 0:  # in numbers that are not
                return whole - 1 - (-1 - rest) // divisor
            if rest < divisor:
                return whole
            rest = Size((((), rest),))
        if rest >= 0 and rest < divisor:
            return whole
        if isinstance(divisor, int):  # one of the forms that are equal
            if rest.terms[0][1] < 0:
                return whole - (divisor - 1 - rest) // divisor
            constant = sum(factor for atoms, factor in rest.terms if not atoms)
            more = constant // divisor
            whole, rest = whole + more, rest - more * divisor
            assert isinstance(rest, Size)
            (atoms, factor), *others = rest.terms
            if factor == len(atoms) == 1 and isinstance(inner := atoms[0], Floor):
                parts = inner.divisor
                if isinstance(parts, int) and not any(atoms for atoms, _ in others):
                    # Rounding down twice is rounding down once.
                    constant -= more * divisor
                    return whole + (inner.value + constant * parts) // (divisor * parts)
        return whole + Size((((Floor(rest, divisor),), 1),))

    def __rfloordiv__(self, value: int) -> Number:
        return Size((((), value),)) // self if value else 0

    def __mod__(self, divisor: Number) -> Number:
        return self - divisor * (self // divisor)

    def __lt__(self, other: Number) -> bool:
        return least(other - self) >= 1

    def __le__(self, other: Number) -> bool:
        return least(other - self) >= 0

    def __gt__(self, other: Number) -> bool:
        return least(self - other) >= 1

    def __ge__(self, other: Number) -> bool:
        return least(self - other) >= 0


def alone(size: Number | None) -> Symbol | None:
    """The symbol that a size is, where it is nothing else."""
    if isinstance(size, Size) and len(size.terms) == 1 and size.terms[0][1] == 1:
        atoms = size.terms[0][0]
        if len(atoms) == 1 and isinstance(atoms[0], Symbol):
            return atoms[0]
    return None


@overload
def ceil_div(value: int, divisor: int) -> int: ...
@overload
def ceil_div(value: Number, divisor: int) -> Number: ...
def ceil_div(value: Number, divisor: int) -> Number:
    """value / divisor, rounded up."""
    return (value + (divisor - 1)) // divisor


@overload
def maximum(a: int, b: int) -> int: ...
@overload
def maximum(a: Number, b: Number) -> Number: ...
def maximum(a: Number, b: Number) -> Number:
    """The larger of two numbers."""
    return b + _positive(a - b)


def minimum(a: Number, b: Number) -> Number:
    """The smaller of two numbers."""
    return a - _positive(a - b)


def _positive(value: Number) -> Number:
    if isinstance(value, int):
        return max(value, 0)
    if value >= 0:
        return value
    if value <= 0:
        return 0
    return unproved(value)


def unproved(value: Number) -> Number:
    """The larger of a number and 0, of which no proof is asked."""
    if isinstance(value, int):
        return max(value, 0)
    if value.terms[0][1] < 0:  # so that the smaller of a and b is that of b and a
        return unproved(-value) + value
    return Size((((Positive(value),), 1),))


def is_more(value: Number, most: int) -> Number:
    """1 where a number is more than `most`; else 0.

    It is no other number where a symbol is 0 that proofs take for 1 or more.
    """
    found = minimum(value, most + 1) // (most + 1)
    return found if value >= 0 else maximum(found, 0)


@overload
def exact(value: int, divisor: int) -> int | None: ...
@overload
def exact(value: Number, divisor: Number) -> Number | None: ...
def exact(value: Number, divisor: Number) -> Number | None:
    """value / divisor where that is a size without remainder; None where it is not known."""
    if not isinstance(value, Size) and not isinstance(divisor, Size):
        return value // divisor if value % divisor == 0 else None
    if value == divisor:
        return 1
    if value == 0:
        return 0
    divisors = _terms(divisor)
    if len(divisors) != 1:
        return _long_division(value, divisor)
    ((atoms, factor),) = divisors
    result = []
    for have, number in _terms(value):
        left = list(have)
        for atom in atoms:
            if atom not in left:
                return None
            left.remove(atom)
        if number % factor:
            return None
        result.append((tuple(left), number // factor))
    return _sum(result)


# Terms that a quotient of two sums has at the most.
_MOST_TERMS = 16


def _long_division(value: Number, divisor: Number) -> Number | None:
    """A quotient by a sum without remainder, as (h*w-2*h-2*w+4) / (h-2) is; None without one."""
    result: Number = 0
    for _ in range(_MOST_TERMS):
        part = exact(_first_term(value), _first_term(divisor))
        if part is None:
            return None
        result, value = result + part, value - part * divisor
        if value == 0:
            return result
    return None


def root(value: Number) -> Number | None:
    """The number of 0 or more whose square a size is, as n+1 is of n*n+2*n+1; None without one."""
    if isinstance(value, int):
        whole = math.isqrt(value) if value >= 0 else -1
        return whole if whole * whole == value else None
    ((atoms, factor),) = _terms(_first_term(value))
    side = root(factor)
    if side is None or atoms[::2] != atoms[1::2]:
        return None
    first = result = _sum([(atoms[::2], 1)]) * side
    for _ in range(_MOST_TERMS):
        rest = value - result * result
        if rest == 0:
            return result if result >= 0 else None
        part = exact(_first_term(rest), first * 2)
        if part is None:
            return None
        result = result + part
    return None


def _first_term(number: Number) -> Number:
    """The term of the highest degree; of some, that of the atoms that come first."""

    def rank(term: tuple[Monomial, int]) -> tuple[int, list[str]]:
        return -len(term[0]), sorted(map(str, term[0]))

    return _sum([min(_terms(number), key=rank)])


def common_factor(value: Number) -> int:
    """A number that divides a size, whatever its symbols are: 0 for 0."""
    return math.gcd(*(factor for _, factor in _terms(value)))


@lru_cache(_MOST_KEPT)
def bounds(value: Number) -> tuple[float, float]:
    """The least and the greatest size; infinite where there is no bound."""
    if isinstance(value, int):
        return value, value
    low = high = 0.0
    for atoms, factor in value.terms:
        ends = [_atom_bounds(atom) for atom in atoms]
        if any(e[0] < 0 for e in ends):
            return -math.inf, math.inf
        corners = [math.prod(e[0] for e in ends), math.prod(e[1] for e in ends if e[1])]
        low += factor * corners[0 if factor > 0 else 1]
        high += factor * corners[1 if factor > 0 else 0]
    return low, high


@lru_cache(_MOST_KEPT)
def least(value: Number) -> float:
    """A number that the size is never below: the best that two ways find.

    The other way than intervals counts each atom from its least size: `a*b-b` becomes
    `a'*b'+a'` with all of a' and b' from 0.
    """
    low = bounds(value)[0]
    if isinstance(value, int) or low >= 0:
        return low
    alone = [(a, f) for a, f in value.terms if len(a) == 1 and not isinstance(a[0], Symbol)]
    for (own,), factor in alone if len(alone) <= _MOST_ATOMS else ():
        rest = _sum(term for term in value.terms if term != ((own,), factor))
        if isinstance(own, Positive):
            either = least(rest), least(rest + own.value * factor)
            return max(*either, low) if factor > 0 else min(either)
        assert isinstance(own, Floor)
        shared = math.gcd(factor, own.divisor) if isinstance(own.divisor, int) else 1
        if isinstance(own.divisor, int) and shared > 1:
            # The quotient by the divisor is one by its parts; rounding takes less than one away.
            first = own.value // (own.divisor // shared)
            lost = shared - 1 if factor > 0 else 0
            low = max(low, least(rest + (first - lost) * (factor // shared)))
    total: dict[tuple[str, ...], float] = {}
    for atoms, factor in value.terms:
        expanded: dict[tuple[str, ...], float] = {(): factor}
        for atom in atoms:
            start = _atom_bounds(atom)[0]
            longer: dict[tuple[str, ...], float] = {}
            for names, number in expanded.items():
                more = tuple(sorted((*names, str(atom))))
                longer[more] = longer.get(more, 0) + number
                longer[names] = longer.get(names, 0) + number * start
            expanded = longer
        for names, number in expanded.items():
            total[names] = total.get(names, 0) + number
    constant = total.pop((), 0)
    return max(low, constant) if all(number >= 0 for number in total.values()) else low


def _atom_bounds(atom: Atom) -> tuple[float, float]:
    if isinstance(atom, Symbol):
        return atom.low, math.inf if atom.high is None else atom.high
    if isinstance(atom, Positive):
        low, high = bounds(atom.value)
        return max(low, 0), max(high, 0)
    (low, high), (least, most) = bounds(atom.value), bounds(atom.divisor)
    if low < 0 or least <= 0:
        return -math.inf, math.inf
    return low // most if most < math.inf else 0, high // least if high < math.inf else high


def symbols(value: Number) -> Iterator[Symbol]:
    """The symbols that a size depends on; one may come more than once."""
    for atoms, _ in _terms(value):
        for atom in atoms:
            if isinstance(atom, Symbol):
                yield atom
                continue
            yield from symbols(atom.value)
            if isinstance(atom, Floor):
                yield from symbols(atom.divisor)


def evaluate(value: Number, known: Mapping[str, int]) -> int:
    """The size where the symbols have these sizes. Raises KeyError for a symbol without."""
    if isinstance(value, int):
        return value
    total = 0
    for atoms, factor in value.terms:
        total += factor * math.prod(_atom_value(atom, known) for atom in atoms)
    return total


def _atom_value(atom: Atom, known: Mapping[str, int]) -> int:
    if isinstance(atom, Symbol):
        return known[atom.name]
    if isinstance(atom, Positive):
        return max(evaluate(atom.value, known), 0)
    return evaluate(atom.value, known) // evaluate(atom.divisor, known)


def sides(value: Size) -> tuple[Number, Number]:
    """Two sizes, of terms that are added alone, which are equal where this one is 0."""
    more = _sum(term for term in value.terms if term[1] > 0)
    return more, more - value


def substitute(value: Number, known: Mapping[str, Number]) -> Number:
    """The size with symbols replaced by other sizes."""
    if isinstance(value, int):
        return value
    total: Number = 0
    for atoms, factor in value.terms:
        product: Number = factor
        for atom in atoms:
            if isinstance(atom, Symbol):
                product = product * known.get(atom.name, Size((((atom,), 1),)))
            elif isinstance(atom, Positive):
                product = product * _positive(substitute(atom.value, known))
            else:
                inner = substitute(atom.value, known)
                product = product * (inner // substitute(atom.divisor, known))
        total = total + product
    return total


def _terms(value: Number) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(value, int):
        return (((), value),) if value else ()
    return value.terms


def _sum(terms: Iterable[tuple[Monomial, int]]) -> Number:
    total: dict[Monomial, int] = {}
    for atoms, factor in terms:
        total[atoms] = total.get(atoms, 0) + factor
    kept = [(atoms, factor) for atoms, factor in total.items() if factor]
    if not any(atoms for atoms, _ in kept):
        return sum(factor for _, factor in kept)
    # The constant goes last.
    return Size(tuple(sorted(kept, key=lambda term: (not term[0], [str(a) for a in term[0]]))))


def _factor_text(value: Number) -> str:
    plain = isinstance(value, int) or alone(value) is not None
    return str(value) if plain else f"({value})"
