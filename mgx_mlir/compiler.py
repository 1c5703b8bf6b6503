"""The compiler on one screen: import, optimise, fuse, emit portable kernels.

loader.py finalizes and runs the result.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

import numpy as np

from mgx_mlir import advice
from mgx_mlir.arguments import wrong_field
from mgx_mlir.artifact.contents import PortableKernel
from mgx_mlir.artifact.plan import MAX_LOOP_ITERATIONS, Plan, renumbered
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target, kind_of
from mgx_mlir.errors import Edge, OpenError, UsageError
from mgx_mlir.importer import parse_onnx
from mgx_mlir.importer.io_types import check_types
from mgx_mlir.importer.loading import AnySource
from mgx_mlir.passes.narrow_floats import FLOATS, NarrowFloats
from mgx_mlir.pipelines.modes import MODES, mode_pipelines
from mgx_mlir.pipelines.optimals import bound_graphs
from mgx_mlir.pipelines.phases import PIPELINES
from mgx_mlir.pipelines.planning import build_frame, build_plan
from mgx_mlir.pipelines.registry import Pipeline, Step, check_optional, print_pipeline, step_name
from mgx_mlir.pipelines.runner import PassTimes, run_pipeline
from mgx_mlir.rewriting.graph import Graph, kernels
from mgx_mlir.rewriting.pass_base import CLEANUP, Pass, PassContext
from mgx_mlir.rewriting.portable import portable_kernel
from mgx_mlir.sizes.range import Given, Range
from mgx_mlir.suggest import instead

_log = logging.getLogger(__name__)

# A model: its path, its bytes, the model itself, what was read of it, or its graph.
AnyModel: TypeAlias = AnySource | Graph


@dataclass(frozen=True)
class CompileOptions:
    """The options that a compilation depends on beside the model. Equal options give equal bytes.

    `input_dims` gives whole shapes by input name, `dim_params` sizes by the name of a
    symbolic dimension, `default_dim` the size of those that nothing else names. A Range in
    place of a size says which sizes a dimension may have; '?' in place of the size of a name says
    that its dimensions may have different sizes.
    `input_values` builds the values of inputs into the program, which then are no inputs.
    `floats` is the type that f32 tensors get where range and precision allow it: 'f32', 'f16' or
    'bf16'; the nodes that patterns of `keep` name stay in f32 (docs/quantization.md). `io` gives
    inputs and outputs of floats another type, by name or pattern: {'past.*': 'f16'}.
    `disable` names passes to leave out. `exact` leaves out the passes that compute floats
    by another formula than the model's (docs/passes.md says which, and what stays).
    `max_loop_iterations`: a loop that states no number of trips fails after so many.
    `like` gives sizes of inputs: where sizes choose between branches that one program cannot hold,
    it holds the branch of these, and a run checks that its sizes choose it.
    With `persistent`, neighbouring kernels of a GPU's program are one launch where sizes are given,
    whose work-groups stay and wait for each other (docs/codegen.md).
    `kind` is 'cpu' where the program is for CPUs alone, and 'gpu' where it is for any target.
    """

    mode: str = "default"
    input_dims: Mapping[str, Sequence[int | Range]] = field(default_factory=dict)
    dim_params: Mapping[str, Given] = field(default_factory=dict)
    default_dim: int | Range | None = None
    input_values: Mapping[str, np.ndarray] = field(default_factory=dict)
    floats: str = "f32"
    keep: Sequence[str] = ()
    io: Mapping[str, str] = field(default_factory=dict)
    disable: Sequence[str] = ()
    exact: bool = False
    max_loop_iterations: int = MAX_LOOP_ITERATIONS
    like: Mapping[str, Sequence[int]] = field(default_factory=dict)
    persistent: bool = False
    kind: str = "gpu"

    def __post_init__(self) -> None:
        if said := wrong_field(self):
            raise UsageError(said)
        mode_pipelines(self.mode)
        if self.max_loop_iterations < 1:
            raise UsageError(
                f"max_loop_iterations is {self.max_loop_iterations}; it must be at least 1"
            )
        if self.kind not in ("cpu", "gpu"):
            raise UsageError(f"kind is '{self.kind}'; use 'cpu', or 'gpu' for any target")
        if self.floats not in FLOATS:
            raise UsageError(f"floats is '{self.floats}'; use one of {', '.join(FLOATS)}")
        if self.keep and self.floats == "f32":
            raise UsageError("keep names nodes that stay in f32, and floats is f32 for all")
        check_types(self.io)
        for name in self.disable:
            check_optional(name)

    def sizes_only(self) -> CompileOptions:
        """The options that size the inputs, and no others."""
        return CompileOptions(
            input_dims=self.input_dims, dim_params=self.dim_params, default_dim=self.default_dim
        )

    def to_json(self) -> dict[str, Any]:
        """The options as JSON values, for the artifact's manifest."""
        narrowed = {"floats": self.floats, "keep": sorted(self.keep)}
        return {
            **(narrowed if self.floats != "f32" else {}),
            **({"io": dict(self.io)} if self.io else {}),
            "mode": self.mode,
            "input_dims": {
                name: [_dim_json(dim) for dim in dims]
                for name, dims in sorted(self.input_dims.items())
            },
            "dim_params": {n: _dim_json(dim) for n, dim in sorted(self.dim_params.items())},
            "default_dim": None if self.default_dim is None else _dim_json(self.default_dim),
            "input_values": {n: a.tolist() for n, a in sorted(self.input_values.items())},
            "disable": sorted(self.disable),
            "exact": self.exact,
            "max_loop_iterations": self.max_loop_iterations,
            **({"like": {n: list(d) for n, d in sorted(self.like.items())}} if self.like else {}),
            **({"persistent": True} if self.persistent else {}),
            **({"kind": self.kind} if self.kind != "gpu" else {}),
        }


