"""Code objects kept on disk, by the hash of everything that they depend on.

An entry is one file, named by its key, that carries the hash of its own content. It is
written beside its place and renamed, so that any number of processes may share a folder:
readers see a whole entry or none, and two writers of one entry write the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.files import read_whole, write_atomically
from mgx_mlir.finalizer.cache_entry import MAX_ENTRY, decode, encode, read_entry, voucher
from mgx_mlir.trust import MADE, NOBODY, Trust, check_own_folder, make_own_folder, owner_fault

_log = logging.getLogger(__name__)

SUFFIX = ".mgxc"
DEFAULT_BYTES = 4096 << 20
# Pruning empties the cache to this part of its bound, so that it is rare.
KEEP = 0.75


def cache_key(*parts: str) -> str:
    """The key for the given parts: a SHA-256 in hexadecimal, which no two lists share."""
    digest = hashlib.sha256()
    for part in parts:
        text = part.encode()
        digest.update(len(text).to_bytes(8, "little"))
        digest.update(text)
    return digest.hexdigest()


@dataclass(frozen=True)
class Entry:
    """A file of the cache: its key, its size, and when it was last used (seconds)."""

    key: str
    path: Path
    bytes: int
    used: float


@once
def _tell_unwritten(folder: Path, reason: str) -> None:
    _log.warning("the kernel cache %s cannot be written (%s): what is finalized is not kept, "
                 "and is made again each time", folder, reason)  # fmt: skip


@once
def _tell_no_folder(shared: Path) -> None:
    _log.warning("MGX_CACHE_SHARED is %s, and no such folder is there: no kernel comes from it",
                 shared)  # fmt: skip


class Cache:
    """A folder of code objects of at most `max_bytes` bytes; the least recently used go.

    A key that it lacks is looked up in `shared`, a folder of the same form that is only read.
    Reading and writing never fail: an unreadable entry counts as missing, an entry that cannot
    be written is not kept, which is said once. `problem` is the last failure of a folder,
    `unwritten` the last one to write.

    The folder is this user's alone, so that what it holds vouches for code: its entries, and the
    hashes of code that was made here. An entry of `shared` counts where it is root's or this
    user's, or `trust` takes it.
    """

    def __init__(
        self,
        folder: Path,
        max_bytes: int = DEFAULT_BYTES,
        shared: Path | None = None,
        trust: Trust = NOBODY,
    ) -> None:
        """Raises UserError where another user can write to the folder."""
        check_own_folder(folder)
        if shared is not None and not os.path.isdir(shared):
            _tell_no_folder(shared)
        self.folder = folder
        self.trust = trust
        self.max_bytes = max_bytes
        self.shared = shared
        self.problem = ""
        self.unwritten = ""
        self.hits = 0
        self.misses = 0
        self._written = 0

    def get(self, key: str) -> CodeObject | None:
        """The code object under `key`. A damaged entry is deleted and not there."""
        found = self._read(self._path(key))
        if found is None and self.shared is not None:
            found = self._read_shared(key, self.shared)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        return found

    def put(self, key: str, code: CodeObject) -> None:
        """Keeps a code object under `key`."""
        self._write(key, encode(code))

    def put_entry(self, key: str, data: bytes) -> None:
        """Keeps the bytes of another cache's entry. ValueError where they are not sound."""
        decode(data)
        self._write(key, data)

    def _read(self, path: Path) -> CodeObject | None:
        try:
            found = read_entry(path)
        except OSError:
            return None
        except ValueError as error:
            self.problem = f"{path} is damaged ({error}) and is deleted"
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return found

    def _read_shared(self, key: str, folder: Path) -> CodeObject | None:
        path = self._path(key, folder)
        try:
            data, status = read_whole(path, MAX_ENTRY)
            found = decode(data)
            places = ((path, status), *((p, p.stat()) for p in (path.parent, folder)))
        except OSError:
            return None
        except ValueError as error:
            self.problem = f"{path} is damaged ({error})"
            return None
        faults = [owner_fault(*place, (0, os.geteuid())) for place in places]
        if any(faults) and not voucher(key, data, found.arch, self.trust):
            if not self.problem:
                _log.warning(
                    "MGX_CACHE_SHARED: %s: its code is not used", next(filter(None, faults))
                )
            self.problem = f"{path} is not used: {next(filter(None, faults))}"
            return None
        return found

    def _write(self, key: str, data: bytes) -> None:
        path = self._path(key)
        try:
            make_own_folder(self.folder)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if path.exists() and not path.is_file():
                path.unlink()  # a pipe would be written to
            write_atomically(path, data)
        except OSError as error:
            self.problem = self.unwritten = f"{path} cannot be written: {error.strerror or error}"
            _tell_unwritten(self.folder, error.strerror or str(error))
            return
        self._written += len(data)
        # Every process looks at the folder after it has written a part of the bound.
        if self._written > self.max_bytes * (1 - KEEP) / 2:
            self.prune()

    def entries(self) -> Iterator[Entry]:
        """All entries, in no order."""
        for path in self.folder.glob(f"??/*{SUFFIX}"):
            with contextlib.suppress(OSError):
                status = path.stat()
                yield Entry(path.stem, path, status.st_size, status.st_mtime)

    def prune(self, max_bytes: int | None = None) -> int:
        """Deletes the least recently used entries until the rest fits; gives their bytes.

        Without `max_bytes`, nothing happens below the cache's bound, and above it the
        cache shrinks to three quarters of it. Files that a killed process left go too.
        """
        self._written = 0
        entries = sorted(self.entries(), key=lambda entry: (entry.used, entry.key))
        total = sum(entry.bytes for entry in entries)
        bound = int(self.max_bytes * KEEP) if max_bytes is None else max_bytes
        if max_bytes is None and total <= self.max_bytes:
            return 0
        removed = 0
        for entry in entries:
            if total - removed <= bound:
                break
            with contextlib.suppress(OSError):
                entry.path.unlink()
            removed += entry.bytes
        self._forget(min((e.used for e in self.entries()), default=math.inf))
        self._remove_leftovers(entries[-1].used if entries else 0)
        return removed

    def verify(self) -> list[str]:
        """Reads every entry; deletes the damaged ones and gives their keys."""
        damaged = []
        for entry in self.entries():
            try:
                read_entry(entry.path)
            except ValueError:
                damaged.append(entry.key)
                with contextlib.suppress(OSError):
                    entry.path.unlink()
            except OSError:
                continue
        return damaged

    def clear(self) -> None:
        """Deletes every entry."""
        self.prune(0)

    def _path(self, key: str, folder: Path | None = None) -> Path:
        return (folder or self.folder) / key[:2] / (key + SUFFIX)

    def _forget(self, oldest: float) -> None:
        """Deletes the hashes that were used before the oldest entry."""
        for path in (self.folder / MADE).glob("*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def _remove_leftovers(self, newest: float) -> None:
        """Deletes temporary files older than an hour before the newest entry."""
        for path in self.folder.glob(f"??/.*{SUFFIX}.*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < newest - 3600:
                    path.unlink()
