"""Text for people: names from files are shown without what a terminal would obey."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import Any

# C0 and C1 controls but newline and tab, line separators, marks of writing direction, surrogates.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with control characters as escapes: '\\x1b'. Newlines and tabs stay."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def name_text(name: str) -> str:
    """A name on one line, control characters and line ends as escapes."""
    return printable(name).replace("\n", "\\n").replace("\t", "\\t")


class _Printable:
    """A text stream that shows control characters as escapes, for names are anybody's."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        written: int = self._stream.write(printable(text))
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def printable_output() -> Iterator[None]:
    """Within the block, control characters in what is printed are escaped."""
    out: Any = _Printable(sys.stdout)
    err: Any = _Printable(sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield
