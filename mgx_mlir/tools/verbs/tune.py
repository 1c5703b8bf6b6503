"""tune: time the schedules of a program's kernels on a chip, and remember the best.

Results go to the database in the folder of the cache, a problem at a time, and finalizing takes
them from there. `-o` writes an artifact that carries them. On an emulated device times are the
clocks of its model of the chip.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mgx_mlir.tools import options as shared
from mgx_mlir.tools.files import written
from mgx_mlir.tools.numbers import real, whole

if TYPE_CHECKING:
    from mgx_mlir.artifact.record import Artifact
    from mgx_mlir.settings import Settings
    from mgx_mlir.tuning.database import Database
    from mgx_mlir.tuning.record import Record
    from mgx_mlir.tuning.work import Work

_ACTIONS = ("list", "export", "import_", "merge", "forget")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, nargs="?", help="an .onnx model, or a .mgx artifact")
    shared.add_shape_options(parser)
    add("--target", metavar="T", default="gpu", help="a chip such as gfx942, or gpu (default)")
    add(
        "-o",
        "--output",
        type=written,
        metavar="FILE",
        help="write the tuned artifact and its code",
    )
    add("--exhaustive", action="store_true", help="try every legal schedule")
    add("--tried", type=whole(1), default=24, metavar="N", help="candidates a problem (default 24)")
    add("--budget", type=real(), metavar="SECONDS", help="begin nothing new after so long")
    add("--kernels", default="", metavar="REGEX", help="problems whose text or kernel's name fits")
    add("--rounds", type=whole(1), default=15, metavar="N", help="timed runs on a GPU (default 15)")
    add("--scheduler", default="", metavar="URL", help="a farm's: the address of Dask's scheduler")
    add("--flush", action="store_true", help="empty the caches before each timed run")
    add(
        "--list-problems",
        action="store_true",
        help="print the problems as JSON lines, the costly ones first; nothing is timed",
    )
    add("--report", type=written, metavar="FILE.html", help="write the candidates as a page")
    shared.add_compile_options(parser)
    actions = parser.add_argument_group("the database", "without a model").add_argument
    actions("--list", action="store_true", help="print the tuned problems")
    actions("--export", type=written, metavar="FILE", help="write the records as lines of JSON")
    actions("--import", dest="import_", type=Path, metavar="FILE", help="add such records")
    actions("--merge", type=Path, metavar="FOLDER", help="add the records of another cache folder")
    actions("--forget", metavar="REGEX", help="delete records whose problem or chip fits")


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.errors import UsageError

    asked = [name for name in _ACTIONS if getattr(options, name) not in (None, False)]
    if len(asked) + (options.model is not None) != 1:
        raise UsageError("give a model, or one of --list, --export, --import, --merge, --forget")
    if asked:
        return _manage(options, asked[0])
    artifact = _artifact(options)
    return _list_problems(artifact, options) if options.list_problems else _tune(artifact, options)


def _artifact(options: argparse.Namespace) -> Artifact:
    import mgx_mlir
    from mgx_mlir.artifact.writer import is_artifact
    from mgx_mlir.tools.editing import model_of

    if is_artifact(options.model):
        shared.expect_no_compile_options(options)
        return mgx_mlir.load(options.model)
    return mgx_mlir.compile_to_bytecode(model_of(options), shared.compile_options(options))


def _tune(artifact: Artifact, options: argparse.Namespace) -> int:
    import mgx_mlir
    from mgx_mlir.tools import console
    from mgx_mlir.tuning.measure import Timing
    from mgx_mlir.tuning.search import Effort
    from mgx_mlir.tuning.tune import target_of

    settings = shared.settings_of(options)
    timing = Timing(options.rounds, options.flush)
    found: list[tuple[Work, Record, bool]] = []

    def told(work: Work, record: Record, known: bool) -> None:
        found.append((work, record, known))
        _told(work, record, known)

    with console.progress("tuning") as tick:
        artifact = mgx_mlir.tune(
            artifact,
            options.target,
            effort=Effort(options.exhaustive, options.budget, timing, options.tried),
            kernels=options.kernels,
            settings=settings,
            scheduler=options.scheduler,
            progress=tick,
            told=told,
        )
        if options.output is not None:
            chip = target_of(options.target, settings)
            artifact = mgx_mlir.finalize(artifact, chip, settings=settings, progress=tick)
            artifact.save(options.output)
    if options.report is not None:
        from mgx_mlir.artifact.files import write_atomically
        from mgx_mlir.tools.report.tuning import page

        write_atomically(options.report, page(options.model.name, found).encode())
    console.note(artifact.summary())
    console.note(_kept(found, options, settings))
    return 0


def _kept(
    found: Sequence[tuple[Work, Record, bool]], options: argparse.Namespace, settings: Settings
) -> str:
    """Where the results went, in words."""
    from mgx_mlir.tuning.database import NAME

    better = sum(record.schedule is not None for _, record, _ in found)
    said = f"{len(found)} problems, {better} with a schedule better than the estimate's"
    if options.output is not None:
        return f"{options.output}: {said}"
    if settings.cache_dir is None:
        return f"{said}; nothing was kept: MGX_CACHE_DIR is 'none', and no -o names a file"
    where = settings.cache_dir / NAME
    return f"{where}: {said}; finalizing takes them from there, and -o writes an artifact"


def _told(work: Work, record: Record, known: bool) -> None:
    tried = Counter(one.result for one in record.candidates[1:])
    results = ", ".join(f"{count} {name}" for name, count in sorted(tried.items()))
    print(f"{work.count} x {_line(record)} ({'known' if known else results})", flush=True)


def _line(record: Record) -> str:
    """One record in words: the problem, the times, the winner."""
    unit, scale = ("clocks, modelled", 1.0) if record.key.modelled else ("us", 1e-3)
    times = f"{record.baseline * scale:,.0f}"
    if record.schedule is None:
        return f"{record.description}: {times} {unit}, as estimated"
    return f"{record.description}: {times} to {record.best * scale:,.0f} {unit}, {record.schedule}"


def _list_problems(artifact: Artifact, options: argparse.Namespace) -> int:
    from mgx_mlir.finalizer.worker import WorkerPool
    from mgx_mlir.tuning.search import COMPILE_LIMIT
    from mgx_mlir.tuning.tune import problems, target_of

    settings = shared.settings_of(options)
    target = target_of(options.target, settings)
    with WorkerPool(settings.jobs, COMPILE_LIMIT) as pool:
        for work in problems(artifact, target, pool):
            record = {
                "problem": work.problem.key,
                "chip": target.identity,
                "family": work.space.family,
                "description": work.problem.describe(),
                "kernels": list(work.names),
                "launches": work.count,
                "estimate": work.clocks,
                "schedules": len(work.space.options),
                "ops": work.problem.text.splitlines(),
            }
            print(json.dumps(record))
    return 0


def _manage(options: argparse.Namespace, action: str) -> int:
    from mgx_mlir.errors import UsageError
    from mgx_mlir.tuning.database import Database

    folder = shared.settings_of(options).cache_dir
    if folder is None:
        raise UsageError("there is no database: MGX_CACHE_DIR is 'none'")
    with Database(folder, write=action not in ("list", "export")) as database:
        return {
            "list": _list,
            "export": _export,
            "import_": _import,
            "merge": _merge,
            "forget": _forget,
        }[action](database, options)


def _list(database: Database, options: argparse.Namespace) -> int:
    print(database.path, file=sys.stderr)
    for record in database.records():
        whole = "exhaustive" if record.exhaustive else f"{len(record.candidates)} tried"
        print(f"{record.key.chip}  {record.date}  {record.device}  {_line(record)} ({whole})")
    return 0


def _export(database: Database, options: argparse.Namespace) -> int:
    from mgx_mlir.artifact.files import write_atomically
    from mgx_mlir.tuning.exchange import lines_of

    lines = list(lines_of(database.records()))
    write_atomically(options.export, "".join(lines).encode())
    print(f"{options.export}: {len(lines)} records")
    return 0


def _import(database: Database, options: argparse.Namespace) -> int:
    from mgx_mlir.errors import UsageError
    from mgx_mlir.tuning.exchange import merge, records_of

    try:
        with options.import_.open(encoding="utf-8") as stream:
            records = list(records_of(stream))
    except OSError as error:
        raise UsageError(f"{options.import_} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{options.import_} holds no records of tuning: {error}") from error
    found = merge(database, records)
    print(f"{options.import_}: {found.added} records added, {found.known} known")
    return 0


def _merge(database: Database, options: argparse.Namespace) -> int:
    from mgx_mlir.errors import UsageError
    from mgx_mlir.tuning.database import NAME, Database
    from mgx_mlir.tuning.exchange import merge

    if not (options.merge / NAME).is_file():
        raise UsageError(f"{options.merge} has no {NAME}; name a folder of a cache")
    with Database(options.merge) as other:
        found = merge(database, list(other.records()))
    print(f"{options.merge}: {found.added} records added, {found.known} known")
    return 0


def _forget(database: Database, options: argparse.Namespace) -> int:
    from mgx_mlir.errors import UsageError

    try:
        pattern = re.compile(options.forget)
    except re.error as error:
        raise UsageError(f"'{options.forget}' is no regular expression: {error}") from error
    count = 0
    for record in list(database.records()):
        if pattern.search(record.description) or pattern.search(record.key.chip):
            database.forget(record.key)
            count += 1
    print(f"records deleted: {count}")
    return 0
