"""compile: make an artifact from a model: portable kernels, and code objects if asked.

Needs no GPU and no ROCm. Without --arch the artifact is portable: it is finalized for a
chip when it is run there, or by `mgx finalize`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mgx_mlir.artifact.writer import is_artifact
from mgx_mlir.errors import UsageError
from mgx_mlir.tools import options as shared
from mgx_mlir.tools import quantizing, saving
from mgx_mlir.tools.files import written
from mgx_mlir.tools.numbers import whole
from mgx_mlir.tools.tuning_options import add_tuning_options

if TYPE_CHECKING:
    from mgx_mlir.artifact.record import Artifact
    from mgx_mlir.compiler import Report
    from mgx_mlir.finalizer.server import Server
    from mgx_mlir.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model(parser, "an .onnx model")
    shared.add_shape_options(parser)
    parser.add_argument("-o", "--output", type=written, metavar="FILE", help="default: MODEL.mgx")
    parser.add_argument(
        "--target",
        choices=["gpu", "cpu"],
        default="gpu",
        help="cpu adds code for this machine; without a chip in --arch, the program is for CPUs "
        "alone, and faster there than one for any target",
    )
    parser.add_argument(
        "--arch", metavar="A[,B]", help="finalize for these targets as well: gfx942,x86-64-v3"
    )
    parser.add_argument(
        "--devices",
        type=whole(1),
        default=1,
        metavar="N",
        help="cut the program into N stages for GPUs, a file each: OUTPUT-1-of-N.mgx, ...; "
        "mgx_mlir.Chain runs them",
    )
    parser.add_argument(
        "--device-memory",
        type=whole(1),
        metavar="MB",
        help="with --devices: the megabytes that a stage may need; default: about equal stages",
    )
    parser.add_argument(
        "--weights",
        choices=["inside", "beside"],
        default="inside",
        help="copy weights into the artifact, or refer to the model's files beside it",
    )
    parser.add_argument(
        "--artifact-version",
        type=_version,
        metavar="M.N",
        help="write for readers of this older version, or say which op it lacks",
    )
    parser.add_argument(
        "--report",
        type=written,
        metavar="FILE.html",
        help="write a page: stages, passes, rewrites, and the graph before and after them",
    )
    saving.add_form(parser, "the compiled program")
    shared.add_change_options(parser)
    add_tuning_options(parser)
    shared.add_compile_options(parser)
    quantizing.add_options(parser)


def _version(text: str) -> tuple[int, int]:
    major, dot, minor = text.partition(".")
    if not dot or not major.isdecimal() or not minor.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no version such as 1.0")
    return int(major), int(minor)


def outputs(options: argparse.Namespace) -> list[tuple[str, Path]]:
    """The files that are written beside those that options name."""
    if options.output is not None or options.form:
        return []
    if not options.model.is_file() or is_artifact(options.model):
        return []  # else the verb says why
    output = _default_output(options)
    return [("-o", file) for file in stage_files(output, options.devices)]


def _default_output(options: argparse.Namespace) -> Path:
    model = options.model.absolute()  # '.' has no name
    return Path(options.model.parent / f"{model.stem}.mgx")


def stage_files(output: Path, count: int) -> list[Path]:
    """The files of a program's stages; the file itself where there is one."""
    if count == 1:
        return [output]
    names = (f"{output.stem}-{number}-of-{count}" for number in range(1, count + 1))
    return [output.with_name(f"{name}{output.suffix}") for name in names]


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.artifact.target import Target
    from mgx_mlir.loader import started
    from mgx_mlir.tools.files import chips

    shared.expect_model(options, "finalize {} --arch CHIP adds code for chips")
    arch = chips(options.arch) + (["cpu"] if options.target == "cpu" else [])
    settings = shared.settings_of(options)
    # Before the imports below, which take as long as those of the workers.
    with started([Target.get(name) for name in arch], settings) as server:
        return _compile(options, arch, settings, server)


def _compile(
    options: argparse.Namespace, arch: list[str], settings: Settings, server: Server | None
) -> int:
    from mgx_mlir.artifact.contents import size_text
    from mgx_mlir.artifact.target import Target
    from mgx_mlir.artifact.writer import check_version
    from mgx_mlir.compiler import Report
    from mgx_mlir.loader import finalize
    from mgx_mlir.tools.console import note, print_report, progress

    _check_devices(options)
    files = stage_files(options.output or _default_output(options), options.devices)
    if options.tune and not arch:
        from mgx_mlir.tuning.tune import target_of  # opens no library before it is needed

        arch = [target_of("gpu", settings).name]
    gpus = [name for name in arch if Target.get(name).kind == "gpu"]
    if options.tune and not gpus:
        raise UsageError("--tune needs --arch with a chip, whose device the schedules are timed on")
    if options.artifact_version:
        check_version(options.artifact_version)
    report = Report()
    with progress("compiling") as tick:
        artifacts = _portable(options, gpus, report)
        for chip in gpus if options.tune else ():
            from mgx_mlir.tuning.search import Effort
            from mgx_mlir.tuning.tune import tune_artifact

            effort = Effort(options.tune == "exhaustive")
            artifacts = [
                tune_artifact(one, chip, effort, settings=settings, progress=tick)
                for one in artifacts
            ]
        if arch:
            artifacts = [
                finalize(one, arch, settings=settings, progress=tick, report=report, server=server)
                for one in artifacts
            ]
    if options.form and (options.form != "binary" or options.output is None):
        saving.write(artifacts[0], options, options.output)
    else:
        for artifact, file in zip(artifacts, files, strict=True):
            artifact.save(file, weights=options.weights, version=options.artifact_version)
            note(f"{file}: {size_text(file.stat().st_size)}\n{artifact.summary()}")
    if options.report is not None:
        _write_page(artifacts[0], report, options)
    print_report(report, options)
    return 0


def _check_devices(options: argparse.Namespace) -> None:
    """Raises UsageError where options for stages are given with others that are for one program."""
    if options.devices == 1 and options.device_memory:
        raise UsageError("--device-memory is for the stages of --devices N")
    if options.devices > 1 and (options.form or options.report):
        raise UsageError("--form and --report show one program; leave out --devices")


def _portable(options: argparse.Namespace, gpus: list[str], report: Report) -> list[Artifact]:
    """The portable program, or its stages."""
    from mgx_mlir.compiler import options_for
    from mgx_mlir.models.chain import compile_stages
    from mgx_mlir.models.compile import compile_to_bytecode
    from mgx_mlir.tools.editing import model_or_program_of

    wanted = shared.compile_options(options)
    if options.target == "cpu" and not gpus:
        wanted = options_for(wanted, "cpu")
    model, reproducer = model_or_program_of(options), Path("mgx-reproducer.mlir")
    version = options.artifact_version
    if options.devices == 1:
        return [
            compile_to_bytecode(
                model, wanted, version=version, report=report, reproducer=reproducer
            )
        ]
    memory = options.device_memory and options.device_memory << 20
    return list(
        compile_stages(
            model, options.devices, wanted, memory=memory, version=version, report=report,
            reproducer=reproducer,
        )
    )  # fmt: skip


def _write_page(artifact: Artifact, report: Report, options: argparse.Namespace) -> None:
    from mgx_mlir.artifact.files import write_atomically
    from mgx_mlir.importer import loading
    from mgx_mlir.tools.editing import is_program, plain_model_of
    from mgx_mlir.tools.report.compiling import page

    model = None if is_program(options) else loading.load(plain_model_of(options)).model
    text = page(options.model.name, model, artifact, report)
    write_atomically(options.report, text.encode())
