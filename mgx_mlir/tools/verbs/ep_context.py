"""ep-context: make a model for onnxruntime whose compiled parts are EPContext nodes.

The execution provider of onnxruntime-ep-mgx runs them, without a compiler; nodes that do not
compile stay in the model, for the providers of onnxruntime. See docs/onnxruntime.md.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from mgx_mlir.tools import options as shared
from mgx_mlir.tools import quantizing
from mgx_mlir.tools.files import written


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    shared.add_model(parser, "an .onnx model")
    add("-o", "--output", type=written, metavar="FILE", help="default: MODEL_ctx.onnx")
    add(
        "--arch",
        default="cpu",
        metavar="A[,B]",
        help="targets that the model has code for: gfx942,x86-64-v3 (default: cpu, this machine)",
    )
    add(
        "--beside",
        action="store_true",
        help="write the artifacts to files beside the model, not into it",
    )
    add(
        "--key",
        type=Path,
        metavar="KEY.pem",
        help="sign the artifacts with a private key, as mgx sign does",
    )
    add(
        "--islands",
        type=Path,
        metavar="FOLDER",
        help="write the artifacts and a list of their nodes to a folder, and no model; so the "
        "provider calls its compiler",
    )
    add(
        "--contexts",
        action="store_true",
        help="with --islands: parts that EPContext nodes can hold, without fp8 between nodes",
    )
    shared.add_shape_options(parser)
    shared.add_compile_options(parser)
    quantizing.add_options(parser)


def outputs(options: argparse.Namespace) -> list[tuple[str, Path]]:
    """The file that is written where no option names one."""
    named = options.output is not None or options.islands is not None
    if named or not options.model.is_file():
        return []  # else the verb says why
    return [("-o", _default_output(options))]


def _default_output(options: argparse.Namespace) -> Path:
    model = options.model.absolute()  # '.' has no name
    return Path(options.model.parent / f"{model.stem}_ctx.onnx")


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.artifact.contents import size_text
    from mgx_mlir.artifact.target import Target
    from mgx_mlir.errors import UsageError
    from mgx_mlir.importer import loading
    from mgx_mlir.loader import finalize, started
    from mgx_mlir.models import ep_context
    from mgx_mlir.models.islands import CLAIMED_TYPES, CONTEXT_TYPES, find_islands
    from mgx_mlir.tools.console import note, progress
    from mgx_mlir.tools.editing import model_of
    from mgx_mlir.tools.files import chips
    from mgx_mlir.trust import sign

    shared.expect_model(options, "compile makes one of the .onnx model")
    if options.islands is not None and options.output is not None:
        raise UsageError("--islands writes no model; leave -o out")
    claimed = options.islands is not None
    if claimed:
        ep_context.output_folder(options.islands)
    targets = [Target.get(name) for name in chips(options.arch)]
    kind = "gpu" if any(target.kind == "gpu" for target in targets) else "cpu"
    settings = shared.settings_of(options)
    with started(targets, settings) as server, progress("compiling") as tick:
        found = find_islands(
            loading.load(model_of(options)),
            shared.compile_options(options),
            kind,
            whole_nodes=claimed,
            passed=CLAIMED_TYPES if claimed and not options.contexts else CONTEXT_TYPES,
        )
        islands = tuple(
            replace(one, artifact=finalize(one.artifact, targets, settings=settings,
                                           progress=tick, server=server))
            for one in found.islands
        )  # fmt: skip
    if options.key is not None:
        islands = tuple(replace(one, artifact=sign(one.artifact, options.key)) for one in islands)
    found = replace(found, islands=islands)
    if options.islands is not None:
        ep_context.save_islands(found, options.islands)
    else:
        output = options.output or _default_output(options)
        for file in ep_context.save_context_model(found, output, options.beside):
            note(f"{file}: {size_text(file.stat().st_size)}")
    note(str(found))
    return 0