class OptionKeywords(TypedDict, total=False):
    """The fields of CompileOptions, as keywords of functions that compile."""

    mode: str
    input_dims: Mapping[str, Sequence[int | Range]]
    dim_params: Mapping[str, Given]
    default_dim: int | Range | None
    input_values: Mapping[str, np.ndarray]
    floats: str
    keep: Sequence[str]
    io: Mapping[str, str]
    disable: Sequence[str]
    exact: bool
    max_loop_iterations: int
    like: Mapping[str, Sequence[int]]
    persistent: bool
    kind: str


def with_keywords(
    options: CompileOptions | None, given: Mapping[str, Any], *others: str
) -> CompileOptions | None:
    """The options with fields replaced by those given. `others` are names for suggestions.

    Raises UsageError for a name that is no field.
    """
    names = [field.name for field in fields(CompileOptions)]
    for name in given:
        if name not in names:
            hint = instead(name, [*names, *others], f"there are: {', '.join(names)}")
            raise UsageError(f"there is no option '{name}'; {hint}")
    return replace(options or CompileOptions(), **given) if given else options


def _dim_json(dim: Given) -> Any:
    return dim.to_json() if isinstance(dim, Range) else dim


@dataclass
class Report:
    """The record of a compilation: seconds by stage, pass and kernel, and rewrites that fired.

    artifact: the program before it was loaded, where a tool notes it. graph: the compiled graph.
    """

    stages: list[tuple[str, float]] = field(default_factory=list)
    passes: PassTimes = field(default_factory=PassTimes)
    kernels: dict[str, float] = field(default_factory=dict)
    fired: list[tuple[str, str, str]] = field(default_factory=list)
    artifact: Artifact | None = None
    graph: Graph | None = None


def import_model(model: AnyModel, options: CompileOptions) -> Graph:
    """The graph of a model: a path, bytes, an onnx.ModelProto, or a Graph as it is."""
    if isinstance(model, Graph):
        return model
    return parse_onnx(model, **import_arguments(options))


def import_arguments(options: CompileOptions) -> dict[str, Any]:
    """The arguments of `parse_onnx` that the options give."""
    return {
        "input_dims": dict(options.input_dims),
        "dim_params": dict(options.dim_params),
        "default_dim": options.default_dim,
        "input_values": dict(options.input_values),
        "io": dict(options.io),
        "max_loop_iterations": options.max_loop_iterations,
        "like": dict(options.like),
        "least": 0 if options.mode in MODES and MODES[options.mode].symbolic else 1,
    }


def options_for(options: CompileOptions | None, target: str | Target) -> CompileOptions:
    """The options of a program for one target alone."""
    kind = "cpu" if kind_of(target) == "cpu" else "gpu"
    return replace(options or CompileOptions(), kind=kind)


def _without(options: CompileOptions, leaves: Callable[[Pass], bool]) -> CompileOptions:
    """The options with passes disabled, by their flags."""
    steps = (step for pipeline in PIPELINES.values() for step in pipeline.passes)
    names = {step.name: None for step in steps if isinstance(step, Pass) and leaves(step)}
    return replace(options, disable=(*options.disable, *names))


def pipeline_of(name: str, options: CompileOptions) -> Pipeline:
    """The passes of a named pipeline without those that the options leave out."""
    symbolic = options.mode in MODES and MODES[options.mode].symbolic

    def runs(step: Step) -> bool:
        if isinstance(step, Pass) and symbolic and not step.symbolic:
            return False
        if isinstance(step, Pass) and options.exact and step.rounds:
            return False
        return step_name(step) not in options.disable

    steps = tuple(step for step in PIPELINES[name].passes if runs(step))
    # Products of quantized tensors are of integers by then.
    last = "quantization" if "quantization" in mode_pipelines(options.mode) else "core"
    if name == last and options.floats != "f32":
        return (*steps, NarrowFloats(to=options.floats, keep=tuple(options.keep)))
    return steps


