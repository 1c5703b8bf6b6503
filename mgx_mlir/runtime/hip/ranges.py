"""Ranges of roctx, by which AMD's profilers name work; none where its library is not there."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from functools import cache

# ROCm 6.2's library, and the one before.
LIBRARIES = ("librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so.0", "libroctx64.so.4")


@cache
def _library() -> ctypes.CDLL | None:
    for name in LIBRARIES:
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(name)
            library.roctxRangePushA.argtypes = [ctypes.c_char_p]
            return library
    return None


@contextlib.contextmanager
def named_range(name: str) -> Iterator[None]:
    """The block is a range of that name."""
    library = _library()
    if library is None:
        yield
        return
    library.roctxRangePushA(name.replace("\0", "").encode())
    try:
        yield
    finally:
        library.roctxRangePop()
