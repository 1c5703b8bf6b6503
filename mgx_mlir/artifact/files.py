"""Writing files so that nothing is ever half-written, and nothing that was read is replaced."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from mgx_mlir.errors import UsageError


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


def is_one_file(one: Path, other: Path) -> bool:
    """Whether two paths name one file, by links of either kind, also where it is not there yet.

    A device or a pipe is none: writing to it replaces nothing.
    """
    try:
        status = one.stat()
        return stat.S_ISREG(status.st_mode) and os.path.samestat(status, other.stat())
    except (OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other)


def keep_inputs(output: Path, inputs: Iterable[Path], where: str = "") -> None:
    """Raises UsageError where a file to be written is one of those that are read.

    `where` is the option or the argument that names the output.
    """
    for path in inputs:
        if is_one_file(output, path):
            named = f"{where} {output}" if where else str(output)
            raise UsageError(f"{named} would overwrite {path}, which is read; choose another file")


def read_whole(path: Path, most: int) -> tuple[bytes, os.stat_result]:
    """The bytes of a regular file, and its status. Raises OSError, and ValueError for anything
    else, which could keep the reader waiting, and for more than `most` bytes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no regular file")
        if status.st_size > most:
            raise ValueError(f"it has {status.st_size} bytes, and at most {most} are read")
        return stream.read(), status
