"""Sizes from their texts, as files and tensor types hold them: `batch*seq`, `max(seq, 4)`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from mgx_mlir.sizes.arithmetic import Number, Size, Symbol, bounds, maximum

# A formula of a file is no longer than this, and no deeper.
MAX_TEXT = 4096
MAX_DEPTH = 32
_TOKEN = re.compile(r"\s*(?:(\d+)|([^\W\d][\w.]*)|`([^`]+)`|(//|[-+*(),]))")


def parse(text: str, known: Mapping[str, Symbol] | None = None) -> Number:
    """The size that a text is; `known` gives the bounds of symbols, by name.

    Raises ValueError for what is no size.
    """
    if len(text) > MAX_TEXT:
        raise ValueError(f"a size of {len(text)} characters; at most {MAX_TEXT} are read")
    return _parsed(text, *((symbol, symbol.optimals) for symbol in (known or {}).values()))


@lru_cache(1 << 14)
def _parsed(text: str, *known: tuple[Symbol, tuple[int, ...]]) -> Number:
    return _Parser(text, {symbol.name: symbol for symbol, _ in known}).whole()


class _Parser:
    def __init__(self, text: str, known: Mapping[str, Symbol]) -> None:
        self.text, self.known, self.depth = text, known, 0
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
            value = value * other if sign == "*" else value // other
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
            return maximum(self.inner(","), self.inner(")"))
        return Size.of(self.known.get(text, Symbol(text)))
