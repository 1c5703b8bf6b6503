"""cache: list, verify, prune, export or import the cache of finalized kernels.

The cache is the folder MGX_CACHE_DIR, by default the user's. Its entries are named by the hash
of a kernel, its chip and this compiler's build, so that they never go out of date; those that
were used longest ago go when it grows over MGX_CACHE_SIZE.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mgx_mlir.finalizer.cache import Cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="what is there, by chip")
    listing.add_argument("--entries", action="store_true", help="each entry, last used first")
    actions.add_parser("verify", help="read every entry, delete the damaged ones")
    prune = actions.add_parser("prune", help="delete what was used longest ago")
    prune.add_argument("--to", type=int, default=None, metavar="MB", help="what may stay")
    export = actions.add_parser("export", help="write the entries to one file")
    export.add_argument("file", type=Path, metavar="FILE.tar")
    export.add_argument("--arch", metavar="A", help="only those of this chip")
    import_ = actions.add_parser("import", help="add the entries of such a file")
    import_.add_argument("file", type=Path, metavar="FILE.tar")


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.errors import UsageError
    from mgx_mlir.loader import kernel_cache
    from mgx_mlir.settings import Settings

    cache = kernel_cache(Settings.from_environment())
    if cache is None:
        raise UsageError("there is no cache: MGX_CACHE_DIR is 'none'")
    return {
        "list": _list,
        "verify": _verify,
        "prune": _prune,
        "export": _export,
        "import": _import,
    }[options.action](cache, options)


def _list(cache: Cache, options: argparse.Namespace) -> int:
    from mgx_mlir.artifact.contents import size_text
    from mgx_mlir.finalizer.cache import read_entry

    entries = sorted(cache.entries(), key=lambda entry: (-entry.used, entry.key))
    total = sum(entry.bytes for entry in entries)
    print(f"folder  {cache.folder}")
    if cache.shared is not None:
        print(f"shared  {cache.shared} (only read)")
    print(f"size    {size_text(total)} of {size_text(cache.max_bytes)}, {len(entries)} entries")
    by_arch: dict[str, tuple[int, int]] = {}
    for entry in entries:
        try:
            code = read_entry(entry.path)
            arch, functions = code.arch, ", ".join(launch.function for launch in code.launches)
        except (OSError, ValueError) as error:
            arch, functions = "damaged", str(error)
        arch = arch.partition(":")[0]
        count, size = by_arch.get(arch, (0, 0))
        by_arch[arch] = count + 1, size + entry.bytes
        if options.entries:
            used = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.used))
            print(f"{entry.key}  {used}  {entry.bytes:9}  {arch}: {functions}")
    for arch, (count, size) in sorted(by_arch.items()):
        print(f"{arch:<16} {count:6} entries  {size_text(size)}")
    return 0


def _verify(cache: Cache, options: argparse.Namespace) -> int:
    count = len(list(cache.entries()))
    damaged = cache.verify()
    for key in damaged:
        print(f"{key} was damaged and is deleted")
    print(f"{count} entries, {len(damaged)} damaged")
    return 1 if damaged else 0


def _prune(cache: Cache, options: argparse.Namespace) -> int:
    from mgx_mlir.artifact.contents import size_text
    from mgx_mlir.errors import UsageError

    if options.to is not None and options.to < 0:
        raise UsageError(f"--to {options.to}: use a size in megabytes")
    removed = cache.prune(None if options.to is None else options.to << 20)
    left = sum(entry.bytes for entry in cache.entries())
    print(f"{size_text(removed)} deleted, {size_text(left)} left")
    return 0


def _export(cache: Cache, options: argparse.Namespace) -> int:
    from mgx_mlir.finalizer.cache_archive import export_cache

    print(f"{options.file}: {export_cache(cache, options.file, options.arch)} entries")
    return 0


def _import(cache: Cache, options: argparse.Namespace) -> int:
    from mgx_mlir.finalizer.cache_archive import import_cache

    count, refused = import_cache(cache, options.file)
    for name in refused:
        print(f"{name!r:.120} is no sound entry and is left out")
    if cache.problem:
        print(cache.problem)
    print(f"{options.file}: {count} entries")
    return 1 if refused or cache.problem else 0
