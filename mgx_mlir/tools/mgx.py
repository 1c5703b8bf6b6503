"""mgx: compile ONNX models for AMD GPUs and the CPU, run them, look inside."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import mgx_mlir
from mgx_mlir.advice import on_command_line
from mgx_mlir.errors import Edge, MgxError, UsageError
from mgx_mlir.scan import module_names
from mgx_mlir.settings import EMULATOR_VARIABLES, VARIABLES, warn_unknown
from mgx_mlir.tools.command import Parser, add_verbose, end_with, exit_code, log, until_pipe_closes


def command() -> NoReturn:
    """Runs the command, and ends the process."""
    end_with(main)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `mgx`; returns the exit code: 0, 1 for a failure, 2 for wrong usage, 130 for Ctrl-C."""
    return exit_code("mgx", lambda: _main(list(sys.argv[1:] if arguments is None else arguments)))


def _main(words: list[str]) -> int:
    parser = parser_of([name for name in words[:1] if name in verb_names()])
    options = parser.parse(_join_dims(words))
    if options.verb is None:
        parser.print_help()
        return 2
    return _run(parser, options)


def _run(parser: Parser, options: argparse.Namespace) -> int:
    from mgx_mlir.tools.outputs import check_outputs  # loads numpy

    verb = _verb(options.verb)
    try:
        with Edge(""):
            check_outputs(parser, options, verb)
        with Edge(""), log(options):
            warn_unknown()
            return until_pipe_closes(lambda: int(verb.run(options)))
    except MgxError as error:
        text = on_command_line(str(error)).removeprefix(f"{options.verb}: ")
        print(f"mgx {options.verb}: {text}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


def parser_of(verbs: Sequence[str]) -> Parser:
    """The parser of the command line, with the arguments of these verbs. Imports no other verb."""
    variables = sorted((VARIABLES | EMULATOR_VARIABLES).items())
    width = max(len(name) for name, _ in variables)
    lines = "\n".join(f"  {name:<{width}}  {text}" for name, text in variables)
    parser = Parser(
        prog="mgx",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"environment variables:\n{lines}",
    )
    parser.add_argument("--version", action="version", version=f"mgx-mlir {mgx_mlir.__version__}")
    parsers = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for name in verb_names():
        # Without a verb, the page lists all with their first lines.
        text = _docstring(name, name in verbs) if name in verbs or not verbs else ""
        text = text.partition(": ")[2]
        inner = parsers.add_parser(
            name,
            help=text.split("\n")[0],
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name in verbs:
            _verb(name).add_arguments(inner)
            add_verbose(inner)
    return parser


def _docstring(verb: str, imports: bool) -> str:
    """The docstring of a verb's module, which is imported for it where the caller does that too."""
    if imports:
        return inspect.cleandoc(_verb(verb).__doc__ or "")
    spec = importlib.util.find_spec(_module_name(verb))
    assert spec and spec.origin
    return ast.get_docstring(ast.parse(Path(spec.origin).read_bytes())) or ""


# Options whose values may be missing, or are several words, with the beginning of the one word.
_WHOLE = {"--input-dim": "--input-dim=", "--smooth": "--smooth=0.5", "--tune": "--tune=some"}


def _join_dims(arguments: Sequence[str]) -> list[str]:
    """The command line with each `--input-dim @x 1 3` as one word, so that a model can follow;
    `--tune` and `--smooth` alone get their values."""
    joined: list[str] = []
    inside = False
    for before, word in pairwise(["", *arguments]):
        inside = inside and (word[0:1] == "@" or word.isdecimal())
        if inside:
            joined[-1] += f" {word}"
        elif before == "--smooth" and re.fullmatch(r"-?[\d.]+(e-?\d+)?", word):
            joined[-1] = f"--smooth={word}"
        else:
            joined.append(_WHOLE.get(word, word))
        inside = inside or word == "--input-dim"
    return joined


def verb_names() -> list[str]:
    """The verbs: one for each file of the folder, sorted."""
    return [name.replace("_", "-") for name in module_names("mgx_mlir.tools.verbs")]


def _verb(name: str) -> ModuleType:
    return importlib.import_module(_module_name(name))


def _module_name(verb: str) -> str:
    return f"mgx_mlir.tools.verbs.{verb.replace('-', '_')}"


if __name__ == "__main__":
    command()
