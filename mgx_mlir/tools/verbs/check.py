"""check: say whether a model compiles, listing every node that does not, with the reason."""

from __future__ import annotations

import argparse

from mgx_mlir.tools import options as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model_options(parser)


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.importer import check_model

    given = shared.compile_options(options)
    report = check_model(
        options.model,
        input_dims=given.input_dims,
        dim_params=given.dim_params,
        default_dim=given.default_dim,
    )
    print(report)
    return 0 if not report.unsupported else 1
