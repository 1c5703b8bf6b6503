"""The program that a verb prints or writes beside its own work: --save and --form."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mgx_mlir.artifact.writer import is_artifact
from mgx_mlir.errors import UsageError
from mgx_mlir.tools import console
from mgx_mlir.tools import options as shared
from mgx_mlir.tools.files import written

if TYPE_CHECKING:
    from mgx_mlir.artifact.record import Artifact
    from mgx_mlir.tools.console import Tick

# The forms of listings.FORMS, which loads MLIR, beside that of a file that runs.
FORMS = ("binary", "brief", "graphviz", "graphviz-brief", "json", "netron", "py", "text")


def add_form(parser: argparse.ArgumentParser, what: str) -> None:
    """In which form the program is written."""
    parser.add_argument(
        "--form",
        choices=FORMS,
        help=f"print {what} in this form, or write it so where a file is named",
    )


def add_save(parser: argparse.ArgumentParser, what: str) -> None:
    """The options of a verb that writes the program beside its own work."""
    parser.add_argument("--save", type=written, metavar="FILE", help=f"write {what} too")
    add_form(parser, what)


def is_asked(options: argparse.Namespace) -> bool:
    """Whether the program is to be written or printed."""
    return getattr(options, "save", None) is not None or bool(getattr(options, "form", None))


def finished(artifact: Artifact, options: argparse.Namespace, tick: Tick) -> Artifact:
    """The artifact with the code for the options' target, written as they say."""
    from mgx_mlir.loader import finalize
    from mgx_mlir.tuning.tune import target_of

    _check(options)
    settings, where = shared.settings_of(options), shared.target_of(options)
    chip = target_of("gpu", settings) if where == "gpu" else where
    artifact = finalize(artifact, chip, settings=settings, progress=tick)
    write(artifact, options, options.save)
    return artifact


def write(artifact: Artifact, options: argparse.Namespace, output: Path | None) -> None:
    """Writes a compiled program in the options' form, to a file or to standard output.

    Forms to read show the program after the pipelines of its mode; Python after those whose
    operators the interface of MIGraphX has.
    """
    form = options.form or "binary"
    if form == "binary":
        if output is not None:
            artifact.save(output)
        else:
            console.write_bytes(artifact.to_bytes())
        return
    if is_artifact(options.model):
        raise UsageError(f"{options.model} is compiled already; mgx inspect shows what it holds")
    from mgx_mlir.compiler import Report, import_model, optimize
    from mgx_mlir.pipelines.modes import mode_pipelines
    from mgx_mlir.tools import listings
    from mgx_mlir.tools.editing import model_or_program_of

    given = shared.compile_options(options)
    graph = import_model(model_or_program_of(options), given)
    names = mode_pipelines(given.mode)
    if form == "py":
        names = tuple(name for name in names if name not in ("optimize", "fusion", "backend"))
    optimize(graph, given, Report(), pipelines=names)
    listings.write(graph, form, output)


def write_imported(options: argparse.Namespace) -> None:
    """Writes the program as it is imported, in the options' form."""
    from mgx_mlir.compiler import import_model
    from mgx_mlir.tools import listings
    from mgx_mlir.tools.editing import model_or_program_of

    _check(options)
    graph = import_model(model_or_program_of(options), shared.compile_options(options))
    form = options.form or "binary"
    listings.write(graph, "program" if form == "binary" else form, options.save)


def _check(options: argparse.Namespace) -> None:
    """Raises UsageError where the program cannot be written as the options say."""
    if options.save is None and options.form == "binary":
        raise UsageError("--form binary is for files; name one with --save")
