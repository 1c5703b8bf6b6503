"""completion: print what makes a shell complete the words of mgx.

bash: eval "$(mgx completion bash)"    zsh: mgx completion zsh > DIR/_mgx, DIR being in fpath
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mgx_mlir.errors import UsageError
from mgx_mlir.tools.files import written


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "tcsh", "zsh"), help="the shell")


def run(options: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError as error:
        raise UsageError("shell completion needs shtab; pip install shtab") from error
    from mgx_mlir.tools.mgx import parser_of, verb_names

    parser = parser_of(verb_names())
    for verb in parser_of_verbs(parser):
        for action in verb._actions:
            if action.type in (Path, written):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell))
    return 0


def parser_of_verbs(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parsers of the verbs, those of their own verbs among them."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                found += [inner, *parser_of_verbs(inner)]
    return found
