"""Programs for models larger than one device: cut into stages, an artifact each.

A stage's inputs are inputs of the model and results of stages before it, by name; `mgx_mlir.Chain`
runs the stages, each on a device of its own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir import ir

from mgx_mlir import compiler
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.errors import Edge, UsageError
from mgx_mlir.models.chain.cutting import Cut, cuts
from mgx_mlir.models.chain.stage import stage_graph
from mgx_mlir.passes.plan_memory import PlanMemory
from mgx_mlir.pipelines.planning import build_plan
from mgx_mlir.pipelines.runner import run_pipeline
from mgx_mlir.rewriting.graph import kernels
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.portable import portable_kernel

if TYPE_CHECKING:
    from mgx_mlir.compiler import AnyModel, CompileOptions
    from mgx_mlir.rewriting.graph import Graph

__all__ = ["compile_stages"]


@Edge("compiling")
def compile_stages(
    model: AnyModel,
    count: int,
    options: CompileOptions | None = None,
    *,
    memory: int | None = None,
    version: tuple[int, int] | None = None,
    report: compiler.Report | None = None,
    reproducer: Path | None = None,
) -> tuple[Artifact, ...]:
    """Compiles a model to `count` artifacts, which run one after another on a device each.

    The stages need about equal memory: no stage more than a tenth above the least that the fullest
    one can need, or than `memory` bytes where they are given. Among those the cuts are taken where
    the fewest bytes go from device to device. Raises ResourceError where a stage needs more than
    `memory`, UsageError, and what `compile_to_bytecode` raises.
    """
    if count < 2:
        raise UsageError(f"a chain has at least 2 stages, not {count}; one device needs none")
    options = options or compiler.CompileOptions()
    if options.kind == "cpu":
        raise UsageError(
            "stages are for GPUs, each with memory of its own; a program for CPUs is whole"
        )
    report = report or compiler.Report()
    whole = compiler.compile_to_bytecode(
        model, options, version=version, report=report, reproducer=reproducer
    )
    if whole.plan.programs:
        raise UsageError("a chain has one program; leave out sizes that get programs of their own")
    graph = report.graph
    assert graph is not None
    with graph.module.context, ir.Location.unknown():
        made = [_stage(graph, cut, whole, version) for cut in cuts(graph, count, memory)]
    named = {"program": whole.content_hash, "outputs": [spec.name for spec in whole.plan.outputs]}
    return tuple(
        replace(
            whole,
            name=f"{whole.name}, stage {number} of {count}",
            options={**whole.options, "stage": {"number": number, "of": count, **named}},
            **parts,
        )
        for number, parts in enumerate(made, 1)
    )


def _stage(
    graph: Graph, cut: Cut, whole: Artifact, version: tuple[int, int] | None
) -> dict[str, Any]:
    """The fields of a stage's artifact that differ from those of the whole program."""
    stage = stage_graph(graph, cut)
    run_pipeline(stage.module, (PlanMemory(),), PassContext(weights=graph.weights))
    plan = build_plan(stage, symbolic=bool(whole.plan.dims))
    used = {buffer.key for buffer in plan.buffers if buffer.kind == "weight"}
    return {
        "plan": plan,
        "kernels": tuple(portable_kernel(kernel, version) for kernel in kernels(stage.module)),
        "weights": {key: weight for key, weight in graph.weights.items() if key in used},
    }
