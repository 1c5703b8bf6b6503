"""A cache in one file: a tar archive of its entries, each under its key."""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from mgx_mlir.artifact.files import atomic_file
from mgx_mlir.errors import UsageError
from mgx_mlir.finalizer.cache import SUFFIX, Cache
from mgx_mlir.finalizer.cache_entry import MAX_ENTRY, decode, read_entry, voucher

_NAME = re.compile(rf"([0-9a-f]{{64}}){re.escape(SUFFIX)}")


def export_cache(cache: Cache, path: Path, arch: str | None = None) -> int:
    """Writes the sound entries, of one target where it is named; gives their number.

    The same entries give the same bytes. Raises OSError as open() does.
    """
    count = 0
    with atomic_file(path) as stream, tarfile.open(fileobj=stream, mode="w|") as archive:
        for entry in sorted(cache.entries(), key=lambda entry: entry.key):
            try:
                code = read_entry(entry.path)
            except (OSError, ValueError):
                continue  # gone meanwhile, or damaged
            if arch is not None and code.arch.partition(":")[0] != arch:
                continue
            member = tarfile.TarInfo(entry.key + SUFFIX)
            with entry.path.open("rb") as content:
                member.size = entry.bytes
                archive.addfile(member, content)
            count += 1
    return count


@dataclass
class Imported:
    """The members of an archive: how many were kept by the reason to trust them, and `refused`
    ones by name, each with the fault."""

    kept: Counter[str] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict)


def import_cache(cache: Cache, path: Path) -> Imported:
    """Adds the entries of an archive that the cache's `trust` takes.

    Every member is checked before it is kept. Raises UsageError for a file that is no archive,
    OSError as open() does.
    """
    found = Imported()
    try:
        with tarfile.open(path, mode="r:") as archive:
            for member in archive:
                name = _NAME.fullmatch(member.name)
                content = archive.extractfile(member) if member.isreg() and name else None
                if name is None or content is None or member.size > MAX_ENTRY:
                    found.refused[member.name] = "no sound entry"
                    continue
                try:
                    data = content.read()
                    reason = voucher(name[1], data, decode(data).arch, cache.trust)
                except ValueError:
                    found.refused[member.name] = "no sound entry"
                    continue
                if not reason:
                    found.refused[member.name] = "machine code that no trusted key signed"
                    continue
                cache.put_entry(name[1], data)
                found.kept[reason] += 1
    except tarfile.TarError as error:
        raise UsageError(f"{path} is no exported cache: {error}") from error
    return found
