"""From the command line to a program that runs."""

from __future__ import annotations

import argparse
from pathlib import Path

import mgx_mlir
from mgx_mlir.compiler import Report, compile_to_bytecode
from mgx_mlir.runtime.program import Program
from mgx_mlir.tools import options as shared
from mgx_mlir.tools.console import Tick, print_report


def program_of(options: argparse.Namespace, tick: Tick) -> Program:
    """The program of the model or artifact that the options name, for their target."""
    if options.model.suffix == ".mgx":
        artifact = mgx_mlir.load(options.model)
    else:
        report = Report()
        artifact = compile_to_bytecode(
            options.model,
            shared.compile_options(options),
            report=report,
            reproducer=Path("mgx-reproducer.mlir"),
        )
        print_report(report, options)
    return mgx_mlir.compile(artifact, options.target, progress=tick)
