"""Compiling a model to an artifact, or to a program that runs.

A model that only `Model` runs is refused with that advice, by either way.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from mgx_mlir import loader
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import Edge, OpenError, UnsupportedError, UsageError
from mgx_mlir.runtime.program import Program
from mgx_mlir.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Unpack

    from mgx_mlir.compiler import AnyModel, CompileOptions, OptionKeywords, Report

# The other names of compile's arguments, for suggestions.
_NAMES = (
    *("model", "target", "options", "settings", "progress", "device", "graph", "trust_code"),
    *("tune", "example_inputs", "dynamic_shapes"),
)
_OF_TORCH = """
    A torch.nn.Module is exported for `example_inputs`, its arguments, or by name in a mapping;
    `dynamic_shapes` is torch.export.export's.
    """
TUNE = (False, True, "exhaustive")


@Edge("compiling")
def compile(
    model: AnyModel | Artifact,
    target: str | Target = "cpu",
    options: CompileOptions | None = None,
    *,
    settings: Settings | None = None,
    progress: loader.Progress | None = None,
    device: int | None = None,
    graph: bool = True,
    trust_code: bool = False,
    tune: bool | str = False,
    example_inputs: Any = None,
    dynamic_shapes: Any = None,
    **keywords: Unpack[OptionKeywords],
) -> Program:
    model = _exported(model, example_inputs, dynamic_shapes)
    if keywords:
        from mgx_mlir.compiler import with_keywords  # needs the compiler

        options = with_keywords(options, keywords, *_NAMES)
    if tune not in TUNE:
        raise UsageError(f"tune is {tune!r}; use True, False or 'exhaustive'")
    model = loader.opened(model)
    if isinstance(model, Artifact) and model.parts is not None and not tune and _has_models():
        from mgx_mlir.models.staged import Model  # no part of mgx-mlir-runtime

        settings = settings or Settings.from_environment()
        settings = replace(settings, trust_code=trust_code or settings.trust_code)
        named: Any = {"settings": settings, "device": device, "graph": graph}
        return cast("Program", Model(model, target, options, **named))  # also Runnable
    with _advised(model, options, target):
        if tune:
            model = _tuned(model, target, options, tune == "exhaustive", settings, progress)
            options = None
        return loader.compile(
            model,
            target,
            options,
            settings=settings,
            progress=progress,
            device=device,
            graph=graph,
            trust_code=trust_code,
        )


compile.__doc__ = (
    (loader.compile.__doc__ or "")
    + """
    An artifact in parts gives a Model. With `tune` the kernels of a GPU's program are tuned first
    (docs/tuning.md); 'exhaustive' tries every schedule.
    """
    + _OF_TORCH
)


def _has_models() -> bool:
    return importlib.util.find_spec("mgx_mlir.models.staged") is not None


def _exported(model: Any, example_inputs: Any, dynamic_shapes: Any) -> Any:
    """The exported program of a module of torch, for examples of its inputs; else the model."""
    if example_inputs is None and dynamic_shapes is None:
        return model
    from mgx_mlir.importer import torch_programs  # needs the compiler

    return torch_programs.program_of(model, example_inputs, dynamic_shapes)


def _tuned(
    model: AnyModel | Artifact,
    target: str | Target,
    options: CompileOptions | None,
    exhaustive: bool,
    settings: Settings | None,
    progress: loader.Progress | None,
) -> Artifact:
    """The artifact of a model, or the given one, with the schedules that won on the target."""
    from mgx_mlir.compiler import compile_to_bytecode, options_for  # needs the compiler
    from mgx_mlir.tuning.search import Effort
    from mgx_mlir.tuning.tune import target_of, tune_artifact

    settings = settings or Settings.from_environment()
    chip = target_of(target, settings)
    artifact = loader.opened(model)
    if not isinstance(artifact, Artifact):
        artifact = compile_to_bytecode(model, options_for(options, chip))
    effort, told = Effort(exhaustive), progress or (lambda text, done, total: None)
    return tune_artifact(artifact, chip, effort, settings=settings, progress=told)


@Edge("compiling")
def compile_to_bytecode(
    model: AnyModel,
    options: CompileOptions | None = None,
    *,
    version: tuple[int, int] | None = None,
    report: Report | None = None,
    reproducer: Path | None = None,
    example_inputs: Any = None,
    dynamic_shapes: Any = None,
    **keywords: Unpack[OptionKeywords],
) -> Artifact:
    """Compiles a model to its portable form: the host plan, and each kernel as bytecode.

    `model` is a path, the bytes of a model, an onnx.ModelProto, a Graph, or a program of torch
    (ExportedProgram, ONNXProgram). Fields of CompileOptions may be given as keywords. `version` is
    that of an older compiler that has to read the kernels.
    Needs no GPU and no ROCm, and knows no chip. A model that needs the host between compiled
    segments gives an artifact in parts, which `mgx_mlir.Model` runs. Raises ModelError, OpenError
    where inputs have dimensions without a size, UnsupportedError, also naming an op that `version`
    does not have,
    with the way that the model runs nevertheless, if any, or CompilerError.

    A torch.nn.Module is exported for `example_inputs`, its arguments, or by name in a mapping;
    `dynamic_shapes` is torch.export.export's.
    """
    from mgx_mlir.compiler import compile_to_bytecode as whole
    from mgx_mlir.compiler import with_keywords
    from mgx_mlir.models.staged.rows import data_decide
    from mgx_mlir.rewriting.graph import Graph

    model = _exported(model, example_inputs, dynamic_shapes)
    names = ("version", "report", "reproducer", "example_inputs", "dynamic_shapes")
    options = with_keywords(options, keywords, *names)
    try:
        return whole(model, options, version=version, report=report, reproducer=reproducer)
    except UnsupportedError as error:
        sizes_only = isinstance(error, OpenError) and not error.nodes
        if isinstance(model, Graph) or (sizes_only and not data_decide(model)):
            raise
        refused = error
    from mgx_mlir.models.staged.compilation import Record
    from mgx_mlir.models.staged.stored import compile_parts

    with _advised(model, options, "cpu"):
        return compile_parts(model, options, Record(version, report), refused)


@contextlib.contextmanager
def _advised(model: Any, options: CompileOptions | None, target: str | Target) -> Iterator[None]:
    """Adds to a refusal the way that the model runs nevertheless."""
    try:
        yield
    except UnsupportedError as error:
        if isinstance(model, Artifact):
            raise
        from mgx_mlir.models.staged.check import refusal  # needs the compiler

        raise refusal(error, model, options, target) from error
