"""Numbers that depend on a comparison of sizes: one where it holds, another where it does not.

Exporters compare sizes (`Equal`, `Less`) and choose by the result (`Where`, or a product with 0 or
1). A comparison that is no proof gives a `Case`; arithmetic works on both of its numbers, and
`plain` makes a formula of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mgx_mlir.sizes.arithmetic import Number, Size, exact, is_more, maximum

# Comparisons that one number depends on, at the most.
_MOST_TESTS = 4


@dataclass(frozen=True)
class Test:
    """Whether a size is 0, or else whether it is 1 or more."""

    size: Size
    is_zero: bool

    def indicator(self) -> Number:
        """1 where it holds, else 0."""
        more = is_more(self.size, 0)
        return 1 - more - is_more(-self.size, 0) if self.is_zero else more


@dataclass(frozen=True)
class Case:
    """`yes` where the test holds, else `no`: numbers, booleans or Cases of other tests."""

    test: Test
    yes: Any
    no: Any


class UnknownError(Exception):
    """The value depends on more than proofs and few comparisons tell."""


def equal(a: Number, b: Number) -> bool | Case:
    """Whether two sizes are equal."""
    if a == b:
        return True
    if a < b or b < a:
        return False
    size = a - b
    assert isinstance(size, Size)
    # One of the two forms, that which is not below 0 if there is one.
    if size <= 0 or (not size >= 0 and size.terms[0][1] < 0):
        size = -size
    assert isinstance(size, Size)
    return Case(Test(size, True), True, False)


def less(a: Number, b: Number) -> bool | Case:
    """Whether a size is less than another."""
    if a < b:
        return True
    if b <= a:
        return False
    size = b - a
    assert isinstance(size, Size)
    return Case(Test(size, False), True, False)


def either(a: bool | Case, b: bool | Case) -> bool | Case:
    """Whether one of two comparisons holds; `a < b or a == b` is one comparison."""
    if isinstance(a, Case) and isinstance(b, Case) and a.test.is_zero < b.test.is_zero:
        alike = b.test.size in (a.test.size, -a.test.size)
        if alike and (a.yes, a.no, b.yes, b.no) == (True, False, True, False):
            return less(0, a.test.size + 1)
    return lifted(lambda one, other: bool(one or other))(a, b)  # type: ignore[no-any-return]


def lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for numbers that may be Cases."""

    def apply(*parts: Any, depth: int = 0) -> Any:
        first = next((part for part in parts if isinstance(part, Case)), None)
        if first is None:
            return function(*parts)
        if depth == _MOST_TESTS:
            raise UnknownError
        test = first.test
        sides = [
            apply(*(_under(part, test, holds) for part in parts), depth=depth + 1)
            for holds in (True, False)
        ]
        return sides[0] if sides[0] == sides[1] else Case(test, *sides)

    return apply


def _under(part: Any, test: Test, holds: bool) -> Any:
    """A number where the test holds, or where it does not."""
    if not isinstance(part, Case):
        return part
    if part.test == test:
        return _under(part.yes if holds else part.no, test, holds)
    yes, no = (_under(side, test, holds) for side in (part.yes, part.no))
    return yes if yes == no else Case(part.test, yes, no)


def plain(value: Any) -> Any:
    """The number as one formula; a number that is no Case as it is."""
    if not isinstance(value, Case):
        return value
    yes, no, test = plain(value.yes), plain(value.no), value.test
    more = yes - no
    if more == 0 or (test.is_zero and exact(more, test.size) is not None):
        return no  # they are equal where the test holds
    if not test.is_zero:
        for size in (test.size, test.size - 1):  # the larger, or the smaller, of two numbers
            if more == size:
                return no + maximum(size, 0)
            if more == -size:
                return no - maximum(size, 0)
    return no + test.indicator() * more
