"""op: list the ONNX operators that are supported, or show one."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="an ONNX operator, such as Conv")
    parser.add_argument("-l", "--list", action="store_true", help="list all")


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.errors import UsageError
    from mgx_mlir.importer import operators

    table = operators()
    if options.name:
        table = [op for op in table if op.name.lower() == options.name.lower()]
        if not table:
            raise UsageError(f"'{options.name}' is not supported; see `mgx op --list`")
    for op in table:
        name = f"{op.domain}.{op.name}" if op.domain else op.name
        versions = "-".join(map(str, dict.fromkeys(op.versions)))
        print(f"{name:<40} opset {versions:<8} {', '.join(op.to) or 'function body'}")
    return 0
