"""read: print the program of a model, as imported or after a named pipeline."""

from __future__ import annotations

import argparse

from mgx_mlir.pipelines.modes import mode_pipelines
from mgx_mlir.tools import options as shared
from mgx_mlir.tools.files import written


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model(parser, "an .onnx model")
    shared.add_shape_options(parser)
    add = parser.add_argument
    names = ", ".join(["import", *mode_pipelines("default")])
    add("--after", default="import", metavar="PIPELINE", help=f"one of {names}")
    add("-o", "--output", type=written, metavar="FILE", help="default: standard output")
    add("--brief", action="store_true",
        help="print a line for each op, without attributes; with --graphviz, no types")  # fmt: skip
    form = parser.add_mutually_exclusive_group().add_argument
    for flag, text in (
        ("--json", "print JSON: inputs, ops with attributes, types and ONNX nodes, and weights"),
        ("--graphviz", "print the graph in Graphviz's language"),
        ("--netron", "write the graph as an ONNX model that Netron opens; name the file *.onnx"),
        ("--py", "print Python that builds the program by mgx_mlir.migraphx"),
        ("--program", "write the program as mgx_mlir.migraphx saves it"),
        ("--emit-bytecode", "write MLIR bytecode"),
        ("--locations", "print the ONNX node of each op too"),
    ):
        form(flag, dest="form", action="store_const", const=flag[2:], help=text)
    shared.add_change_options(parser)
    shared.add_compile_options(parser)


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.compiler import Report, import_model, optimize
    from mgx_mlir.errors import UsageError
    from mgx_mlir.tools.console import print_report
    from mgx_mlir.tools.editing import model_or_program_of
    from mgx_mlir.tools.listings import write

    shared.expect_model(options, "inspect {} --kernel NAME prints the IR of a kernel")
    compile_options = shared.compile_options(options)
    order = ["import", *mode_pipelines(options.mode)]
    if options.after not in order:
        raise UsageError(f"--after {options.after}: mode {options.mode} has {', '.join(order)}")
    graph = import_model(model_or_program_of(options), compile_options)
    report = Report()
    optimize(graph, compile_options, report, pipelines=order[1 : order.index(options.after) + 1])
    form = options.form or ("brief" if options.brief else "text")
    write(graph, "graphviz-brief" if options.brief and form == "graphviz" else form, options.output)
    print_report(report, options)
    return 0
