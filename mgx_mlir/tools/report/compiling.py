"""The report of a compilation: stages and passes, and the graph before and after its rewrites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from mgx_mlir.artifact.plan import Row
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.compiler import Report
from mgx_mlir.tools.profile_record import reads_of
from mgx_mlir.tools.report import framed
from mgx_mlir.tools.report.blocks import blocks
from mgx_mlir.tools.report.nodes import kinds_of, named_nodes

# A pass with more texts than this has one row in the table of rewrites.
_UNLIKE = 12


def page(title: str, model: onnx.ModelProto | None, artifact: Artifact, report: Report) -> str:
    """The page of a model that was compiled; `model` is None for another form than ONNX.

    Nodes before are those of ONNX, each with the kernel that it is part of; steps after are those
    of the plan, by the nodes that each fuses.
    """
    fired: dict[str, list[str]] = {}
    for name, rewrite, node in report.fired:
        fired.setdefault(node, []).append(f"{name}: {rewrite}")
    graphs = [] if model is None else [_before(model.graph, artifact, fired)]
    graphs += [_after(artifact, fired)] if artifact.plan.steps else []
    data = {
        "graphs": graphs,
        "tables": [table for table in _tables(report, artifact) if table["rows"]],
        "verdict": _summary(model, artifact, report),
    }
    return framed(f"{title}, compiled", f"by {artifact.producer}", data)


def _summary(
    model: onnx.ModelProto | None, artifact: Artifact, report: Report
) -> list[str]:  # fmt: skip
    told = [] if model is None else [f"{len(model.graph.node)} nodes of ONNX"]
    told += [f"{len(artifact.kernels)} kernels", f"{artifact.plan.step_count} steps"]
    stages = sorted(report.stages, key=lambda stage: -stage[1])
    total = sum(seconds for _, seconds in stages)
    first = f"{', '.join(told)}: compiled in {total:.2f} s"
    longest = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in stages[:3])
    return [f"{first}; most of it in {longest}." if stages else f"{first}."]


def _before(
    graph: onnx.GraphProto, artifact: Artifact, fired: Mapping[str, list[str]]
) -> dict[str, Any]:
    kernels = {node: kernel.name for kernel in artifact.kernels for node in kernel.nodes}
    fused: dict[str, int] = {}
    # Kernels that several steps share have the nodes of the first one.
    for step in artifact.plan.work():
        if not isinstance(step, Row) and step.kernel >= 0:
            nodes = _nodes(step.node)
            kernels |= dict.fromkeys(nodes, artifact.kernels[step.kernel].name)
            fused |= dict.fromkeys(nodes, len(nodes))
    steps = []
    for (name, reads), node in zip(named_nodes(graph), graph.node, strict=True):
        kernel = kernels.get(name, "")
        steps.append(
            {
                "node": name,
                "reads": reads,
                "heat": fused.get(name, 0),
                "under": f"{node.op_type} in {kernel}" if kernel else node.op_type,
                "facts": [
                    ["operator", f"{node.domain + '::' if node.domain else ''}{node.op_type}"],
                    ["kernel", kernel or "none: folded, a view, or part of a rewritten node"],
                    ["rewrites", "; ".join(fired.get(name, ())) or "none"],
                    ["inputs", ", ".join(node.input)],
                    ["outputs", ", ".join(node.output)],
                ],
            }
        )
    kinds = kinds_of(graph)
    return _graph("before", "Before: nodes of ONNX", steps, kinds, "nodes that are fused with it")


def _after(artifact: Artifact, fired: Mapping[str, list[str]]) -> dict[str, Any]:
    work = list(artifact.plan.work())
    reads = reads_of(artifact.plan)
    steps, kinds = [], []
    for step, read in zip(work, reads, strict=True):
        kernel = -1 if isinstance(step, Row) else step.kernel
        stored = artifact.kernels[kernel] if kernel >= 0 else None
        nodes = _nodes(step.node)
        rewrites = [text for node in nodes for text in fired.get(node, ())]
        steps.append(
            {
                "node": step.node or "copy",
                "reads": read,
                "heat": len(nodes),
                "under": stored.name if stored else "a copy",
                "facts": [
                    ["kernel", stored.name if stored else "a copy"],
                    ["fuses", ", ".join(nodes)],
                    ["rewrites", "; ".join(rewrites) or "none"],
                    ["bytecode", f"{len(stored.bytecode)} bytes" if stored else ""],
                ],
            }
        )
        kinds.append(kernel)
    return _graph("after", "After: steps of the plan", steps, kinds, "nodes fused")


def _nodes(names: str) -> list[str]:
    """The nodes that a step fuses, by the name of the step."""
    return names.split("+") if names else []


def _graph(
    name: str, title: str, steps: list[dict[str, Any]], kinds: Sequence[int], legend: str
) -> dict[str, Any]:
    found = [block.to_json() for block in blocks(kinds)]
    return {"id": name, "title": title, "steps": steps, "blocks": found, "legend": legend,
            "block_text": "a block"}  # fmt: skip


def _tables(report: Report, artifact: Artifact) -> list[dict[str, Any]]:
    nodes = {kernel.name: ", ".join(kernel.nodes) for kernel in artifact.kernels}
    return [
        {
            "id": "rewrites",
            "title": "Rewrites",
            "columns": [["pass", "text"], ["rewrite", "text"], ["times", "number"],
                        ["nodes", "text"]],
            "rows": _rewrites(report),
        },
        {
            "id": "stages",
            "title": "Stages",
            "columns": [["stage", "text"], ["time", "ms"]],
            "rows": [[name, seconds * 1e3] for name, seconds in report.stages],
        },
        {
            "id": "passes",
            "title": "Passes",
            "columns": [["pass", "text"], ["time", "ms"]],
            "rows": [[name, seconds * 1e3] for name, seconds in report.passes.entries],
        },
        {
            "id": "kernels",
            "title": "Kernels made here",
            "note": "Kernels that the cache had are not among them.",
            "columns": [["kernel", "text"], ["time", "ms"], ["nodes", "text"]],
            "rows": [[name, seconds * 1e3, nodes.get(name, "")]
                     for name, seconds in report.kernels.items()],
        },
    ]  # fmt: skip


def _rewrites(report: Report) -> list[list[Any]]:
    """Rows of pass, rewrite, times and nodes. A pass that says something else each time, such as
    the names of equal weights, has one row."""
    texts: dict[str, dict[str, list[str]]] = {}
    for name, rewrite, node in report.fired:
        texts.setdefault(name, {}).setdefault(rewrite, []).append(node)
    rows = []
    for name, found in texts.items():
        if len(found) > _UNLIKE:
            nodes = [node for at in found.values() for node in at]
            found = {f"{next(iter(found))}, and {len(found) - 1} like it": nodes}
        rows += [[name, rewrite, len(at), ", ".join(sorted({*filter(None, at)}))]
                 for rewrite, at in found.items()]  # fmt: skip
    return rows
