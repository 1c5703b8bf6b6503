"""Operators on strings that onnx's reference does not evaluate as the host needs it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from mgx_mlir.errors import ModelError
from mgx_mlir.host.table import Call, Kind, host_operator


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
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ModelError(f"the pattern '{pattern}' is wrong: {error}") from error
    matches = [compiled.fullmatch(text) is not None for text in x.reshape(-1)]
    return [np.array(matches, np.bool_).reshape(x.shape)]
