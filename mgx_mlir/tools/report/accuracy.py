"""The report of a quantized model: its error along the graph, at outputs, and at each node."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from mgx_mlir.quantization.accuracy import Accuracy, Error, label
from mgx_mlir.quantization.rewrite import Choice
from mgx_mlir.quantization.search import Step
from mgx_mlir.tools.quantizing_report import decibels, step_text
from mgx_mlir.tools.report import framed
from mgx_mlir.tools.report.blocks import blocks
from mgx_mlir.tools.report.nodes import kinds_of, named_nodes

# The ratio in dB of the upper edge of the plot: more is as good as exact.
_MOST = 80.0


def page(
    title: str,
    accuracy: Accuracy,
    choices: Sequence[Choice],
    steps: Sequence[Step],
    graph: onnx.GraphProto | None = None,
) -> str:
    """The page of a quantized model; `graph` is that of the f32 model, whose nodes have errors."""
    precisions = {choice.node: choice.precision for choice in choices}
    worst = sorted(accuracy.rows, key=lambda row: row.error.sqnr)[:3]
    told = ", ".join(f"{label(row)} ({_ratio_text(row.error)})" for row in worst)
    data = {
        "verdict": [
            f"{len(precisions)} products, beside the f32 model over {accuracy.samples} samples.",
            *([f"Least ratios of signal to noise: {told}."] if worst else []),
        ],
        "graphs": _graphs(accuracy, precisions, graph),
        "plots": _plots(accuracy),
        "tables": [table for table in _tables(accuracy, precisions, steps) if table["rows"]],
    }
    return framed(f"{title}, quantized", "Errors beside the f32 model", data)


def _graphs(
    accuracy: Accuracy, precisions: Mapping[str, str], graph: onnx.GraphProto | None
) -> list[dict[str, Any]]:
    if graph is None:
        return []
    errors = {row.node: row.error for row in accuracy.rows}
    steps = []
    for (name, reads), node in zip(named_nodes(graph), graph.node, strict=True):
        error = errors.get(node.name)
        ratio = min(max(error.sqnr, 0.0), _MOST) if error else _MOST
        steps.append(
            {
                "node": name,
                "reads": reads,
                "heat": 1 - ratio / _MOST,
                "under": _ratio_text(error) if error else node.op_type,
                "facts": [
                    ["operator", node.op_type],
                    ["precision", precisions.get(node.name, "")],
                    *([[n, str(v)] for n, v in _figures(error)] if error else []),
                ],
            }
        )
    return [
        {"id": "graph", "title": "The error in the graph", "legend": "error", "steps": steps,
         "blocks": [block.to_json() for block in blocks(kinds_of(graph))],
         "block_text": "at worst ", "of_worst": True}
    ]  # fmt: skip


def _ratio_text(error: Error) -> str:
    return f"{decibels(error.sqnr)} dB" if math.isfinite(error.sqnr) else "exact"


def _figures(error: Error) -> list[tuple[str, float | str]]:
    return [
        ("SQNR, dB", decibels(error.sqnr)),
        ("cosine", round(error.cosine, 6)),
        ("largest error", float(f"{error.worst:.3g}")),
    ]


def _plots(accuracy: Accuracy) -> list[dict[str, Any]]:
    points = [
        [n, min(max(row.error.sqnr, 0.0), _MOST), f"{label(row)}: {_ratio_text(row.error)}"]
        for n, row in enumerate(accuracy.rows)
    ]
    title = "Ratio of signal to noise along the graph, dB"
    plot = {"id": "ratios", "title": title, "points": points, "line": True,
            "axes": ["first node", "last node"]}  # fmt: skip
    return [plot] if points else []


def _tables(
    accuracy: Accuracy, precisions: Mapping[str, str], steps: Sequence[Step]
) -> list[dict[str, Any]]:
    columns = [["precision", "text"], ["SQNR, dB", "number"], ["cosine", "ratio"],
               ["largest error", "number"]]  # fmt: skip

    def values(error: Error) -> list[float | None]:
        return [error.sqnr if math.isfinite(error.sqnr) else None, error.cosine, error.worst]

    def agreement(error: Error) -> str:
        return "" if error.agreement is None else f"top-1 agreement {error.agreement:.2%}"

    return [
        {"id": "outputs", "title": "Outputs", "columns": [["output", "text"], *columns],
         "rows": [[n, agreement(e), *values(e)] for n, e in accuracy.outputs.items()]},
        {"id": "nodes", "title": "Nodes", "columns": [["node", "text"], *columns],
         "note": "A ratio that is not there is exact.",
         "rows": [[label(row), precisions.get(row.node, ""), *values(row.error)]
                  for row in accuracy.rows]},
        {"id": "search", "title": "Mixed precision", "columns": [["step", "text"]],
         "rows": [[step_text(step)] for step in steps]},
    ]  # fmt: skip
