"""quantize: make a model of fewer bits from an f32 model: ONNX, or an artifact.

OUT.onnx holds QuantizeLinear and DequantizeLinear around the products (int8, fp8, MX), and
MatMulNBits for weights of few bits; onnxruntime runs all but MX, with the same results within
rounding.
With --calibrate the error beside the f32 model is printed, at each product and of the outputs.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mgx_mlir.text import name_text
from mgx_mlir.tools import options as shared
from mgx_mlir.tools import quantizing
from mgx_mlir.tools.files import written

if TYPE_CHECKING:
    from mgx_mlir.quantization import Quantized


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model(parser, "an .onnx model of f32")
    shared.add_shape_options(parser)
    parser.add_argument(
        "-o", "--output", type=written, metavar="FILE", required=True, help="OUT.onnx or OUT.mgx"
    )
    parser.add_argument(
        "--report",
        type=written,
        metavar="FILE",
        help="write the error at each node as HTML, with a plot",
    )
    shared.add_compile_options(parser)
    quantizing.add_options(parser)


def outputs(options: argparse.Namespace) -> list[tuple[str, Path]]:
    """The files that are written beside those that options name: constants of large models."""
    output = options.output
    return [("-o", output.with_name(f"{output.name}.data"))] if output.name else []


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.artifact.contents import size_text
    from mgx_mlir.compiler import Report
    from mgx_mlir.errors import UsageError
    from mgx_mlir.models.compile import compile_to_bytecode
    from mgx_mlir.tools.console import note, print_report
    from mgx_mlir.tools.editing import plain_model_of

    shared.expect_model(options, "inspect {} shows what an artifact holds")
    output = options.output
    if output.suffix not in (".onnx", ".mgx"):
        raise UsageError(f"-o {output}: name a file that ends with .onnx or .mgx")
    if not quantizing.is_asked(options):
        raise UsageError("give --int8, --fp8, --mx, --int4-weights, --int2-weights or --kv-cache")
    if output.suffix == ".onnx" and options.floats != "f32":
        raise UsageError("--fp16 and --bf16 are chosen when a model is compiled: -o OUT.mgx")
    if options.report is not None and options.calibrate is None:
        raise UsageError("--report measures on data; give --calibrate")
    made = quantizing.quantized_of(options, plain_model_of(options))
    report = Report()
    if output.suffix == ".onnx":
        made.save(output)
    else:
        given = shared.compile_options(options)
        compile_to_bytecode(made.source, given, report=report).save(output)
    beside = output.with_name(f"{output.name}.data")
    size = sum(file.stat().st_size for file in (output, beside) if file.is_file())
    note(f"{output}: {size_text(size)}")
    kinds = Counter(choice.precision for choice in made.choices)
    note("products: " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    for choice in made.choices:
        if choice.reason:
            note(f"  {choice.operator} '{name_text(choice.node)}' stays in f32: {choice.reason}")
    if options.calibrate is not None:
        _measure(made, options)
    print_report(report, options)
    return 0


def _measure(made: Quantized, options: argparse.Namespace) -> None:
    """Prints the error beside the f32 model, and writes the report."""
    from mgx_mlir.artifact.files import write_atomically
    from mgx_mlir.tools.console import note, progress
    from mgx_mlir.tools.quantizing_report import print_accuracy
    from mgx_mlir.tools.report.accuracy import page

    given = replace(shared.compile_options(options), io={})  # the model has these types
    with progress("measuring") as tick:
        accuracy = made.accuracy(options=given, tick=tick)
    print_accuracy(accuracy, {choice.node: choice.precision for choice in made.choices})
    if options.report is not None:
        graph = made.network.source.model.graph
        text = page(options.model.name, accuracy, made.choices, made.steps, graph)
        write_atomically(options.report, text.encode())
        note(f"{options.report}: the error at each node")
