"""check: say whether a model compiles to an artifact, runs in parts, or is refused, and why.

Compiles the model to its portable form and writes nothing. A model whose inputs have open sizes is
compiled for any: which sizes that one program serves, and which nodes are slow in it. Where that is
refused, finds the nodes for which each new size is compiled anew, what the host would run between
compiled parts (`mgx run`, mgx_mlir.Model), and what nothing runs.

exit code: 0: one program, or an artifact in parts, serves the model: with these options, or for
any sizes; 3: none does, and the model runs, with a compile for each size, or would compile with
sizes; 1: the model is refused, or malformed; 2:
wrong usage
"""

from __future__ import annotations

import argparse
import json

from mgx_mlir.tools import options as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model(parser, "an .onnx model")
    shared.add_shape_options(parser)
    parser.add_argument(
        "--target", default="cpu", metavar="T", help="where parts would run: cpu (default) or gpu"
    )
    shared.add_json(parser)
    shared.add_pipeline_options(parser)


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.advice import on_command_line
    from mgx_mlir.models.staged.check import State, check
    from mgx_mlir.tools.editing import model_of

    shared.expect_model(options, "inspect {} shows what an artifact holds")
    report = check(model_of(options), shared.compile_options(options), options.target)
    text = json.dumps(report.to_json(), indent=2) if options.json else str(report)
    print(on_command_line(text))
    return {State.ARTIFACT: 0, State.ANY: 0, State.PARTS: 0, State.REFUSED: 1}.get(report.state, 3)
