"""op: list the operators that are supported, or say what one becomes and where it runs."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="an operator, such as Conv")
    parser.add_argument("-l", "--list", action="store_true", help="list all")


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.errors import UsageError
    from mgx_mlir.suggest import instead
    from mgx_mlir.tools.coverage import describe, names

    if not options.name:
        print("\n".join(names()))
        return 0
    text = describe(options.name.rpartition(":")[2].rpartition(".")[2])
    if not text:
        hint = instead(options.name, names(), "see `mgx op --list`")
        raise UsageError(f"'{options.name}' is not supported; {hint}")
    print(text)
    return 0
