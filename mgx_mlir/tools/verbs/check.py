"""check: say whether a model compiles, listing what runs on the host and what nothing runs.

Each such node is printed with the reason.
"""

from __future__ import annotations

import argparse

from mgx_mlir.tools import options as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model_options(parser)


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.staged.check import check

    report = check(options.model, shared.compile_options(options))
    print(report)
    return 0 if not report.unsupported else 1
