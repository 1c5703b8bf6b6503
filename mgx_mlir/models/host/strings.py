"""Operators on strings that onnx's reference does not evaluate as the host needs it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from mgx_mlir.errors import ModelError
from mgx_mlir.models.host.table import Call, Kind, host_operator


@host_operator("StringNormalizer", Kind.STRINGS)
def string_normalizer(call: Call) -> Any:
    """Leaves out stop words, [C] or [1, C], and changes the case; never gives no element."""
    x = call.array(0)
    if x.ndim not in (1, 2) or (x.ndim == 2 and len(x) != 1):
        raise ModelError(f"its input has the shape {list(x.shape)}, not [C] or [1, C]")
    action = call.attribute("case_change_action")
    changes: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
    if action not in changes:
        raise ModelError(f"case_change_action = {action}; NONE, LOWER and UPPER are known")
    fold: Callable[[str], str] = str if call.attribute("is_case_sensitive") else str.casefold
    stop = {fold(word) for word in call.attribute("stopwords", [])}
    kept = [changes[action](word) for word in x.reshape(-1) if fold(word) not in stop] or [""]
    return [np.array(kept, object).reshape((1,) * (x.ndim - 1) + (-1,))]


@host_operator("RegexFullMatch", Kind.STRINGS)
def regex_full_match(call: Call) -> Any:
    """Whether the pattern, in RE2's syntax, matches each string as a whole."""
    pattern, x = call.attribute("pattern"), call.array(0)
    if pattern is None:
        raise ModelError("it states no pattern")
    compiled = _compiled(pattern)
    matches = [compiled.fullmatch(text) is not None for text in x.reshape(-1)]
    return [np.array(matches, np.bool_).reshape(x.shape)]


# The marks of the start and the end of a text.
_START, _END = "\x02", "\x03"


@host_operator("Tokenizer", Kind.STRINGS, "com.microsoft")
def tokenizer(call: Call) -> Any:
    """The tokens of each text of [C] or [N, C] along a new last axis, padded to the most tokens.

    Tokens are the matches of `tokenexp`, or the text between matches of `separators`;
    one separator that is empty cuts a text into characters.
    """
    x = call.array(0)
    if x.ndim not in (1, 2):
        raise ModelError(f"its input has the shape {list(x.shape)}, not [C] or [N, C]")
    least, pad = call.attribute("mincharnum"), call.attribute("pad_value")
    expression, separators = call.attribute("tokenexp"), call.attribute("separators", [])
    if bool(expression) == bool(separators):
        raise ModelError("it states one of tokenexp and separators, not both and not neither")
    if least is None or least < 1 or pad is None:
        raise ModelError(f"mincharnum = {least} and pad_value = {pad!r}; both are needed")
    cut = _cutter(expression, separators)
    rows = [[token for token in cut(text) if len(token) >= least] for text in x.reshape(-1)]
    if call.attribute("mark", 0):
        rows = [[_START, *tokens, _END] for tokens in rows]
    longest = max(map(len, rows), default=0)
    padded = [tokens + [pad] * (longest - len(tokens)) for tokens in rows]
    return [np.array(padded, object).reshape(*x.shape, longest)]


def _cutter(expression: str | None, separators: list[str]) -> Callable[[str], list[str]]:
    """A function from a text to its tokens, some of which may be empty."""
    if separators == [""]:
        return list
    patterns = [_compiled(pattern) for pattern in ([expression] if expression else separators)]
    if expression:
        return lambda text: [match.group() for match in patterns[0].finditer(text)]

    def split(text: str) -> list[str]:
        parts = [text]
        for pattern in patterns:
            parts = [token for part in parts for token in _between(pattern, part)]
        return parts

    return split


def _between(pattern: re.Pattern[str], text: str) -> list[str]:
    places = [match.span() for match in pattern.finditer(text) if match.group()]
    starts, ends = [0, *(end for _, end in places)], [*(start for start, _ in places), len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ModelError(f"the pattern '{pattern}' is wrong: {error}") from error
