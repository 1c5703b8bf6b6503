"""The word that a user meant: the nearest of those that there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Words that are at most this much farther than the nearest are named too.
_TIE = 0.03
_LISTED = 40


def instead(word: str, known: Iterable[str], otherwise: str, least: float = 0.6) -> str:
    """'did you mean X?' where a known word is near, in upper or lower case; else `otherwise`.

    `least` is how alike words are, at least: 1 for equal ones.
    """
    words = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), words, 3, least)
    if not near:
        return otherwise
    ratios = [difflib.SequenceMatcher(None, name, word.lower()).ratio() for name in near]
    tie = ratios[0] - _TIE
    meant = [words[n] for n, ratio in zip(near, ratios, strict=True) if ratio >= tie]
    return f"did you mean {' or '.join(meant)}?"


def listed(known: Iterable[str]) -> str:
    """Words for a message: 'a, b'; 'none' for none."""
    words = list(known)
    more = ", ..." if len(words) > _LISTED else ""
    return ", ".join(words[:_LISTED]) + more or "none"
