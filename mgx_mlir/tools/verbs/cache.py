"""cache: list, verify, prune, export, import or sign the cache of finalized kernels.

The cache is the folder MGX_CACHE_DIR, by default the user's. Its entries are named by the hash
of a kernel, its chip and this compiler's build, so that they never go out of date; those that
were used longest ago go when it grows over MGX_CACHE_SIZE. `import` takes code where a key of
MGX_TRUST signed it, or with --trust-code.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mgx_mlir.tools import options as shared
from mgx_mlir.tools.files import written
from mgx_mlir.tools.numbers import whole

if TYPE_CHECKING:
    from mgx_mlir.finalizer.cache import Cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="what is there, by chip")
    listing.add_argument("--entries", action="store_true", help="each entry, last used first")
    actions.add_parser("verify", help="read every entry, delete the damaged ones")
    prune = actions.add_parser("prune", help="delete what was used longest ago")
    prune.add_argument("--to", type=whole(0), default=None, metavar="MB", help="what may stay")
    export = actions.add_parser("export", help="write the entries to one file")
    export.add_argument("file", type=written, metavar="FILE.tar")
    export.add_argument("--arch", metavar="A", help="only those of this chip")
    import_ = actions.add_parser("import", help="add the entries of such a file")
    import_.add_argument("file", type=Path, metavar="FILE.tar")
    shared.add_trust_option(import_)
    sign = actions.add_parser("sign", help="sign the entries, for machines that share them")
    sign.add_argument("--key", type=Path, required=True, metavar="KEY.pem")


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.errors import UsageError
    from mgx_mlir.loader import kernel_cache

    cache = kernel_cache(shared.settings_of(options))
    if cache is None:
        raise UsageError("there is no cache: MGX_CACHE_DIR is 'none'")
    return {
        "list": _list,
        "verify": _verify,
        "prune": _prune,
        "export": _export,
        "import": _import,
        "sign": _sign,
    }[options.action](cache, options)


def _list(cache: Cache, options: argparse.Namespace) -> int:
    from mgx_mlir.artifact.contents import size_text
    from mgx_mlir.finalizer.cache_entry import read_entry

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

    removed = cache.prune(None if options.to is None else options.to << 20)
    left = sum(entry.bytes for entry in cache.entries())
    print(f"{size_text(removed)} deleted, {size_text(left)} left")
    return 0


def _export(cache: Cache, options: argparse.Namespace) -> int:
    from mgx_mlir.finalizer.cache_archive import export_cache

    print(f"{options.file}: {export_cache(cache, options.file, options.arch)} entries")
    return 0


def _import(cache: Cache, options: argparse.Namespace) -> int:
    from mgx_mlir.advice import on_command_line
    from mgx_mlir.finalizer.cache_archive import import_cache
    from mgx_mlir.trust import CONSENT

    found = import_cache(cache, options.file)
    for name, fault in found.refused.items():
        print(f"{name!r:.120} is left out: {fault}")
    if "machine code that no trusted key signed" in found.refused.values():
        consent = on_command_line(CONSENT)
        print(f"entries are code: if you trust {options.file}, consent to it ({consent})")
    if cache.problem:
        print(cache.problem)
    print(f"{options.file}: {found.kept.total()} entries")
    for reason, count in sorted(found.kept.items()):
        print(f"  {count} {reason}")
    return 1 if found.refused or cache.problem else 0


def _sign(cache: Cache, options: argparse.Namespace) -> int:
    from mgx_mlir.artifact.files import read_whole
    from mgx_mlir.finalizer.cache_entry import MAX_ENTRY, sign_entry
    from mgx_mlir.trust import private_key

    key, count = private_key(options.key), 0
    for entry in list(cache.entries()):
        try:
            data, _ = read_whole(entry.path, MAX_ENTRY)
            cache.put_entry(entry.key, sign_entry(entry.key, data, key))
        except (OSError, ValueError) as error:
            print(f"{entry.path} is not signed: {error}")
        else:
            count += not cache.unwritten
    print(f"{cache.folder}: {count} entries signed")
    if cache.unwritten:
        print(cache.unwritten)
    return int(bool(cache.unwritten))
