"""Text for people: names from files are shown without what a terminal would obey."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

# C0 and C1 controls but newline and tab, line separators, marks of writing direction, surrogates.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

# The name of standard output in errors of writing.
STANDARD_OUTPUT = "standard output"


def printable(text: str) -> str:
    """The text with control characters as escapes: '\\x1b'. Newlines and tabs stay."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def name_text(name: str) -> str:
    """A name on one line, control characters and line ends as escapes."""
    return printable(name).replace("\n", "\\n").replace("\t", "\\t")


class _Printable:
    """A text stream that shows control characters as escapes, for names are anybody's.

    An error of writing is one about `name`; without a name it is lost, as messages are that have
    nowhere to go.
    """

    def __init__(self, stream: Any, name: str = "") -> None:
        self._stream = stream
        self._name = name

    def write(self, text: str) -> int:
        with self._writing():
            self._stream.write(printable(text))
        return len(text)

    def flush(self) -> None:
        with self._writing():
            self._stream.flush()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            if not self._name:
                return
            if isinstance(error, ValueError) or error.errno is None or error.errno == errno.EPIPE:
                raise
            raise type(error)(error.errno, error.strerror, self._name) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def printable_output() -> Iterator[None]:
    """Within the block, control characters in what is printed are escaped, and a standard stream
    that is closed is the null device."""
    with contextlib.ExitStack() as stack:
        _open_closed()
        nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        stack.callback(nowhere.close)
        out: Any = _Printable(sys.stdout or nowhere, STANDARD_OUTPUT)
        err: Any = _Printable(sys.stderr or nowhere)
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        yield


def _open_closed() -> None:
    """Opens the null device for the standard streams that are closed: files that are opened later
    would have their numbers, and be written to by all that writes to these."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the least number that is free


def of_verifier(text: str) -> str:
    """The words of MLIR's verifier about an op: 'mgx.softmax: axis must be in [0, 2), got 99'."""
    text = " ".join(text.split())
    found = re.search(r"error: .*?'([\w.]+)' op (.*?)(?: note: .*)?$", text)
    return f"{found[1]}: {found[2]}" if found is not None else text
