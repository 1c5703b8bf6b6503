"""The compiler on one screen: import, optimise, fuse, emit portable kernels, finalize, run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mgx_mlir.artifact import Artifact
from mgx_mlir.finalizer import finalize_all
from mgx_mlir.finalizer.cache import Cache
from mgx_mlir.graph import Graph, kernels
from mgx_mlir.importer import parse_onnx
from mgx_mlir.pass_manager import PassContext, PassTimes, Pipeline, print_pipeline, run_pipeline
from mgx_mlir.pipelines import PIPELINES, mode_pipelines
from mgx_mlir.planning import build_plan
from mgx_mlir.portable import portable_kernel
from mgx_mlir.runtime.program import Program
from mgx_mlir.settings import Settings
from mgx_mlir.target import Target

if TYPE_CHECKING:
    from mgx_mlir.runtime.hip.device import Device

# (what is being done, how many are done, of how many)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class CompileOptions:
    """What a compilation depends on beside the model. Equal options give equal bytes.

    `input_dims` gives whole shapes by input name, `dim_params` sizes by the name of a
    symbolic dimension, `default_dim` the size of those that nothing else names.
    `input_values` builds the values of inputs into the program, which then are no inputs.
    `disable` names passes to leave out.
    """

    mode: str = "default"
    input_dims: Mapping[str, Sequence[int]] = field(default_factory=dict)
    dim_params: Mapping[str, int] = field(default_factory=dict)
    default_dim: int | None = None
    input_values: Mapping[str, np.ndarray] = field(default_factory=dict)
    disable: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The options as JSON values, for the artifact's manifest."""
        return {
            "mode": self.mode,
            "input_dims": {name: list(dims) for name, dims in sorted(self.input_dims.items())},
            "dim_params": dict(sorted(self.dim_params.items())),
            "default_dim": self.default_dim,
            "input_values": {n: a.tolist() for n, a in sorted(self.input_values.items())},
            "disable": sorted(self.disable),
        }


@dataclass
class Report:
    """What a compilation did: seconds by stage, pass and kernel, and the rewrites that fired."""

    stages: list[tuple[str, float]] = field(default_factory=list)
    passes: PassTimes = field(default_factory=PassTimes)
    kernels: dict[str, float] = field(default_factory=dict)
    fired: list[tuple[str, str, str]] = field(default_factory=list)


def import_model(model: Any, options: CompileOptions) -> Graph:
    """The graph of a model: a path, bytes, an onnx.ModelProto, or a Graph as it is."""
    if isinstance(model, Graph):
        return model
    return parse_onnx(
        model,
        input_dims=dict(options.input_dims),
        dim_params=dict(options.dim_params),
        default_dim=options.default_dim,
        input_values=dict(options.input_values),
    )


def pipeline_of(name: str, options: CompileOptions) -> Pipeline:
    """The passes of a named pipeline without those that the options disable."""
    steps = PIPELINES[name].passes
    return tuple(s for s in steps if str(s).partition("{")[0] not in options.disable)


def optimize(
    graph: Graph,
    options: CompileOptions,
    report: Report,
    *,
    pipelines: Sequence[str] | None = None,
    reproducer: Path | None = None,
) -> None:
    """Runs the mode's pipelines, or those named, on the graph in place. No chip is known."""
    context = PassContext(weights=graph.weights)
    for name in mode_pipelines(options.mode) if pipelines is None else pipelines:
        started = time.perf_counter()
        steps = pipeline_of(name, options)
        run_pipeline(graph.module, steps, context, times=report.passes, reproducer=reproducer)
        report.stages.append((name, time.perf_counter() - started))
    report.fired += context.fired


def compile_to_bytecode(
    model: Any,
    options: CompileOptions | None = None,
    *,
    version: tuple[int, int] | None = None,
    report: Report | None = None,
    reproducer: Path | None = None,
) -> Artifact:
    """Compiles a model to its portable form: the host plan, and each kernel as bytecode.

    `model` is a path, the bytes of a model, an onnx.ModelProto or a Graph. `version` is that of
    an older compiler that has to read the kernels. Needs no GPU and no ROCm, and knows no chip.
    Raises ModelError, UnsupportedError, also naming an op that `version` does not have, or
    CompilerError.
    """
    options = options or CompileOptions()
    report = report or Report()
    started = time.perf_counter()
    graph = import_model(model, options)
    report.stages.append(("import", time.perf_counter() - started))
    optimize(graph, options, report, reproducer=reproducer)
    started = time.perf_counter()
    with graph.module.context:
        plan = build_plan(graph)
        portable = [portable_kernel(kernel, version) for kernel in kernels(graph.module)]
    used = {buffer.key for buffer in plan.buffers if buffer.kind == "weight"}
    artifact = Artifact(
        name=graph.name,
        plan=plan,
        kernels=tuple(portable),
        weights={key: weight for key, weight in graph.weights.items() if key in used},
        options=options.to_json(),
        pipelines=tuple(
            (name, print_pipeline(pipeline_of(name, options)))
            for name in mode_pipelines(options.mode)
        ),
    )
    report.stages.append(("portable", time.perf_counter() - started))
    return artifact


