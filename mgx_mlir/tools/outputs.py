"""The files that a command writes: none is one that it reads, or another one that it writes.

Options that name such a file have the type `files.written`; those that name a file to read are of
type Path. A verb that writes others has a function `outputs`, which gives them with the option that
they come from. One that may write its result over the artifact that it takes says IN_PLACE.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from types import ModuleType

from mgx_mlir.artifact.files import is_one_file, keep_inputs
from mgx_mlir.artifact.writer import begins_as_artifact, read_files
from mgx_mlir.errors import MgxError, UsageError
from mgx_mlir.settings import Settings
from mgx_mlir.tools.command import Parser
from mgx_mlir.tools.files import written

# The arguments that are models and artifacts, whose weights may lie in other files.
_MODELS = ("artifact", "compiled_model", "draft", "model")
# The tuning database of a cache's folder; mgx_mlir.tuning has the name, and loads the compiler.
_DATABASE = "tuning.sqlite"


def check_outputs(parser: Parser, options: argparse.Namespace, verb: ModuleType) -> None:
    """Raises UsageError where a file cannot be written, or would replace one that is read."""
    found: list[tuple[str, Path]] = []
    for action in parser.actions(options):
        file = getattr(options, action.dest, None)
        if action.type is written and file is not None:
            flag = action.option_strings[0] if action.option_strings else ""
            found += [(flag, one) for one in (file if isinstance(file, list) else [file])]
    if hasattr(verb, "outputs"):
        found += verb.outputs(options)
    for where, file in found:
        _check_place(where or "another name", file)
    for (one, first), (other, second) in combinations(found, 2):
        if is_one_file(first, second) and not _is_device(first):
            raise UsageError(f"{one} {first} and {other} {second} are one file; name two")
    there = [(where, file) for where, file in found if file.exists()]
    inputs = list(_inputs(parser, options)) if there else []
    for where, file in there:
        in_place = where == "-o" and getattr(verb, "IN_PLACE", False)
        if not (in_place and is_one_file(file, options.artifact)):
            keep_inputs(file, inputs, where)


def _check_place(where: str, file: Path) -> None:
    if file.is_dir():
        raise UsageError(f"{file} is a folder; name a file with {where}")
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent} is not a folder; make it, or choose another {where}")
    if not file.exists() and not os.access(file.parent, os.W_OK):
        raise UsageError(f"{file.parent} cannot be written to; choose another {where}")


def _is_device(file: Path) -> bool:
    return file.exists() and not file.is_file()


def _inputs(parser: Parser, options: argparse.Namespace) -> Iterator[Path]:
    """The files that a command reads."""
    for action in parser.actions(options):
        file = getattr(options, action.dest, None)
        if action.type is Path and isinstance(file, Path):
            yield from _with_weights(file) if action.dest in _MODELS else [file]
    for text in getattr(options, "input", None) or ():  # names may hold an equals sign
        yield from (Path(text[n + 1 :]) for n, character in enumerate(text) if character == "=")
    for _, text in getattr(options, "load_arg", None) or ():
        yield Path(text)
    if getattr(options, "calibrate", None):
        from mgx_mlir.quantization.samples import files_of  # loads the compiler

        yield from files_of(options.calibrate)
    if Path(str(getattr(options, "reference", ""))).is_file():
        yield from _with_weights(Path(options.reference))
    settings = Settings.from_environment()
    yield from settings.trusted_keys
    folders = (settings.cache_dir, settings.cache_shared, getattr(options, "merge", None))
    yield from (folder / _DATABASE for folder in folders if folder is not None)


def _with_weights(file: Path) -> list[Path]:
    """A model or an artifact, and the files that hold its weights."""
    found: list[Path] = []
    with suppress(MgxError):  # the verb says why
        if begins_as_artifact(file):
            from mgx_mlir.artifact.record import Artifact

            found = read_files(Artifact.open(file, allow_absolute=True))
        elif file.is_file():
            from mgx_mlir.importer import loading

            found = list(loading.load(file).files)
    return [file, *found]
