"""From the command line to a program that runs."""

from __future__ import annotations

import argparse
import sys
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
    program = mgx_mlir.compile(
        artifact,
        options.target,
        progress=tick,
        device=options.device,
        graph=not options.no_graph,
    )
    where = getattr(program, "device", None)
    if where is not None:
        from mgx_mlir.runtime.hip.library import library_kind

        print(f"on {where}, {library_kind()}", file=sys.stderr)
    return program
