"""read: print the IR of a model, as imported or after a named pipeline."""

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
    add("--emit-bytecode", action="store_true", help="write MLIR bytecode; needs -o")
    form = parser.add_mutually_exclusive_group().add_argument
    for flag, text in (
        ("--brief", "print a line for each op, without attributes"),
        ("--json", "print JSON: inputs and ops, with attributes, types and ONNX nodes"),
        ("--graphviz", "print the graph in Graphviz's language"),
        ("--netron", "print the graph as JSON that Netron opens; name the file *.json"),
        ("--py", "print Python that builds the program by mgx_mlir.migraphx"),
        ("--program", "write the program as mgx_mlir.migraphx saves it; needs -o"),
    ):
        form(flag, dest="form", action="store_const", const=flag[2:], help=text)
    add("--locations", action="store_true", help="print the ONNX node of each op")
    shared.add_compile_options(parser)


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.artifact.files import atomic_file, write_atomically
    from mgx_mlir.compiler import Report, import_model, optimize
    from mgx_mlir.errors import UsageError
    from mgx_mlir.tools.console import print_report
    from mgx_mlir.tools.editing import model_or_program_of
    from mgx_mlir.tools.listings import text_of

    shared.expect_model(options, "inspect {} --kernel NAME prints the IR of a kernel")
    compile_options = shared.compile_options(options)
    order = ["import", *mode_pipelines(options.mode)]
    if options.after not in order:
        raise UsageError(f"--after {options.after}: mode {options.mode} has {', '.join(order)}")
    if options.form and (options.emit_bytecode or options.locations):
        raise UsageError(f"--{options.form} is a form of its own; leave the others out")
    binary = "emit-bytecode" if options.emit_bytecode else options.form
    if binary in ("emit-bytecode", "program") and options.output is None:
        raise UsageError(f"--{binary} writes bytes; name a file with -o")
    graph = import_model(model_or_program_of(options), compile_options)
    report = Report()
    optimize(graph, compile_options, report, pipelines=order[1 : order.index(options.after) + 1])
    operation = graph.module.operation
    if options.emit_bytecode:
        with atomic_file(options.output) as stream:
            operation.write_bytecode(stream)
    elif options.form == "program":
        from mgx_mlir.migraphx import program, save

        save(program(graph), str(options.output))
    else:
        if options.form:
            text = text_of(graph, options.form)
        else:
            text = operation.get_asm(enable_debug_info=options.locations) + "\n"
        if options.output is None:
            print(text, end="")
        else:
            write_atomically(options.output, text.encode())
    print_report(report, options)
    return 0
