"""Sizes from their texts, as files and tensor types hold them: `batch*seq`, `max(seq, 4)`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from mgx_mlir.errors import OpenError
from mgx_mlir.sizes.arithmetic import (
    Number,
    Size,
    Symbol,
    bounds,
    maximum,
    substitute,
    symbols,
    unproved,
)

# A formula of a file is no longer than this and no deeper. Written out as a sum of products a
# product in it has no more terms, each of no more factors, and no part is longer than this.
MAX_TEXT = 4096
MAX_DEPTH = 32
MAX_TERMS = 1024
MAX_FACTORS = 64
MAX_WRITTEN = 4 * MAX_TEXT
_TOKEN = re.compile(r"\s*(?:(\d+)|([^\W\d][\w.]*)|`([^`]+)`|(//|[-+*(),]))")


class LongSizeError(OpenError, ValueError):
    """A size is a formula of too many characters."""


def parse(text: str, known: Mapping[str, Symbol] | None = None) -> Number:
    """The size that a text is. `known` gives the bounds of symbols, by name, and others are 1 or
    more; without it each may be 0.

    Raises ValueError for what is no size, LongSizeError for a longer text.
    """
    if len(text) > MAX_TEXT:
        raise LongSizeError(
            f"a size is a formula of {len(text)} characters, '{text:.80}...'; at most {MAX_TEXT} "
            "are read: give the model some of the sizes in it"
        )
    bounded = ((symbol, symbol.optimals) for symbol in (known or {}).values())
    return _parsed(text, known is None, *bounded)


@lru_cache(1 << 14)
def _parsed(text: str, unknown: bool, *known: tuple[Symbol, tuple[int, ...]]) -> Number:
    return _Parser(text, {symbol.name: symbol for symbol, _ in known}, unknown).whole()


class _Parser:
    def __init__(self, text: str, known: Mapping[str, Symbol], unknown: bool) -> None:
        self.text, self.known, self.unknown, self.depth = text, known, unknown, 0
        self.tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(text.rstrip()):
            found = _TOKEN.match(text, place)
            if found is None:
                raise self.error()
            kinds = ("number", "name", "name", "sign")
            kind = kinds[(found.lastindex or 1) - 1]
            self.tokens.append((kind, found[found.lastindex or 0]))
            place = found.end()
        self.place = 0

    def error(self) -> ValueError:
        return ValueError(f"'{self.text:.80}' is not a size")

    def long_error(self) -> LongSizeError:
        return LongSizeError(f"'{self.text:.80}' has too many terms or factors for a size")

    def short(self, value: Number) -> Number:
        """A part of the size, which is not too long written out."""
        if len(str(value)) > MAX_WRITTEN:
            raise self.long_error()
        return value

    def whole(self) -> Number:
        value = self.total()
        if self.place != len(self.tokens):
            raise self.error()
        return value

    def sign(self, *wanted: str) -> str:
        """The next token, taken, if it is one of the signs; '' if it is not."""
        if self.place < len(self.tokens):
            kind, text = self.tokens[self.place]
            if kind == "sign" and text in wanted:
                self.place += 1
                return text
        return ""

    def total(self) -> Number:
        value = self.product() if not self.sign("-") else self.product() * -1
        while sign := self.sign("+", "-"):
            other = self.product()
            value = value + other if sign == "+" else value - other
        return value

    def product(self) -> Number:
        value = self.factor()
        while sign := self.sign("*", "//"):
            other = self.factor()
            if sign == "//" and bounds(other)[0] < 1:
                raise self.error()
            if sign == "*" and not _is_short(value, other):
                raise self.long_error()
            value = self.short(value * other if sign == "*" else value // other)
        return value

    def inner(self, end: str) -> Number:
        """What stands within brackets, up to a sign."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error()
        value = self.total()
        self.depth -= 1
        if not self.sign(end):
            raise self.error()
        return value

    def factor(self) -> Number:
        if self.sign("("):
            return self.inner(")")
        if self.place == len(self.tokens) or self.tokens[self.place][0] == "sign":
            raise self.error()
        kind, text = self.tokens[self.place]
        self.place += 1
        if kind == "number":
            return int(text)
        if text == "max" and self.sign("("):
            return self.short(self.larger(self.inner(","), self.inner(")")))
        return Size.of(self.known.get(text, Symbol(text)))

    def larger(self, a: Number, b: Number) -> Number:
        """The larger of two numbers; of symbols that may be 0, no proof speaks."""
        found = maximum(a, b)
        least = {s.name: Size.of(Symbol(s.name, 0)) for s in symbols(a - b)} if self.unknown else {}
        if not least or str(maximum(substitute(a, least), substitute(b, least))) == str(found):
            return found
        return b + unproved(a - b)


def _is_short(a: Number, b: Number) -> bool:
    """Whether the product of two numbers is not too long to be written out."""
    if not isinstance(a, Size) or not isinstance(b, Size):
        return True
    factors = sum(max(len(atoms) for atoms, _ in x.terms) for x in (a, b))
    return len(a.terms) * len(b.terms) <= MAX_TERMS and factors <= MAX_FACTORS
