"""Writing files so that nothing is ever half-written."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under `path` when the block ends well, and not otherwise.

    It is written beside its place, so that the final rename stays on one file system. A symbolic
    link stays, and the file that it names is written; a device or a pipe is written as it is.
    Raises OSError as open() does, about `path`.
    """
    try:
        status = path.stat()
    except OSError:
        status = None  # a new file, or open() says why not
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if status is not None and not stat.S_ISREG(status.st_mode):
        with _about(path), path.open("wb") as stream:
            yield stream
        return
    place = Path(os.path.realpath(path))
    temporary = place.with_name(f".{place.name[:200]}.{secrets.token_hex(4)}")
    try:
        with _about(path, temporary):
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            with open(descriptor, "wb") as stream:
                if status is not None:
                    os.fchmod(stream.fileno(), stat.S_IMODE(status.st_mode))
                yield stream
            os.replace(temporary, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def _about(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Makes errors of writing, which name no file or a temporary one, those of `path`."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(temporary)):
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error


def write_atomically(path: Path, data: bytes) -> None:
    """Writes `data` to `path`, whole or not at all."""
    with atomic_file(path) as stream:
        stream.write(data)