def kernel_cache(settings: Settings) -> Cache | None:
    """The cache of code objects that the settings name; None for none."""
    if settings.cache_dir is None:
        return None
    return Cache(settings.cache_dir, settings.cache_bytes, settings.cache_shared)


def finalize(
    artifact: Artifact,
    arch: str | Target | Sequence[str | Target],
    *,
    settings: Settings | None = None,
    progress: Progress | None = None,
    report: Report | None = None,
) -> Artifact:
    """The artifact with code objects for the given chips, beside those it has.

    Kernels are finalized in parallel and taken from the cache where it has them. Raises
    TargetError for an unknown chip, CompilerError naming a kernel and its nodes.
    """
    settings = settings or Settings.from_environment()
    names = [arch] if isinstance(arch, str | Target) else list(arch)
    targets = [name if isinstance(name, Target) else Target.get(name) for name in names]
    missing = [t for t in targets if not artifact.has_code_objects(t)]
    cache = kernel_cache(settings)
    report = report or Report()
    started = time.perf_counter()
    found = finalize_all(
        artifact.kernels,
        missing,
        jobs=settings.jobs,
        cache=cache,
        progress=progress,
        times=report.kernels,
    )
    report.stages.append(("finalize", time.perf_counter() - started))
    return artifact.with_code_objects(found)


def compile(
    model: Any,
    target: str | Target = "cpu",
    options: CompileOptions | None = None,
    *,
    settings: Settings | None = None,
    progress: Progress | None = None,
    device: int | None = None,
    graph: bool = True,
) -> Program:
    """Compiles a model, or an artifact, to a program that runs on `target`.

    `target` is 'cpu', a chip such as 'gfx942', or 'gpu' for the chip of `device` (default 0).
    A chip's program runs on `device`, by default on the first device that is such a chip; with
    `graph` it is replayed as a HIP graph. An artifact's own code objects are used, those for
    the chip before those of its generic processor; without either it is finalized. Raises what
    `compile_to_bytecode` and `finalize` raise, TargetError where there is no such device, and
    DeviceError.
    """
    settings = settings or Settings.from_environment()
    if target != "gpu" and not isinstance(target, Target):
        target = Target.get(target)
    if isinstance(target, Target) and target.kind == "cpu":
        artifact = model if isinstance(model, Artifact) else compile_to_bytecode(model, options)
        artifact = finalize(artifact, target, settings=settings, progress=progress)
        code, weights = artifact.code_objects_for(target), artifact.weight_arrays()
        return Program(artifact.plan, code, weights, threads=settings.threads)
    # Looked for before the work: a missing device is known at once.
    found = hip_device(target, settings, device)
    target = target if isinstance(target, Target) else Target.get(found.chip)
    artifact = model if isinstance(model, Artifact) else compile_to_bytecode(model, options)
    if not artifact.runs_on(target):
        artifact = finalize(artifact, target, settings=settings, progress=progress)
    from mgx_mlir.runtime.hip.program import HipProgram  # needs hip-python

    code = artifact.code_objects_for(target)
    return HipProgram(artifact.plan, code, artifact.weights, found, graph)


def hip_device(target: str | Target, settings: Settings, ordinal: int | None = None) -> Device:
    """The device that runs a chip's programs; 'gpu' takes the device `ordinal`, default 0.

    The first call chooses the HIP library. An emulated one whose devices nobody named has
    the target's chip. Raises TargetError or DeviceError.
    """
    from mgx_mlir.runtime.hip import device  # needs hip-python
    from mgx_mlir.runtime.hip.library import open_library

    chip = () if isinstance(target, str) else (target.name,)
    open_library(settings.hip, settings.emulated_devices or chip)
    if isinstance(target, str):
        return device.device(ordinal or 0)
    return device.device_for(target, ordinal)


def load(path: str | Path) -> Artifact:
    """Opens an artifact by memory-mapping it. Raises ArtifactError where it is not sound."""
    return Artifact.open(Path(path))


def save(artifact: Artifact, path: str | Path) -> None:
    """Writes an artifact to one file, whole or not at all."""
    artifact.save(Path(path))
