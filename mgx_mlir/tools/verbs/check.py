"""check: say whether a model compiles, listing every node that does not, with the reason."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path)


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.importer import check_model

    report = check_model(options.model)
    print(report)
    return 0 if report.ok else 1
