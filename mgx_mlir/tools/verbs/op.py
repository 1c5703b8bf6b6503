"""op: list the operators that are supported, or say what one becomes and where it runs.

An op of the mgx dialect, such as mgx.softmax, is described by its attributes and an example.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="an operator, such as Conv")
    parser.add_argument("-l", "--list", action="store_true", help="list all of ONNX")
    parser.add_argument("--mgx", action="store_true", help="list the ops of the mgx dialect")


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.dialects import mgx
    from mgx_mlir.errors import UsageError
    from mgx_mlir.suggest import instead
    from mgx_mlir.tools.coverage import describe, describe_op, names

    if options.mgx:
        print("\n".join(sorted(mgx.OPS)))
        return 0
    if not options.name:
        print("\n".join(names()))
        return 0
    plain = options.name.rpartition(":")[2].rpartition(".")[2]
    text = "" if options.name.startswith("mgx.") else describe(plain)
    text = text or describe_op(f"mgx.{plain}")
    if not text:
        hint = instead(options.name, names(), "see `mgx op --list`")
        raise UsageError(f"'{options.name}' is not supported; {hint}")
    print(text)
    return 0