def optimize(
    graph: Graph,
    options: CompileOptions,
    report: Report,
    *,
    pipelines: Sequence[str] | None = None,
    reproducer: Path | None = None,
) -> None:
    """Runs the mode's pipelines, or those named, on the graph in place. No chip is known."""
    cleanup = tuple(name for name in CLEANUP if name not in options.disable)
    context = PassContext(
        weights=graph.weights, cleanup=cleanup, kind=options.kind, exact=options.exact
    )
    for name in mode_pipelines(options.mode) if pipelines is None else pipelines:
        started = time.perf_counter()
        steps = pipeline_of(name, options)
        run_pipeline(graph.module, steps, context, times=report.passes, reproducer=reproducer)
        report.stages.append((name, time.perf_counter() - started))
        _log.info("pipeline %s: %.1f ms", *_spent(report))
    report.fired += context.fired


@Edge("compiling")
def compile_to_bytecode(
    model: AnyModel,
    options: CompileOptions | None = None,
    *,
    version: tuple[int, int] | None = None,
    report: Report | None = None,
    reproducer: Path | None = None,
) -> Artifact:
    """Compiles a model to its portable form: the host plan, and each kernel as bytecode.

    `model` is a path, the bytes of a model, an onnx.ModelProto or a Graph. `version` is that of
    an older compiler that has to read the kernels. Needs no GPU and no ROCm, and knows no chip.
    Raises ModelError, OpenError where inputs have dimensions without a size, UnsupportedError,
    also naming an op that `version` does not have, or CompilerError.
    """
    options = options or CompileOptions()
    if version is not None:
        options = _without(options, lambda step: version < step.since)
    report = report or Report()
    started = time.perf_counter()
    graph = import_model(model, options)
    report.stages.append(("import", time.perf_counter() - started))
    _log.info(
        "import of %s: %.1f ms, %d weights", graph.name, _spent(report)[1], len(graph.weights)
    )
    before = len(report.stages)
    try:
        return _compiled(graph, options, version, report, reproducer)
    except OpenError:
        if graph.from_one is None:
            raise
    # What follows from sizes of 1 or more may be known where that of 0 is not.
    del report.stages[before:]
    return _compiled(graph.from_one(), options, version, report, reproducer)


def _compiled(
    graph: Graph,
    options: CompileOptions,
    version: tuple[int, int] | None,
    report: Report,
    reproducer: Path | None,
) -> Artifact:
    """The artifact of a graph, which changes in place. Errors as `compile_to_bytecode`'s."""
    table = KernelTable(version)
    programs = []
    any_sizes = options.mode == "full-dynamic"
    for sizes, bound in bound_graphs(graph):
        own = replace(options, mode="default") if any_sizes else options
        programs.append((sizes, _program(bound, own, report, table, reproducer)))
    if programs and not any_sizes:
        steps = pipeline_of("dynamic_shapes", options)
        run_pipeline(graph.module, steps, PassContext(weights=graph.weights))
        with graph.module.context:
            plan = build_frame(graph)
    else:
        if not any_sizes:
            _require_sizes(graph)
        plan = _program(graph, options, report, table, reproducer)
    report.graph = graph
    plan = replace(plan, programs=tuple(programs))
    _log.info("%s: %d kernels, %d steps", graph.name, len(table.kernels), plan.step_count)
    used = {b.key for one in plan.plans for b in one.buffers if b.kind == "weight"}
    return Artifact(
        name=graph.name,
        plan=plan,
        kernels=tuple(table.kernels),
        weights={key: weight for key, weight in graph.weights.items() if key in used},
        options=options.to_json(),
        pipelines=tuple(
            (name, print_pipeline(pipeline_of(name, options)))
            for name in mode_pipelines(options.mode)
        ),
        sources=graph.weights.files,
    )


def _spent(report: Report) -> tuple[str, float]:
    """The last stage of a report, and its milliseconds."""
    name, seconds = report.stages[-1]
    return name, seconds * 1e3


def _require_sizes(graph: Graph) -> None:
    if found := graph.open_dims():
        raise OpenError(
            f"{graph.name}: {advice.sizes(found)}; or compile for all sizes ({advice.ALL_SIZES})"
        )


@dataclass
class KernelTable:
    """The kernels of one or more programs, each once."""

    version: tuple[int, int] | None
    kernels: list[PortableKernel] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def add(self, kernel: PortableKernel) -> int:
        """The number of the kernel, or of an equal one of another program."""
        number = self.numbers.setdefault(kernel.sha256, len(self.kernels))
        if number == len(self.kernels):
            self.kernels.append(kernel)
        return number


def _program(
    graph: Graph,
    options: CompileOptions,
    report: Report,
    table: KernelTable,
    reproducer: Path | None,
) -> Plan:
    """Optimises the graph in place and adds its kernels; the plan of it."""
    optimize(graph, options, report, reproducer=reproducer)
    started = time.perf_counter()
    with graph.module.context:
        plan = build_plan(graph, symbolic=options.mode == "full-dynamic")
        portable = [portable_kernel(kernel, table.version) for kernel in kernels(graph.module)]
    if not table.kernels:  # equal kernels of the first program are kept apart
        table.kernels += portable
        table.numbers = {kernel.sha256: n for n, kernel in reversed(list(enumerate(portable)))}
    else:
        plan = renumbered(plan, [table.add(kernel) for kernel in portable])
    report.stages.append(("portable", time.perf_counter() - started))
    return plan
